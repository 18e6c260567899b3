//! The loops that take up tasks: from the ready pile, when their time comes, and from the dead.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use steadfast_core::{Failure, FailureKind, Timestamp, View};
use steadfast_store::{Change, ClaimTasks, Held, Poison, TaskKey, Which};

use crate::{
    blob,
    engine::Core,
    runner::{self, Nudge},
};

/// How many tasks are claimed in one commit.
const CLAIM: usize = 256;

pub(crate) fn spawn(core: &Arc<Core>) {
    core.loops.spawn(take_up(core.clone()));
    core.loops.spawn(follow(core.clone()));
    core.loops.spawn(adopt(core.clone()));
    core.loops.spawn(sweep(core.clone()));
}

/// Takes tasks from the ready pile whenever there may be some and there is a place for them.
async fn take_up(core: Arc<Core>) {
    loop {
        let registry = core.registry();
        let tools = registry.tools.values().filter(|tool| core.settings.takes(&tool.name));
        let tools: Vec<_> = tools.map(|t| (t.name.clone(), t.oldest, t.version)).collect();
        drop(registry);
        if let Err(error) = claim_all(&core, &tools).await {
            tracing::warn!(%error, "can't take up tasks; trying again");
            core.doubt_after(&error);
            pause(&core, Duration::from_millis(200)).await;
            core.dispatch.notify_one();
        }
        // As long as it is not known, whatever comes may be earlier.
        core.next_due.store(i64::MAX, Ordering::Release);
        let due = next_due(&core).await;
        core.next_due.store(due.map_or(i64::MAX, |due| due.0), Ordering::Release);
        tokio::select! {
            () = core.draining.cancelled() => return,
            () = core.dispatch.notified() => {}
            () = sleep_until(&core, due) => {
                core.work.notify_one();
                if core.backlog.load(Ordering::Acquire) {
                    // No place for what is due: whoever leaves one says so.
                    pause(&core, Duration::from_millis(50)).await;
                }
            }
        }
    }
}

async fn claim_all(core: &Arc<Core>, tools: &[(String, u32, u32)]) -> steadfast_store::Result<()> {
    loop {
        // If nobody queues, some are left for new tasks, which begin at once while this goes on.
        let mut places = match core.backlog.load(Ordering::Acquire) {
            true => core.take_places(CLAIM),
            false => core.take_places_in_part(CLAIM),
        };
        if places == 0 {
            // Said before they are counted again, so that one given back from now on wakes us.
            core.backlog.store(true, Ordering::Release);
            places = core.take_places(CLAIM);
        }
        if places == 0 || core.draining.is_cancelled() {
            core.give_places(places);
            return Ok(());
        }
        let claim = ClaimTasks { tools: tools.to_vec(), limit: places, now: core.world.now() };
        let hand = core.handover.read().await;
        let missed = core.missed();
        let claimed = core.store.claim(claim).await;
        let count = claimed.as_ref().map_or(0, Vec::len);
        // New tasks queue up behind the others, until a claim has found less than there was room for.
        // Not while a claim is under way: what queued up then would call for the next one, and so on
        // for ever.
        let more = count == places;
        core.backlog.store(more, Ordering::Release);
        core.give_places(places - count);
        for task in claimed? {
            if core.stopped.is_cancelled() {
                core.give_places(1);
                runner::return_to_store(core, task.lease()).await;
            } else {
                runner::spawn_claimed(core, task, missed);
            }
        }
        drop(hand);
        if !more {
            return Ok(());
        }
    }
}

async fn next_due(core: &Core) -> Option<Timestamp> {
    if core.settings.max_running == 0 && core.settings.max_activities == 0 {
        // Whoever does the work looks after the time.
        return None;
    }
    match core.store.next_wake().await {
        Ok(due) => due,
        Err(error) => {
            tracing::warn!(%error, "can't read the next wake-up time; looking again in a second");
            Some(core.world.now().plus(Duration::from_secs(1)))
        }
    }
}

/// Sleeps until then, or for ever.
pub(crate) async fn sleep_until(core: &Core, due: Option<Timestamp>) {
    match due {
        // A day at most: clocks are set, and timers have a horizon.
        Some(due) => {
            let left = core.world.now().until(due).min(Duration::from_secs(86_400));
            tokio::time::sleep(left.max(Duration::from_millis(1))).await;
        }
        None => std::future::pending().await,
    }
}

async fn pause(core: &Core, duration: Duration) {
    tokio::select! {
        () = core.draining.cancelled() => {}
        () = tokio::time::sleep(duration) => {}
    }
}

/// Follows what other processes do to the store, and what we may have done ourselves.
async fn follow(core: Arc<Core>) {
    let changed = core.store.changed();
    loop {
        let change = tokio::select! {
            () = core.stopped.cancelled() => return,
            change = changed.next() => change,
            () = core.doubt.notified() => {
                if let Err(error) = put_back_orphans(&core).await {
                    tracing::warn!(%error, "can't look at what is in hand; trying again");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    core.doubt.notify_one();
                }
                Change::anything()
            }
        };
        if change.held {
            look_at_held(&core).await;
        }
        match &change.tasks {
            Which::All => core.watchers.all_changed(),
            Which::These(tasks) => tasks.iter().for_each(|task| core.watchers.changed(*task)),
        }
        if change.news {
            core.watchers.news();
        }
        let planned = core.next_due.load(Ordering::Acquire);
        if change.work || change.due.is_some_and(|due| due.0 < planned) {
            core.dispatch.notify_one();
        }
        // Who runs an activity that is no longer wanted finds out when it looks for more.
        if change.work || change.held {
            core.work.notify_one();
        }
    }
}

