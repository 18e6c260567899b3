//! What every store must do.

use steadfast_postgres::{Options, Store, testing};
use steadfast_store::Store as _;

struct Schema(Options);

impl steadfast_store::suite::Fixture for Schema {
    type Store = Store;

    async fn open(&self) -> Store {
        self.0.clone().open().await.unwrap()
    }

    async fn kill(&self, handle: Store) {
        handle.kill();
        testing::expire(&self.0, handle.desk()).await.unwrap();
    }
}

steadfast_store::store_suite!(Schema(testing::shared().unwrap().options()));
