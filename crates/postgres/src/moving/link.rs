//! The one connection of a move.

use steadfast_store::moving::{Error, Result};
use tokio_postgres::Client;

use super::failed;
use crate::{
    OpenError, Options,
    address::Address,
    conn::{STAY, take_time},
    schema,
    schema::quoted,
};

pub(super) struct Link {
    pub(super) client: Client,
    schema: String,
}

impl Link {
    pub(super) async fn open(options: &Options) -> Result<Link> {
        let open = async || {
            let (client, _) = Address::parse(options)?.connect().await?;
            schema::check_server(&client).await?;
            let settings = format!("{STAY}; {}", take_time(false));
            client.batch_execute(&settings).await.map_err(|e| OpenError::failed(&e))?;
            Ok(client)
        };
        let opened: std::result::Result<Client, OpenError> = open().await;
        let client = opened.map_err(|error| Error::Store(error.to_string()))?;
        Ok(Link { client, schema: options.schema.clone() })
    }

    /// Begins a transaction, in which nothing is hurried: a file may come slowly, or go slowly.
    pub(super) async fn begin(&self, begin: &str) -> Result<()> {
        let schema = quoted(&self.schema);
        let sql = format!(
            "{begin}; SET LOCAL search_path = {schema}; SET LOCAL jit = off;
             SET LOCAL lock_timeout = '10s'; SET LOCAL statement_timeout = 0;
             SET LOCAL idle_in_transaction_session_timeout = 0"
        );
        self.run(&sql).await
    }

    /// Runs statements that have no values and give no rows.
    pub(super) async fn run(&self, sql: &str) -> Result<()> {
        self.client.batch_execute(sql).await.map_err(failed)
    }
}
