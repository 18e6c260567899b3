//! One connection: its settings, its prepared statements, and several statements in one trip.

use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::{Mutex, PoisonError},
    task::Poll,
    time::Duration,
};

use tokio::task::AbortHandle;
use tokio_postgres::{Client, Error, Row, Statement, types::ToSql};

use crate::{
    OpenError, Options,
    address::{Address, Wire},
    pooler, schema,
    schema::quoted,
};

/// A value for a statement.
pub(crate) type Param<'p> = &'p (dyn ToSql + Sync);

/// One connection. Several callers may use it at the same time; the server does what they ask for
/// one after the other.
pub(crate) struct Conn {
    pub(crate) client: Client,
    /// Ends the connection, unless somebody else polls its wire.
    end: Option<AbortHandle>,
    /// How long an answer may take.
    patience: Duration,
    known: Mutex<HashMap<Box<str>, Statement>>,
}

impl Conn {
    pub(crate) async fn open(address: &Address, options: &Options) -> Result<Conn, OpenError> {
        in_time(options, async {
            let (client, end) = address.connect().await?;
            Conn::dress(client, Some(end), options).await
        })
        .await
    }

    /// Two connections that have a server process each, and not one that a pooler lends them.
    ///
    /// They are told nothing before that is clear: through such a pooler it would be told to somebody
    /// else's connection. Nor before it is clear that the server understands it.
    pub(crate) async fn open_two(
        address: &Address,
        options: &Options,
    ) -> Result<[Conn; 2], OpenError> {
        in_time(options, async {
            let (one, one_end) = address.connect().await?;
            let (two, two_end) = address.connect().await?;
            pooler::refuse(&one, &two).await?;
            schema::check_server(&one).await?;
            let one = Conn::dress(one, Some(one_end), options).await?;
            Ok([one, Conn::dress(two, Some(two_end), options).await?])
        })
        .await
    }

    /// One that is told nothing that statements could notice, for SQL of others.
    pub(crate) async fn open_bare(address: &Address, options: &Options) -> Result<Conn, OpenError> {
        in_time(options, async {
            let (client, end) = address.connect().await?;
            client.batch_execute(STAY).await.map_err(|e| OpenError::failed(&e))?;
            let (end, patience) = (Some(end), options.patience);
            Ok(Conn { client, end, patience, known: Mutex::default() })
        })
        .await
    }

    /// The same, for who polls the wire himself.
    pub(crate) async fn open_wire(
        address: &Address,
        options: &Options,
    ) -> Result<(Conn, Wire), OpenError> {
        in_time(options, Conn::open_wire_at_leisure(address, options)).await
    }

    async fn open_wire_at_leisure(
        address: &Address,
        options: &Options,
    ) -> Result<(Conn, Wire), OpenError> {
        let (client, mut wire) = address.wire().await?;
        let mut dressing = std::pin::pin!(Conn::dress(client, None, options));
        let conn = std::future::poll_fn(|cx| {
            // Nothing was asked for yet that could be heard.
            if let Poll::Ready(Some(Err(error))) = wire.poll_message(cx) {
                return Poll::Ready(Err(OpenError::failed(&error)));
            }
            dressing.as_mut().poll(cx)
        });
        Ok((conn.await?, wire))
    }

    /// What every connection of ours is told first.
    ///
    /// The plans we want are known: by index, one row after the other. So plans are made once for
    /// each statement, and may not depend on statistics, which know nothing of a table that was
    /// empty a minute ago. How long an answer may take is our own affair: a `statement_timeout` would
    /// also end the wait of a commit for its standby, and call that a success. But what we have given up
    /// must not go on with its locks: so the server is to look whether we are still there while it is at a
    /// statement, if its system lets it. (It does not look while it waits for a standby; a request to cancel
    /// would end that as well.) Nor may a limit of the server's on
    /// sessions or on transactions end a connection that waits for work, or for a lock.
    async fn dress(
        client: Client,
        end: Option<AbortHandle>,
        options: &Options,
    ) -> Result<Conn, OpenError> {
        let settings = format!(
            "{STAY}; {} SET default_transaction_isolation = 'read committed';
             DO $$ BEGIN
                 SET client_connection_check_interval = 1000;
             EXCEPTION WHEN OTHERS THEN NULL;
             END $$;",
            settings(options, "")
        );
        client.batch_execute(&settings).await.map_err(|e| OpenError::failed(&e))?;
        Ok(Conn { client, end, patience: options.patience, known: Mutex::default() })
    }

