//! Running activities: registered functions that tasks wait for, on whichever process is free.

mod work;

use std::{
    collections::HashSet,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use steadfast_core::{Failure, FailureKind, Message, Outcome, TaskId};
use steadfast_store::{ActivityEnd, ActivityLease, ActivityRow, ClaimActivities, Error, Retried};
use tokio_util::sync::CancellationToken;
pub(crate) use work::Work;

use crate::{
    TaskInfo, Tasks,
    blob::{self, ActivityBody},
    dispatch::sleep_until,
    engine::Core,
    runner::Nudge,
};

/// What an activity can do besides its work.
#[derive(Clone)]
pub struct ActivityContext {
    core: Arc<Core>,
    task: TaskId,
    attempt: u32,
    key: String,
    token: String,
    lease: Option<ActivityLease>,
    heartbeat: Option<Duration>,
    cancelled: CancellationToken,
    later: CancellationToken,
    varies: Arc<AtomicBool>,
}

impl ActivityContext {
    fn new(core: &Arc<Core>, row: &ActivityRow, body: &ActivityBody) -> ActivityContext {
        ActivityContext {
            core: core.clone(),
            task: row.task_id.clone(),
            attempt: row.attempt,
            key: format!("{}:activity:{}:{}", row.task_id, body.run, row.op.0),
            token: row.token.clone(),
            lease: Some(ActivityLease { key: row.key, epoch: row.epoch }),
            heartbeat: body.heartbeat_ms.map(Duration::from_millis),
            cancelled: CancellationToken::new(),
            later: CancellationToken::new(),
            varies: Arc::default(),
        }
    }

    /// The undo function with this number in its task, from 0 at the oldest.
    pub(crate) fn for_undo(
        core: &Arc<Core>,
        task: &TaskId,
        number: usize,
        attempt: u32,
    ) -> ActivityContext {
        ActivityContext {
            core: core.clone(),
            task: task.clone(),
            attempt,
            key: format!("{task}:undo:{number}"),
            token: String::new(),
            lease: None,
            heartbeat: None,
            cancelled: CancellationToken::new(),
            later: CancellationToken::new(),
            // Nobody looks at it.
            varies: Arc::new(true.into()),
        }
    }

    /// The task that waits for it.
    #[must_use]
    pub fn task_id(&self) -> &TaskId {
        &self.task
    }

    /// What is to be seen of that task: whose it is, and what was said of the call that started it.
    pub async fn task(&self) -> crate::Result<TaskInfo> {
        Ok(Tasks::new(self.core.clone(), None).get(&self.task).await?)
    }

    /// What the program gave the engine in this process: see
    /// [`Builder::attach`](crate::Builder::attach).
    #[must_use]
    pub fn attached<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.core.attached()
    }

    /// Which attempt it is, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The same for every attempt: hand it to a service that takes idempotency keys.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The secret by which somebody outside can complete, fail or heartbeat this activity.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Fires when nobody waits for the result any more, or another worker has taken over.
    #[must_use]
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// Says that it is alive. Needed if the task asked for heartbeats.
    pub async fn heartbeat(&self) {
        // One that is not taken is not worth a word: the next one comes soon.
        drop(self.beat().await);
    }

    async fn beat(&self) -> steadfast_store::Result<()> {
        let Some(lease) = self.lease else { return Ok(()) };
        let until = self.heartbeat.map(|every| self.core.world.now().plus(every));
        let beaten = self.core.store.beat_activity(lease, until, false).await;
        if let Err(Error::Refused(_)) = beaten {
            self.cancelled.cancel();
        }
        beaten
    }

    /// Says that what this function returns does not count: somebody who has the
    /// [token](ActivityContext::token) will complete or fail it.
    pub fn complete_later(&self) {
        self.later.cancel();
    }

    /// Says that its result may be another each time, though it has no effect that must not happen
    /// twice. Only effect validation
    /// ([`Builder::validate_effects`](crate::Builder::validate_effects)) goes by it.
    pub fn result_varies(&self) {
        self.varies.store(true, Ordering::Relaxed);
    }

    pub(crate) fn max_payload(&self) -> usize {
        self.core.settings.max_payload
    }
}

