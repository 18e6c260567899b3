//! From what the machine asks of the world to what the store does.

use std::sync::Arc;

use steadfast_core::{Effect, Failure, FailureKind, Message, Scope, Timestamp, View};
use steadfast_store as store;

use crate::{
    blob::{self, About, ActivityBody},
    context::Shared,
    tasks::{cancel_write, new_child},
};

/// `None` for what the store is told by another call.
pub(super) fn convert(
    shared: &Arc<Shared>,
    effect: &Effect,
    now: Timestamp,
) -> Option<store::Effect> {
    let notice = |scope: Scope, key: &String| {
        blob::write(&Message::StateChanged { scope, key: key.clone() })
    };
    let bytes = |value: &Option<steadfast_core::Json>| {
        value.as_ref().map(|json| json.text().as_bytes().to_vec())
    };
    Some(match effect {
        // See `joint`.
        Effect::Join { .. } => return None,
        Effect::OpenQuestion { op, ask } => {
            store::Effect::OpenQuestion { key: ask.key.clone(), op: *op, body: blob::write(ask) }
        }
        Effect::CloseQuestion { key } => store::Effect::CloseQuestion { key: key.clone() },
        Effect::ExpireQuestion { op, key } => {
            store::Effect::ExpireQuestion { op: *op, key: key.clone() }
        }
        Effect::ScheduleActivity { op, name, input, retry, heartbeat_ms } => {
            let body = ActivityBody {
                input: input.clone(),
                retry: retry.clone(),
                run: shared.machine().run(),
                heartbeat_ms: *heartbeat_ms,
            };
            store::Effect::ScheduleActivity {
                op: *op,
                name: name.clone(),
                token: format!("{:032x}", shared.core.world.random()),
                body: blob::write(&body),
            }
        }
        Effect::CancelActivity { op } => store::Effect::CancelActivity { op: *op },
        Effect::StartChild { op, id, tool, input, detached } => {
            let task = new_child(shared, *op, id.clone(), tool, input.clone(), *detached, now);
            let message = format!("a task with the id {id} already exists");
            let exists = Failure::new(FailureKind::Child, message).permanently();
            store::Effect::StartTask {
                task: Box::new(task),
                exists: blob::tell_parent(Err(exists)),
            }
        }
        Effect::CancelChild { id } => store::Effect::CancelTask {
            id: id.clone(),
            cancel: Box::new(cancel_write(
                Some("the task that started it no longer waits for it".into()),
                now,
                shared.core.settings.retention,
            )),
        },
        Effect::WriteState { scope, key, value } => store::Effect::WriteState {
            scope: shared.scope(*scope),
            key: key.clone(),
            value: bytes(value),
            notice: notice(*scope, key),
        },
        Effect::SwapState { op, scope, key, value, expect } => store::Effect::SwapState {
            op: *op,
            scope: shared.scope(*scope),
            key: key.clone(),
            value: bytes(value),
            expect: *expect,
            notice: notice(*scope, key),
        },
        Effect::Watch { scope, key } => {
            store::Effect::Watch { scope: shared.scope(*scope), key: key.clone() }
        }
        Effect::Unwatch { scope, key } => {
            store::Effect::Unwatch { scope: shared.scope(*scope), key: key.clone() }
        }
        Effect::Send { to, name, id, payload } => store::Effect::Send {
            to: to.clone(),
            body: blob::write(&Message::Signal {
                name: name.clone(),
                id: Some(id.clone()),
                payload: payload.clone(),
            }),
        },
    })
}

/// A task that is cancelled by another is kept as long as its own tool says, and what it last said
/// of itself stays to be seen: both are in its row.
pub(super) async fn complete_cancels(store: &Arc<dyn store::Store>, turn: &mut store::Turn) {
    for effect in &mut turn.effects {
        let store::Effect::CancelTask { id, cancel } = effect else { continue };
        let caller = store::Caller { principal: None, now: Timestamp(i64::MIN) };
        let Ok(row) = store.get(caller, id.clone()).await else { continue };
        let Ok(about) = blob::read::<About>(&row.about) else { continue };
        cancel.expires = about.retention.expiry(cancel.at);
        let reason = blob::read_view(&cancel.view).reason;
        let said = blob::read_view(&row.view);
        let view = View { reason, failure: None, retry_at: None, ..said };
        cancel.view = blob::write(&view);
    }
}
