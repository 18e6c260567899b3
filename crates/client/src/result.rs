//! What a tool returns.

use serde_json::Value;

use crate::{Error, RpcError};

/// What a tool returned.
#[derive(Clone, Debug, PartialEq)]
pub struct CallResult {
    /// Its content, block by block.
    pub content: Vec<Value>,
    /// The same for programs, if the tool has it.
    pub structured: Option<Value>,
    /// The tool failed, and the content says why.
    pub is_error: bool,
    /// All that the server has sent.
    pub raw: Value,
}

impl CallResult {
    pub(crate) fn read(raw: Value) -> CallResult {
        CallResult {
            content: raw["content"].as_array().cloned().unwrap_or_default(),
            structured: raw.get("structuredContent").filter(|value| !value.is_null()).cloned(),
            is_error: raw["isError"] == true,
            raw,
        }
    }

    /// Its texts, one below the other.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<&str> =
            self.content.iter().filter_map(|block| block["text"].as_str()).collect();
        texts.join("\n")
    }
}

/// What a response says.
pub(crate) fn outcome(mut message: Value) -> Result<Value, Error> {
    if let Some(error) = message.get("error") {
        return Err(match serde_json::from_value::<RpcError>(error.clone()) {
            Ok(error) => Error::Rpc(error),
            Err(_) => Error::Protocol(format!("it is an error of no known form: {error}")),
        });
    }
    Ok(message["result"].take())
}