    /// Ends it, whatever is under way on it.
    pub(crate) fn give_up(&self) {
        if let Some(end) = &self.end {
            end.abort();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    async fn statement(&self, sql: &str) -> Result<Statement, Error> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let made = self.client.prepare(sql).await?;
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(sql.into(), made.clone());
        Ok(made)
    }

    /// Runs one statement.
    pub(crate) async fn query(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Error> {
        self.in_time(async {
            let statement = self.statement(sql).await?;
            self.client.query(&statement, params).await
        })
        .await
    }

    /// Runs statements that have no values and give no rows.
    pub(crate) async fn run(&self, sql: &str) -> Result<(), Error> {
        self.in_time(self.client.batch_execute(sql)).await
    }

    /// Waits for an answer. If it takes too long the connection is given up, which is then the
    /// answer.
    async fn in_time<T>(&self, answer: impl Future<Output = T>) -> T {
        let mut answer = std::pin::pin!(answer);
        match (tokio::time::timeout(self.patience, &mut answer).await, &self.end) {
            (Ok(answer), _) => answer,
            (Err(_), end) => {
                if let Some(end) = end {
                    tracing::warn!("the database does not answer; giving up the connection");
                    end.abort();
                }
                answer.await
            }
        }
    }

    /// The first row of one statement.
    pub(crate) async fn first(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, Error> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }
}

/// A server that is reached, and then says nothing, is no server.
async fn in_time<T>(
    options: &Options,
    opening: impl Future<Output = Result<T, OpenError>>,
) -> Result<T, OpenError> {
    let limit = options.patience.min(Duration::from_secs(15));
    let late = || OpenError::Connect(format!("the server says nothing for {limit:?}"));
    tokio::time::timeout(limit, opening).await.unwrap_or_else(|_| Err(late()))
}

/// Statements that go to the server in one trip, and are done there in their order.
#[derive(Default)]
pub(crate) struct Pipe<'p> {
    entries: Vec<(&'static str, Vec<Param<'p>>)>,
}

impl<'p> Pipe<'p> {
    /// Adds one, and says the place of its rows in the answer.
    pub(crate) fn add(&mut self, sql: &'static str, params: &[Param<'p>]) -> usize {
        self.entries.push((sql, params.to_vec()));
        self.entries.len() - 1
    }

    /// Sends all, and waits for all: their rows, or the first error.
    pub(crate) async fn run(self, conn: &Conn) -> Result<Vec<Vec<Row>>, Error> {
        conn.in_time(self.send(conn)).await
    }

    async fn send(self, conn: &Conn) -> Result<Vec<Vec<Row>>, Error> {
        // All are known to the server before the first is sent, so that none overtakes another.
        let mut statements = Vec::with_capacity(self.entries.len());
        for (sql, _) in &self.entries {
            statements.push(conn.statement(sql).await?);
        }
        let sent = self.entries.iter().zip(&statements).map(|((_, params), statement)| {
            let answer = conn.client.query(statement, params);
            Box::pin(answer) as Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>> + Send + '_>>
        });
        in_order(sent.collect()).await
    }
}

/// A future of one of several statements.
type Sent<'s, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 's>>;

/// Polls all, always in their order, until all are done; or the first error. What fails as it is sent, for a
/// value that can't be, is the last that is: nothing behind it may be committed without it.
async fn in_order<T, E>(mut futures: Vec<Sent<'_, T, E>>) -> Result<Vec<T>, E> {
    let mut done: Vec<Option<Result<T, E>>> = Vec::with_capacity(futures.len());
    std::future::poll_fn(|cx| {
        let mut all = true;
        for (at, future) in futures.iter_mut().enumerate() {
            let is_sent = at < done.len();
            if is_sent && done[at].is_some() {
                continue;
            }
            let answer = match future.as_mut().poll(cx) {
                Poll::Ready(answer) => Some(answer),
                Poll::Pending => None,
            };
            all &= answer.is_some();
            let failed = matches!(answer, Some(Err(_)));
            match is_sent {
                true => done[at] = answer,
                false => done.push(answer),
            }
            if failed && !is_sent {
                break;
            }
        }
        futures.truncate(done.len());
        if all { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// Lets a connection be that has nothing to do.
pub(crate) const STAY: &str = "SET idle_session_timeout = 0";

/// Lets transactions take their time: this one, or all of the connection. Servers before 17 set them no
/// limit, and don't know the setting.
pub(crate) fn take_time(this_one: bool) -> String {
    format!(
        "SELECT CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL
             THEN set_config('transaction_timeout', '0', {this_one}) END;"
    )
}

/// What statements of ours need, for the connection or, with `LOCAL`, for the transaction.
pub(crate) fn settings(options: &Options, local: &str) -> String {
    let schema = quoted(&options.schema);
    let idle = (options.lease / 2).as_millis();
    let wait = options.lease.min(Duration::from_secs(10)).as_millis();
    let take_time = take_time(!local.is_empty());
    format!(
        "SET {local} search_path = {schema}; SET {local} plan_cache_mode = force_generic_plan;
         SET {local} enable_seqscan = off; SET {local} enable_bitmapscan = off;
         SET {local} enable_hashjoin = off; SET {local} enable_mergejoin = off;
         SET {local} jit = off; SET {local} lock_timeout = {wait};
         SET {local} statement_timeout = 0; {take_time}
         SET {local} idle_in_transaction_session_timeout = {idle};
         DO $$ BEGIN
             IF current_setting('synchronous_commit') = 'off' THEN
                 SET {local} synchronous_commit = on;
             END IF;
         END $$;"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_can_not_be_sent_is_the_last_that_is() {
        let sent = Mutex::new(Vec::new());
        let statement = |n: u8| -> Sent<'_, u8, u8> {
            let sent = &sent;
            Box::pin(async move {
                sent.lock().unwrap_or_else(PoisonError::into_inner).push(n);
                if n == 2 {
                    return Err(n);
                }
                tokio::task::yield_now().await;
                Ok(n)
            })
        };
        assert_eq!(in_order((0..5).map(statement).collect()).await, Err(2));
        assert_eq!(*sent.lock().unwrap_or_else(PoisonError::into_inner), [0, 1, 2]);
        assert_eq!(in_order((3..6).map(statement).collect()).await, Ok(vec![3, 4, 5]));
    }
}
