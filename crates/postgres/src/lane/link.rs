//! A connection that is made again when it is lost.

use std::{sync::Arc, time::Duration};

use steadfast_store::{Error, Result};
use tokio::time::Instant;

use crate::{conn::Conn, core::Core};

/// The longest pause between two attempts to connect.
const LONGEST: Duration = Duration::from_secs(1);

pub(super) struct Link {
    core: Arc<Core>,
    conn: Option<Arc<Conn>>,
    /// When the next attempt may be made, and how long the pause is after that.
    next: Instant,
    pause: Duration,
}

impl Link {
    pub(super) fn new(core: Arc<Core>, conn: Option<Conn>) -> Link {
        let (next, pause) = (Instant::now(), Duration::ZERO);
        Link { core, conn: conn.map(Arc::new), next, pause }
    }

    /// The connection, or a new one. Each call makes one attempt at most, after the pause that is
    /// due: so a call that came when the database was away is not refused for what happened before
    /// it.
    pub(super) async fn get(&mut self) -> Result<Arc<Conn>> {
        if let Some(conn) = self.conn.as_ref().filter(|conn| !conn.is_closed()) {
            return Ok(Arc::clone(conn));
        }
        tokio::time::sleep_until(self.next).await;
        match Conn::open(&self.core.address, &self.core.options).await {
            Ok(conn) => {
                let conn = Arc::new(conn);
                self.conn = Some(Arc::clone(&conn));
                self.pause = Duration::ZERO;
                Ok(conn)
            }
            Err(error) => {
                self.pause = (self.pause * 2).clamp(Duration::from_millis(50), LONGEST);
                self.next = Instant::now() + self.pause;
                Err(Error::Unavailable(error.to_string()))
            }
        }
    }

    /// It is of no more use.
    pub(super) fn lose(&mut self, why: String) {
        // Another server may answer from now on, and may not have got everything.
        self.core.cards.forget();
        if self.conn.take().is_some() {
            tracing::warn!(why, "a connection to the database is given up; making another");
        }
    }
}
