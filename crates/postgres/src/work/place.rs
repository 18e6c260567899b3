//! Where tasks lie, and how they move.

use std::borrow::Cow;

use steadfast_core::{OpId, Status};

use super::{ACTIVITIES, Done, Place, QUESTIONS, Reach, WATCHES, Work};

impl<'b> Work<'b> {
    /// Moves a task. Its wake goes with its old place.
    fn put(&mut self, key: i64, place: Place, wake: Option<i64>) {
        let Some(task) = self.tasks.get_mut(&key) else { return };
        (task.place, task.wake, task.dirty) = (place, wake, true);
        match (place, wake) {
            (Place::Parked, Some(wake)) => self.calls_at(wake),
            _ => self.changed(),
        }
    }

    /// Onto this desk.
    pub(crate) fn put_here(&mut self, key: i64) {
        self.put(key, Place::Desk(self.desk), None);
    }

    /// Onto the ready pile, behind the others.
    pub(crate) fn put_ready(&mut self, key: i64) {
        let rank = self.rank();
        self.put(key, Place::Ready, None);
        if let Some(task) = self.tasks.get_mut(&key) {
            task.rank = rank;
        }
        self.calls();
    }

    pub(crate) fn park(&mut self, key: i64, wake: Option<i64>) {
        self.put(key, Place::Parked, wake);
    }

    /// Out of everybody's way, with the time at which it was to begin, if it had not.
    pub(crate) fn put_aside(&mut self, key: i64, start: Option<i64>) {
        self.put(key, Place::Halted, start);
    }

    /// Takes a task off its desk for good: to the ready pile, unless it is halted.
    pub(crate) fn give_back(&mut self, key: i64) {
        match self.tasks.get(&key) {
            Some(task) if task.status.is_halted() => self.put_aside(key, None),
            _ => self.put_ready(key),
        }
    }

    /// Puts a message into a task's inbox, which makes it ready if it was only waiting.
    pub(crate) fn deliver(
        &mut self,
        key: i64,
        op: Option<OpId>,
        notice: bool,
        body: Cow<'b, [u8]>,
        by: &mut Reach,
    ) -> Done<()> {
        let desk = self.desk;
        let Some(task) = self.task(key)? else { return Ok(()) };
        task.letters += 1;
        task.dirty = true;
        let (seq, place) = (task.letters, task.place);
        let unbegun = task.status == Status::Queued && task.wake.is_some();
        self.mail.add(key, seq, op, notice, body);
        by.touch(key, place == Place::Desk(desk));
        match place {
            Place::Parked if !unbegun => self.put_ready(key),
            Place::Desk(holder) if holder != desk => self.calls_on(holder),
            _ => self.changed(),
        }
        Ok(())
    }

    /// Tells a task's parent of its end, if it wants to know.
    pub(crate) fn tell_parent(&mut self, key: i64, body: &'b [u8], by: &mut Reach) -> Done<()> {
        let told = self.tasks.get(&key).filter(|task| task.tells).and_then(|task| task.parent);
        let Some((parent, op)) = told else { return Ok(()) };
        match self.is_open(parent)? {
            true => self.deliver(parent, Some(op), false, body.into(), by),
            false => Ok(()),
        }
    }

    /// Whether a task is there and has not ended.
    pub(crate) fn is_open(&mut self, key: i64) -> Done<bool> {
        Ok(self.task(key)?.is_some_and(|task| task.is_open()))
    }

    /// From now on the children that a task started so far tell it nothing.
    pub(crate) fn hear_no_children(&mut self, key: i64) {
        self.untold.insert(key);
        for task in self.tasks.values_mut() {
            if task.tells && task.parent.is_some_and(|(parent, _)| parent == key) {
                (task.tells, task.dirty) = (false, true);
            }
        }
    }

    /// Removes what a task's operations left in the store, but for messages.
    pub(crate) fn strip(&mut self, key: i64, by: &mut Reach) -> Done<()> {
        let Some(traces) = self.tasks.get(&key).map(|task| task.traces) else { return Ok(()) };
        if traces & QUESTIONS != 0 {
            self.clear_questions(key);
        }
        if traces & WATCHES != 0 {
            self.clear_watches(key);
        }
        if traces & ACTIVITIES != 0 {
            for activity in self.activities_of(key)? {
                self.remove_activity(activity, by);
            }
        }
        if traces != 0
            && let Some(task) = self.tasks.get_mut(&key)
        {
            (task.traces, task.dirty) = (0, true);
        }
        Ok(())
    }

    /// Something of a task will lie elsewhere.
    pub(crate) fn leaves(&mut self, key: i64, trace: i16) {
        if let Some(task) = self.tasks.get_mut(&key)
            && task.traces & trace == 0
        {
            task.traces |= trace;
            task.dirty = true;
        }
    }
}
