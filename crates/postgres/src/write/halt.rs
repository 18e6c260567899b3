//! Suspending, resuming, removing.

use steadfast_core::{Status, TaskId};
use steadfast_store::{Caller, Refusal, Resume, Suspend, TaskKey, Touched};

use crate::{
    lane::Cards,
    queue::Apply,
    work::{Done, Needs, Place, Work},
};

pub(crate) struct SuspendTask {
    pub(crate) caller: Caller,
    pub(crate) id: TaskId,
    pub(crate) suspend: Suspend,
}

impl Apply for SuspendTask {
    type Answer = Touched;

    fn needs(&self, needs: &mut Needs, _: &Cards) {
        needs.ids.insert(self.id.to_string());
    }

    fn apply<'b>(&'b self, work: &mut Work<'b>) -> Done<Touched> {
        let desk = Place::Desk(work.desk);
        let task = work.find_open(&self.caller, &self.id)?;
        let (key, status, place, wake) = (task.key, task.status, task.place, task.wake);
        if status == Status::Suspended {
            return Err(Refusal::WrongStatus(status).into());
        }
        match place {
            Place::Desk(_) => {}
            Place::Parked if status == Status::Queued => work.put_aside(key, wake),
            Place::Parked | Place::Ready | Place::Halted => work.put_aside(key, None),
        }
        work.edit(key, |task| {
            task.status = Status::Suspended;
            task.view = Some(&self.suspend.view);
            task.updated = Some(self.suspend.at.0);
        });
        Ok(Touched { key: TaskKey(key), here: place == desk })
    }

    fn bytes(&self) -> usize {
        self.suspend.view.len()
    }
}

pub(crate) struct ResumeTask {
    pub(crate) caller: Caller,
    pub(crate) id: TaskId,
    pub(crate) resume: Resume,
}

impl Apply for ResumeTask {
    type Answer = Touched;

    fn needs(&self, needs: &mut Needs, _: &Cards) {
        needs.ids.insert(self.id.to_string());
    }

    fn apply<'b>(&'b self, work: &mut Work<'b>) -> Done<Touched> {
        let desk = Place::Desk(work.desk);
        let task = work.find_open(&self.caller, &self.id)?;
        let (key, status, place) = (task.key, task.status, task.place);
        if !status.is_halted() {
            return Err(Refusal::WrongStatus(status).into());
        }
        let start = match place {
            Place::Halted => task.wake.filter(|start| *start > self.resume.at.0),
            Place::Desk(_) | Place::Ready | Place::Parked => None,
        };
        work.edit(key, |task| {
            task.status = if start.is_some() { Status::Queued } else { Status::Running };
            task.deaths = 0;
            task.view = Some(&self.resume.view);
            task.updated = Some(self.resume.at.0);
        });
        match (start, place) {
            (_, Place::Desk(_)) => {}
            (Some(_), _) => work.park(key, start),
            (None, _) => work.put_ready(key),
        }
        Ok(Touched { key: TaskKey(key), here: place == desk })
    }

    fn bytes(&self) -> usize {
        self.resume.view.len()
    }
}

pub(crate) struct Purge {
    pub(crate) caller: Caller,
    pub(crate) id: TaskId,
}

impl Apply for Purge {
    type Answer = ();

    fn needs(&self, needs: &mut Needs, _: &Cards) {
        needs.ids.insert(self.id.to_string());
    }

    fn apply<'b>(&'b self, work: &mut Work<'b>) -> Done<()> {
        let task = work.find(&self.caller, &self.id)?;
        let (key, status) = (task.key, task.status);
        if !status.is_terminal() {
            return Err(Refusal::NotTerminal(status).into());
        }
        work.remove(key);
        Ok(())
    }
}
