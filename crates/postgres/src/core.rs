//! What the parts of a handle share.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicI64, Ordering},
};

use steadfast_store::{Change, Changes, Error, Result};
use tokio::runtime::Handle;

use crate::{
    Options,
    address::Shared,
    bell::{Batch, Bell},
    conn::{Conn, Param},
    error::cause,
    health::Health,
    keys::Keys,
    lane::Cards,
    locks::Locks,
    news::News,
    queue::{Queue, closed},
    schema,
};

/// Whether `desk d` is alive. While the server was down nobody could be heard: so all get their time
/// anew when it has started, has recovered from a crash, or another has taken its place; or that would be the
/// death of everybody. See `schema/up.sql`.
macro_rules! alive {
    () => {
        "greatest(d.until, d.lease + greatest(pg_postmaster_start_time(),
             coalesce((SELECT u.since FROM up u WHERE u.one), clock_timestamp()))) > clock_timestamp()"
    };
}
pub(crate) use alive;

/// Somebody can be heard, from now on if nobody could before.
macro_rules! up {
    () => {
        "INSERT INTO up (since) VALUES (clock_timestamp()) ON CONFLICT DO NOTHING"
    };
}
pub(crate) use up;

/// What time it is for all who use the database, in microseconds since 1970.
macro_rules! clock {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
    };
}
pub(crate) use clock;

/// Takes a new desk with its writers. What lies on the one before and is bound to it, or to one that was taken
/// and nobody knew, is bound to this process as before: it lives. But nobody is waited for: who has such a task
/// locked is taking it over.
pub(crate) const SIT_DOWN: &str = concat!(
    "WITH heard AS (",
    up!(),
    "), seat AS (
        INSERT INTO desk (n, until, lease, process)
        SELECT $5::bigint, clock_timestamp() + lease, lease, $2
        FROM (SELECT $1::bigint * interval '1 ms') AS l (lease) RETURNING n
    ), bound AS (
        UPDATE task t SET bound = seat.n FROM seat, (
            SELECT key FROM task
            WHERE desk = $3::bigint AND desk > 0 AND bound = ANY($6::bigint[] || $3::bigint)
            FOR NO KEY UPDATE SKIP LOCKED) AS held
        WHERE t.key = held.key
    )
    INSERT INTO writer (desk, lane, batch)
    SELECT n, lane, 0 FROM seat, generate_series(0, $4::bigint) AS lane
    RETURNING desk"
);

pub(crate) struct Core {
    pub(crate) options: Options,
    pub(crate) address: Shared,
    pub(crate) locks: Locks,
    pub(crate) queue: Queue,
    pub(crate) cards: Cards,
    pub(crate) keys: Keys,
    pub(crate) bell: Bell,
    pub(crate) health: Health,
    /// For whoever wants to know what others do.
    pub(crate) changed: Arc<Changes>,
    /// The runtime of this handle. Connections are served there, not where calls are made: code that
    /// blocks its own runtime must not cost the process its lease.
    pub(crate) runtime: Handle,
    desk: AtomicI64,
    /// Desks of which it is not known whether they were taken: the answer was lost. Nobody sits there.
    sitting_down: tokio::sync::Mutex<Vec<i64>>,
    /// The owner whose task was claimed last, so that the next claim begins with the next owner.
    served: Mutex<Option<String>>,
    /// This process is about to go: it writes nothing more but that it gives everything back, and is not
    /// heard of any more.
    closed: AtomicBool,
}

impl Core {
    pub(crate) async fn new(
        options: Options,
        address: Shared,
        conn: &Conn,
        runtime: Handle,
    ) -> std::result::Result<Arc<Core>, tokio_postgres::Error> {
        let number = desk_number(conn).await?;
        let desk = sit_down(conn, &options, number, None, &[]).await?;
        let locks = Locks::of(&options.schema);
        Ok(Arc::new(Core {
            bell: Bell::default(),
            health: Health::default(),
            options,
            address,
            locks,
            queue: Queue::default(),
            cards: Cards::default(),
            keys: Keys::default(),
            changed: Arc::new(Changes::default()),
            runtime,
            desk: AtomicI64::new(desk),
            sitting_down: tokio::sync::Mutex::default(),
            served: Mutex::default(),
            closed: AtomicBool::new(false),
        }))
    }

    /// This handle's desk. It is another after the lease on the last one was lost.
    pub(crate) fn desk(&self) -> i64 {
        self.desk.load(Ordering::Acquire)
    }

