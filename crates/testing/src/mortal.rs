//! A store that can die under its engine.

use std::sync::{Arc, PoisonError, RwLock, Weak};

use steadfast_store::{Around, BoxFuture, Changes, Desk, Error, Result, Store};

use crate::wait::until;

/// A handle on a store that lets go of it when it is killed, whoever still holds the handle.
pub(crate) struct Mortal {
    inner: RwLock<Option<Arc<dyn Store>>>,
    desk: Desk,
    changed: Arc<Changes>,
}

impl Mortal {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Mortal {
        let (desk, changed) = (inner.desk(), inner.changed());
        Mortal { inner: RwLock::new(Some(inner)), desk, changed }
    }

    fn alive(&self) -> Result<Arc<dyn Store>> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner).clone();
        inner.ok_or_else(|| Error::Unavailable("this server was killed".into()))
    }

    /// No call that is made from now on has an effect.
    pub(crate) fn kill(&self) -> Dying {
        let inner = self.inner.write().unwrap_or_else(PoisonError::into_inner).take();
        Dying(inner.map(|inner| Arc::downgrade(&inner)))
    }
}

/// A store whose last calls are on their way.
pub(crate) struct Dying(Option<Weak<dyn Store>>);

impl Dying {
    /// Waits until none is: then the desk is seen to be dead.
    pub(crate) async fn dead(self) {
        let Some(inner) = self.0 else { return };
        until("the store to be let go of", || inner.strong_count() == 0).await;
    }
}

impl Around for Mortal {
    fn inner(&self) -> Result<Arc<dyn Store>> {
        self.alive()
    }

    fn desk(&self) -> Desk {
        self.desk
    }

    fn changed(&self) -> Arc<Changes> {
        self.changed.clone()
    }

    async fn around<T: Send + 'static>(
        &self,
        _: &'static str,
        done: BoxFuture<'static, Result<T>>,
    ) -> Result<T> {
        let done = done.await;
        // The dead hear nothing.
        match self.alive() {
            Ok(_) => done,
            Err(_) => Err(Error::Unknown("this server was killed meanwhile".into())),
        }
    }
}
