//! Poolers that give each transaction another connection: nothing of ours works through them.

use std::time::Duration;

use tokio_postgres::{Client, Error, SimpleQueryMessage};

use crate::OpenError;

/// How often to look: others who use the pooler may have made it look right by chance.
const LOOKS: usize = 3;

/// Refuses a pooler.
///
/// A connection has one server process to itself, or there is somebody in between who shares them
/// out by the transaction. So it must be the same process each time (one who deals them out in turn
/// gives another), and while another connection has a transaction open, and not the other's (one who
/// deals out the last that came back gives that).
pub(crate) async fn refuse(one: &Client, other: &Client) -> Result<(), OpenError> {
    for _ in 0..LOOKS {
        if is_between(one, other).await.map_err(|e| OpenError::failed(&e))? {
            return Err(OpenError::Pooled);
        }
    }
    Ok(())
}

async fn is_between(one: &Client, other: &Client) -> Result<bool, Error> {
    let before = process(one).await?;
    if process(one).await? != before {
        return Ok(true);
    }
    other.batch_execute("BEGIN").await?;
    let others = process(other).await?;
    // With a pool of one, it waits for the other's end.
    let after = tokio::time::timeout(Duration::from_secs(5), process(one)).await;
    other.batch_execute("ROLLBACK").await?;
    Ok(others == before || after.unwrap_or(Ok(0))? != before)
}

/// By the simple protocol: through such a pooler, prepared statements fail before anything else.
async fn process(client: &Client) -> Result<i32, Error> {
    for message in client.simple_query("SELECT pg_backend_pid()").await? {
        if let SimpleQueryMessage::Row(row) = message {
            return Ok(row.get(0).and_then(|pid| pid.parse().ok()).unwrap_or(0));
        }
    }
    Ok(0)
}
