//! The effects of a turn that was found good.

use steadfast_core::{OpId, Timestamp};
use steadfast_store::{Effect, NewTask, Parent, SESSION_SCOPE, Started, TaskKey};

use crate::{
    error::Fault,
    work::{Done, Needs, Reach, Work},
};

impl Needs {
    /// What an effect of a task will look at.
    pub(super) fn effect(&mut self, key: i64, effect: &Effect) {
        match effect {
            Effect::Post { .. } => self.notices = true,
            Effect::ExpireQuestion { .. } => drop(self.questions.insert(key)),
            Effect::ScheduleActivity { .. } => self.new_activities += 1,
            Effect::CancelActivity { .. } => drop(self.activities_of.insert(key)),
            Effect::StartTask { task, .. } => self.start(task),
            Effect::CancelTask { id, .. } => drop(self.ids.insert(id.to_string())),
            Effect::Send { to, .. } => drop(self.ids.insert(to.to_string())),
            Effect::WriteState { scope, key, .. } | Effect::SwapState { scope, key, .. } => {
                self.states.insert((scope.clone(), key.clone()));
                if let Some(session) = scope.strip_prefix(SESSION_SCOPE) {
                    self.sessions.insert(session.to_owned());
                }
            }
            Effect::Watch { scope, key } => {
                self.watched.insert((scope.clone(), key.clone()));
            }
            Effect::OpenQuestion { .. } | Effect::CloseQuestion { .. } | Effect::Unwatch { .. } => {
            }
        }
    }
}

impl<'b> Work<'b> {
    pub(super) fn effect(
        &mut self,
        key: i64,
        at: Timestamp,
        effect: &'b Effect,
        by: &mut Reach,
    ) -> Done<()> {
        match effect {
            Effect::Post { body, until, most } => self.post(body, *until, *most).map(drop),
            Effect::OpenQuestion { key: question, op, body } => {
                self.open_question(key, question, *op, body);
                Ok(())
            }
            Effect::CloseQuestion { key: question }
            | Effect::ExpireQuestion { key: question, .. } => {
                self.close_question(key, question);
                Ok(())
            }
            Effect::ScheduleActivity { op, name, token, body } => {
                self.schedule(key, *op, name, token, body)
            }
            Effect::CancelActivity { op } => self.cancel_activity(key, *op, by),
            Effect::StartTask { task, exists } => self.start_child(key, task, exists, by),
            Effect::CancelTask { id, cancel } => match self.by_id(id)? {
                Some(other) if other != key && self.is_open(other)? => {
                    self.cancel_task(other, cancel, by)
                }
                _ => Ok(()),
            },
            Effect::WriteState { scope, key: name, value, notice }
            | Effect::SwapState { scope, key: name, value, notice, .. } => {
                self.write_state(scope, name, value.as_deref(), notice, by)
            }
            Effect::Watch { scope, key: name } => self.watch(key, scope, name),
            Effect::Unwatch { scope, key: name } => {
                self.unwatch(key, scope, name);
                Ok(())
            }
            Effect::Send { to, body } => {
                let owner = self.task(key)?.map(|task| task.owner.clone()).unwrap_or_default();
                let Some(to) = self.by_id(to)? else { return Ok(()) };
                let takes = self.task(to)?.is_some_and(|to| {
                    to.is_open() && !to.has_expired(at) && (owner.is_empty() || owner == to.owner)
                });
                match takes {
                    true => self.deliver(to, None, false, body.into(), by),
                    false => Ok(()),
                }
            }
        }
    }

    fn start_child(
        &mut self,
        key: i64,
        child: &'b NewTask,
        exists: &'b [u8],
        by: &mut Reach,
    ) -> Done<()> {
        // The check of the turn saw that it is set.
        let Some(parent) = child.parent else { return Ok(()) };
        let op: OpId = parent.op;
        let waits = child.wake.is_some_and(|wake| wake > child.created);
        let parent = Parent { key: TaskKey(key), ..parent };
        match self.start(child, Some(parent), None) {
            Ok(Started::New { key, .. }) => {
                if !waits {
                    by.touch(key.0, false);
                }
                Ok(())
            }
            Err(Fault::Miss) => Err(Fault::Miss),
            Ok(Started::Existing { .. }) | Err(Fault::Refused(_)) => match self.is_open(key)? {
                true => self.deliver(key, Some(op), false, exists.into(), by),
                false => Ok(()),
            },
        }
    }
}
