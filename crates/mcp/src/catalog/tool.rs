//! Tools.

use std::{
    future::Future,
    sync::{Arc, OnceLock},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use steadfast_core::{Json, Ttl};
use steadfast_engine::{Error, Result};

use super::{BoxFuture, HeaderParam, NoInput, Output, Unfit, check_name, check_with, headers};
use crate::{
    Context,
    method::Companion,
    wire::{CallResult, Icon, Object, Revision},
};

/// Whether a tool runs as a task that the client can see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskSupport {
    /// Never: the client's call waits for the result. It is durable all the same.
    Forbidden,
    /// For clients that can follow tasks.
    #[default]
    Optional,
    /// Always: clients that can't follow tasks can't call it.
    Required,
}

/// What a tool says of its behaviour. Clients can't rely on it, but they show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolAnnotations {
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// It changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// It may destroy something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// The second call with the same input changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// It deals with the world outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

type PlainFn = Arc<dyn Fn(Json) -> BoxFuture<Result<CallResult>> + Send + Sync>;

#[derive(Clone)]
pub(crate) enum Body {
    /// Runs within the request, and dies with it.
    Plain(PlainFn),
    /// Runs as a task.
    Durable(Box<steadfast_engine::Tool>),
    /// Is about tasks, and part of the front.
    Front(Companion),
}

/// A tool that clients can call.
///
/// ```
/// use steadfast_mcp::{Context, Tool};
/// use steadfast_engine::Result;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Order { item: String }
///
/// async fn order(ctx: Context, order: Order) -> Result<String> {
///     ctx.step("reserve", || async { Ok::<_, std::io::Error>(()) }).await?;
///     Ok(format!("{} is on its way", order.item))
/// }
///
/// let durable = Tool::new("order", order).description("Orders something.");
/// let plain = Tool::plain("echo", |order: Order| async move { Ok(order.item) });
/// ```
#[derive(Clone)]
pub struct Tool {
    pub(crate) name: String,
    title: Option<String>,
    description: Option<String>,
    input_schema: Value,
    output_schema: Option<Value>,
    promise: Promise,
    annotations: Option<ToolAnnotations>,
    icons: Vec<Icon>,
    meta: Map<String, Value>,
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) support: TaskSupport,
    pub(crate) poll_interval: Option<Duration>,
    pub(crate) hands_itself_out: bool,
    pub(crate) body: Body,
}

impl Tool {
    /// A durable tool: an async function of a [`Context`] and an input.
    pub fn new<I, O, F, Fut>(name: impl Into<String>, function: F) -> Tool
    where
        I: DeserializeOwned + JsonSchema + Send + 'static,
        O: Output,
        F: Fn(Context, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O>> + Send + 'static,
    {
        let (name, function) = (name.into(), Arc::new(function));
        let promise = Promise::default();
        let promised = promise.clone();
        let run = move |ctx: steadfast_engine::Context, input: Json| {
            let (function, promised) = (function.clone(), promised.clone());
            async move {
                let ctx = Context::new(ctx);
                if let Some(reason) = &ctx.call.refused {
                    return Err(Error::new(reason).permanent());
                }
                let input = read(&input)?;
                promised.kept_by(function(ctx, input).await?.into_result()?)
            }
        };
        let body = Body::Durable(Box::new(steadfast_engine::Tool::new(name.clone(), run)));
        Tool { promise, ..Tool::with_body::<I, O>(name, body) }
    }

    /// A plain tool, which is not durable: it runs within the request and dies with it.
    pub fn plain<I, O, F, Fut>(name: impl Into<String>, function: F) -> Tool
    where
        I: DeserializeOwned + JsonSchema + Send + 'static,
        O: Output,
        F: Fn(I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O>> + Send + 'static,
    {
        let (function, promise) = (Arc::new(function), Promise::default());
        let promised = promise.clone();
        let run: PlainFn = Arc::new(move |input| {
            let (function, promised) = (function.clone(), promised.clone());
            Box::pin(async move { promised.kept_by(function(read(&input)?).await?.into_result()?) })
        });
        let tool = Tool::with_body::<I, O>(name.into(), Body::Plain(run));
        Tool { support: TaskSupport::Forbidden, promise, ..tool }
    }

    /// A tool that is part of the front.
    pub(crate) fn of_front(name: &str, which: Companion) -> Tool {
        let tool = Tool::with_body::<NoInput, CallResult>(name.into(), Body::Front(which));
        Tool { support: TaskSupport::Forbidden, ..tool }
    }

    /// An input of this type.
    pub(crate) fn input_of<I: JsonSchema>(self) -> Tool {
        self.input_schema(schemars::schema_for!(I).to_value())
    }

    fn with_body<I: JsonSchema, O: Output>(name: String, body: Body) -> Tool {
        Tool {
            name,
            title: None,
            description: None,
            input_schema: schemars::schema_for!(I).to_value(),
            output_schema: O::schema(),
            promise: Promise::default(),
            annotations: None,
            icons: Vec::new(),
            meta: Map::new(),
            tags: Vec::new(),
            support: TaskSupport::default(),
            poll_interval: None,
            hands_itself_out: false,
            body,
        }
    }

    /// A name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Tool {
        self.title = Some(title.into());
        self
    }

    /// What it does, for the model to read.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Tool {
        self.description = Some(description.into());
        self
    }

