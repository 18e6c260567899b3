//! Cancelling.

use steadfast_core::{Status, TaskId};
use steadfast_store::{Caller, Cancel, Touched};

use crate::{
    lane::Cards,
    queue::Apply,
    work::{Done, Needs, Place, Reach, Work},
};

pub(crate) struct CancelTask {
    pub(crate) caller: Caller,
    pub(crate) id: TaskId,
    pub(crate) cancel: Cancel,
}

impl Apply for CancelTask {
    type Answer = Vec<Touched>;

    fn needs(&self, needs: &mut Needs, _: &Cards) {
        needs.ids.insert(self.id.to_string());
    }

    fn apply<'b>(&'b self, work: &mut Work<'b>) -> Done<Vec<Touched>> {
        let key = work.find_open(&self.caller, &self.id)?.key;
        let mut reach = Reach::default();
        work.cancel_task(key, &self.cancel, &mut reach)?;
        Ok(reach.touched())
    }

    fn bytes(&self) -> usize {
        self.cancel.bytes()
    }
}

impl<'b> Work<'b> {
    /// Cancels a task that is there and has not ended.
    pub(super) fn cancel_task(&mut self, key: i64, cancel: &'b Cancel, by: &mut Reach) -> Done<()> {
        self.next_event(key)?;
        self.strip(key, by)?;
        self.clear_inbox(key);
        let place = self.task(key)?.map(|task| task.place);
        by.touch(key, place == Some(Place::Desk(self.desk)));
        self.edit(key, |task| {
            task.append(&cancel.event);
            task.status = Status::Cancelled;
            task.epoch += 1;
            task.deaths = 0;
            task.updated = Some(cancel.at.0);
            task.ended = Some(cancel.at.0);
            task.expires = cancel.expires.map(|expires| expires.0);
            task.view = Some(&cancel.view);
            task.outcome = Some(&cancel.end);
        });
        if let Some(since) = cancel.frees {
            self.free_dedup(key, since.instant);
        }
        match place {
            // Who holds it is to stop first.
            Some(Place::Desk(holder)) if holder != self.desk => self.calls_on(holder),
            _ => self.put_ready(key),
        }
        self.tell_parent(key, &cancel.tell, by)
    }
}
