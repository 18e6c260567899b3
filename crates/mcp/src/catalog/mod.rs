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
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

pub(crate) use complete::CompleteFns;
pub use complete::Completing;
pub(crate) use headers::{HeaderParam, Kind as HeaderKind};
pub(crate) use listing::{Listed, page};
pub use output::{NoInput, Output, Structured};
pub(crate) use prompt::{PROMPT, PromptBody, PromptEntry};
pub use prompt::{Prompt, PromptArgument, PromptMessage, PromptOutput, PromptResult};
pub(crate) use resource::{RESOURCE, ReadBody, Reading, ResourceEntry, TemplateEntry, read_plain};
pub use resource::{Resource, ResourceOutput, Template};
use serde::{Deserialize, Serialize};
use steadfast_core::Json;
pub(crate) use template::UriTemplate;
use tokio::sync::mpsc;
pub(crate) use tool::{Body, ToolEntry};
pub use tool::{TaskSupport, Tool, ToolAnnotations};

use crate::{
    repeat::digest,
    wire::{Object, Revision, notification},
};

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
    /// The engine is to take up work of something that is not there.
    #[error("there is no tool or activity {name:?} to take up work of; there are {}", has.join(", "))]
    Only {
        /// What is wanted.
        name: String,
        /// What is there.
        has: Vec<String>,
    },
}

/// Everything that is offered at one moment.
#[derive(Clone, Default)]
pub(crate) struct Offer {
    pub(crate) tools: Listed<ToolEntry>,
    pub(crate) prompts: Listed<PromptEntry>,
    pub(crate) resources: Listed<ResourceEntry>,
    pub(crate) templates: Listed<TemplateEntry>,
    /// What tells it from others, once somebody wants to know.
    prints: OnceLock<[u64; 3]>,
}

impl Offer {
    /// What tells its tools, prompts and resources from those of another offer.
    pub(crate) fn prints(&self) -> [u64; 3] {
        let newest = Revision::V2026_07_28;
        let join = |texts: Vec<String>| digest(&texts.join("\n"));
        *self.prints.get_or_init(|| {
            let resources = self.resources.items().iter().map(|one| one.render(newest));
            let templates = self.templates.items().iter().map(|one| one.render(newest));
            [
                join(self.tools.items().iter().map(|one| one.render(newest)).collect()),
                join(self.prompts.items().iter().map(|one| one.render(newest)).collect()),
                join(resources.chain(templates).collect()),
            ]
        })
    }
}

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    Tools,
    Prompts,
    Resources,
    /// The content of the resource at this URI.
    Resource(String),
    /// Something that only a later version knows of.
    #[serde(skip)]
    Other,
}

impl Change {
    /// What a notice says.
    pub(crate) fn read(notice: &Json) -> Change {
        notice.read().unwrap_or(Change::Other)
    }

    /// How a client is told of it.
    pub(crate) fn message(&self) -> Option<String> {
        Some(match self {
            Change::Tools => notification("notifications/tools/list_changed", None),
            Change::Prompts => notification("notifications/prompts/list_changed", None),
            Change::Resources => notification("notifications/resources/list_changed", None),
            Change::Resource(uri) => {
                let params = Object::new().put("uri", uri).close();
                notification("notifications/resources/updated", Some(&params))
            }
            Change::Other => return None,
        })
    }
}

/// What is offered, and who wants to know of changes.
pub(crate) struct Catalog {
    /// Replaced whole: a request works with the one that it found.
    offer: RwLock<Arc<Offer>>,
    changes: mpsc::UnboundedSender<Change>,
}

impl Catalog {
    /// With what is to be told of it.
    pub(crate) fn new(offer: Offer) -> (Catalog, mpsc::UnboundedReceiver<Change>) {
        let (changes, told) = mpsc::unbounded_channel();
        (Catalog { offer: RwLock::new(Arc::new(offer)), changes }, told)
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
        let changing = Arc::make_mut(&mut offer);
        let changed = change(changing)?;
        changing.prints = OnceLock::new();
        drop(offer);
        if changed {
            self.tell(what);
        }
        Ok(changed)
    }

    /// Tells all clients.
    pub(crate) fn tell(&self, change: Change) {
        // Who would is gone only when the server is.
        let _ = self.changes.send(change);
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