impl std::fmt::Debug for ActivityContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ActivityContext").field("task", &self.task).finish_non_exhaustive()
    }
}

/// Also without functions of its own a process puts activities whose time has come back into their
/// queue, or it would wake up for them for ever.
pub(crate) fn spawn(core: &Arc<Core>) {
    core.loops.spawn(take_up(core.clone()));
}

/// Fires the tokens of activities that nobody waits for any more.
pub(crate) fn cancel(core: &Core, keys: &[i64]) {
    for key in keys {
        if let Some((_, token)) = core.in_hand().get(key) {
            token.cancel();
        }
    }
}

async fn take_up(core: Arc<Core>) {
    let registry = core.registry();
    let names = registry.functions.keys().filter(|name| core.settings.takes(name));
    let names: Vec<String> = names.cloned().collect();
    drop(registry);
    loop {
        let again = claim_all(&core, &names).await.map_err(|error| {
            tracing::warn!(%error, "can't take up activities; trying again");
            core.doubt_after(&error);
            core.world.now().plus(Duration::from_millis(200))
        });
        // After the claim, which takes what has been silent for too long from whoever holds it.
        if let Err(error) = forget_cancelled(&core).await {
            tracing::warn!(%error, "can't look at the activities in hand");
        }
        // Due times are the dispatcher's to watch.
        tokio::select! {
            () = core.draining.cancelled() => return,
            () = core.work.notified() => {}
            () = sleep_until(&core, again.err()) => {}
        }
    }
}

/// Another process may have cancelled what we are at, or taken it over.
async fn forget_cancelled(core: &Core) -> steadfast_store::Result<()> {
    let known: Vec<i64> = core.in_hand().keys().copied().collect();
    if known.is_empty() {
        return Ok(());
    }
    let held = core.store.held_activities().await?;
    let held: HashSet<i64> = held.iter().map(|lease| lease.key).collect();
    let gone: Vec<i64> = known.into_iter().filter(|key| !held.contains(key)).collect();
    cancel(core, &gone);
    Ok(())
}

