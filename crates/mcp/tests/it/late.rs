//! A store that takes its time to find a task or a session.

use std::{sync::Arc, time::Duration};

use steadfast_store::{Around, BoxFuture, Changes, Desk, Memory, Result, Store};

pub(crate) struct Late(Arc<Memory>, Duration);

impl Late {
    pub(crate) fn new(store: Memory, time: Duration) -> Late {
        Late(Arc::new(store), time)
    }
}

impl Around for Late {
    fn inner(&self) -> Result<Arc<dyn Store>> {
        Ok(self.0.clone())
    }

    fn desk(&self) -> Desk {
        Store::desk(&*self.0)
    }

    fn changed(&self) -> Arc<Changes> {
        Store::changed(&*self.0)
    }

    async fn around<T: Send + 'static>(
        &self,
        call: &'static str,
        done: BoxFuture<'static, Result<T>>,
    ) -> Result<T> {
        if call == "get" {
            tokio::time::sleep(self.1).await;
        }
        let done = done.await;
        if call == "session" {
            // What it says may not be true any more when it is heard.
            tokio::time::sleep(self.1).await;
        }
        done
    }
}
