//! Results of a handler as those of Steadfast. Both are the same on the wire.

use serde::Deserialize;
use serde_json::{Map, Value};
use steadfast_core::Json;
use steadfast_engine::{Error, Result};
use steadfast_mcp::{CallResult, Content, Contents, PromptMessage, PromptResult, Role};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Called {
    content: Vec<Map<String, Value>>,
    structured_content: Option<Value>,
    is_error: bool,
    #[serde(rename = "_meta")]
    meta: Map<String, Value>,
}

pub(crate) fn of_tool(result: Value) -> Result<CallResult> {
    let called: Called = serde_json::from_value(result).map_err(unlike)?;
    let structured_content = called.structured_content.as_ref().map(Json::of).transpose();
    Ok(CallResult {
        content: called.content.into_iter().map(Content::Other).collect(),
        structured_content: structured_content.map_err(unlike)?,
        is_error: called.is_error,
        meta: called.meta,
    })
}

#[derive(Deserialize)]
struct Prompted {
    #[serde(default)]
    description: Option<String>,
    messages: Vec<Message>,
    #[serde(default, rename = "_meta")]
    meta: Map<String, Value>,
}

#[derive(Deserialize)]
struct Message {
    role: Role,
    content: Map<String, Value>,
}

pub(crate) fn of_prompt(result: Value) -> Result<PromptResult> {
    let Prompted { description, messages, meta } =
        serde_json::from_value(result).map_err(unlike)?;
    let message =
        |said: Message| PromptMessage { role: said.role, content: Content::Other(said.content) };
    Ok(PromptResult { description, messages: messages.into_iter().map(message).collect(), meta })
}

#[derive(Deserialize)]
struct Read {
    contents: Vec<Contents>,
}

pub(crate) fn of_resource(result: Value) -> Result<Vec<Contents>> {
    let Read { contents } = serde_json::from_value(result).map_err(unlike)?;
    Ok(contents)
}

fn unlike(error: serde_json::Error) -> Error {
    Error::new(format!("the rmcp handler's result can't be read: {error}")).permanent()
}