/// Puts back activities that lie on our desk without anybody being at them: the answer to their
/// claim was lost. Nothing may be claimed meanwhile.
pub(crate) async fn put_back_orphans(core: &Core) -> steadfast_store::Result<()> {
    for lease in core.store.held_activities().await? {
        // One in hand may be one that we have given up and taken over from ourselves since.
        let at_it = |(epoch, _): &(i64, CancellationToken)| *epoch == lease.epoch;
        if !core.in_hand().get(&lease.key).is_some_and(at_it) {
            // Overdue at once, so that the next claim takes it.
            let now = core.world.now();
            match core.store.beat_activity(lease, Some(now), true).await {
                Ok(()) | Err(Error::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
    core.work.notify_one();
    Ok(())
}

async fn claim_all(core: &Arc<Core>, names: &[String]) -> steadfast_store::Result<()> {
    loop {
        if core.draining.is_cancelled() {
            return Ok(());
        }
        // Without room the claim still puts what is due or silent back into its queue.
        let room = core.settings.max_activities.saturating_sub(core.in_hand().len());
        let now = core.world.now();
        let claim = ClaimActivities { names: names.to_vec(), limit: room, now };
        let _hand = core.handover.read().await;
        let rows = core.store.claim_activities(claim).await?;
        let count = rows.len();
        for row in rows {
            start(core, row);
        }
        if count < room || room == 0 {
            return Ok(());
        }
    }
}

fn start(core: &Arc<Core>, row: ActivityRow) {
    let Ok(body) = blob::read::<ActivityBody>(&row.body) else {
        tracing::error!(activity = row.name, "an activity can't be read; it is left alone");
        return;
    };
    let context = ActivityContext::new(core, &row, &body);
    let old = core.in_hand().insert(row.key, (row.epoch, context.cancelled.clone()));
    if let Some((_, given_up)) = old {
        // It was silent for too long, and we have taken it over from ourselves.
        given_up.cancel();
    }
    let core = core.clone();
    core.tasks.clone().spawn(async move {
        tokio::select! {
            () = run(&core, &row, body, context) => {}
            () = core.stopped.cancelled() => {}
        }
        let mut in_hand = core.in_hand();
        if in_hand.get(&row.key).is_some_and(|(epoch, _)| *epoch == row.epoch) {
            in_hand.remove(&row.key);
        }
        drop(in_hand);
        core.work.notify_one();
    });
}

async fn run(core: &Arc<Core>, row: &ActivityRow, body: ActivityBody, context: ActivityContext) {
    let registry = core.registry();
    let Some(function) = registry.functions.get(&row.name) else { return };
    if context.heartbeat.is_some() {
        // The clock of the first heartbeat starts when the work does, and must: without it nobody
        // would find out that the work is silent.
        insist(core, || context.beat()).await;
        // A due time that the dispatcher does not know of yet.
        core.dispatch.notify_one();
    }
    if let Some(failure) = poison(core, row, &body) {
        return end(core, row, Err(failure)).await;
    }
    let work = Work { function, what: "activity", name: &row.name, retry: &body.retry };
    let outcome = tokio::select! {
        outcome = work.run(&context, body.input) => outcome,
        () = grace(core, &context.cancelled) => return,
    };
    if context.cancelled.is_cancelled() {
        return;
    }
    let lease = ActivityLease { key: row.key, epoch: row.epoch };
    if context.later.is_cancelled() {
        let until = context.heartbeat.map(|every| core.world.now().plus(every));
        return insist(core, || core.store.beat_activity(lease, until, true)).await;
    }
    let failure = outcome.as_ref().err();
    let delay = failure.and_then(|f| body.retry.after(row.attempt, f, core.world.random() as u64));
    match (delay, outcome) {
        (Some(delay), Err(failure)) => {
            let due = core.world.now().plus(delay);
            let message = Message::ActivityRetrying { op: row.op, failure, retry_at: due };
            let body = blob::write(&message);
            insist(core, || async {
                let retried = Retried { lease, due, body: body.clone() };
                let touched = core.store.retry_activity(retried).await?;
                core.touched(&[touched], Nudge::MAIL);
                Ok(())
            })
            .await;
            // A due time that the dispatcher does not know of yet.
            core.dispatch.notify_one();
        }
        (_, outcome) => end(core, row, outcome).await,
    }
}

async fn end(core: &Arc<Core>, row: &ActivityRow, outcome: Outcome) {
    let lease = ActivityLease { key: row.key, epoch: row.epoch };
    let body = blob::write(&Message::ActivityEnded { op: row.op, outcome });
    insist(core, || async {
        let end = ActivityEnd { lease, body: body.clone() };
        let touched = core.store.end_activity(end).await?;
        core.touched(&[touched], Nudge::MAIL);
        Ok(())
    })
    .await;
}

/// Attempts that workers died over, or fell silent at, count beyond those that the policy allows,
/// but not without end: the next worker would go the same way.
fn poison(core: &Core, row: &ActivityRow, body: &ActivityBody) -> Option<Failure> {
    let deaths = core.settings.poison_deaths.max(1);
    let tried = row.attempt.checked_sub(deaths).filter(|tried| *tried > 0)?;
    let lost = Failure::new(FailureKind::TimedOut, String::new());
    if body.retry.after(tried, &lost, 0).is_some() {
        return None;
    }
    let message = format!(
        "the activity {:?} was given up after {} attempts: workers died over it or fell silent",
        row.name,
        row.attempt - 1
    );
    Some(Failure::new(FailureKind::Limit, message).permanently())
}

/// Resolves some time after the token fired: time to clean up.
async fn grace(core: &Core, cancelled: &CancellationToken) {
    cancelled.cancelled().await;
    tokio::time::sleep(core.settings.cancel_grace).await;
}

/// Calls the store until it takes it or refuses.
async fn insist<F, Fut>(core: &Core, call: F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = steadfast_store::Result<()>>,
{
    loop {
        match call().await {
            Ok(()) => return,
            Err(Error::Refused(refusal)) => {
                tracing::debug!(%refusal, "an activity is no longer wanted");
                return;
            }
            Err(error) => {
                tracing::warn!(%error, "what became of an activity was not taken; trying again");
                core.doubt_after(&error);
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}
