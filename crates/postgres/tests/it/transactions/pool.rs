//! Who gets a connection for a transaction, and who does not.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
    time::Duration,
};

use steadfast_engine::{Context, Result, Status, Tool};
use steadfast_postgres::{Store, in_postgres, testing, testing::Setup};
use steadfast_store::{Error, Prepared, Store as _, Work as _};
use tokio::sync::Notify;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use super::{Bank, Book, Yes, ada, commit, engine, output, ready, until};
use crate::common::{held, history, id};

/// What is logged while somebody listens.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Visit for &Log {
    fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
        self.0.lock().unwrap().push_str(&format!("{value:?}\n"));
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut &*self);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn who_waits_long_for_a_connection_says_what_to_do_and_waits_on() {
    let bank = Bank::open().await;
    let options = bank.options.clone().transactions(1).patience(Duration::from_millis(300));
    let store = options.open().await.unwrap();
    let (one, two) = (held(&store, "one").await, held(&store, "two").await);
    let book = &bank.book();
    let first = ready(&store, in_postgres(|tx| async move { book.pay(&tx, 1).await })).await;
    let log = Log::default();
    let listening = tracing::subscriber::set_default(log.clone());
    let others = async {
        until("it is said", async || log.0.lock().unwrap().contains("--store-transactions")).await;
        commit(&store, one, 1, first).await.unwrap();
    };
    let second = ready(&store, in_postgres(|tx| async move { book.pay(&tx, 2).await }));
    let (second, ()) = tokio::join!(second, others);
    drop(listening);
    commit(&store, two, 1, second).await.unwrap();
    assert_eq!(bank.paid().await, [1, 2]);
}

#[tokio::test]
async fn who_waits_for_a_connection_can_be_cancelled() {
    let bank = Bank::open().await;
    let (began, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let shared: (Book, _, _) = (bank.book(), began.clone(), go.clone());
    let tool = Tool::new("t", move |ctx: Context, cents: i64| {
        let (book, began, go) = shared.clone();
        async move {
            let (book, began, go) = (&book, &began, &go);
            if cents == 2 {
                began.notify_one();
            }
            let pay = in_postgres(|tx| async move {
                if cents == 1 {
                    began.notify_one();
                    go.notified().await;
                }
                book.pay(&tx, cents).await
            });
            ctx.transaction("book", pay.limit(Duration::from_secs(60))).await
        }
    });
    let engine = engine(bank.options.clone().transactions(1), tool).await;
    let tasks = engine.tasks(ada());
    for cents in [1, 2] {
        tasks.start("t", &cents).id(id(&format!("t{cents}"))).await.unwrap();
        began.notified().await;
    }
    let cancelled = async {
        tasks.cancel(&id("t2"), None).await.unwrap();
        tasks.wait(&id("t2")).await.unwrap()
    };
    let cancelled = tokio::time::timeout(Duration::from_secs(10), cancelled).await;
    assert_eq!(cancelled.expect("it hangs").status, Status::Cancelled);
    tasks.start("t", &3).id(id("t3")).await.unwrap();
    go.notify_one();
    for cents in [1, 3] {
        let id = id(&format!("t{cents}"));
        let ended = tokio::time::timeout(Duration::from_secs(20), tasks.wait(&id)).await;
        assert_eq!(output(&ended.expect("it hangs").unwrap()), cents.to_string());
    }
    engine.shutdown(Duration::from_secs(5)).await;
    assert_eq!(bank.paid().await, [1, 3]);
}

/// Whether a transaction can be begun, and if not, why.
async fn begins(store: &Store) -> std::result::Result<(), String> {
    let mut work = in_postgres(|_| async { Result::<i64>::Ok(1) });
    match work.prepare(store, Box::new(Yes)).await {
        Prepared::Ready(_) => Ok(()),
        Prepared::Failed(Error::Unavailable(why)) => Err(why),
        Prepared::Failed(error) => panic!("{error}"),
        _ => panic!("the code is fine"),
    }
}

#[tokio::test]
async fn a_server_that_was_told_to_only_read_is_not_written_to() {
    let server = Setup::default().start().unwrap();
    let bank = Bank::on(&server).await;
    let store = bank.options.clone().open().await.unwrap();
    let lease = held(&store, "a").await;
    begins(&store).await.unwrap();
    let set = async |on: &str| {
        let set = format!("ALTER SYSTEM SET default_transaction_read_only = {on}");
        bank.client.batch_execute(&set).await.unwrap();
        bank.client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    };
    set("on").await;
    let only_reads =
        |begun: std::result::Result<(), String>| begun.is_err_and(|why| why.contains("only reads"));
    until("it is respected", async || only_reads(begins(&store).await)).await;
    assert!(only_reads(begins(&store).await), "from then on");
    set("off").await;
    until("it goes on", async || begins(&store).await.is_ok()).await;
    let book = &bank.book();
    let parcel = ready(&store, in_postgres(|tx| async move { book.pay(&tx, 1).await })).await;
    commit(&store, lease, 1, parcel).await.unwrap();
    assert_eq!(bank.paid().await, [1]);
}

/// What runs when the tables become those of a version that is too far ahead writes nothing more.
#[tokio::test]
async fn tables_that_became_too_new_are_not_written_to() {
    let bank = Bank::open().await;
    let options = bank.options.clone().lease(Duration::from_secs(1));
    let store = options.clone().open().await.unwrap();
    let lease = held(&store, "a").await;
    let book = &bank.book();
    let parcel = ready(&store, in_postgres(|tx| async move { book.pay(&tx, 1).await })).await;
    let newer = "INSERT INTO schema_version (version, oldest)
                 SELECT max(version) + 2, max(version) + 1 FROM schema_version";
    testing::sql(&options, newer).await.unwrap();
    let says = |why: &str| why.contains("upgrade this program");
    until("it is noticed", async || store.check().await.is_err_and(|e| says(&e.to_string()))).await;
    let late = commit(&store, lease, 1, parcel).await.unwrap_err();
    assert!(matches!(&late, Error::Unavailable(why) if says(why)), "{late}");
    assert!(says(&begins(&store).await.unwrap_err()));
    assert_eq!(history(&store, lease).await, ["started"]);
    assert!(bank.paid().await.is_empty());
}
