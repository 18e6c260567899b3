//! Tools, and a prompt, that need several rounds: what they ask comes in place of their result, and
//! the client calls again with the answers.

use schemars::JsonSchema;
use serde::Deserialize;
use steadfast_engine::{Reply, Result, join};
use steadfast_mcp::{Context, NoInput, Prompt, Sample, TaskSupport, Tool};

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Colour {
    color: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Topic {
    context: String,
}

pub(crate) fn tools() -> Vec<Tool> {
    let tools = [
        Tool::new("test_input_required_result_elicitation", elicitation)
            .description("Asks for a name."),
        Tool::new("test_input_required_result_sampling", sampling)
            .description("Asks the client's model."),
        Tool::new("test_input_required_result_list_roots", roots)
            .description("Asks for the client's roots."),
        Tool::new("test_input_required_result_request_state", confirm)
            .description("Asks for a confirmation, and finds its state again."),
        Tool::new("test_input_required_result_tampered_state", confirm)
            .description("Asks for a confirmation, and takes no state but its own."),
        Tool::new("test_input_required_result_multiple_inputs", several)
            .description("Asks for three things at once."),
        Tool::new("test_input_required_result_multi_round", twice)
            .description("Asks for one thing, and then for another."),
        Tool::new("test_input_required_result_capabilities", whatever_is_possible)
            .description("Asks for what the client can give."),
    ];
    tools.into_iter().map(|tool| tool.task_support(TaskSupport::Forbidden)).collect()
}

pub(crate) fn prompts() -> Vec<Prompt> {
    vec![
        Prompt::durable(
            "test_input_required_result_prompt",
            |ctx: Context, _: NoInput| async move {
                let question = "What context should the prompt use?";
                let answer = ctx.ask::<Topic>(question).key("user_context").await?;
                Ok(match answer {
                    Reply::Accepted(topic) => format!("Prompt with context: {}", topic.context),
                    _ => "Prompt without context".to_owned(),
                })
            },
        )
        .description("Asks for its context."),
    ]
}

fn name(answer: Reply<Name>) -> String {
    answer.accepted().map_or_else(|| "stranger".to_owned(), |answer| answer.name)
}

async fn elicitation(ctx: Context, _: NoInput) -> Result<String> {
    let answer = ctx.ask::<Name>("What is your name?").key("user_name").await?;
    Ok(format!("Hello, {}!", name(answer)))
}

async fn sampling(ctx: Context, _: NoInput) -> Result<String> {
    let sample = Sample::new("What is the capital of France?").max_tokens(100);
    let reply = ctx.sample(sample).key("sample_request").await?;
    Ok(format!("The model says: {}", reply.text()))
}

async fn roots(ctx: Context, _: NoInput) -> Result<String> {
    let roots = ctx.roots().key("roots_request").await?;
    Ok(format!("Found {} root(s)", roots.len()))
}

async fn confirm(ctx: Context, _: NoInput) -> Result<&'static str> {
    let answer = ctx.ask::<Confirm>("Please confirm").key("confirm").await?;
    Ok(match answer {
        Reply::Accepted(Confirm { ok: true }) => "state-ok: confirmed",
        _ => "state-ok: not confirmed",
    })
}

async fn several(ctx: Context, _: NoInput) -> Result<String> {
    let who = ctx.ask::<Name>("What is your name?").key("user_name");
    let greeting = ctx.sample(Sample::new("Think of a greeting").max_tokens(50)).key("greeting");
    let roots = ctx.roots().key("client_roots");
    let (who, (greeting, roots)) = join(who, join(greeting, roots)).await;
    let (who, greeting, roots) = (name(who?), greeting?.text(), roots?.len());
    Ok(format!("{greeting} {who}, with {roots} root(s)"))
}

async fn twice(ctx: Context, _: NoInput) -> Result<String> {
    let who = name(ctx.ask::<Name>("What is your name?").key("step1").await?);
    let colour = ctx.ask::<Colour>("What is your favourite colour?").key("step2").await?;
    let colour = colour.accepted().map_or_else(|| "none".to_owned(), |answer| answer.color);
    Ok(format!("{who} likes {colour}"))
}

async fn whatever_is_possible(ctx: Context, input: NoInput) -> Result<String> {
    let can = ctx.caller().capabilities;
    if can.contains_key("elicitation") {
        elicitation(ctx, input).await
    } else if can.contains_key("sampling") {
        sampling(ctx, input).await
    } else {
        Ok("There is nothing to ask this client for.".to_owned())
    }
}
