//! The floors: rows that are committed in batches by one connection, by hand.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::{mpsc, oneshot},
    task::{JoinHandle, JoinSet},
};
use tokio_postgres::{Client, NoTls, Statement, types::ToSql};

use crate::{Result, floor::ROW};

/// Commits of a task of three steps.
const COMMITS: usize = 4;

/// Commits a second with this many callers, each of which waits for each of its own: of one small row.
pub(crate) async fn small_rows_per_s(address: &str, at_once: usize, time: Duration) -> Result<f64> {
    let (client, connection) = connect(address).await?;
    let table = super::fresh();
    client
        .batch_execute(&format!(
            "CREATE TABLE {table} (k bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL)"
        ))
        .await?;
    let insert = format!("INSERT INTO {table} (body) SELECT unnest($1::bytea[])");
    let insert = client.prepare(&insert).await?;
    let (callers, mut receive) = callers(at_once, time);
    let mut waiting = Vec::new();
    while receive.recv_many(&mut waiting, 2_048).await > 0 {
        let bodies = vec![[b'x'; ROW]; waiting.len()];
        let bodies: Vec<&[u8]> = bodies.iter().map(<[u8; ROW]>::as_slice).collect();
        client.execute(&insert, &[&bodies]).await?;
        answer(&mut waiting);
    }
    let rate = callers.await??;
    client.batch_execute(&format!("DROP TABLE {table}")).await?;
    drop(client);
    connection.await??;
    Ok(rate)
}

/// The rows of a task of three steps, as they are in a store.
struct Rows {
    about: Vec<u8>,
    view: Vec<u8>,
    outcome: Option<Vec<u8>>,
    events: Vec<Vec<u8>>,
}

/// The same of the rows that such a task leaves in a store, taken from one there: into copies of its
/// tables, with all their indexes. A task's row comes with the first commit as it is in the end, and its
/// events are spread over all four. So it is less than a store has to do, which writes the row's end later.
pub(crate) async fn same_rows_per_s(
    address: &str,
    schema: &str,
    at_once: usize,
    time: Duration,
) -> Result<f64> {
    let (client, connection) = connect(address).await?;
    let copy = super::fresh();
    client
        .batch_execute(&format!(
            "CREATE SCHEMA {copy};
             CREATE TABLE {copy}.task (LIKE {schema}.task INCLUDING ALL);
             CREATE TABLE {copy}.event (LIKE {schema}.event INCLUDING ALL);
             CREATE TABLE {copy}.one AS SELECT * FROM {schema}.task ORDER BY key DESC LIMIT 1"
        ))
        .await?;
    let rows = rows(&client, schema, &copy).await?;
    let tasks = insert_tasks(&client, &copy).await?;
    let events = format!(
        "INSERT INTO {copy}.event SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[])"
    );
    let events = client.prepare(&events).await?;
    let (callers, mut receive) = callers(at_once, time);
    let mut waiting = Vec::new();
    while receive.recv_many(&mut waiting, 2_048).await > 0 {
        commit(&client, &tasks, &events, &rows, &waiting).await?;
        answer(&mut waiting);
    }
    let rate = callers.await??;
    client.batch_execute(&format!("DROP SCHEMA {copy} CASCADE")).await?;
    drop(client);
    connection.await??;
    Ok(rate)
}

async fn rows(client: &Client, schema: &str, copy: &str) -> Result<Rows> {
    let task =
        client.query_one(&format!("SELECT about, view, outcome FROM {copy}.one"), &[]).await?;
    let events = format!(
        "SELECT body FROM {schema}.event WHERE task = (SELECT key FROM {copy}.one) ORDER BY seq"
    );
    let events = client.query(&events, &[]).await?;
    let events =
        events.iter().map(|row| row.try_get(0)).collect::<std::result::Result<Vec<_>, _>>()?;
    if events.len() < COMMITS {
        return Err("the last task of the store has not ended".into());
    }
    let [about, view] = [task.try_get(0)?, task.try_get(1)?];
    Ok(Rows { about, view, outcome: task.try_get(2)?, events })
}

