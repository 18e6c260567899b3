//! A store that fails where a test wants it to.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use steadfast_store::{Around, BoxFuture, Changes, Desk, Error, Memory, Refusal, Result, Store};

#[derive(Clone)]
pub(crate) struct Bent {
    store: Arc<Memory>,
    fails: Arc<Mutex<Fails>>,
    failed: Arc<AtomicU32>,
    cancelled: Arc<AtomicBool>,
}

#[derive(Clone, Copy)]
pub(crate) enum Fails {
    Nowhere,
    /// It may pass.
    At(&'static [&'static str]),
    /// For good.
    DamagedAt(&'static [&'static str]),
    /// Whoever asked did so too long ago.
    LateAt(&'static [&'static str]),
    /// It is done, and nobody hears so.
    UnheardAt(&'static [&'static str]),
}

impl Bent {
    pub(crate) fn new(store: Memory) -> Bent {
        Bent {
            store: Arc::new(store),
            fails: Arc::new(Mutex::new(Fails::Nowhere)),
            failed: Arc::default(),
            cancelled: Arc::default(),
        }
    }

    pub(crate) fn fail(&self, fails: Fails) {
        self.failed.store(0, Ordering::SeqCst);
        *self.fails.lock().unwrap() = fails;
    }

    /// Waits until it has failed this often.
    pub(crate) async fn until_failed(&self, times: u32) {
        let failed = async {
            while self.failed.load(Ordering::SeqCst) < times {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), failed).await.expect("failures in time");
    }

    /// Whether a task was cancelled, and that is written.
    pub(crate) fn has_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }
}

impl Around for Bent {
    fn inner(&self) -> Result<Arc<dyn Store>> {
        Ok(self.store.clone())
    }

    fn desk(&self) -> Desk {
        Store::desk(&*self.store)
    }

    fn changed(&self) -> Arc<Changes> {
        Store::changed(&*self.store)
    }

    async fn around<T: Send + 'static>(
        &self,
        call: &'static str,
        done: BoxFuture<'static, Result<T>>,
    ) -> Result<T> {
        let fails = *self.fails.lock().unwrap();
        match fails {
            Fails::At(calls) if calls.contains(&call) => {
                self.failed.fetch_add(1, Ordering::SeqCst);
                return Err(Error::Unavailable("bent".into()));
            }
            Fails::DamagedAt(calls) if calls.contains(&call) => {
                self.failed.fetch_add(1, Ordering::SeqCst);
                return Err(Error::Corrupt("bent".into()));
            }
            Fails::LateAt(calls) if calls.contains(&call) => {
                self.failed.fetch_add(1, Ordering::SeqCst);
                return Err(Refusal::Late.into());
            }
            Fails::UnheardAt(calls) if calls.contains(&call) => {
                self.failed.fetch_add(1, Ordering::SeqCst);
                done.await?;
                return Err(Error::Unknown("bent".into()));
            }
            _ => {}
        }
        if call == "cancel" {
            // Long enough for whoever does not wait for it.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let done = done.await;
        if call == "cancel" {
            self.cancelled.store(true, Ordering::SeqCst);
        }
        done
    }
}
