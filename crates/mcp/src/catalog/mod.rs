//! What a server offers: tools, prompts, resources. It can change while the server runs.

mod complete;
mod headers;
mod listing;
mod output;
mod prompt;
mod resource;
mod template;
mod tool;

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, PoisonError, RwLock},
};

pub(crate) use complete::CompleteFns;
pub use complete::Completing;
pub(crate) use headers::{HeaderParam, Kind as HeaderKind};
pub(crate) use listing::{Listed, page};
pub use output::{NoInput, Output, Structured};
pub(crate) use prompt::{PROMPT, PromptBody, PromptEntry};
pub use prompt::{Prompt, PromptArgument, PromptMessage, PromptOutput, PromptResult};
pub use resource::{Resource, ResourceOutput, Template};
pub(crate) use resource::{ResourceEntry, TemplateEntry};
pub(crate) use template::UriTemplate;
use tokio::sync::broadcast;
pub(crate) use tool::{Body, ToolEntry};
pub use tool::{TaskSupport, Tool, ToolAnnotations};

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Why something can't be offered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The name is taken.
    #[error("there are two {kind}s named {name:?}")]
    Twice {
        /// What they are.
        kind: &'static str,
        /// Their name.
        name: String,
    },
    /// A name is not one.
    #[error("{name:?} is no name of a {kind}: {rule}")]
    Name {
        /// What it would be.
        kind: &'static str,
        /// The name.
        name: String,
        /// What is allowed.
        rule: &'static str,
    },
    /// A schema is not valid.
    #[error("the schema of the tool {name:?} is not valid: {reason}")]
    Schema {
        /// Of which tool.
        name: String,
        /// Why.
        reason: String,
    },
    /// A URI template is not one that we can match.
    #[error("{0:?} is no URI template that can be matched: {1}")]
    Template(String, &'static str),
    /// The server's [`Auth`](crate::Auth) attaches credentials.
    #[error(
        "callers come with credentials, and there is no key to encrypt them with: give one with \
         --credential-key-file, or in code with Server::credential_key"
    )]
    NoCredentialKey,
}

/// Everything that is offered at one moment.
#[derive(Clone, Default)]
pub(crate) struct Offer {
    pub(crate) tools: Listed<ToolEntry>,
    pub(crate) prompts: Listed<PromptEntry>,
    pub(crate) resources: Listed<ResourceEntry>,
    pub(crate) templates: Listed<TemplateEntry>,
}

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Tools,
    Prompts,
    Resources,
    /// The content of the resource at this URI.
    Resource(String),
}

/// What is offered, and who wants to know of changes.
pub(crate) struct Catalog {
    /// Replaced whole: a request works with the one that it found.
    offer: RwLock<Arc<Offer>>,
    changes: broadcast::Sender<Change>,
}

impl Catalog {
    pub(crate) fn new(offer: Offer) -> Catalog {
        Catalog { offer: RwLock::new(Arc::new(offer)), changes: broadcast::channel(256).0 }
    }

    pub(crate) fn offer(&self) -> Arc<Offer> {
        self.offer.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the offer, unless the change turns out to be none.
    pub(crate) fn change<E>(
        &self,
        what: Change,
        change: impl FnOnce(&mut Offer) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let mut offer = self.offer.write().unwrap_or_else(PoisonError::into_inner);
        let changed = change(Arc::make_mut(&mut offer))?;
        drop(offer);
        if changed {
            self.tell(what);
        }
        Ok(changed)
    }

    /// Tells those who listen. Nobody may be there.
    pub(crate) fn tell(&self, change: Change) {
        let _ = self.changes.send(change);
    }

    pub(crate) fn listen(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }
}

/// Checks a value against a schema, and says in a sentence what is wrong.
pub(crate) fn check(schema: &serde_json::Value, value: &serde_json::Value) -> Result<(), String> {
    let validator = jsonschema::validator_for(schema).map_err(|error| error.to_string())?;
    check_with(&validator, value)
}

pub(crate) fn check_with(
    validator: &jsonschema::Validator,
    value: &serde_json::Value,
) -> Result<(), String> {
    if validator.is_valid(value) {
        return Ok(());
    }
    let mut wrong = Vec::new();
    for error in validator.iter_errors(value).take(5) {
        let at = error.instance_path().to_string();
        wrong.push(if at.is_empty() { error.to_string() } else { format!("{at}: {error}") });
    }
    Err(wrong.join("; "))
}

/// A name as the protocol wants names.
fn check_name(kind: &'static str, name: &str) -> Result<(), Unfit> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    if (1..=128).contains(&name.len()) && name.bytes().all(fits) {
        return Ok(());
    }
    let rule = "use 1 to 128 letters, digits, and _ - . /";
    Err(Unfit::Name { kind, name: name.chars().take(80).collect(), rule })
}
