//! The floor: rows of the same size, committed in batches by one connection.

use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio_postgres::NoTls;

use crate::{Result, floor::ROW};

/// Rows a second with this many callers, each of which waits for its row. One statement and one flush for
/// all that wait.
pub(crate) async fn rows_per_s(address: &str, at_once: usize, time: Duration) -> Result<f64> {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
    let served = tokio::spawn(connection);
    let table = super::fresh();
    client
        .batch_execute(&format!(
            "CREATE TABLE {table} (k bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL)"
        ))
        .await?;
    let insert = format!("INSERT INTO {table} (body) SELECT unnest($1::bytea[])");
    let insert = client.prepare(&insert).await?;
    let (send, mut receive) = mpsc::unbounded_channel::<(Vec<u8>, oneshot::Sender<()>)>();
    let begun = Instant::now();
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..at_once {
        let send = send.clone();
        callers.spawn(async move {
            let mut rows = 0_u64;
            while begun.elapsed() < time {
                let (reply, done) = oneshot::channel();
                if send.send((vec![b'x'; ROW], reply)).is_err() || done.await.is_err() {
                    break;
                }
                rows += 1;
            }
            rows
        });
    }
    drop(send);
    let mut waiting = Vec::new();
    while receive.recv_many(&mut waiting, 2_048).await > 0 {
        let bodies: Vec<&[u8]> = waiting.iter().map(|(body, _)| body.as_slice()).collect();
        client.execute(&insert, &[&bodies]).await?;
        for (_, reply) in waiting.drain(..) {
            let _ = reply.send(());
        }
    }
    let rows: u64 = callers.join_all().await.into_iter().sum();
    let taken = begun.elapsed().as_secs_f64();
    client.batch_execute(&format!("DROP TABLE {table}")).await?;
    drop(client);
    served.await??;
    Ok(rows as f64 / taken)
}
