//! A store that a test can let fail, or wait.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use steadfast_store::{Around, BoxFuture, Changes, Desk, Error, Memory, Result, Store};
use tokio::sync::Notify;

/// Of one call.
pub(crate) struct Unsteady {
    inner: Arc<Memory>,
    call: &'static str,
    /// How many of the next are to fail.
    pub(crate) fail: AtomicUsize,
    /// How many of the next are to wait, each until it may go.
    pub(crate) hold: AtomicUsize,
    /// How many of the next are to wait so when they were done, and are heard late.
    pub(crate) late: AtomicUsize,
    pub(crate) go: Notify,
    /// Says that one has come that waits.
    pub(crate) come: Notify,
}

impl Unsteady {
    pub(crate) fn new(store: Memory, call: &'static str) -> Arc<Unsteady> {
        let [fail, hold, late] = [0; 3].map(AtomicUsize::new);
        let (go, come) = (Notify::new(), Notify::new());
        Arc::new(Unsteady { inner: Arc::new(store), call, fail, hold, late, go, come })
    }

    async fn wait(&self, count: &AtomicUsize) {
        if count_down(count) {
            self.come.notify_one();
            self.go.notified().await;
        }
    }
}

impl Around for Unsteady {
    fn inner(&self) -> Result<Arc<dyn Store>> {
        Ok(self.inner.clone())
    }

    fn desk(&self) -> Desk {
        Store::desk(&*self.inner)
    }

    fn changed(&self) -> Arc<Changes> {
        Store::changed(&*self.inner)
    }

    async fn around<T: Send + 'static>(
        &self,
        call: &'static str,
        done: BoxFuture<'static, Result<T>>,
    ) -> Result<T> {
        if call != self.call {
            return done.await;
        }
        self.wait(&self.hold).await;
        let done = match count_down(&self.fail) {
            true => Err(Error::Unavailable("not now".into())),
            false => done.await,
        };
        self.wait(&self.late).await;
        done
    }
}

fn count_down(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok()
}
