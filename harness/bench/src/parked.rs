//! A million tasks that wait for an answer, against a thousand.

use std::{path::Path, process::Command, sync::Arc, time::Duration};

use steadfast_engine::{Engine, Principal, Status, TaskId};
use steadfast_store::Store;

use crate::{
    EngineArgs, Result,
    child::PARKED_FEW,
    report::{Bound, Report, short},
    tools::{self, Probe},
};

pub(crate) async fn measure(args: &EngineArgs, report: &mut Report) -> Result<()> {
    let many = if args.quick { 20_000 } else { 1_000_000 };
    let dir = args.scratch()?;
    let (small, large) = (dir.path().join("small"), dir.path().join("large"));
    fill(&small, PARKED_FEW, &tools::ada()).await?;
    eprintln!("parked: filling a store with {many} tasks");
    fill(&large, many, &tools::ada()).await?;
    let (mut rss, mut answer, mut get, mut list) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut get_us, mut answer_us) = (Vec::new(), Vec::new());
    // Each round answers the tasks it asks about, so it asks about other ones the next time.
    for round in 0..if args.quick { 1 } else { 7 } {
        let [resident, answer_few, answer_many, get_few, get_many, list_few, list_many] =
            look(&small, &large, many, round)?;
        rss.push(resident);
        answer.push(answer_many / answer_few);
        get.push(get_many / get_few);
        list.push(list_many / list_few);
        get_us.push(get_many * 1e6);
        answer_us.push(answer_many * 1e6);
    }
    let many = short(many);
    report.add(format!("parked_{many}_rss_mb"), rss, Bound::AtMost(300.0));
    report.add("parked_answer_ratio", answer, Bound::AtMost(1.3));
    report.add(format!("get_{many}_ratio"), get, Bound::AtMost(1.3));
    report.add(format!("list_{many}_ratio"), list, Bound::AtMost(1.3));
    report.add("parked_answer_us", answer_us, Bound::None);
    report.add(format!("get_{many}_us"), get_us, Bound::None);
    Ok(())
}

/// The id of the task with this number. All are of one length.
pub(crate) fn name(n: u64) -> String {
    format!("task-{n:07}")
}

/// Starts tasks through the engine and lets them park on their question.
pub(crate) async fn fill(path: &Path, count: u64, owner: &Principal) -> Result<()> {
    fill_on(tools::open(path, Duration::ZERO)?, count, owner).await
}

/// The same on any store.
pub(crate) async fn fill_on(store: Arc<dyn Store>, count: u64, owner: &Principal) -> Result<()> {
    let engine = tools::register(Engine::builder(store), &Probe::default()).start();
    let tasks = engine.tasks(owner.clone());
    let mut callers = tokio::task::JoinSet::new();
    for lane in 0..256 {
        let tasks = tasks.clone();
        callers.spawn(async move {
            let mut n = lane;
            while n < count {
                let id = TaskId::new(name(n))?;
                match tasks.start("approve", &n).id(id).await {
                    Ok(_) | Err(steadfast_engine::CallError::Exists(_)) => {}
                    Err(error) => return Err(error),
                }
                n += 256;
            }
            Ok(())
        });
    }
    for caller in callers.join_all().await {
        caller?;
    }
    // All must have asked before the store is closed.
    loop {
        let counts = tasks.counts().await?;
        let open = |status| counts.get(&status).copied().unwrap_or(0);
        if open(Status::Queued) + open(Status::Running) == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    engine.shutdown(Duration::from_secs(30)).await;
    Ok(())
}

fn look(small: &Path, large: &Path, count: u64, round: u64) -> Result<[f64; 7]> {
    let output = Command::new(std::env::current_exe()?)
        .args(["child", "parked", "--count", &count.to_string()])
        .args(["--round", &round.to_string(), "--store"])
        .arg(large)
        .arg("--beside")
        .arg(small)
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    numbers.try_into().map_err(|_| {
        format!("the child said {text:?}: {}", String::from_utf8_lossy(&output.stderr)).into()
    })
}
