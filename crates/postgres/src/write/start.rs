//! Starting a task, and freeing it.

use std::sync::Arc;

use steadfast_core::{Status, TaskId};
use steadfast_store::{Bond, Dedup, Lease, NewTask, Parent, Refusal, Since, Started, TaskKey};

use crate::{
    lane::Cards,
    queue::Apply,
    row,
    work::{Done, Holder, Needs, Place, Reach, Task, Work},
};

pub(crate) struct StartTask(pub(crate) NewTask);

impl Apply for StartTask {
    type Answer = Started;

    fn needs(&self, needs: &mut Needs, _: &Cards) {
        needs.start(&self.0);
    }

    fn apply<'b>(&'b self, work: &mut Work<'b>) -> Done<Started> {
        self.0.dedup.as_ref().map_or(Ok(()), Dedup::in_time)?;
        work.start(&self.0, self.0.parent, Some(work.desk))
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Who asked for it may have asked another process since, and be done with it.
    fn keeps(&self) -> bool {
        false
    }
}

impl Needs {
    pub(super) fn start(&mut self, new: &NewTask) {
        let id: Arc<str> = new.id.as_str().into();
        self.new_ids.insert(Arc::clone(&id));
        self.kept.insert(id);
        if let Some(dedup) = &new.dedup {
            let of_owner = |key: &String| (row::owner(&new.owner).to_owned(), key.clone());
            self.dedups.extend([&dedup.key].into_iter().chain(&dedup.unless).map(of_owner));
            self.taken_back.extend(dedup.unless.as_ref().map(of_owner));
            if new.status.is_terminal() {
                self.taken_back.insert(of_owner(&dedup.key));
            }
        }
        self.new_tasks += 1;
    }
}

impl<'b> Work<'b> {
    /// Starts a task, held by `desk` if it asks for that and there is one.
    pub(crate) fn start(
        &mut self,
        new: &'b NewTask,
        parent: Option<Parent>,
        desk: Option<i64>,
    ) -> Done<Started> {
        let owner = row::owner(&new.owner);
        if let Some(dedup) = &new.dedup {
            if let Some(unless) = &dedup.unless
                && let Some(taken_back) = self.by_dedup(owner, unless)?
                && self.task(taken_back.task)?.is_some_and(|task| task.status == Status::Cancelled)
                && let Some(existing) = self.stands(taken_back, new, dedup)?
            {
                return Ok(existing);
            }
            if let Some(old) = self.by_dedup(owner, &dedup.key)?
                && let Some(existing) = self.stands(old, new, dedup)?
            {
                return Ok(existing);
            }
        }
        if !self.is_free(&new.id)? {
            return Err(Refusal::Exists.into());
        }
        let letters = self.kept_for(new.id.as_str(), owner, new.created.0)?;
        let key = self.new_key()?;
        if let Some(dedup) = &new.dedup {
            // The removal of who has it must not take it from the new task.
            self.take_dedup(owner, &dedup.key);
        }
        self.insert(build(key, self.new_id(&new.id), new, parent, desk));
        let mail = !letters.is_empty();
        for body in letters {
            self.deliver(key, None, false, body, &mut Reach::default())?;
        }
        let hold = desk.is_some() && new.hold;
        let mut lease = None;
        match new.wake.filter(|wake| *wake > new.created) {
            _ if new.status.is_terminal() => self.park(key, None),
            Some(wake) => self.park(key, Some(wake.0)),
            None if hold => {
                self.put_here(key);
                lease = Some(Lease { key: TaskKey(key), epoch: 1 });
            }
            None => self.give_back(key),
        }
        Ok(Started::New { key: TaskKey(key), lease, mail })
    }

    /// What is answered if the task that has a key of a new one does not give way to that.
    ///
    /// The clock was read before this, and how long the new one has waited is looked at after it. So that counts
    /// as asked for before the other was freed, unless it is certain that it was not.
    fn stands(&mut self, holder: Holder, new: &NewTask, dedup: &Dedup) -> Done<Option<Started>> {
        let (clock, key) = (self.clock, TaskKey(holder.task));
        let Some(task) = self.task(key.0)? else { return Ok(None) };
        let id = TaskId::new(&task.id).unwrap_or_else(|_| new.id.clone());
        let freed_for = holder.freed.zip(clock).map(|(freed, clock)| clock.since(freed));
        let gives_way = task.has_expired(new.created)
            || freed_for.is_some_and(|freed_for| freed_for > dedup.asked.instant.elapsed())
            || dedup.instead_of.as_ref() == Some(&id);
        let freed = holder.freed.is_some();
        Ok((!gives_way).then_some(Started::Existing { key, id, freed }))
    }
}

fn build<'b>(
    key: i64,
    id: Arc<str>,
    new: &'b NewTask,
    parent: Option<Parent>,
    desk: Option<i64>,
) -> Task<'b> {
    Task {
        status: new.status,
        // Nowhere yet: mail that was kept for it must not make it ready before it has its place.
        place: Place::Halted,
        expires: new.expires.map(|expires| expires.0),
        parent: parent.map(|parent| (parent.key.0, parent.op)),
        tells: parent.is_some_and(|parent| parent.notify),
        dedup: new.dedup.as_ref().map(|dedup| dedup.key.clone()),
        bound: desk.filter(|_| new.bound),
        next: Some(new.events.len() as i64),
        dirty: true,
        ended: new.status.is_terminal().then_some(new.created.0),
        fresh: Some(new),
        events: new.events.iter().map(Vec::as_slice).collect(),
        ..Task::new(key, id, row::owner(&new.owner).into())
    }
}

pub(crate) struct Unbind(pub(crate) Vec<(TaskId, Bond)>, pub(crate) Since);

impl Apply for Unbind {
    type Answer = ();

    fn needs(&self, needs: &mut Needs, _: &Cards) {
        needs.ids.extend(self.0.iter().map(|(id, _)| id.to_string()));
    }

    fn apply<'b>(&'b self, work: &mut Work<'b>) -> Done<()> {
        for (id, bond) in &self.0 {
            let Some(key) = work.by_id(id)? else { continue };
            match bond {
                Bond::Key => work.free_dedup(key, self.1.instant),
                Bond::Desk => {
                    if let Some(task) = work.task(key)?
                        && task.bound.take().is_some()
                    {
                        task.dirty = true;
                        work.changed();
                    }
                }
            }
        }
        Ok(())
    }
}
