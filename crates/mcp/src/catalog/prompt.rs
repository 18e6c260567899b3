//! Prompts.

use std::{collections::BTreeMap, future::Future, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use steadfast_core::Json;
use steadfast_engine::{Error, Result};

use super::{BoxFuture, CompleteFns, Completing, Unfit, check_name};
use crate::{
    Context,
    wire::{Content, Icon, Object, Revision, Role},
};

/// A line of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptMessage {
    /// Who says it.
    pub role: Role,
    /// What.
    pub content: Content,
}

impl PromptMessage {
    /// Something that the user says.
    pub fn user(content: impl Into<Content>) -> PromptMessage {
        PromptMessage { role: Role::User, content: content.into() }
    }

    /// Something that the model says.
    pub fn assistant(content: impl Into<Content>) -> PromptMessage {
        PromptMessage { role: Role::Assistant, content: content.into() }
    }
}

/// What a prompt turns into.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PromptResult {
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its lines.
    pub messages: Vec<PromptMessage>,
    /// Anything else.
    #[serde(rename = "_meta", default, skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
}

/// What a prompt's function can return.
#[diagnostic::on_unimplemented(
    message = "a prompt can't return `{Self}`",
    note = "return text, a `PromptMessage`, several of them, or a `PromptResult`"
)]
pub trait PromptOutput: Send + 'static {
    /// The prompt for the client.
    fn into_prompt(self) -> PromptResult;
}

impl PromptOutput for PromptResult {
    fn into_prompt(self) -> PromptResult {
        self
    }
}

impl PromptOutput for Vec<PromptMessage> {
    fn into_prompt(self) -> PromptResult {
        PromptResult { messages: self, ..PromptResult::default() }
    }
}

impl PromptOutput for PromptMessage {
    fn into_prompt(self) -> PromptResult {
        vec![self].into_prompt()
    }
}

impl PromptOutput for String {
    fn into_prompt(self) -> PromptResult {
        PromptMessage::user(self).into_prompt()
    }
}

impl PromptOutput for &'static str {
    fn into_prompt(self) -> PromptResult {
        PromptMessage::user(self).into_prompt()
    }
}

type PromptFn = Arc<dyn Fn(Json) -> BoxFuture<Result<PromptResult>> + Send + Sync>;

#[derive(Clone)]
pub(crate) enum PromptBody {
    Plain(PromptFn),
    Durable(Box<steadfast_engine::Tool>),
}

/// What a prompt takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it must be given.
    pub required: bool,
}

/// A prompt that users can choose.
#[derive(Clone)]
pub struct Prompt {
    pub(crate) name: String,
    title: Option<String>,
    description: Option<String>,
    arguments: Vec<PromptArgument>,
    icons: Vec<Icon>,
    meta: Map<String, Value>,
    pub(crate) completions: CompleteFns,
    pub(crate) body: PromptBody,
}

impl Prompt {
    /// A prompt from a function of its arguments: a struct of texts, or [`NoInput`](crate::NoInput).
    pub fn new<A, O, F, Fut>(name: impl Into<String>, function: F) -> Prompt
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: PromptOutput,
        F: Fn(A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O>> + Send + 'static,
    {
        let function = Arc::new(function);
        let run: PromptFn = Arc::new(move |arguments| {
            let function = function.clone();
            Box::pin(async move { Ok(function(read(&arguments)?).await?.into_prompt()) })
        });
        Prompt::with_body::<A>(name.into(), PromptBody::Plain(run))
    }

    /// A durable prompt: its function has a [`Context`], and can ask.
    pub fn durable<A, O, F, Fut>(name: impl Into<String>, function: F) -> Prompt
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: PromptOutput,
        F: Fn(Context, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O>> + Send + 'static,
    {
        let (name, function) = (name.into(), Arc::new(function));
        let run = move |ctx: steadfast_engine::Context, arguments: Json| {
            let function = function.clone();
            async move {
                let output = function(Context::new(ctx), read(&arguments)?).await?;
                Ok(output.into_prompt())
            }
        };
        let tool = steadfast_engine::Tool::new(engine_name(&name), run);
        Prompt::with_body::<A>(name, PromptBody::Durable(Box::new(tool)))
    }

    fn with_body<A: JsonSchema>(name: String, body: PromptBody) -> Prompt {
        let (title, description) = (None, None);
        let arguments = arguments(&schemars::schema_for!(A).to_value());
        let (icons, completions) = (Vec::new(), CompleteFns::default());
        let meta = Map::new();
        Prompt { name, title, description, arguments, icons, meta, completions, body }
    }

    /// A name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Prompt {
        self.title = Some(title.into());
        self
    }

    /// What it is for.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Prompt {
        self.description = Some(description.into());
        self
    }

