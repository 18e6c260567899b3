//! What the database is asked, by its own count.

use tokio_postgres::{Client, NoTls};

use crate::Result;

pub(crate) struct Statements(Client);

impl Statements {
    pub(crate) async fn open(address: &str) -> Result<Statements> {
        let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements").await?;
        Ok(Statements(client))
    }

    /// Statements so far.
    pub(crate) async fn count(&self) -> Result<f64> {
        let sql = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements";
        Ok(self.0.query_one(sql, &[]).await?.try_get::<_, i64>(0)? as f64)
    }

    /// Lets the database do what it does by itself after a while.
    pub(crate) async fn tidy(&self) -> Result<()> {
        // Not in one go, which would be a transaction.
        for statement in ["VACUUM ANALYZE", "CHECKPOINT"] {
            self.0.batch_execute(statement).await?;
        }
        Ok(())
    }
}
