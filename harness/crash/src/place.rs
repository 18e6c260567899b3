//! Where the tasks of a run are kept.

use std::{path::Path, sync::Arc, time::Duration};

use steadfast_store::Store;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// A process of PostgreSQL's is taken for dead after this: as short as it may be, since lives are short too.
const LEASE: Duration = Duration::from_secs(1);

/// A SQLite file, or a schema of a PostgreSQL database.
#[derive(Clone, Debug)]
pub struct Place {
    /// A path, or `postgres://…`.
    pub store: String,
    /// The schema.
    pub schema: Option<String>,
}

impl Place {
    /// A file.
    #[must_use]
    pub fn file(path: &Path) -> Place {
        Place { store: path.to_string_lossy().into_owned(), schema: None }
    }

    /// As flags of the program that runs there.
    #[must_use]
    pub fn flags(&self) -> Vec<String> {
        let mut flags = vec!["--store".into(), self.store.clone()];
        if let Some(schema) = &self.schema {
            flags.extend(["--schema".into(), schema.clone()]);
        }
        flags
    }

    /// How to open it, if it is of PostgreSQL.
    #[must_use]
    pub fn postgres(&self) -> Option<steadfast_postgres::Options> {
        let schema = self.schema.as_ref()?;
        Some(steadfast_postgres::Options::new(&self.store).schema(schema).lease(LEASE))
    }

    /// Opens it.
    pub async fn open(&self) -> Result<Arc<dyn Store>, Error> {
        Ok(match self.postgres() {
            Some(options) => Arc::new(options.open().await?),
            None => Arc::new(steadfast_sqlite::Options::new(&self.store).open()?),
        })
    }
}
