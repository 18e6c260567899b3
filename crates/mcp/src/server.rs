//! Putting a server together.

mod running;

use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};
use steadfast_engine::{ActivityContext, Builder};

pub use self::running::Running;
use self::running::principal;
use crate::{
    AnswerProgress, CredentialKey, Prompt, Resource, Template, Tool,
    ask::{Listener, ROOTS_CHANGED, counter},
    catalog::{
        Body, Catalog, Offer, PromptBody, PromptEntry, ReadBody, ResourceEntry, TemplateEntry,
        ToolEntry, Unfit,
    },
    front::{Front, Implementation},
    http::{Auth, Http},
    method::companions,
    secret::Keys,
    settings::Settings,
    wire::Icon,
};

/// Checks the names of what alone is to be taken up, if it is not all.
fn take_only(engine: &mut Builder) -> Result<(), Unfit> {
    let mut has = engine.registered();
    has.retain(|name| name != ROOTS_CHANGED);
    let Some(only) = &mut engine.settings_mut().only else { return Ok(()) };
    if let Some(name) = only.iter().find(|name| !has.contains(name)) {
        return Err(Unfit::Only { name: name.clone(), has });
    }
    // Our own, which nobody would think of naming, and whose tasks are over at once.
    only.insert(ROOTS_CHANGED.into());
    Ok(())
}

/// A server that is being put together.
#[derive(Default)]
pub struct Server {
    identity: Implementation,
    settings: Settings,
    auth: Auth,
    keys: Vec<CredentialKey>,
    tools: Vec<Tool>,
    prompts: Vec<Prompt>,
    resources: Vec<Resource>,
    templates: Vec<Template>,
    engine: Vec<Configure>,
    listener: Listener,
}

type Configure = Box<dyn FnOnce(Builder) -> Builder + Send>;

impl Server {
    /// A server of this name that offers nothing yet.
    pub fn new(name: impl Into<String>) -> Server {
        let identity = Implementation {
            name: name.into(),
            version: "0.0.0".into(),
            ..Implementation::default()
        };
        Server { identity, ..Server::default() }
    }