/// Tells those that run here what has come for them, and those that lie here no more that it is so.
async fn look_at_held(core: &Core) {
    // Taken before the look, so that a task that comes after it is not taken for lost.
    let known: HashMap<TaskKey, Arc<Nudge>> = core.running().clone();
    if known.is_empty() {
        return;
    }
    match core.store.held().await {
        Ok(held) => tell(core, &known, &held),
        Err(error) => {
            tracing::warn!(%error, "can't look at the tasks in hand; trying again");
            tokio::time::sleep(Duration::from_millis(200)).await;
            core.doubt.notify_one();
        }
    }
}

/// Puts back what lies on our desk without anybody being at it: the answer to its claim, or to its
/// last turn, was lost, or it was cancelled by another process.
async fn put_back_orphans(core: &Core) -> steadfast_store::Result<()> {
    let _alone = core.handover.write().await;
    for held in core.store.held().await? {
        let at_it = |nudge: &Arc<Nudge>| nudge.epoch == held.lease.epoch;
        if core.running().get(&held.lease.key).is_some_and(at_it) {
            continue;
        }
        tracing::info!(lease = ?held.lease, "putting back a task that nobody is at");
        match core.store.turn(runner::put_back(core, held.lease)).await {
            Ok(_) | Err(steadfast_store::Error::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    crate::worker::put_back_orphans(core).await
}

fn tell(core: &Core, known: &HashMap<TaskKey, Arc<Nudge>>, held: &[Held]) {
    let is_known = |held: &Held| {
        known.get(&held.lease.key).is_some_and(|nudge| nudge.epoch == held.lease.epoch)
    };
    if !held.iter().all(is_known) {
        let _running = core.running();
        core.miss();
    }
    let held: HashMap<TaskKey, &Held> = held.iter().map(|held| (held.lease.key, held)).collect();
    for (key, nudge) in known {
        match held.get(key) {
            Some(task) if task.lease.epoch == nudge.epoch => {
                if task.mail.is_some_and(|last| last > nudge.mail()) {
                    nudge.set(Nudge::MAIL);
                }
                if task.status.is_halted() {
                    nudge.set(Nudge::LOOK);
                }
            }
            Some(_) => {
                // Cancelled elsewhere: it lies here until our runner has let go of it.
                nudge.set_doubt();
                nudge.set(Nudge::LOST);
            }
            None => nudge.set(Nudge::LOST),
        }
    }
}

/// Puts what dead processes held back on the pile.
async fn adopt(core: Arc<Core>) {
    loop {
        match core.store.dead().await {
            Ok(dead) => {
                for desk in dead {
                    let now = core.world.now();
                    let deaths = core.settings.poison_deaths;
                    let message = format!(
                        "set aside: {deaths} processes died while they held this task, and it made \
                         no progress in between; find out why, then resume it"
                    );
                    let view = View {
                        failure: Some(Failure::new(FailureKind::Limit, message)),
                        ..View::default()
                    };
                    let poison = Poison { deaths, at: now, view: blob::write(&view) };
                    match core.store.adopt(desk, poison).await {
                        Ok(adopted) => {
                            tracing::info!(?desk, ?adopted, "took over from a dead process")
                        }
                        Err(error) => tracing::warn!(%error, "can't take over from a dead process"),
                    }
                    core.dispatch.notify_one();
                    core.work.notify_one();
                    core.watchers.all_changed();
                    core.watchers.news();
                }
            }
            Err(error) => tracing::warn!(%error, "can't look for dead processes"),
        }
        if let Err(error) = end_abandoned(&core).await {
            tracing::warn!(%error, "can't end what was bound to other processes; trying again");
        }
        tokio::select! {
            () = core.draining.cancelled() => return,
            () = tokio::time::sleep(core.settings.look_for_dead_every) => {}
        }
    }
}

/// Cancels what runs here for a process that is gone.
async fn end_abandoned(core: &Arc<Core>) -> Result<(), crate::CallError> {
    let bound = |nudge: &&Arc<Nudge>| nudge.bound.is_some_and(|desk| desk != core.store.desk());
    let foreign: Vec<_> =
        core.running().values().filter(bound).map(|nudge| nudge.id.clone()).collect();
    let tasks = crate::Tasks::new(core.clone(), None);
    for id in foreign {
        // Otherwise it is done, or there is nothing to do any more.
        if let Err(crate::CallError::Store(error)) = tasks.cancel_abandoned(&id).await {
            return Err(crate::CallError::Store(error));
        }
    }
    Ok(())
}

/// Removes what has expired.
async fn sweep(core: Arc<Core>) {
    loop {
        match core.store.sweep(core.world.now(), 500).await {
            Ok(swept) => {
                for id in &swept.overdue {
                    let tasks = crate::Tasks::new(core.clone(), None);
                    if let Err(error) = tasks.cancel_expired(id).await {
                        tracing::warn!(task = %id, %error, "can't cancel a task past its age");
                    }
                }
                if swept.more && !core.draining.is_cancelled() {
                    continue;
                }
            }
            Err(error) => tracing::warn!(%error, "can't remove expired tasks; trying again"),
        }
        tokio::select! {
            () = core.draining.cancelled() => return,
            () = tokio::time::sleep(core.settings.sweep_every) => {}
        }
    }
}
