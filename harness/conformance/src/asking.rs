//! Tools that ask the client while it waits for their result.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use steadfast_engine::{Reply, Result};
use steadfast_mcp::{Context, NoInput, Sample, TaskSupport, Tool};

#[derive(Deserialize, JsonSchema)]
struct Prompt {
    /// What to ask the model.
    prompt: String,
}

#[derive(Deserialize, JsonSchema)]
struct Message {
    /// What to ask the user.
    message: String,
}

pub(crate) fn tools() -> Vec<Tool> {
    let tools = [
        Tool::new("test_sampling", sampling).description("Asks the client's model."),
        Tool::new("test_missing_capability", |ctx: Context, _: NoInput| async move {
            Ok(ctx.sample(Sample::new("Anything")).await?.text())
        })
        .description("Can't do without the client's model."),
        Tool::new("test_elicitation", |ctx: Context, input: Message| async move {
            ask(&ctx, input.message, response()).await
        })
        .description("Asks the user."),
        Tool::new("test_elicitation_sep1034_defaults", |ctx: Context, _: NoInput| async move {
            ask(&ctx, "Please look over these values", defaults()).await
        })
        .description("Asks the user, with a default for each kind of field."),
        Tool::new("test_elicitation_sep1330_enums", |ctx: Context, _: NoInput| async move {
            ask(&ctx, "Please choose", choices()).await
        })
        .description("Asks the user to choose, in each way that a form can have choices."),
    ];
    tools.into_iter().map(|tool| tool.task_support(TaskSupport::Forbidden)).collect()
}

async fn sampling(ctx: Context, input: Prompt) -> Result<String> {
    let reply = ctx.sample(Sample::new(input.prompt).max_tokens(100)).await?;
    Ok(format!("LLM response: {}", reply.text()))
}

/// Asks with this form, and says what came back.
async fn ask(ctx: &Context, message: impl Into<String>, form: Value) -> Result<String> {
    let (action, content) = match ctx.ask::<Value>(message).schema(form).await? {
        Reply::Accepted(content) => ("accept", content),
        Reply::Declined => ("decline", json!({})),
        Reply::Cancelled => ("cancel", json!({})),
    };
    Ok(format!("The user's answer: action={action}, content={content}"))
}

fn response() -> Value {
    json!({
        "type": "object",
        "properties": { "response": { "type": "string", "description": "The answer" } },
        "required": ["response"],
    })
}

fn defaults() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "default": "John Doe" },
            "age": { "type": "integer", "default": 30 },
            "score": { "type": "number", "default": 95.5 },
            "status": {
                "type": "string",
                "enum": ["active", "inactive", "pending"],
                "default": "active",
            },
            "verified": { "type": "boolean", "default": true },
        },
    })
}

fn choices() -> Value {
    let plain = ["option1", "option2", "option3"];
    let titled = json!([
        { "const": "value1", "title": "First" },
        { "const": "value2", "title": "Second" },
        { "const": "value3", "title": "Third" },
    ]);
    json!({
        "type": "object",
        "properties": {
            "untitledSingle": { "type": "string", "enum": plain },
            "titledSingle": { "type": "string", "oneOf": titled },
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["One", "Two", "Three"],
            },
            "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
            "titledMulti": { "type": "array", "items": { "anyOf": titled } },
        },
    })
}
