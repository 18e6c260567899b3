//! Whoever starts, answers, signals and cancels, and notes what was acknowledged.

use std::{collections::BTreeSet, future::Future, sync::Arc, time::Duration};

use steadfast_engine::{
    Action, Answer, CallError, Compensation, Event, Json, Status, TaskId, TaskInfo, Tasks,
};
use tokio::sync::Semaphore;

use crate::{
    Entry, Ledger, Rng,
    workload::{Kind, Plan},
};

/// What to do, and what was done in earlier lives.
#[derive(Clone)]
pub struct Job {
    /// Fixes what each task does.
    pub seed: u64,
    /// How many tasks.
    pub tasks: u64,
    /// How many at a time.
    pub at_once: usize,
    /// Tasks whose end was noted in an earlier life.
    pub ended: Arc<BTreeSet<String>>,
    /// Percent of those to look at again.
    pub look_again: u64,
}

impl Job {
    /// A job, given what the ledger holds.
    #[must_use]
    pub fn new(seed: u64, tasks: u64, at_once: usize, past: &[Entry]) -> Job {
        let ended = past.iter().filter(|e| e.what == "ended").map(|e| e.task.clone()).collect();
        Job { seed, tasks, at_once, ended: Arc::new(ended), look_again: 100 }
    }
}

/// Drives all tasks of the job to their end.
pub async fn drive(tasks: &Tasks, ledger: &Ledger, job: &Job) {
    let places = Arc::new(Semaphore::new(job.at_once));
    let mut all = tokio::task::JoinSet::new();
    let mut dice = Rng::of(job.seed, u64::from(ledger.life()));
    for i in 0..job.tasks {
        let (tasks, ledger, seed) = (tasks.clone(), ledger.clone(), job.seed);
        let ended = job.ended.contains(&format!("t{i}"));
        if ended && !dice.chance(job.look_again) {
            continue;
        }
        let Ok(place) = places.clone().acquire_owned().await else { return };
        all.spawn(async move {
            let _place = place;
            if ended { look(&tasks, &ledger, i).await } else { one(&tasks, &ledger, seed, i).await }
        });
        while let Some(done) = all.try_join_next() {
            done.expect("a driver panicked");
        }
    }
    while let Some(done) = all.join_next().await {
        done.expect("a driver panicked");
    }
}

/// Says it again until the store has an ear, as a client would.
pub(crate) async fn until<T, Fut: Future<Output = Result<T, CallError>>>(
    call: impl Fn() -> Fut,
) -> Result<T, CallError> {
    loop {
        match call().await {
            Err(CallError::Store(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
            other => return other,
        }
    }
}

fn name(i: u64) -> TaskId {
    TaskId::new(format!("t{i}")).expect("it is well-formed")
}

/// A task that has ended looks the same for ever.
async fn look(tasks: &Tasks, ledger: &Ledger, i: u64) {
    let id = name(i);
    match until(|| tasks.get(&id)).await {
        Ok(info) => note_end(ledger, &info),
        Err(error) => ledger.note("vanished", id.as_str(), &error.to_string()),
    }
}

pub(crate) fn note_end(ledger: &Ledger, info: &TaskInfo) {
    let output = info.output.as_ref().map_or("-", |output| output.text());
    ledger.note("ended", info.id.as_str(), &format!("{} {output}", info.status));
}

async fn one(tasks: &Tasks, ledger: &Ledger, seed: u64, i: u64) {
    let id = name(i);
    let plan = Plan::of(seed, i);
    match until(|| async { tasks.start("work", &plan.kind).id(id.clone()).await }).await {
        Ok(_) | Err(CallError::Exists(_)) => ledger.note("started", id.as_str(), ""),
        Err(error) => panic!("{id} can't be started: {error}"),
    }
    let cancel = async {
        let Some(after) = plan.cancel_after else { return };
        tokio::time::sleep(Duration::from_millis(after)).await;
        match until(|| tasks.cancel(&id, Some("on purpose".into()))).await {
            Ok(()) => ledger.note("cancelled", id.as_str(), ""),
            Err(CallError::Terminal { .. }) => {}
            Err(error) => ledger.note("vanished", id.as_str(), &error.to_string()),
        }
    };
    let play = async {
        match plan.kind {
            Kind::Ask => answer(tasks, ledger, &id).await,
            Kind::Events => signal(tasks, ledger, &id).await,
            _ => {}
        }
    };
    tokio::join!(cancel, play);
    let done = |info: &TaskInfo| {
        let undone = plan.kind != Kind::Saga || info.compensation == Some(Compensation::Done);
        info.status.is_terminal() && undone
    };
    match until(|| tasks.wait_for(&id, done)).await {
        Ok(info) => note_end(ledger, &info),
        Err(error) => ledger.note("vanished", id.as_str(), &error.to_string()),
    }
}

async fn answer(tasks: &Tasks, ledger: &Ledger, id: &TaskId) {
    let mut rng = Rng::of(u64::from(ledger.life()), id.as_str().bytes().map(u64::from).sum());
    loop {
        match until(|| tasks.wait_for_question(id)).await {
            Ok(info) if info.status == Status::InputRequired => {}
            _ => return,
        }
        // Another number each time, so that it shows which one was applied.
        let number = rng.next() >> 12;
        let content = Json::of(&serde_json::json!({ "number": number })).ok();
        let answer = Answer { action: Action::Accept, content };
        match tasks.answer(id, "number", answer).await {
            Ok(()) => return ledger.note("answered", id.as_str(), &number.to_string()),
            Err(CallError::Store(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
            // Answered in an earlier life, or cancelled.
            Err(_) => return,
        }
    }
}

async fn signal(tasks: &Tasks, ledger: &Ledger, id: &TaskId) {
    for round in 1..=3u64 {
        let event = || Event::new("tick", &round).id(format!("tick-{round}"));
        match until(|| async { tasks.signal(id, event()).await }).await {
            Ok(()) => ledger.note("signalled", id.as_str(), &round.to_string()),
            Err(_) => return,
        }
    }
}
