//! Durable tools to try. `cargo run --release`, connect a client, call one, kill the server in the
//! middle (`kill -9` is welcome), start it again: the call goes on where it was.

mod analysis;
mod order;

use std::time::Duration;

use steadfast::prelude::*;

/// Greet somebody. A plain tool: quick, and not durable.
#[tool(read_only)]
async fn greet(
    /// Who to greet
    name: String,
) -> Result<String> {
    Ok(format!("Hello, {name}!"))
}

/// Stands for anything slow or costly. The line shows each time it really runs.
async fn slowly(what: &str) -> Result<()> {
    eprintln!("  {what}");
    // A test has less patience than a person.
    let pace = std::env::var("SAMPLES_PACE_MS").ok().and_then(|pace| pace.parse().ok());
    tokio::time::sleep(Duration::from_millis(pace.unwrap_or(2_000))).await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let flags = Flags::of_process("steadfast-samples");
    eprintln!("To try it, in another terminal:");
    eprintln!("  cargo run --release --bin samples-client -- call purchase_order \\");
    eprintln!("    '{{\"item\": \"desk lamp\", \"amount\": 1200, \"count\": 3}}'");
    eprintln!("Kill the server while it waits for you, start it again, and answer.");
    eprintln!();
    Server::new("steadfast-samples")
        .version(env!("CARGO_PKG_VERSION"))
        .title("Steadfast samples")
        .instructions("Durable tools to try: a purchase order and an analysis, both with approval.")
        .tool(order::purchase_order)
        .tool(analysis::analysis_with_approval)
        .tool(greet)
        .activity("release", order::release)
        .run_with(flags)
        .await
}
