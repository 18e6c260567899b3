//! That the directories of a client are others now.
//!
//! How often a client has said so is state of its session: so a task that waits for it takes no memory,
//! hears of it in any process, and finds after a restart what it had not heard before.

use steadfast_core::Scope;
use steadfast_engine::{Error, Result, Tool};

use super::NO_CAPABLE_CLIENT;
use crate::Context;

/// What counts it: a task of no principal, since only tasks write state.
pub(crate) const ROOTS_CHANGED: &str = "roots:changed";

/// Where it is counted.
const KEY: &str = "mcp.roots_changed";

pub(crate) fn counter() -> Tool {
    Tool::new(ROOTS_CHANGED, |ctx: steadfast_engine::Context, ()| async move {
        let add = |times: Option<u64>| times.unwrap_or(0) + 1;
        ctx.state(Scope::Session).update(KEY, add).await.map(drop)
    })
}

/// The directories of a client, watched.
#[derive(Debug)]
pub struct RootsWatch {
    ctx: Context,
    /// Changes of which the author knows.
    seen: u64,
}

impl Context {
    /// Watches the directories that the client works in, from now on. Ask for them after this, and no
    /// change is missed:
    ///
    /// ```
    /// # use steadfast_engine::Result;
    /// # async fn tool(ctx: steadfast_mcp::Context) -> Result<()> {
    /// let mut watch = ctx.watch_roots().await?;
    /// loop {
    ///     let roots = ctx.roots().await?;
    ///     // ... and when they are others:
    ///     watch.changed().await?;
    /// }
    /// # }
    /// ```
    ///
    /// If the client can't say that they changed (it has no `roots.listChanged`, or speaks 2026-07-28,
    /// which has no such thing), it is an error with the code `no_capable_client`.
    pub async fn watch_roots(&self) -> Result<RootsWatch> {
        if !self.call.capabilities.has(&["roots", "listChanged"]) {
            let message = "the client can't say that its roots changed: it has not declared \
                           roots.listChanged";
            return Err(Error::new(message).code(NO_CAPABLE_CLIENT).permanent());
        }
        let seen = self.engine.state(Scope::Session).get(KEY).await?;
        Ok(RootsWatch { ctx: self.clone(), seen: seen.unwrap_or(0) })
    }
}

impl RootsWatch {
    /// Waits until the client has said that they are others than when this was last heard. Several changes
    /// may be heard of as one. The wait takes no memory, and may take a restart.
    pub async fn changed(&mut self) -> Result<()> {
        let seen = self.seen;
        let more = |times: Option<&u64>| times.is_some_and(|times| *times > seen);
        let times = self.ctx.engine.state(Scope::Session).wait_until(KEY, more).await?;
        self.seen = times.unwrap_or(seen);
        Ok(())
    }
}
