//! What every store must do.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use steadfast_sqlite::Store;

struct File(tempfile::TempDir);

impl steadfast_store::suite::Fixture for File {
    type Store = Store;

    async fn open(&self) -> Store {
        Store::open(self.0.path().join("tasks.db")).unwrap()
    }

    async fn kill(&self, handle: Store) {
        handle.kill();
    }
}

steadfast_store::store_suite!(File(tempfile::tempdir().unwrap()));
