//! Two processes on one file: how long a call in one takes to reach a task in the other.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use steadfast_engine::{Action, Answer, Engine, Json, Status};

use crate::{
    EngineArgs, Result,
    report::{Bound, Report},
    tools,
};

pub(crate) async fn measure(args: &EngineArgs, report: &mut Report) -> Result<()> {
    eprintln!("cross");
    let dir = args.scratch()?;
    let path = dir.path().join("engine");
    let store: Arc<steadfast_sqlite::Store> = tools::open(&path, Duration::ZERO)?;
    let mut server = Command::new(std::env::current_exe()?)
        .args(["child", "serve", "--store"])
        .arg(&path)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(server.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    // This process has no tools: whatever runs, runs over there.
    let engine = Engine::builder(store).start();
    let tasks = engine.tasks(tools::ada());
    let (mut starts, mut answers, mut cancels) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..if args.quick { 20 } else { 100u64 } {
        let begun = Instant::now();
        let id = tasks.start("approve", &round).even_if_unserved().await?.id;
        tasks.wait_for(&id, |info| info.status == Status::InputRequired).await?;
        starts.push(millis(begun));
        let begun = Instant::now();
        if round % 2 == 0 {
            let yes = Json::of(&serde_json::json!({ "approved": true })).ok();
            tasks.answer(&id, "input", Answer { action: Action::Accept, content: yes }).await?;
            tasks.wait(&id).await?;
            answers.push(millis(begun));
        } else {
            tasks.cancel(&id, None).await?;
            tasks.wait(&id).await?;
            cancels.push(millis(begun));
        }
    }
    server.kill()?;
    server.wait()?;
    engine.shutdown(Duration::from_secs(5)).await;
    // There and back again: what is seen here crossed twice.
    let once = |times: Vec<f64>| times.into_iter().map(|time| time / 2.0).collect();
    report.add("cross_start_p50_ms", once(starts), Bound::AtMost(50.0));
    report.add("cross_answer_p50_ms", once(answers), Bound::AtMost(50.0));
    // A cancel holds from its commit on, wherever the task is.
    report.add("cross_cancel_p50_ms", cancels, Bound::AtMost(50.0));
    Ok(())
}

fn millis(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1_000.0
}
