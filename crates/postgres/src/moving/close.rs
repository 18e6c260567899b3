//! Closing a store whose tasks go on elsewhere.

use steadfast_store::moving::{Error, Result};

use super::{Link, company, failed, wait_for_the_dead};
use crate::{
    Options,
    schema::{self, MOVED},
};

impl Options {
    /// Closes the store, unless it is closed already. Whether it did.
    ///
    /// In this order: it is closed, then desks are looked for. A process that opens it takes a desk first and
    /// looks whether it is closed then, so that one of the two sees the other.
    pub(super) async fn close(&self, link: &Link, to: &str) -> Result<bool> {
        link.begin("BEGIN READ ONLY").await?;
        wait_for_the_dead(&link.client).await?;
        link.run("COMMIT").await?;
        let done = self.try_close(link, to).await;
        if done.is_err() {
            let _ = link.run("ROLLBACK").await;
        }
        let closed = done?;
        link.begin("BEGIN READ ONLY").await?;
        let by = company(&link.client).await?;
        link.run("COMMIT").await?;
        match by {
            None => Ok(closed),
            Some(by) => {
                if closed {
                    open_again(link).await?;
                }
                Err(Error::export_in_use(self.name(), by))
            }
        }
    }

    async fn try_close(&self, link: &Link, to: &str) -> Result<bool> {
        link.begin("BEGIN").await?;
        // Who writes in the name of a desk that is dead by now has begun to before, and ends before this.
        link.client.query("SELECT FROM desk FOR UPDATE", &[]).await.map_err(failed)?;
        if let Some(by) = company(&link.client).await? {
            return Err(Error::export_in_use(self.name(), by));
        }
        if schema::moved(&link.client, self).await.map_err(failed)?.is_some() {
            link.run("COMMIT").await?;
            return Ok(false);
        }
        link.run("CREATE TABLE moved (place text NOT NULL, at text NOT NULL)").await?;
        let sql = "INSERT INTO moved
                   VALUES ($1, to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS \"UTC\"'))";
        link.client.execute(sql, &[&to]).await.map_err(failed)?;
        let sql = format!("INSERT INTO schema_version VALUES ({MOVED}, {MOVED}); COMMIT");
        link.run(&sql).await?;
        Ok(true)
    }
}

/// Takes that back. Whether there was something to take back.
pub(super) async fn open_again(link: &Link) -> Result<bool> {
    link.begin("BEGIN").await?;
    let sql = format!("DELETE FROM schema_version WHERE version >= {MOVED}");
    let gone = link.client.execute(&sql, &[]).await.map_err(failed)?;
    link.run("DROP TABLE IF EXISTS moved; COMMIT").await?;
    Ok(gone > 0)
}
