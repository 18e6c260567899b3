//! A purchase order that you can run, kill, and run again: it goes on where it was.
//!
//! `cargo run -p order`, press Ctrl-C or `kill -9` it whenever you like, and run it again.

use std::{io::BufRead, io::Write, time::Duration};

use steadfast::{
    engine::{Context, Tool},
    prelude::*,
};

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    item: String,
    amount: f64,
    count: u32,
}

/// What the user is asked.
#[derive(Deserialize, JsonSchema)]
struct Approval {
    approved: bool,
}

/// Stands for anything slow or costly. The line shows each time it really runs.
async fn slowly(what: &str) -> Result<String> {
    print!("  {what} ...");
    std::io::stdout().flush()?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    println!(" done");
    Ok(what.to_owned())
}

/// Submit a purchase order. Orders over $1,000 need approval.
async fn purchase_order(ctx: Context, order: Order) -> Result<String> {
    ctx.step("validate", || slowly("validating the order")).await?;
    ctx.step("reserve", || slowly("reserving the goods")).undo("release", &order.item).await?;
    if order.amount > 1000.0 {
        let question = format!("Approve {} x {} for ${}?", order.count, order.item, order.amount);
        let reply = ctx.ask::<Approval>(question).await?;
        if !reply.accepted().is_some_and(|answer| answer.approved) {
            return Err(Error::new("the order was rejected"));
        }
    }
    // Never twice: if the process dies in the middle of it, we must look instead of charging again.
    let charged = ctx.step("charge", || slowly("charging the card")).at_most_once().await;
    match charged {
        // In a step like everything the world sees: code between steps runs again in a replay.
        Err(error) if error.is_unfinished() => {
            ctx.step("report", || slowly("reporting that the card may or may not be charged"))
                .await?;
        }
        other => drop(other?),
    }
    for n in 1..=order.count {
        ctx.progress(f64::from(n), Some(f64::from(order.count)), Some("packing"));
        let what = format!("packing item {n}");
        ctx.step("pack", || slowly(&what)).retry(Retry::exponential().attempts(5)).await?;
    }
    ctx.sleep(Duration::from_secs(3)).await;
    Ok(format!("{} x {} are on their way", order.count, order.item))
}

/// Takes back what was reserved, if the order fails or is cancelled.
async fn release(_: ActivityContext, item: String) -> Result<()> {
    println!("  releasing the reserved {item}");
    Ok(())
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let file = std::env::temp_dir().join("steadfast-order-example.db");
    println!("tasks are in {} (delete it to start over)", file.display());
    let engine = Engine::builder(steadfast::sqlite(&file)?)
        .tool(Tool::new("purchase_order", purchase_order))
        .activity("release", release)
        .start();
    let tasks = engine.tasks(Principal::new("you")?);
    let order = Order { item: "desk lamp".into(), amount: 1200.0, count: 3 };
    // The same key finds the same task, so that a second run goes on with it.
    let task = tasks.start("purchase_order", &order).idempotency_key("the one order").await?;
    println!("{} task {}", if task.new { "started" } else { "going on with" }, task.id);
    loop {
        let seen = tasks.wait_for_question(&task.id).await?;
        if seen.status.is_terminal() {
            break;
        }
        let Some(question) = seen.questions.first() else { continue };
        println!("{}  [y/n]  (or kill me, and run me again)", question.message);
        let approved = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            // Without anybody to ask, yes: so that the example also runs unattended.
            match std::io::stdin().lock().read_line(&mut line) {
                Ok(0) | Err(_) => true,
                Ok(_) => line.trim().eq_ignore_ascii_case("y"),
            }
        })
        .await?;
        let content = Json::of(&serde_json::json!({ "approved": approved })).ok();
        tasks.answer(&task.id, &question.key, Answer { action: Action::Accept, content }).await?;
        tasks.wait_for(&task.id, |info| info.status != Status::InputRequired).await?;
    }
    let end = tasks.wait(&task.id).await?;
    match (&end.output, &end.failure) {
        (Some(output), _) => println!("{}: {}", end.status, output.text()),
        (None, Some(failure)) => println!("{}: {failure}", end.status),
        (None, None) => println!("{}", end.status),
    }
    engine.shutdown(Duration::from_secs(5)).await;
    Ok(())
}
