//! Being alive, and hearing of others: the heartbeat, NOTIFY, and the look behind it.

use std::{
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use steadfast_store::Change;
use tokio::time::Instant;
use tokio_postgres::{AsyncMessage, Row};

use crate::{
    address::Wire,
    conn::{Conn, Param},
    core::{Core, alive, up},
    ear::Ear,
    error::cause,
    schema,
};

/// Says that this desk is alive, unless it is dead already; how many others are; and of what version
/// the tables are by now.
const BEAT: &str = concat!(
    "WITH heard AS (",
    up!(),
    ") UPDATE desk d SET until = clock_timestamp() + d.lease WHERE d.n = $1 AND ",
    alive!(),
    " RETURNING (SELECT count(*) FROM desk d WHERE d.n <> $1 AND ",
    alive!(),
    "), (SELECT max(version) FROM schema_version), (SELECT max(oldest) FROM schema_version)"
);

/// How much each of the others has committed.
const LOOK: &str = "
    SELECT d.n, (SELECT coalesce(sum(w.batch), 0)::bigint FROM writer w WHERE w.desk = d.n)
    FROM desk d WHERE d.n <> $1";

pub(crate) const NOTIFY: &str = "SELECT pg_notify($1, $2)";

/// The pause after the first failure.
const FIRST: Duration = Duration::from_millis(50);

/// Lives, for ever.
pub(crate) async fn live(core: Arc<Core>, first: (Conn, Wire)) {
    let mut next = Some(first);
    let mut pause = FIRST;
    loop {
        if let Some((conn, wire)) = next.take() {
            let begun = Instant::now();
            let why = listen(&core, conn, wire).await;
            tracing::warn!(why, "the connection that says we are alive was lost; making another");
            // A server that lets us in and then refuses, as one that only reads does, is left alone
            // for as long as one that does not let us in.
            if begun.elapsed() > core.options.lease {
                pause = FIRST;
            }
            tokio::time::sleep(pause).await;
        }
        match Conn::open_wire(&core.address, &core.options).await {
            Ok(opened) => next = Some(opened),
            Err(error) => {
                tracing::warn!(%error, "can't say that we are alive; trying again");
                tokio::time::sleep(pause).await;
            }
        }
        pause = (pause * 2).min(core.options.lease / 8);
    }
}

/// Lives on one connection, until it is lost, and says why.
async fn listen(core: &Core, conn: Conn, mut wire: Wire) -> String {
    // What was heard on another connection says nothing of what was said meanwhile.
    let ear = Mutex::new(Ear::default());
    let hear = async {
        loop {
            match poll_fn(|cx| wire.poll_message(cx)).await {
                Some(Ok(AsyncMessage::Notification(said))) => hear(core, &ear, said.payload()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return cause(&error),
                None => return "it was closed".to_owned(),
            }
        }
    };
    let act = async {
        // Nothing is lost with a heartbeat, and one that waited for a standby that is away would leave a server
        // process behind each time that we give it up.
        let settings = "SET synchronous_commit = off";
        conn.client.batch_execute(settings).await.map_err(|e| cause(&e))?;
        if core.options.listen {
            let listen = format!("LISTEN \"{}\"", channel(core));
            conn.client.batch_execute(&listen).await.map_err(|e| cause(&e))?;
        }
        core.bell.greet();
        // What was said while nobody listened is lost.
        core.changed.tell(Change::anything());
        tokio::try_join!(beat(core, &conn), look(core, &conn, &ear), ring(core, &conn)).map(drop)
    };
    tokio::select! {
        why = hear => why,
        why = act => why.err().unwrap_or_default(),
    }
}

/// A statement on this connection. One that is not answered in time is taken for lost with it: the
/// heartbeat must not wait behind it.
async fn ask(
    core: &Core,
    conn: &Conn,
    sql: &'static str,
    params: &[Param<'_>],
) -> Result<Vec<Row>, String> {
    match tokio::time::timeout(core.options.lease / 3, conn.query(sql, params)).await {
        Ok(Ok(rows)) => Ok(rows),
        Ok(Err(error)) => Err(cause(&error)),
        Err(_) => Err("the database does not answer".into()),
    }
}

fn number(row: &Row, column: usize) -> Result<i64, String> {
    row.try_get(column).map_err(|e| cause(&e))
}

pub(crate) fn channel(core: &Core) -> String {
    format!("steadfast_{:08x}", core.locks.class)
}

fn lock(ear: &Mutex<Ear>) -> MutexGuard<'_, Ear> {
    ear.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hear(core: &Core, ear: &Mutex<Ear>, said: &str) {
    if let Some(change) = lock(ear).hear(core.desk(), said) {
        core.bell.set_company(true);
        core.changed.tell(change);
    }
}

/// Says that we are alive, often enough that one or two times may fail; until we are about to go.
async fn beat(core: &Core, conn: &Conn) -> Result<(), String> {
    while !core.is_closed() {
        let desk = core.desk();
        match ask(core, conn, BEAT, &[&desk]).await?.first() {
            Some(row) => {
                core.bell.set_company(number(row, 0)? > 0);
                if let Err(newer) = schema::serves(&core.options, number(row, 1)?, number(row, 2)?)
                {
                    core.health.set_outdated(newer.to_string());
                }
            }
            None => {
                if let Err(error) = core.found_dead(desk, conn).await
                    && !core.is_closed()
                {
                    tracing::warn!(%error, "can't take another desk; trying again");
                }
            }
        }
        tokio::time::sleep(core.options.lease / 4).await;
    }
    Ok(())
}

/// Looks whether others have written something that we were not told of.
async fn look(core: &Core, conn: &Conn, ear: &Mutex<Ear>) -> Result<(), String> {
    loop {
        let rows = ask(core, conn, LOOK, &[&core.desk()]).await?;
        let sum = |row: &Row| Ok((number(row, 0)?, number(row, 1)?));
        let sums: Vec<(i64, i64)> = rows.iter().map(sum).collect::<Result<_, String>>()?;
        if let Some(change) = lock(ear).look(&sums, !core.options.listen) {
            core.changed.tell(change);
        }
        tokio::time::sleep(core.options.poll).await;
    }
}

/// Tells others what we have written.
async fn ring(core: &Core, conn: &Conn) -> Result<(), String> {
    let channel = channel(core);
    let mut last = Instant::now() - Duration::from_secs(1);
    loop {
        let said = core.bell.wanted(last, || core.desk()).await;
        last = Instant::now();
        ask(core, conn, NOTIFY, &[&channel, &said.text()]).await?;
    }
}
