//! The effects of a turn that was found good.

use steadfast_core::{OpId, Timestamp};

use super::content::{Content, Reach, expired, unlist};
use crate::{Effect, NewTask, QuestionRow, SESSION_SCOPE, Started, TaskKey, Touched};

impl Content {
    pub(super) fn apply(&mut self, key: TaskKey, at: Timestamp, effect: Effect, by: &mut Reach) {
        match effect {
            Effect::Post { body, until, most } => {
                self.post(body, until, most);
            }
            Effect::OpenQuestion { key: question, op, body } => {
                self.close_question(key, &question);
                if let Some(task) = self.tasks.get_mut(&key) {
                    task.questions.push(QuestionRow { key: question, op, body });
                }
            }
            Effect::CloseQuestion { key: question }
            | Effect::ExpireQuestion { key: question, .. } => self.close_question(key, &question),
            Effect::ScheduleActivity { op, name, token, body } => {
                if let Some(task) = self.tasks.get_mut(&key) {
                    let number = self.activities.schedule(&task.row, op, name, token, body);
                    task.activities.insert(op, number);
                }
            }
            Effect::CancelActivity { op } => self.cancel_activity(key, op, by),
            Effect::StartTask { task, exists } => self.start_child(key, *task, exists, by),
            Effect::CancelTask { id, cancel } => {
                let other = self.ids.get(&id).copied().filter(|other| *other != key);
                if let Some(other) = other.filter(|other| self.is_open(*other)) {
                    self.cancel_task(other, *cancel, by);
                }
            }
            Effect::WriteState { scope, key: name, value, notice }
            | Effect::SwapState { scope, key: name, value, notice, .. } => {
                self.write_state((scope, name), value, &notice, by);
            }
            Effect::Watch { scope, key: name } => {
                if let Some(task) = self.tasks.get_mut(&key) {
                    task.watches.insert((scope.clone(), name.clone()));
                    self.watchers.entry((scope, name)).or_default().insert(key);
                }
            }
            Effect::Unwatch { scope, key: name } => {
                let watch = (scope, name);
                unlist(&mut self.watchers, &watch, &key);
                if let Some(task) = self.tasks.get_mut(&key) {
                    task.watches.remove(&watch);
                }
            }
            Effect::Send { to, body } => {
                let owner = self.tasks.get(&key).and_then(|task| task.row.owner.clone());
                let to = self.ids.get(&to).and_then(|to| self.tasks.get(to)).filter(|to| {
                    !to.row.status.is_terminal()
                        && !expired(&to.row, at)
                        && (owner.is_none() || owner == to.row.owner)
                });
                if let Some(to) = to.map(|to| to.row.key) {
                    self.deliver(to, None, body, by);
                }
            }
        }
    }

    fn close_question(&mut self, key: TaskKey, question: &str) {
        if let Some(task) = self.tasks.get_mut(&key) {
            task.questions.retain(|open| open.key != question);
        }
    }

    fn cancel_activity(&mut self, key: TaskKey, op: OpId, by: &mut Reach) {
        let activity = self.tasks.get_mut(&key).and_then(|task| task.activities.remove(&op));
        if let Some(activity) = activity
            && self.activities.remove(activity) == Some(by.desk)
        {
            by.cancelled.insert(activity);
        }
    }

    fn start_child(&mut self, key: TaskKey, mut child: NewTask, exists: Vec<u8>, by: &mut Reach) {
        // The check of the turn saw that it is set.
        let Some(parent) = child.parent.as_mut() else { return };
        parent.key = key;
        let op = parent.op;
        let waits = child.wake.is_some_and(|wake| wake > child.created);
        match self.start(child, None) {
            Ok(Started::New { key, .. }) if !waits => by.touch(Touched { key, here: false }),
            Ok(Started::New { .. }) => {}
            Ok(Started::Existing { .. }) | Err(_) => {
                if self.is_open(key) {
                    self.deliver(key, Some(op), exists, by);
                }
            }
        }
    }

    fn write_state(
        &mut self,
        at: (String, String),
        value: Option<Vec<u8>>,
        notice: &[u8],
        by: &mut Reach,
    ) {
        let watchers: Vec<TaskKey> =
            self.watchers.get(&at).into_iter().flatten().copied().collect();
        // What is written to a session that is over would never be removed.
        let session = at.0.strip_prefix(SESSION_SCOPE);
        if session.is_some_and(|id| !self.sessions.contains(id)) {
            return;
        }
        let row = self.states.entry(at).or_default();
        row.value = value;
        row.version += 1;
        for key in watchers.into_iter().filter(|key| self.is_open(*key)).collect::<Vec<_>>() {
            let Some(task) = self.tasks.get_mut(&key) else { continue };
            if let Some(old) = task.notices.insert(notice.to_vec(), task.last_seq + 1) {
                task.inbox.remove(&old);
            }
            self.deliver(key, None, notice.to_vec(), by);
        }
    }
}
