//! What is written of a task that begins.

use std::{collections::BTreeMap, time::Duration};

use steadfast_core::{Event, Json, OpId, Record, Status, TaskId, Timestamp, Ttl, View, encode};
use steadfast_store::{NewTask, Parent, TaskKey, TaskRow};

use crate::{
    blob::{self, About},
    context::Shared,
    engine::Core,
};

/// The row as the store will hold it, so that it need not be read back.
pub(super) fn row(task: &NewTask) -> TaskRow {
    TaskRow {
        key: TaskKey(0),
        id: task.id.clone(),
        tool: task.tool.clone(),
        version: task.version,
        owner: task.owner.clone(),
        status: task.status,
        created: task.created,
        updated: task.created,
        ended: None,
        expires: task.expires,
        wake: None,
        parent: None,
        desk: None,
        bound: None,
        epoch: 0,
        deaths: 0,
        tags: task.tags.clone(),
        about: task.about.clone(),
        view: task.view.clone(),
        end: None,
    }
}

pub(super) fn started(core: &Core, input: Json, at: Timestamp) -> Record {
    let seed = core.world.random() as u64;
    Record { at, event: Event::Started { input, seed, run: 0, carry: None } }
}

/// How long a task is kept after its end: the caller's wish, at least the tool's own, within the cap.
pub(super) fn retention(core: &Core, tool: &str, wish: Option<Ttl>) -> Ttl {
    let tool = core.registry().tools.get(tool).and_then(|tool| tool.retention);
    let own = tool.unwrap_or(core.settings.retention);
    let wanted = match (wish, tool) {
        (Some(wish), Some(tool)) => wish.max(tool),
        (Some(wish), None) => wish,
        (None, _) => own,
    };
    wanted.min(core.settings.max_retention)
}

pub(super) fn new_task(
    core: &Core,
    id: TaskId,
    tool: &str,
    about: &About,
    now: Timestamp,
    events: Vec<Vec<u8>>,
) -> NewTask {
    let registry = core.registry();
    let registered = registry.tools.get(tool);
    NewTask {
        id,
        tool: tool.to_owned(),
        version: registered.map(|tool| tool.version),
        owner: None,
        tags: BTreeMap::new(),
        parent: None,
        dedup: None,
        bound: false,
        status: Status::Queued,
        created: now,
        wake: None,
        expires: registered.and_then(|tool| tool.max_age).and_then(|age| age.expiry(now)),
        hold: false,
        about: blob::write(about),
        view: blob::write(&View::default()),
        events,
    }
}

/// A child of a running task.
pub(crate) fn new_child(
    parent: &Shared,
    op: OpId,
    id: TaskId,
    tool: &str,
    input: Json,
    detached: bool,
    now: Timestamp,
) -> NewTask {
    let core = &parent.core;
    let about = About {
        parent: Some(parent.id.clone()),
        rerun_of: None,
        trace: parent.trace.clone(),
        call: parent.call.clone(),
        session: parent.session.clone(),
        origin: Some(parent.origin.clone()),
        passing_progress: false,
        retention: retention(core, tool, None),
    };
    NewTask {
        owner: parent.owner.clone(),
        parent: Some(Parent { key: parent.key, op, notify: !detached }),
        ..new_task(core, id, tool, &about, now, vec![encode(&started(core, input, now))])
    }
}

/// The same task, cancelled when it is accepted.
pub(super) fn cancelled(mut task: NewTask, reason: String, kept: Duration) -> NewTask {
    let at = task.created;
    (task.status, task.wake) = (Status::Cancelled, None);
    task.expires = Some(at.plus(kept));
    task.view = blob::write(&View { reason: Some(reason.clone()), ..View::default() });
    task.events.push(encode(&Record { at, event: Event::Cancelled { reason: Some(reason) } }));
    task
}