    /// Closes it. False if it was closed already.
    pub(crate) fn close(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// An error for who wants to write when it is closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed() { Err(closed()) } else { Ok(()) }
    }

    /// Takes a new desk, because this one was found dead: what was on it is lost to whoever adopts
    /// it, and the rest can go on. Does nothing if that was done already. A handle that is closed has
    /// nothing to go on with.
    pub(crate) async fn found_dead(&self, dead: i64, conn: &Conn) -> Result<()> {
        let mut unsure = self.sitting_down.lock().await;
        if self.desk() != dead {
            return Ok(());
        }
        // Others wait for this, and may have found a server that answers.
        match tokio::time::timeout(self.options.lease, self.sit_down_anew(dead, &mut unsure, conn))
            .await
        {
            Ok(done) => done,
            Err(_) => {
                conn.give_up();
                Err(Error::Unavailable("the database does not answer".into()))
            }
        }
    }

    async fn sit_down_anew(&self, dead: i64, unsure: &mut Vec<i64>, conn: &Conn) -> Result<()> {
        if self.is_closed() {
            return Err(Error::Unavailable("this handle is closed, and its desk is dead".into()));
        }
        // What goes on elsewhere must not go on here, however long this process was away. Looked at before, so
        // that no desk is taken in vain, and after, as when a store is opened.
        self.refuse_moved(conn).await?;
        let failed =
            |e| Error::Unavailable(format!("this process was taken for dead: {}", cause(&e)));
        let number = desk_number(conn).await.map_err(failed)?;
        // Itself among them: nothing is bound to it yet.
        unsure.push(number);
        let desk = sit_down(conn, &self.options, number, Some(dead), unsure).await;
        let desk = desk.map_err(failed)?;
        unsure.clear();
        if let Err(error) = self.refuse_moved(conn).await {
            stand_up(conn, desk).await;
            return Err(error);
        }
        self.desk.store(desk, Ordering::Release);
        self.cards.forget();
        tracing::warn!(
            before = dead,
            desk,
            "this process was not heard of for longer than its lease, and was taken for dead; what \
             it held is others' now, and it goes on anew"
        );
        self.bell.greet();
        // Whoever believes to hold something looks at it.
        self.changed.tell(Change::anything());
        Ok(())
    }

    async fn refuse_moved(&self, conn: &Conn) -> Result<()> {
        let refused = schema::refuse_moved(&conn.client, &self.options).await;
        refused.map_err(|error| Error::Unavailable(error.to_string()))
    }

    pub(crate) fn served(&self) -> Option<String> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_served(&self, owner: String) {
        *self.served.lock().unwrap_or_else(PoisonError::into_inner) = Some(owner);
    }

    /// Something was committed, with this batch if that is known: lets others know, if there are any.
    pub(crate) fn committed(&self, batch: Option<Batch>, news: impl FnOnce() -> News) {
        self.health.worked();
        self.bell.ring(batch, news);
    }
}

/// The number of a new desk. It is fetched before, so that it is known also to who gets no answer when he takes it.
async fn desk_number(conn: &Conn) -> std::result::Result<i64, tokio_postgres::Error> {
    let rows = conn.query("SELECT nextval('desk_number')", &[]).await?;
    rows.first().map_or(Ok(0), |row| row.try_get(0))
}

async fn sit_down(
    conn: &Conn,
    options: &Options,
    number: i64,
    before: Option<i64>,
    unsure: &[i64],
) -> std::result::Result<i64, tokio_postgres::Error> {
    let lease = i64::try_from(options.lease.as_millis()).unwrap_or(i64::MAX);
    let process = process();
    let last = i64::from(crate::join::lanes(options).end - 1);
    let params: &[Param<'_>] = &[&lease, &process, &before, &last, &number, &unsure];
    let row = conn.query(SIT_DOWN, params).await?;
    row.first().map_or(Ok(0), |row| row.try_get(0))
}

/// Gives up a desk that holds nothing.
pub(crate) async fn stand_up(conn: &Conn, desk: i64) {
    // If that fails it is removed when its lease is over.
    let _ = conn.query("DELETE FROM desk WHERE n = $1", &[&desk]).await;
}

/// Who we are, for people who look at the table.
fn process() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .unwrap_or_default();
    format!("{} {}", host.trim(), std::process::id()).trim().to_owned()
}
