//! Stores of both kinds, and the way from one to the other.

use std::{io::Cursor, sync::Arc};

use steadfast_postgres::testing;
use steadfast_store::{
    Store,
    moving::{self, Purpose, Reader, Tally, Writer},
};

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

/// A store of its own.
pub(crate) enum Home {
    Sqlite { options: steadfast_sqlite::Options, _dir: tempfile::TempDir },
    Postgres { options: steadfast_postgres::Options },
}

/// One open handle, which can die.
pub(crate) struct Handle {
    pub(crate) store: Arc<dyn Store>,
    kill: Box<dyn FnOnce() + Send>,
}

impl Handle {
    pub(crate) fn kill(self) {
        (self.kill)();
    }
}

/// For a move whose file has no name.
pub(crate) fn move_away() -> Purpose {
    Purpose::Move("a file".into())
}

impl Home {
    pub(crate) fn new(kind: Kind) -> Home {
        match kind {
            Kind::Sqlite => {
                let dir = tempfile::tempdir().unwrap();
                let options = steadfast_sqlite::Options::new(dir.path().join("store.db"));
                Home::Sqlite { options, _dir: dir }
            }
            Kind::Postgres => Home::Postgres { options: testing::shared().unwrap().options() },
        }
    }

    pub(crate) async fn try_open(&self) -> Result<Handle, String> {
        match self {
            Home::Sqlite { options, .. } => {
                let store = options.clone().open().map_err(|e| e.to_string())?;
                let store = Arc::new(store);
                let mortal = Arc::clone(&store);
                Ok(Handle { store, kill: Box::new(move || mortal.kill()) })
            }
            Home::Postgres { options } => {
                let store = options.clone().open().await.map_err(|e| e.to_string())?;
                let store = Arc::new(store);
                let mortal = Arc::clone(&store);
                Ok(Handle { store, kill: Box::new(move || mortal.kill()) })
            }
        }
    }

    pub(crate) async fn open(&self) -> Handle {
        self.try_open().await.unwrap()
    }

    /// The time of all leases goes by, without waiting for it.
    pub(crate) async fn leases_run_out(&self) {
        if let Home::Postgres { options } = self {
            let over = "UPDATE desk SET until = '-infinity', lease = '0'";
            testing::sql(options, over).await.unwrap();
        }
    }

    /// All that is in it, as a file.
    pub(crate) async fn export(&self, purpose: &Purpose) -> moving::Result<Vec<u8>> {
        let mut writer = Writer::new(Vec::new(), "test", 1)?;
        let mut sink = |record| writer.put(&record);
        match self {
            Home::Sqlite { options, .. } => options.export(purpose, &mut sink)?,
            Home::Postgres { options } => options.export(purpose, &mut sink).await?,
        }
        Ok(writer.finish()?.0)
    }

    pub(crate) async fn import(&self, file: &[u8]) -> moving::Result<Tally> {
        let mut reader = Reader::new(Box::new(Cursor::new(file.to_vec())))?;
        match self {
            Home::Sqlite { options, .. } => options.import(&mut reader),
            Home::Postgres { options } => options.import(&mut reader).await,
        }
    }

    pub(crate) async fn reopen(&self) -> bool {
        match self {
            Home::Sqlite { options, .. } => options.reopen().unwrap(),
            Home::Postgres { options } => options.reopen().await.unwrap(),
        }
    }
}
