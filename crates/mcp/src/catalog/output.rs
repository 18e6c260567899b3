//! What tools take and return.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_core::Json;
use steadfast_engine::{Error, Result};

use crate::wire::{CallResult, Content};

/// The input of a tool that takes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoInput {}

/// What a tool can return.
#[diagnostic::on_unimplemented(
    message = "a tool can't return `{Self}`",
    note = "return text, a number, `Structured<T>` for a `T: Serialize + JsonSchema`, `Content`, \
            `CallResult`, or implement `Output` for it"
)]
pub trait Output: Send + 'static {
    /// The schema of its structured value, if it has one.
    fn schema() -> Option<Value> {
        None
    }

    /// The result for the client.
    fn into_result(self) -> Result<CallResult>;
}

impl Output for CallResult {
    fn into_result(self) -> Result<CallResult> {
        Ok(self)
    }
}

impl Output for () {
    fn into_result(self) -> Result<CallResult> {
        Ok(CallResult::default())
    }
}

impl Output for Content {
    fn into_result(self) -> Result<CallResult> {
        Ok(CallResult { content: vec![self], ..CallResult::default() })
    }
}

impl Output for Vec<Content> {
    fn into_result(self) -> Result<CallResult> {
        Ok(CallResult { content: self, ..CallResult::default() })
    }
}

macro_rules! texts {
    ($($type:ty)*) => {$(
        impl Output for $type {
            fn into_result(self) -> Result<CallResult> {
                Ok(CallResult::text(self.to_string()))
            }
        }
    )*};
}

texts!(String &'static str bool i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64);

/// A structured value: the tool has an output schema, and the model reads the value as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structured<T>(pub T);

impl<T: Serialize + JsonSchema + Send + 'static> Output for Structured<T> {
    fn schema() -> Option<Value> {
        Some(schemars::schema_for!(T).to_value())
    }

    fn into_result(self) -> Result<CallResult> {
        let value = Json::of(&self.0)
            .map_err(|error| Error::new(format!("the result can't be written as JSON: {error}")))?;
        let text = CallResult::text(value.text());
        Ok(CallResult { structured_content: Some(value), ..text })
    }
}
