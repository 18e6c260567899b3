//! Tools that say something on their way: log lines and progress. They run within the call, so that
//! a client that knows tasks gets the same.

use std::time::Duration;

use steadfast_engine::Result;
use steadfast_mcp::{Context, NoInput, TaskSupport, Tool};

/// Between what is said.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn tools() -> Vec<Tool> {
    let tools = [
        Tool::new("test_tool_with_logging", logging).description("Logs three lines on its way."),
        Tool::new("test_logging_tool", logging)
            .description("Logs three lines, for clients that want them."),
        Tool::new("test_tool_with_progress", progress).description("Reports its progress."),
        Tool::new("test_streaming_elicitation", progress)
            .description("Reports its progress on the stream of its response."),
        Tool::new("test_reconnection", outlives_its_stream)
            .description("Takes longer than the stream of its response."),
    ];
    tools.into_iter().map(|tool| tool.task_support(TaskSupport::Forbidden)).collect()
}

async fn logging(ctx: Context, _: NoInput) -> Result<&'static str> {
    ctx.log("info", "Tool execution started");
    ctx.sleep(PAUSE).await;
    ctx.log("info", "Tool processing data");
    ctx.sleep(PAUSE).await;
    ctx.log("info", "Tool execution completed");
    Ok("Three lines were logged.")
}

async fn progress(ctx: Context, _: NoInput) -> Result<&'static str> {
    for done in [0.0, 50.0, 100.0] {
        ctx.progress(done, Some(100.0), Some(&format!("{done} of 100")));
        ctx.sleep(PAUSE).await;
    }
    Ok("All is done.")
}

async fn outlives_its_stream(ctx: Context, _: NoInput) -> Result<&'static str> {
    ctx.sleep(Duration::from_millis(1_500)).await;
    Ok("The client came back for this.")
}
