//! A connection that is made again when it is lost.

use std::{sync::Arc, time::Duration};

use steadfast_store::{Error, Result};
use tokio::time::Instant;

use crate::{conn::Conn, core::Core};

/// The first pause between two attempts to connect.
const SHORTEST: Duration = Duration::from_millis(10);
/// The longest pause between two attempts to connect.
const LONGEST: Duration = Duration::from_secs(1);

pub(super) struct Link {
    core: Arc<Core>,
    conn: Option<Arc<Conn>>,
    /// When the next attempt may be made, and how long the pause is after that. A server that lets us in and
    /// then refuses, as one that only reads does, is left in peace like one that does not let us in.
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
                // Another server may answer from now on, and may not have got everything.
                self.core.cards.forget();
                let conn = Arc::new(conn);
                self.conn = Some(Arc::clone(&conn));
                Ok(conn)
            }
            Err(error) => {
                self.wait();
                Err(Error::Unavailable(error.to_string()))
            }
        }
    }

    fn wait(&mut self) {
        self.pause = (self.pause * 2).clamp(SHORTEST, LONGEST);
        self.next = Instant::now() + self.pause;
    }

    /// The server takes what is written.
    pub(super) fn worked(&mut self) {
        (self.next, self.pause) = (Instant::now(), Duration::ZERO);
    }

    /// It is of no more use.
    pub(super) fn lose(&mut self, why: String) {
        if self.conn.take().is_some() {
            self.wait();
            tracing::warn!(why, "a connection to the database is given up; making another");
        }
    }
}