/// Keys, ids and bodies are sent, as a store would; the rest is as in the one task.
async fn insert_tasks(client: &Client, copy: &str) -> Result<Statement> {
    let columns = "SELECT string_agg(
            CASE attname WHEN 'key' THEN 'u.key' WHEN 'id' THEN 'u.id' WHEN 'about' THEN 'u.about'
                WHEN 'view' THEN 'u.view' WHEN 'outcome' THEN 'u.outcome' ELSE 'one.' || attname END,
            ', ' ORDER BY attnum)
        FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0";
    let columns = client.query_one(columns, &[&format!("{copy}.task")]).await?;
    let columns: &str = columns.try_get(0)?;
    let insert = format!(
        "INSERT INTO {copy}.task SELECT {columns} FROM {copy}.one AS one,
            unnest($1::bigint[], $2::text[], $3::bytea[], $4::bytea[], $5::bytea[])
                AS u (key, id, about, view, outcome)"
    );
    Ok(client.prepare(&insert).await?)
}

async fn commit(
    client: &Client,
    tasks: &Statement,
    events: &Statement,
    rows: &Rows,
    waiting: &[Waiting],
) -> Result<()> {
    let new: Vec<i64> = waiting.iter().filter(|one| one.commit == 0).map(|one| one.task).collect();
    let ids: Vec<String> = new.iter().map(|key| format!("{key:032x}")).collect();
    let abouts = vec![rows.about.as_slice(); new.len()];
    let views = vec![rows.view.as_slice(); new.len()];
    let outcomes = vec![rows.outcome.as_deref(); new.len()];
    let (mut of, mut seq, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
    for one in waiting {
        let [from, to] = [one.commit, one.commit + 1].map(|n| n * rows.events.len() / COMMITS);
        for (n, body) in rows.events.iter().enumerate().take(to).skip(from) {
            of.push(one.task);
            seq.push(n as i64);
            bodies.push(body.as_slice());
        }
    }
    let task_rows: [&(dyn ToSql + Sync); 5] = [&new, &ids, &abouts, &views, &outcomes];
    let event_rows: [&(dyn ToSql + Sync); 3] = [&of, &seq, &bodies];
    // On their way together: one trip.
    let (begun, tasks, events, committed) = tokio::join!(
        client.batch_execute("BEGIN"),
        client.execute(tasks, &task_rows),
        client.execute(events, &event_rows),
        client.batch_execute("COMMIT")
    );
    begun?;
    tasks?;
    events?;
    Ok(committed?)
}

/// A commit that somebody waits for.
struct Waiting {
    task: i64,
    commit: usize,
    done: oneshot::Sender<()>,
}

/// Callers that make one commit after the other, of one task after the other, and in the end their rate.
fn callers(
    at_once: usize,
    time: Duration,
) -> (JoinHandle<Result<f64>>, mpsc::UnboundedReceiver<Waiting>) {
    let (send, receive) = mpsc::unbounded_channel();
    let all = async move {
        let last = Arc::new(std::sync::atomic::AtomicI64::new(0));
        let begun = Instant::now();
        let mut callers = JoinSet::new();
        for _ in 0..at_once {
            let (send, last) = (send.clone(), last.clone());
            callers.spawn(async move {
                let mut commits = 0_u64;
                while begun.elapsed() < time {
                    let task = last.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    for commit in 0..COMMITS {
                        let (done, wait) = oneshot::channel();
                        if send.send(Waiting { task, commit, done }).is_err() || wait.await.is_err()
                        {
                            return Err("the writer has given up");
                        }
                        commits += 1;
                    }
                }
                Ok(commits)
            });
        }
        drop(send);
        let mut commits = 0;
        while let Some(caller) = callers.join_next().await {
            commits += caller??;
        }
        Ok::<_, crate::Error>(commits as f64 / begun.elapsed().as_secs_f64())
    };
    (tokio::spawn(all), receive)
}

fn answer(waiting: &mut Vec<Waiting>) {
    for one in waiting.drain(..) {
        // Who has given up needs no answer.
        let _ = one.done.send(());
    }
}

async fn connect(
    address: &str,
) -> Result<(Client, JoinHandle<std::result::Result<(), tokio_postgres::Error>>)> {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
    Ok((client, tokio::spawn(connection)))
}
