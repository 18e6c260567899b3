//! A handler that is adapted: choosing, and adding to a server.

use std::sync::Arc;

use rmcp::{RoleServer, Service};
use steadfast_mcp::{Running, Server, Tool};

use crate::{Error, ToolInfo, follow, link::Link, listing::Listing, offer};

/// Connects to a handler and lists what it offers. Takes every [`ServerHandler`](rmcp::ServerHandler).
///
/// What a handler does not claim in its capabilities it is not asked for. Needs a Tokio runtime.
pub async fn adapt<S: Service<RoleServer>>(handler: S) -> Result<Adapted, Error> {
    let link = Arc::new(Link::open(handler).await?);
    let listing = Listing::of(&link).await?;
    Ok(Adapted { link, listing, choice: Choice::default() })
}

/// A handler, connected, and what it offers.
pub struct Adapted {
    pub(crate) link: Arc<Link>,
    pub(crate) listing: Listing,
    pub(crate) choice: Choice,
}

/// Which tools are durable, also of those that come later.
#[derive(Default)]
pub(crate) struct Choice(Vec<Wants>);

type Wants = Box<dyn Fn(&ToolInfo) -> bool + Send + Sync>;

impl Choice {
    pub(crate) fn tool(&self, link: &Arc<Link>, info: &ToolInfo) -> Tool {
        offer::tool(link, info, self.0.iter().any(|wants| wants(info)))
    }
}

impl Adapted {
    /// Makes the tool of this name durable. It must be there.
    pub fn durable(self, name: &str) -> Result<Adapted, Error> {
        if !self.listing.tools.iter().any(|tool| tool.name == name) {
            return Err(Error::NoTool(name.into()));
        }
        let name = name.to_owned();
        Ok(self.durable_where(move |tool| tool.name == name))
    }

    /// Makes those tools durable of which this is true, besides those that are already.
    #[must_use]
    pub fn durable_where(
        mut self,
        wants: impl Fn(&ToolInfo) -> bool + Send + Sync + 'static,
    ) -> Adapted {
        self.choice.0.push(Box::new(wants));
        self
    }

    /// The tools of the handler.
    #[must_use]
    pub fn tools(&self) -> &[ToolInfo] {
        &self.listing.tools
    }

    /// What the handler says that a model should know to use it well, for
    /// [`Server::instructions`]: the server may have more to say.
    #[must_use]
    pub fn instructions(&self) -> Option<String> {
        self.link.instructions()
    }

    /// Adds everything that the handler offers to a server.
    #[must_use]
    pub fn add_to(&self, mut server: Server) -> Server {
        let (link, listing) = (&self.link, &self.listing);
        for info in &listing.tools {
            server = server.tool(self.choice.tool(link, info));
        }
        for info in &listing.prompts {
            server = server.prompt(offer::prompt(link, info));
        }
        for info in &listing.resources {
            server = server.resource(offer::resource(link, info));
        }
        for info in &listing.templates {
            server = server.template(offer::template(link, info));
        }
        server
    }

    /// Brings what changes in the handler to the server that it was [added to](Adapted::add_to), until
    /// the server shuts down: tools, prompts and resources that come, go and change, and resources with
    /// new content. No change is lost that the handler told of since [`adapt`].
    ///
    /// What can't be offered, for example because its name is taken, is left out with a warning in the
    /// log. What has changed goes and comes again, so that for a moment it is not there.
    pub fn follow(self, running: &Running) {
        tokio::spawn(follow::follow(self, running.clone()));
    }
}

impl std::fmt::Debug for Adapted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Adapted").field("listing", &self.listing).finish_non_exhaustive()
    }
}