    /// A picture for user interfaces.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Prompt {
        self.icons.push(icon);
        self
    }

    /// Arguments other than those of the arguments' type.
    #[must_use]
    pub fn arguments(mut self, arguments: impl IntoIterator<Item = PromptArgument>) -> Prompt {
        self.arguments = arguments.into_iter().collect();
        self
    }

    /// Something for programs, in the `_meta` of the prompt.
    #[must_use]
    pub fn meta(mut self, name: impl Into<String>, value: Value) -> Prompt {
        self.meta.insert(name.into(), value);
        self
    }

    /// What an argument can be completed to.
    #[must_use]
    pub fn complete<F, Fut>(mut self, argument: impl Into<String>, complete: F) -> Prompt
    where
        F: Fn(Completing) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<String>>> + Send + 'static,
    {
        self.completions.add(argument, complete);
        self
    }
}

/// What the engine calls a prompt begins with this: no tool can be named so.
pub(crate) const PROMPT: &str = "prompt:";

fn engine_name(prompt: &str) -> String {
    format!("{PROMPT}{prompt}")
}

fn read<A: DeserializeOwned>(arguments: &Json) -> Result<A> {
    arguments.read().map_err(|error| Error::new(format!("the arguments can't be read: {error}")))
}

fn arguments(schema: &Value) -> Vec<PromptArgument> {
    let text =
        |field: &Value, name: &str| field.get(name).and_then(Value::as_str).map(str::to_owned);
    let required = schema.get("required").and_then(Value::as_array);
    let needs = |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
    let fields = schema.get("properties").and_then(Value::as_object);
    let argument = |(name, field): (&String, &Value)| PromptArgument {
        name: name.clone(),
        title: text(field, "title"),
        description: text(field, "description"),
        required: needs(name),
    };
    fields.into_iter().flatten().map(argument).collect()
}

/// A prompt that is offered.
pub(crate) struct PromptEntry {
    pub(crate) prompt: Prompt,
}

impl PromptEntry {
    pub(crate) fn new(prompt: Prompt) -> Result<PromptEntry, Unfit> {
        check_name("prompt", &prompt.name)?;
        Ok(PromptEntry { prompt })
    }

    /// What is wrong with the arguments, if anything is.
    pub(crate) fn check(&self, given: &BTreeMap<String, String>) -> Result<(), String> {
        let missing =
            |argument: &&PromptArgument| argument.required && !given.contains_key(&argument.name);
        match self.prompt.arguments.iter().find(missing) {
            Some(argument) => Err(format!("the argument {:?} is missing", argument.name)),
            None => Ok(()),
        }
    }

    /// As it is shown in a listing.
    pub(crate) fn render(&self, revision: Revision) -> String {
        let prompt = &self.prompt;
        let mut arguments = prompt.arguments.clone();
        if revision < Revision::V2025_06_18 {
            arguments.iter_mut().for_each(|argument| argument.title = None);
        }
        Object::new()
            .put("name", &prompt.name)
            .maybe("title", prompt.title.as_ref().filter(|_| revision >= Revision::V2025_06_18))
            .maybe("description", prompt.description.as_ref())
            .maybe("arguments", Some(arguments).filter(|arguments| !arguments.is_empty()))
            .maybe(
                "icons",
                Some(&prompt.icons)
                    .filter(|icons| revision >= Revision::V2025_11_25 && !icons.is_empty()),
            )
            .maybe(
                "_meta",
                Some(&prompt.meta)
                    .filter(|meta| revision >= Revision::V2025_06_18 && !meta.is_empty()),
            )
            .close()
    }
}
