//! `steadfast migrate`.

use std::path::PathBuf;

use clap::Args;

use crate::Result;

/// Make the tables of a store on PostgreSQL, or bring them up to date.
#[derive(Args)]
pub(crate) struct Migrate {
    /// The database, as postgres://user@host/database
    #[arg(value_name = "ADDRESS", env = "STEADFAST_STORE", hide_env_values = true)]
    store: String,

    /// Take the password from this file
    #[arg(long, value_name = "FILE", env = "STEADFAST_STORE_PASSWORD_FILE")]
    store_password_file: Option<PathBuf>,

    /// The schema that has the tables
    #[arg(long, value_name = "NAME", default_value = "steadfast", env = "STEADFAST_STORE_SCHEMA")]
    store_schema: String,
}

impl Migrate {
    pub(crate) async fn run(self) -> Result<u8> {
        let mut options =
            steadfast_postgres::Options::new(self.store).schema(self.store_schema.as_str());
        if let Some(file) = self.store_password_file {
            options = options.password_file(file);
        }
        options.migrate().await?;
        eprintln!("the tables in the schema {} are up to date", self.store_schema);
        Ok(0)
    }
}
