//! All sessions. They are in the store, so that they outlive the process; those that are in use are in
//! memory as well, with what belongs to open connections.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use steadfast_core::{Principal, Timestamp};
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

    /// When a session is over that was last used then: it may be used for a period without that being
    /// written down.
    fn expires(&self, used: Instant) -> Timestamp {
        self.engine.now().plus((self.idle + self.period()).saturating_sub(used.elapsed()))
    }

    /// Begins a session, durable when this returns.
    pub(crate) async fn begin(&self, client: Client) -> Result<Arc<Session>, Error> {
        self.make_room().await?;
        let session = Arc::new(Session::new(random_id(), client));
        self.adopt(&session).await?;
        Ok(session)
    }

    /// Sees to it that no more sessions than allowed are in memory. When the last use was is known here
    /// better than in the store, which has a bound of its own for all; but others may use it elsewhere.
    async fn make_room(&self) -> Result<(), Error> {
        let Some(oldest) = self.one_too_many() else { return Ok(()) };
        match self.engine.store().solitude() {
            Some(_) => self.end(&oldest).await,
            None => {
                forget(&mut self.map(), &oldest, Duration::ZERO);
                Ok(())
            }
        }
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

    /// Takes in a session. One that has a connection of its own, and ends with it, is in the store for the
    /// state that its tasks keep there.
    pub(crate) async fn adopt(&self, session: &Arc<Session>) -> Result<(), Error> {
        let store = self.engine.store();
        self.begin_hearing(session).await?;
        let (solitude, draft) = (store.solitude(), session.draft());
        let expires = self.expires(Instant::now());
        let row = SessionRow { id: session.id.clone(), expires, body: draft.body.clone() };
        store.begin_session(row, self.most).await?;
        session.is_written(draft);
        session.is_seen_in(solitude);
        self.map().insert(session.id.clone(), session.clone());
        Ok(())
    }

    /// The session of this id, if it is this principal's and not over.
    pub(crate) async fn get(
        &self,
        id: &str,
        principal: &Principal,
    ) -> Result<Option<Arc<Session>>, Error> {
        let known = self.use_of(id, principal);
        if let Some(session) = known {
            return Ok(self.check(&session).await?.then_some(session));
        }
        let session = self.load(id).await?;
        let session = session.filter(|session| session.client.principal == *principal);
        Ok(session.inspect(|session| session.touch()))
    }

    /// The session of this id in memory, which is in use from now on. One that has long been idle here is
    /// only forgotten: whether it is over is for its row to say.
    fn use_of(&self, id: &str, principal: &Principal) -> Option<Arc<Session>> {
        let mut map = self.map();
        forget(&mut map, id, self.idle);
        let session = map.get(id).filter(|session| session.client.principal == *principal)?;
        session.touch();
        Some(session.clone())
    }

    /// Takes in what other processes have written of a session. False if it is over. Where there are no
    /// others this is a look at memory.
    pub(crate) async fn check(&self, session: &Arc<Session>) -> Result<bool, Error> {
        let solitude = self.engine.store().solitude();
        if !session.can_return || solitude.is_some() && session.was_seen_in(solitude) {
            return Ok(true);
        }
        let _moving = session.moving.lock().await;
        let there = self.look(session).await?;
        session.is_seen_in(solitude);
        Ok(there)
    }

    /// The same for who has the session in hands.
    async fn look(&self, session: &Arc<Session>) -> Result<bool, Error> {
        let (id, now) = (session.id.clone(), self.engine.now());
        let row = self.engine.store().session(id, now).await?;
        let caught_up = row.map(|row| session.catch_up(row.body, self.catalog.offer().prints()));
        match caught_up {
            Some(Ok(())) => return Ok(true),
            Some(Err(error)) => unreadable(&error),
            None => {}
        }
        remove(&mut self.map(), &session.id);
        Ok(false)
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
        let (store, now) = (self.engine.store(), self.engine.now());
        let solitude = store.solitude();
        let Some(row) = store.session(id.into(), now).await? else { return Ok(None) };
        let session = match Record::session(id, &row.body) {
            Ok(session) => Arc::new(session),
            Err(error) => {
                unreadable(&error);
                return Ok(None);
            }
        };
        session.state().compare(self.catalog.offer().prints());
        session.is_seen_in(solitude);
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

    /// Writes down what has changed of a session, if anything has. It is over if it was ended elsewhere.
    pub(crate) async fn keep(&self, session: &Arc<Session>) -> Result<(), Error> {
        let _moving = session.moving.lock().await;
        while session.has_changed() {
            let (draft, used) = (session.draft(), session.last_use());
            let (id, expires) = (session.id.clone(), self.expires(used));
            let row = SessionRow { id, expires, body: draft.body.clone() };
            if self.engine.store().keep_session(row, draft.before.clone()).await? {
                session.is_written(draft);
                session.is_touched(used);
                return Ok(());
            }
            // Somebody else was first.
            if !self.look(session).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Writes down that a session was used.
    async fn touch(&self, session: &Arc<Session>, used: Instant) -> Result<(), Error> {
        let (id, expires) = (session.id.clone(), self.expires(used));
        match self.engine.store().touch_session(id, expires).await? {
            true => session.is_touched(used),
            false => remove(&mut self.map(), &session.id),
        }
        Ok(())
    }

    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.map().values().cloned().collect()
    }

    /// Writes down which sessions are in use, and forgets those that are not, from time to time. They are
    /// over when nobody has said otherwise until their time.
    pub(crate) async fn tend(&self) {
        loop {
            tokio::time::sleep(self.period()).await;
            for session in self.all() {
                if let Err(error) = self.tend_to(&session).await {
                    tracing::warn!(%error, "a session could not be written; trying again later");
                }
            }
        }
    }

    async fn tend_to(&self, session: &Arc<Session>) -> Result<(), Error> {
        self.keep(session).await?;
        if let Some(used) = session.unwritten_use() {
            self.touch(session, used).await?;
        }
        forget(&mut self.map(), &session.id, self.idle);
        Ok(())
    }
}

fn unreadable(error: &str) {
    tracing::error!(error, "a session can't be read; its client has to begin a new one");
}

/// Forgets a session if it has been idle here for this long.
fn forget(map: &mut HashMap<String, Arc<Session>>, id: &str, idle: Duration) {
    if map.get(id).is_some_and(|session| session.is_idle(idle)) {
        remove(map, id);
    }
}

fn remove(map: &mut HashMap<String, Arc<Session>>, id: &str) {
    if let Some(session) = map.remove(id) {
        session.over.cancel();
    }
}