    /// An input schema other than that of the input's type.
    #[must_use]
    pub fn input_schema(mut self, schema: Value) -> Tool {
        self.input_schema = schema;
        self
    }

    /// An output schema other than that of the output's type. A result that does not fit it is an error
    /// in place of the result.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Tool {
        self.output_schema = Some(schema);
        self.promise.made = true;
        self
    }

    /// What it says of its behaviour.
    #[must_use]
    pub fn annotations(mut self, annotations: ToolAnnotations) -> Tool {
        self.annotations = Some(annotations);
        self
    }

    /// A picture for user interfaces.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Tool {
        self.icons.push(icon);
        self
    }

    /// Something for programs, in the `_meta` of the tool.
    #[must_use]
    pub fn meta(mut self, name: impl Into<String>, value: Value) -> Tool {
        self.meta.insert(name.into(), value);
        self
    }

    /// A tag that its tasks get, to be found by.
    #[must_use]
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Tool {
        self.tags.push((name.into(), value.into()));
        self
    }

    /// Whether it runs as a task that the client can see. No effect on a plain tool.
    #[must_use]
    pub fn task_support(mut self, support: TaskSupport) -> Tool {
        if matches!(self.body, Body::Durable(_)) {
            self.support = support;
        }
        self
    }

    /// How often clients are to ask how a task stands, while nothing else is known. A second unless it
    /// is set.
    #[must_use]
    pub fn poll_interval(mut self, interval: Duration) -> Tool {
        self.poll_interval = Some(interval);
        self
    }

    /// The client's call waits until the code calls [`hand_out`](Context::hand_out) or
    /// [`immediate_response`](Context::immediate_response): questions before that are asked in place
    /// of an answer to the call.
    #[must_use]
    pub fn hands_itself_out(mut self) -> Tool {
        self.hands_itself_out = true;
        self
    }

    /// How long its tasks are kept after they end.
    #[must_use]
    pub fn retention(self, ttl: impl Into<Ttl>) -> Tool {
        self.engine(|tool| tool.retention(ttl))
    }

    /// A task that has not ended by this age is cancelled. Without it a running task never expires.
    #[must_use]
    pub fn max_age(self, ttl: impl Into<Ttl>) -> Tool {
        self.engine(|tool| tool.max_age(ttl))
    }

    /// The version that new tasks get, and the oldest whose tasks this code can still run.
    #[must_use]
    pub fn versions(self, newest: u32, oldest: u32) -> Tool {
        self.engine(|tool| tool.versions(newest, oldest))
    }

    fn engine(
        mut self,
        change: impl FnOnce(steadfast_engine::Tool) -> steadfast_engine::Tool,
    ) -> Tool {
        if let Body::Durable(tool) = self.body {
            self.body = Body::Durable(Box::new(change(*tool)));
        }
        self
    }
}

/// Reads the input, which has been checked against the schema, so that the type seldom disagrees.
fn read<I: DeserializeOwned>(input: &Json) -> Result<I> {
    input
        .read()
        .map_err(|error| Error::new(format!("the input can't be read: {error}")).permanent())
}

