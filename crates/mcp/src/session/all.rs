//! All sessions. They are in the store, so that they outlive the process; those that are in use are in
//! memory as well, with what belongs to open connections.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use steadfast_core::Principal;
use steadfast_engine::Engine;
use steadfast_store::{Error, SessionRow};

use super::{Session, random_id, record::Record};
use crate::{catalog::Catalog, client::Client};

pub(crate) struct Sessions {
    engine: Engine,
    catalog: Arc<Catalog>,
    most: usize,
    idle: Duration,
    map: Mutex<HashMap<String, Arc<Session>>>,
    /// Held while a session is fetched from the store or ended in it: one that was read before another
    /// ended it must not come into memory after that.
    moving: tokio::sync::Mutex<()>,
}

impl Sessions {
    pub(crate) fn new(
        engine: Engine,
        catalog: Arc<Catalog>,
        most: usize,
        idle: Duration,
    ) -> Sessions {
        Sessions { engine, catalog, most, idle, map: Mutex::default(), moving: Default::default() }
    }

    fn map(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often it is written down that a session is in use.
    fn period(&self) -> Duration {
        (self.idle / 4).clamp(Duration::from_millis(10), Duration::from_secs(300))
    }

    /// As it is to be in the store. It may be used for a period without being written again.
    fn row(&self, session: &Session) -> SessionRow {
        let expires = self.engine.now().plus(self.idle + self.period());
        SessionRow { id: session.id.clone(), expires, body: Record::of(session) }
    }

    /// Begins a session, durable when this returns.
    pub(crate) async fn begin(&self, client: Client) -> Result<Arc<Session>, Error> {
        // When the last use was is known here better than in the store, which has a bound of its own for
        // those that are not in memory.
        if let Some(oldest) = self.one_too_many() {
            self.end(&oldest).await?;
        }
        let session = Arc::new(Session::new(random_id(), client));
        self.begin_hearing(&session).await?;
        self.engine.store().begin_session(self.row(&session), self.most).await?;
        self.map().insert(session.id.clone(), session.clone());
        Ok(session)
    }

    /// The session that has not been used for longest, if there is no room for another.
    fn one_too_many(&self) -> Option<String> {
        let map = self.map();
        if map.len() < self.most {
            return None;
        }
        let can_end = || map.values().filter(|session| session.can_return);
        let oldest = can_end().min_by_key(|session| session.last_use())?;
        (can_end().count() >= self.most).then(|| oldest.id.clone())
    }

    /// A new session has heard all that there is, and knows the offer as it is.
    async fn begin_hearing(&self, session: &Session) -> Result<(), Error> {
        let last = self.engine.store().posted(u64::MAX, 0).await?.last;
        session.hear_from(last, self.catalog.offer().prints());
        Ok(())
    }

    /// Takes in a session that has a connection of its own, and ends with it. It is in the store for the
    /// state that its tasks keep there.
    pub(crate) async fn adopt(&self, session: &Arc<Session>) -> Result<(), Error> {
        self.begin_hearing(session).await?;
        self.engine.store().begin_session(self.row(session), self.most).await?;
        self.map().insert(session.id.clone(), session.clone());
        Ok(())
    }

    /// The session of this id, if it is this principal's and not over.
    pub(crate) async fn get(
        &self,
        id: &str,
        principal: &Principal,
    ) -> Result<Option<Arc<Session>>, Error> {
        let known = self.map().get(id).cloned();
        let session = match known {
            Some(session) => Some(session),
            None => self.load(id).await?,
        };
        let Some(session) = session.filter(|session| session.client.principal == *principal) else {
            return Ok(None);
        };
        if session.is_idle(self.idle) {
            self.end(id).await?;
            return Ok(None);
        }
        session.touch();
        Ok(Some(session))
    }

    /// A session that began in another process, or before this one was started.
    async fn load(&self, id: &str) -> Result<Option<Arc<Session>>, Error> {
        // Whatever else it is, it is none of ours.
        if id.len() != 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let _moving = self.moving.lock().await;
        // Somebody else may have been first.
        if let Some(session) = self.map().get(id) {
            return Ok(Some(session.clone()));
        }
        let now = self.engine.now();
        let Some(row) = self.engine.store().session(id.into(), now).await? else { return Ok(None) };
        let session = match Record::session(id, &row.body) {
            Ok(session) => {
                session.compare(self.catalog.offer().prints());
                Arc::new(session)
            }
            Err(error) => {
                tracing::error!(%error, "a session can't be read; its client has to begin a new one");
                return Ok(None);
            }
        };
        self.map().insert(id.into(), session.clone());
        Ok(Some(session))
    }

    /// Ends a session for good.
    pub(crate) async fn end(&self, id: &str) -> Result<(), Error> {
        let _moving = self.moving.lock().await;
        self.engine.store().end_session(id.into()).await?;
        remove(&mut self.map(), id);
        Ok(())
    }

    /// Writes down what has changed of a session. It is over if it was ended elsewhere.
    pub(crate) async fn keep(&self, session: &Arc<Session>) -> Result<(), Error> {
        session.is_written();
        if !self.engine.store().keep_session(self.row(session)).await? {
            remove(&mut self.map(), &session.id);
        }
        Ok(())
    }

    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.map().values().cloned().collect()
    }

    /// Writes down which sessions are in use, and ends those that are not, from time to time.
    pub(crate) async fn tend(&self) {
        loop {
            tokio::time::sleep(self.period()).await;
            for session in self.all() {
                let done = match () {
                    () if session.is_idle(self.idle) => self.end(&session.id).await,
                    () if session.was_used() => self.keep(&session).await,
                    () => Ok(()),
                };
                if let Err(error) = done {
                    tracing::warn!(%error, "a session could not be written; trying again later");
                }
            }
        }
    }
}

fn remove(map: &mut HashMap<String, Arc<Session>>, id: &str) {
    if let Some(session) = map.remove(id) {
        session.over.cancel();
    }
}
