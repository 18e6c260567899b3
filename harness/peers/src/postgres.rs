//! A peer's place on a server.

use std::future::Future;

use sqlx::{Connection, Executor, PgConnection, Row};

use crate::Result;

/// A schema for one peer, empty at the beginning and gone at the end.
///
/// Not a database: our own store is a schema of the same database, and to drop a database makes the
/// server write a checkpoint, which whoever is measured next would pay for.
pub(crate) struct Place<'a> {
    pub(crate) url: &'a str,
    pub(crate) schema: &'a str,
}

impl Place<'_> {
    /// Lets a peer be measured there. It makes the schema itself.
    pub(crate) async fn measure<F, Fut>(self, peer: F) -> Result<f64>
    where
        F: FnOnce(Self) -> Fut,
        Fut: Future<Output = Result<f64>>,
    {
        let mut server = PgConnection::connect(self.url).await?;
        let drop = format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema);
        // A run that was killed has left it.
        server.execute(drop.as_str()).await?;
        let rate = peer(self).await;
        let dropped = server.execute(drop.as_str()).await;
        let rate = rate?;
        dropped?;
        Ok(rate)
    }
}

/// What commits survive there. No peer changes it for its own connections.
pub(crate) async fn durability(url: &str) -> Result<String> {
    let mut server = PgConnection::connect(url).await?;
    let settings = "SELECT current_setting('fsync'), current_setting('synchronous_commit')";
    let row = server.fetch_one(settings).await?;
    Ok(format!("fsync={}, synchronous_commit={}", row.get::<&str, _>(0), row.get::<&str, _>(1)))
}