/// What a tool says of its results by a schema that is not that of their type: with the type's own
/// nothing can be wrong.
#[derive(Clone, Default)]
struct Promise {
    made: bool,
    /// There once the tool is offered.
    schema: Arc<OnceLock<(Value, jsonschema::Validator)>>,
}

impl Promise {
    /// The result, if it is as was said. An error of the tool need not be.
    fn kept_by(&self, result: CallResult) -> Result<CallResult> {
        let Some((_, validator)) = self.schema.get().filter(|_| !result.is_error) else {
            return Ok(result);
        };
        let broken = |reason: String| {
            let message = format!("the result does not fit the tool's output schema: {reason}");
            Error::new(message).permanent()
        };
        let value = result
            .structured_content
            .as_ref()
            .ok_or_else(|| broken("there is no structured content".into()))?;
        let value: Value = value.read().map_err(|error| broken(error.to_string()))?;
        check_with(validator, &value).map_err(broken)?;
        Ok(result)
    }
}

/// A tool that is offered.
pub(crate) struct ToolEntry {
    pub(crate) tool: Tool,
    pub(crate) validator: jsonschema::Validator,
    pub(crate) headers: Vec<HeaderParam>,
}

impl ToolEntry {
    pub(crate) fn new(mut tool: Tool) -> Result<ToolEntry, Unfit> {
        check_name("tool", &tool.name)?;
        let wrong = |reason: String| Unfit::Schema { name: tool.name.clone(), reason };
        match &mut tool.input_schema {
            // A schema of choices has no type of its own; the protocol wants it said.
            Value::Object(schema) => {
                schema.entry("type").or_insert_with(|| json!("object"));
            }
            other => return Err(wrong(format!("it is {other}, and must be an object"))),
        }
        let input = &tool.input_schema;
        if input.get("type").is_none_or(|kind| kind != "object") {
            return Err(wrong("the input must be an object: take a struct".into()));
        }
        let validator = jsonschema::validator_for(input).map_err(|e| wrong(e.to_string()))?;
        if let Some(output) = &tool.output_schema {
            let validator = jsonschema::validator_for(output).map_err(|e| wrong(e.to_string()))?;
            if tool.promise.made {
                // A copy of the tool may have been offered already.
                let (made, _) = tool.promise.schema.get_or_init(|| (output.clone(), validator));
                if made != output {
                    let reason = "a copy of this tool is offered with another output schema";
                    return Err(wrong(reason.into()));
                }
            }
        }
        let headers = headers::find(input).map_err(wrong)?;
        Ok(ToolEntry { tool, validator, headers })
    }

    /// Whether a client of this revision can read the structured results.
    pub(crate) fn shows_structure(&self, revision: Revision) -> bool {
        let object = |schema: &Value| schema.get("type").is_some_and(|kind| kind == "object");
        match revision {
            Revision::V2024_11_05 | Revision::V2025_03_26 => false,
            // Only objects, before any value could be structured.
            Revision::V2025_06_18 | Revision::V2025_11_25 => {
                self.tool.output_schema.as_ref().is_none_or(object)
            }
            Revision::V2026_07_28 => true,
        }
    }

    /// As it is shown in a listing.
    pub(crate) fn render(&self, revision: Revision) -> String {
        let tool = &self.tool;
        let since = |least| revision >= least;
        let execution =
            (revision == Revision::V2025_11_25).then(|| json!({ "taskSupport": tool.support }));
        Object::new()
            .put("name", &tool.name)
            .maybe("title", tool.title.as_ref().filter(|_| since(Revision::V2025_06_18)))
            .maybe("description", tool.description.as_ref())
            .put("inputSchema", &tool.input_schema)
            .maybe(
                "outputSchema",
                tool.output_schema.as_ref().filter(|_| self.shows_structure(revision)),
            )
            .maybe(
                "annotations",
                tool.annotations.as_ref().filter(|_| since(Revision::V2025_03_26)),
            )
            .maybe(
                "icons",
                Some(&tool.icons).filter(|icons| since(Revision::V2025_11_25) && !icons.is_empty()),
            )
            .maybe("execution", execution)
            .maybe(
                "_meta",
                Some(&tool.meta).filter(|meta| since(Revision::V2025_06_18) && !meta.is_empty()),
            )
            .close()
    }
}