    /// Its version.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Server {
        self.identity.version = version.into();
        self
    }

    /// Its name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Server {
        self.identity.title = Some(title.into());
        self
    }

    /// Where to read about it.
    #[must_use]
    pub fn website(mut self, url: impl Into<String>) -> Server {
        self.identity.website = Some(url.into());
        self
    }

    /// A picture for user interfaces.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Server {
        self.identity.icons.push(icon);
        self
    }

    /// What a model should know to use it well.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<String>) -> Server {
        self.identity.instructions = Some(text.into());
        self
    }

    /// Offers a tool.
    #[must_use]
    pub fn tool(mut self, tool: impl Into<Tool>) -> Server {
        self.tools.push(tool.into());
        self
    }

    /// Offers a prompt.
    #[must_use]
    pub fn prompt(mut self, prompt: impl Into<Prompt>) -> Server {
        self.prompts.push(prompt.into());
        self
    }

    /// Offers a resource.
    #[must_use]
    pub fn resource(mut self, resource: impl Into<Resource>) -> Server {
        self.resources.push(resource.into());
        self
    }

    /// Offers resources by a pattern of their URIs.
    #[must_use]
    pub fn template(mut self, template: impl Into<Template>) -> Server {
        self.templates.push(template.into());
        self
    }

    /// Registers a function that tasks can call as an activity or name as an undo.
    #[must_use]
    pub fn activity<I, O, F, Fut>(self, name: impl Into<String>, function: F) -> Server
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize,
        F: Fn(ActivityContext, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = steadfast_engine::Result<O>> + Send + 'static,
    {
        let name = name.into();
        self.engine(move |builder| builder.activity(name, function))
    }

    /// Changes how the engine is built: its settings, tools that no client sees.
    #[must_use]
    pub fn engine(mut self, change: impl FnOnce(Builder) -> Builder + Send + 'static) -> Server {
        self.engine.push(Box::new(change));
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.identity.name
    }

    /// Whether callers over HTTP are told apart.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.auth.is_anonymous()
    }

    /// Sets limits and times.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Server {
        self.settings = settings;
        self
    }

    /// How callers over HTTP are known. All are one anonymous principal unless it is set.
    #[must_use]
    pub fn auth(mut self, auth: Auth) -> Server {
        self.auth = auth;
        self
    }

    /// A key that callers' [credentials](crate::Identity::credential) are encrypted with before they are stored.
    /// Keep it out of the store, and out of its backups.
    ///
    /// The first encrypts, all decrypt: to change it, put the new one before the old, and take the old
    /// one away when all calls that began under it are gone.
    #[must_use]
    pub fn credential_key(mut self, key: CredentialKey) -> Server {
        self.keys.push(key);
        self
    }

    /// Sets all such keys.
    #[must_use]
    pub fn credential_keys(mut self, keys: impl IntoIterator<Item = CredentialKey>) -> Server {
        self.keys = keys.into_iter().collect();
        self
    }

    /// The settings as they are now.
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// Hears how far clients are with what tasks ask them: `sampling/createMessage` and
    /// `elicitation/create` as live requests, up to 2025-11-25. Only then are clients asked to say so
    /// (`progressToken`). It is called in the process that the client speaks to, while the question is
    /// open; nothing of it is recorded, and a replay does not hear it again. It must return soon.
    ///
    /// ```
    /// # use steadfast_mcp::{AnswerProgress, Server};
    /// let server = Server::new("orders").on_answer_progress(|said: AnswerProgress| {
    ///     println!("{} of {}: {:?}", said.key, said.task, said.progress);
    /// });
    /// ```
    #[must_use]
    pub fn on_answer_progress(
        mut self,
        function: impl Fn(AnswerProgress) + Send + Sync + 'static,
    ) -> Server {
        self.listener = Listener::new(function);
        self
    }

    /// Starts it on an engine that is about to start.
    pub fn start(self, mut engine: Builder) -> Result<Running, Unfit> {
        let keys = Keys::new(self.keys);
        if self.auth.attaches() && keys.is_empty() {
            return Err(Unfit::NoCredentialKey);
        }
        engine = engine.attach(keys.clone()).tool(counter());
        for change in self.engine {
            engine = change(engine);
        }
        let mut offer = Offer::default();
        let companions = if self.settings.companions { companions() } else { Vec::new() };
        for tool in self.tools.into_iter().chain(companions) {
            let (name, entry) = (tool.name.clone(), ToolEntry::new(tool)?);
            if let Body::Durable(tool) = &entry.tool.body {
                engine = engine.tool(steadfast_engine::Tool::clone(tool));
            }
            offer.tools.add("tool", &name, entry)?;
        }
        for prompt in self.prompts {
            let (name, entry) = (prompt.name.clone(), PromptEntry::new(prompt)?);
            if let PromptBody::Durable(tool) = &entry.prompt.body {
                engine = engine.tool(steadfast_engine::Tool::clone(tool));
            }
            offer.prompts.add("prompt", &name, entry)?;
        }
        for resource in self.resources {
            let entry = ResourceEntry::new(resource)?;
            let uri = entry.uri().to_owned();
            if let ReadBody::Durable(tool) = entry.body() {
                engine = engine.tool(steadfast_engine::Tool::clone(tool));
            }
            offer.resources.add("resource", &uri, entry)?;
        }
        for template in self.templates {
            let uri = template.uri_template.clone();
            if let ReadBody::Durable(tool) = &template.body {
                engine = engine.tool(steadfast_engine::Tool::clone(tool));
            }
            offer.templates.add("template", &uri, TemplateEntry::new(template)?)?;
        }
        // A session is over some time after it was idle for too long.
        engine = engine.notice_life(self.settings.session_idle * 2);
        // Before the engine takes up anything.
        take_only(&mut engine)?;
        let (catalog, changes) = Catalog::new(offer);
        let front = Front::new(
            self.identity,
            self.settings,
            Arc::new(catalog),
            engine.start(),
            keys,
            principal("anonymous"),
            self.listener,
        );
        let posted = front.clone();
        front.background.spawn(async move {
            tokio::select! {
                () = posted.notices.keep(changes) => {}
                () = posted.draining.cancelled() => {}
            }
        });
        let tended = front.clone();
        front.background.spawn(async move {
            tokio::select! {
                () = tended.sessions.tend() => {}
                () = tended.draining.cancelled() => {}
            }
        });
        let kept = front.clone();
        front.background.spawn(async move {
            tokio::select! {
                () = kept.freed.keep(&kept.engine) => {}
                () = kept.draining.cancelled() => {}
            }
        });
        Ok(Running {
            http: Arc::new(Http { front, auth: self.auth, connections: Default::default() }),
        })
    }
}
