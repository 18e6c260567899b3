//! A server that runs, until it is shut down.

use std::{io, sync::Arc, time::Duration};

use axum::Router;
use steadfast_core::Principal;
use steadfast_engine::Engine;

use crate::{
    Identity, Prompt, Resource, Template, Tool,
    catalog::{
        Body, Change, Offer, PromptBody, PromptEntry, ReadBody, ResourceEntry, TemplateEntry,
        ToolEntry, Unfit,
    },
    front::Front,
    http::{self, Http},
    stdio,
};

/// A server that runs.
#[derive(Clone)]
pub struct Running {
    pub(super) http: Arc<Http>,
}

impl Running {
    fn front(&self) -> &Arc<Front> {
        &self.http.front
    }

    /// Serves HTTP on this listener, with `/health` and `/ready` beside the endpoint at `/mcp`. When `stop`
    /// ends no more connections are taken, and it goes on until those that there are have their responses;
    /// to end streams then, [drain](Running::drain) it.
    pub async fn serve(
        &self,
        listener: tokio::net::TcpListener,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        http::serve(listener, self.router(), &self.front().settings, stop).await
    }

    /// The MCP endpoint at `/mcp`, with `/health` and `/ready` beside it, to be put into an app of yours.
    ///
    /// Serve it with TCP_NODELAY: `axum::serve(listener.tap_io(|tcp| { tcp.set_nodelay(true).ok(); }), …)`.
    /// Without it each event of a stream may wait 40 ms.
    pub fn router(&self) -> Router {
        http::router(self.http.clone(), "/mcp")
    }

    /// Serves one client over standard input and output, until its input ends. Its principal is the
    /// user that the process runs as.
    pub async fn serve_stdio(&self) -> io::Result<()> {
        let user =
            ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(|name| std::env::var(name).ok());
        let principal = principal(&format!("user:{}", user.unwrap_or_else(|| "unknown".into())));
        self.serve_io(principal, tokio::io::stdin(), tokio::io::stdout()).await
    }

    /// The same over any pair of byte streams, such as a Unix socket. The caller is a principal, or one
    /// with claims.
    pub async fn serve_io(
        &self,
        caller: impl Into<Identity>,
        input: impl tokio::io::AsyncRead + Unpin,
        output: impl tokio::io::AsyncWrite + Unpin + Send + 'static,
    ) -> io::Result<()> {
        stdio::serve(self.front().clone(), caller.into(), input, output).await
    }

    /// The engine, to start and steer tasks from Rust.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.front().engine
    }

    /// Offers one more tool.
    pub fn add_tool(&self, tool: impl Into<Tool>) -> Result<(), Unfit> {
        let entry = ToolEntry::new(tool.into())?;
        let (name, body) = (entry.tool.name.clone(), entry.tool.body.clone());
        let add = |offer: &mut Offer| {
            offer.tools.add("tool", &name, entry)?;
            // It can be run before anybody sees it.
            if let Body::Durable(tool) = body {
                self.engine().add_tool(*tool);
            }
            Ok(true)
        };
        self.front().catalog.change(Change::Tools, add).map(drop)
    }

    /// Offers a tool no more, to whoever calls from now on. Its tasks go on. Whether it was there.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.remove(Change::Tools, |offer| offer.tools.remove(name))
    }

    /// Offers one more prompt.
    pub fn add_prompt(&self, prompt: impl Into<Prompt>) -> Result<(), Unfit> {
        let entry = PromptEntry::new(prompt.into())?;
        let (name, body) = (entry.prompt.name.clone(), entry.prompt.body.clone());
        let add = |offer: &mut Offer| {
            offer.prompts.add("prompt", &name, entry)?;
            if let PromptBody::Durable(tool) = body {
                self.engine().add_tool(*tool);
            }
            Ok(true)
        };
        self.front().catalog.change(Change::Prompts, add).map(drop)
    }

    /// Offers a prompt no more. Whether it was there.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.remove(Change::Prompts, |offer| offer.prompts.remove(name))
    }

    /// Offers one more resource.
    pub fn add_resource(&self, resource: impl Into<Resource>) -> Result<(), Unfit> {
        let entry = ResourceEntry::new(resource.into())?;
        let (uri, body) = (entry.uri().to_owned(), entry.body().clone());
        let add = |offer: &mut Offer| {
            offer.resources.add("resource", &uri, entry)?;
            self.serve_reading(body);
            Ok(true)
        };
        self.front().catalog.change(Change::Resources, add).map(drop)
    }

    /// Offers a resource no more. Whether it was there.
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.remove(Change::Resources, |offer| offer.resources.remove(uri))
    }

    /// Offers one more template of resources.
    pub fn add_template(&self, template: impl Into<Template>) -> Result<(), Unfit> {
        let template = template.into();
        let (uri, body) = (template.uri_template.clone(), template.body.clone());
        let entry = TemplateEntry::new(template)?;
        let add = |offer: &mut Offer| {
            offer.templates.add("template", &uri, entry)?;
            self.serve_reading(body);
            Ok(true)
        };
        self.front().catalog.change(Change::Resources, add).map(drop)
    }

    /// What reads a resource can be run before anybody sees it.
    fn serve_reading(&self, body: ReadBody) {
        if let ReadBody::Durable(tool) = body {
            self.engine().add_tool(*tool);
        }
    }

    /// Offers a template no more. Whether it was there.
    pub fn remove_template(&self, uri_template: &str) -> bool {
        self.remove(Change::Resources, |offer| offer.templates.remove(uri_template))
    }

    fn remove(&self, what: Change, remove: impl FnOnce(&mut Offer) -> bool) -> bool {
        let removed = self.front().catalog.change(what, |offer| Ok::<_, Unfit>(remove(offer)));
        removed.unwrap_or(false)
    }

    /// Tells those who watch it that the content of a resource has changed.
    pub fn resource_updated(&self, uri: impl Into<String>) {
        self.front().catalog.tell(Change::Resource(uri.into()));
    }

    /// Begins to shut down: no new requests, and streams end as their revision has it.
    pub fn drain(&self) {
        self.front().draining.cancel();
    }

    /// Ends when the server begins to shut down.
    pub async fn draining(&self) {
        self.front().draining.cancelled().await;
    }

    /// Shuts down: no new requests, streams end as their revision has it, calls in flight are given
    /// until the deadline, and tasks go on at the next start.
    pub async fn shutdown(&self, deadline: Duration) {
        let front = self.front();
        front.draining.cancel();
        front.background.close();
        let _ = tokio::time::timeout(deadline, front.background.wait()).await;
        if let Err(error) = front.freed.flush(&front.engine).await {
            // Who uses such an id again is taken for the same request, until its task is removed.
            tracing::warn!(%error, "can't write down that answers were sent");
        }
        front.engine.shutdown(deadline).await;
    }
}

/// The principal of this name, as far as it can be one.
pub(super) fn principal(name: &str) -> Principal {
    let visible: String = name.chars().filter(char::is_ascii_graphic).take(200).collect();
    // A name of visible characters always is one.
    #[allow(clippy::expect_used)]
    let fallback = || Principal::new("somebody").expect("a name");
    Principal::new(visible).unwrap_or_else(|_| fallback())
}
