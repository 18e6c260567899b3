//! Calls in several rounds, as a client of 2026-07-28 without tasks makes them: what is asked comes in
//! place of the result, and the client calls again with the answers.

use serde_json::{Map, Value};
use steadfast_core::TaskId;
use steadfast_engine::{CallError, Order, TaskInfo, Tasks};

use super::{call::Call, questions, task_error};
use crate::{
    client::CallRecord,
    repeat::digest,
    wire::{Object, RpcError},
};

/// What a client of 2026-07-28 without tasks sends back with its answers: which task it goes on with,
/// and how much of what that said it has heard. It is not signed: the task's id can't be guessed, the
/// task must be the caller's own and the same call, and another number does no more than repeat log
/// lines or leave them out. The check is against what breaks on the way.
struct State {
    task: TaskId,
    heard: u64,
}

/// What a state begins with.
const STATE: &str = "r1.";

impl State {
    fn read(text: &str) -> Option<State> {
        let (content, check) = text.strip_prefix(STATE)?.rsplit_once('.')?;
        if check != format!("{:016x}", digest(content)) {
            return None;
        }
        let (task, heard) = content.rsplit_once('.')?;
        Some(State { task: TaskId::new(task).ok()?, heard: heard.parse().ok()? })
    }

    fn write(&self) -> String {
        let content = format!("{}.{}", self.task, self.heard);
        format!("{STATE}{content}.{:016x}", digest(&content))
    }
}

impl Call<'_> {
    /// How many events a task's history has.
    pub(super) async fn events(&self, tasks: &Tasks, id: &TaskId) -> Result<u64, RpcError> {
        let last = tasks.history(id, Order::NewestFirst, None, 1).await.map_err(task_error)?;
        Ok(last.entries.first().map_or(0, |last| last.seq + 1))
    }

    /// The task of an earlier round of this call, and how much of it the client has heard: it must be
    /// the caller's own, and the same call.
    pub(super) async fn resume(&self, state: &str) -> Result<(TaskInfo, u64), RpcError> {
        let wrong = || RpcError::invalid_params("this requestState is not valid for this request");
        let State { task: id, heard } = State::read(state).ok_or_else(wrong)?;
        let tasks = self.tasks();
        let info = match tasks.get(&id).await {
            // It is as valid as it was, and will be found when the store is there.
            Err(error @ CallError::Store(_)) => return Err(task_error(error)),
            found => found.map_err(|_| wrong())?,
        };
        let life = self.front.settings.request_state_life;
        if info.tool != self.engine_name || info.updated.plus(life) < self.front.engine.now() {
            return Err(wrong());
        }
        let call = info.call.as_ref().and_then(|call| call.read::<CallRecord>().ok());
        if call.and_then(|call| call.arguments) != self.arguments_digest() {
            return Err(wrong());
        }
        // One that has begun anew counts from 0 again.
        let heard = if heard > self.events(&tasks, &id).await? { 0 } else { heard };
        Ok((info, heard))
    }

    /// By what a later round knows the same arguments.
    pub(super) fn arguments_digest(&self) -> Option<u64> {
        // A map of serde_json is in order of its keys.
        self.arguments.read::<Value>().ok().map(|arguments| digest(&arguments.to_string()))
    }

    pub(super) fn input_required(&self, info: &TaskInfo, heard: u64) -> String {
        let client = &self.request.client;
        let asked = questions::open(info, client);
        let state = State { task: info.id.clone(), heard };
        let object = Object::new()
            .put("resultType", "input_required")
            .raw("inputRequests", &questions::input_requests(&asked))
            .put("requestState", &state.write());
        self.front.close(client, object)
    }
}

/// Hands those answers to a task that it asks for now, and forgets them, so that each is used once.
/// Whether there were any. A client that knows what it will be asked may answer with its first call.
pub(super) async fn apply(
    tasks: &Tasks,
    info: &TaskInfo,
    given: &mut Map<String, Value>,
) -> Result<bool, RpcError> {
    let asked = |key: &str| info.questions.iter().any(|question| question.key == key);
    let now: Map<String, Value> =
        given.iter().filter(|(key, _)| asked(key)).map(|(k, v)| (k.clone(), v.clone())).collect();
    given.retain(|key, _| !now.contains_key(key));
    questions::apply(tasks, info, &now).await.map_err(task_error)?;
    Ok(!now.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written_and_not_otherwise() {
        let task = TaskId::new("0123456789abcdef0123456789abcdef").unwrap();
        let text = State { task: task.clone(), heard: 7 }.write();
        assert!(State::read(&text).is_some_and(|state| state.task == task && state.heard == 7));
        for bad in [format!("{text}-TAMPERED"), format!("x{text}"), text[..3].to_owned()] {
            assert!(State::read(&bad).is_none(), "{bad}");
        }
        assert!(State::read(&text.replace(".7.", ".8.")).is_none());
    }
}
