//! Brings what changes in a handler to a server that runs.

use std::sync::Arc;

use steadfast_mcp::{Running, Unfit};

use crate::{
    Adapted, Error,
    adapted::Choice,
    asked::Changes,
    link::Link,
    listing::{self, Listing},
    offer,
};

pub(crate) async fn follow(adapted: Adapted, running: Running) {
    let Adapted { link, listing, choice } = adapted;
    let news = link.news();
    let mut follower = Follower { link, choice, running, offered: listing };
    follower.subscribe(&[]).await;
    loop {
        let changes = tokio::select! {
            changes = news.take() => changes,
            () = follower.running.draining() => return,
        };
        if let Err(error) = follower.apply(changes).await {
            tracing::warn!(%error, "what an rmcp handler offers has changed, and can't be read");
            if follower.link.is_over() {
                return;
            }
        }
    }
}

struct Follower {
    link: Arc<Link>,
    choice: Choice,
    running: Running,
    /// What of the handler's is offered: nothing else is taken away again.
    offered: Listing,
}

impl Follower {
    async fn apply(&mut self, changes: Changes) -> Result<(), Error> {
        for uri in changes.updated {
            self.running.resource_updated(uri);
        }
        if changes.tools {
            let found = listing::tools(&self.link).await?;
            let Follower { link, choice, running, offered } = self;
            bring(
                &mut offered.tools,
                found,
                |tool| &tool.name,
                |name| running.remove_tool(name),
                |tool| running.add_tool(choice.tool(link, tool)),
            );
        }
        if changes.prompts {
            let found = listing::prompts(&self.link).await?;
            let Follower { link, running, offered, .. } = self;
            bring(
                &mut offered.prompts,
                found,
                |prompt| &prompt.name,
                |name| running.remove_prompt(name),
                |prompt| running.add_prompt(offer::prompt(link, prompt)),
            );
        }
        if changes.resources {
            let (resources, templates) = listing::resources(&self.link).await?;
            let Follower { link, running, offered, .. } = self;
            let before: Vec<String> = offered.resources.iter().map(|one| one.uri.clone()).collect();
            bring(
                &mut offered.resources,
                resources,
                |resource| &resource.uri,
                |uri| running.remove_resource(uri),
                |resource| running.add_resource(offer::resource(link, resource)),
            );
            bring(
                &mut offered.templates,
                templates,
                |template| &template.uri,
                |uri| running.remove_template(uri),
                |template| running.add_template(offer::template(link, template)),
            );
            self.subscribe(&before).await;
        }
        Ok(())
    }

    /// Asks to be told of new content of all resources but these: the handler does not know who of our
    /// clients wants to.
    async fn subscribe(&self, but: &[String]) {
        let can = self.link.capabilities().resources.and_then(|resources| resources.subscribe);
        if can != Some(true) {
            return;
        }
        for resource in self.offered.resources.iter().filter(|one| !but.contains(&one.uri)) {
            if let Err(error) = self.link.subscribe(&resource.uri).await {
                tracing::warn!(uri = resource.uri, %error, "an rmcp handler's resource can't be watched");
            }
        }
    }
}

/// Makes what is offered what was found, by as few changes as it takes. A thing that has changed goes and
/// comes again.
fn bring<T: PartialEq>(
    offered: &mut Vec<T>,
    found: Vec<T>,
    name: impl Fn(&T) -> &String,
    remove: impl Fn(&str) -> bool,
    add: impl Fn(&T) -> Result<(), Unfit>,
) {
    offered.retain(|old| {
        let stays = found.contains(old);
        if !stays {
            remove(name(old));
        }
        stays
    });
    for new in found {
        if offered.iter().any(|old| name(old) == name(&new)) {
            continue;
        }
        match add(&new) {
            Ok(()) => offered.push(new),
            Err(error) => {
                tracing::warn!(%error, "something of an rmcp handler can't be offered");
            }
        }
    }
}
