//! Tools that become tasks.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use steadfast_engine::{Error, Reply, Result, join};
use steadfast_mcp::{CallResult, Context, NoInput, TaskSupport, Tool, protocol_error};

#[derive(Deserialize, JsonSchema)]
struct Greet {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Compute {
    /// How long it takes.
    seconds: u64,
    /// What it is called in the result.
    #[serde(default)]
    label: String,
}

#[derive(Deserialize, JsonSchema)]
struct Delete {
    /// What to delete.
    #[serde(default)]
    filename: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    confirm: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

pub(crate) fn tools() -> Vec<Tool> {
    vec![
        Tool::plain("greet", |input: Greet| async move { Ok(format!("Hello, {}!", input.name)) })
            .description("Greets at once."),
        Tool::new("slow_compute", slow_compute).description("Takes as long as it is told to."),
        Tool::new("failing_job", failing_job)
            .task_support(TaskSupport::Required)
            .description("Fails after a moment, and can only be a task."),
        Tool::new("protocol_error_job", protocol_error_job)
            .description("Ends with an error of the protocol."),
        Tool::new("confirm_delete", confirm_delete)
            .description("Asks before it would delete something."),
        Tool::new("multi_input", multi_input).description("Asks two things at once."),
        Tool::new("test_tool_with_task", asks_first)
            .task_support(TaskSupport::Required)
            .hands_itself_out()
            .description("Asks in place of its result, and then becomes a task."),
    ]
}

async fn slow_compute(ctx: Context, input: Compute) -> Result<String> {
    if input.seconds > 0 {
        ctx.sleep(Duration::from_secs(input.seconds)).await;
    }
    Ok(format!("{} took {} s", input.label, input.seconds))
}

async fn failing_job(ctx: Context, _: NoInput) -> Result<CallResult> {
    ctx.sleep(Duration::from_secs(1)).await;
    Err(Error::new("This job always fails"))
}

async fn protocol_error_job(_: Context, _: NoInput) -> Result<CallResult> {
    Err(protocol_error(-32603, "This job always ends with an error of the protocol"))
}

async fn confirm_delete(ctx: Context, input: Delete) -> Result<String> {
    let answer = ctx.ask::<Confirm>(format!("Delete {}?", input.filename)).key("confirm").await?;
    Ok(match answer {
        Reply::Accepted(Confirm { confirm: true }) => format!("{} is deleted", input.filename),
        _ => format!("{} is kept", input.filename),
    })
}

async fn multi_input(ctx: Context, _: NoInput) -> Result<String> {
    let first = ctx.ask::<Confirm>("Is the first right?").key("first");
    let second = ctx.ask::<Confirm>("Is the second right?").key("second");
    let (first, second) = join(first, second).await;
    let yes = |answer: Reply<Confirm>| answer.accepted().is_some_and(|answer| answer.confirm);
    Ok(format!("first: {}, second: {}", yes(first?), yes(second?)))
}

async fn asks_first(ctx: Context, _: NoInput) -> Result<String> {
    let answer = ctx.ask::<Name>("What is your name?").key("user_name").await?;
    ctx.hand_out();
    ctx.sleep(Duration::from_millis(300)).await;
    let name = answer.accepted().map_or_else(|| "stranger".to_owned(), |answer| answer.name);
    Ok(format!("Hello, {name}!"))
}
