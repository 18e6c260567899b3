//! A real pooler between a store and its server.

use std::time::Duration;

use steadfast_postgres::{OpenError, Options, Store, testing, testing::Pooler};
use steadfast_store::{NewTask, Store as _};

use crate::common::{held, history, task, turn};

async fn behind(pooler: &Pooler, options: &Options) -> Result<Store, OpenError> {
    let server = testing::shared().unwrap();
    Options::new(server.url_by(pooler.port())).schema(options.schema_name()).open().await
}

/// One that lends a connection for a transaction is seen at the start; and what is said to find out
/// stays with none of the connections that others get.
#[tokio::test]
async fn a_pooler_by_the_transaction_is_refused_and_left_as_it_was() {
    let server = testing::shared().unwrap();
    // With a pool of one the second transaction waits; with more it gets another connection.
    for size in ["default_pool_size = 1", "default_pool_size = 5", "server_round_robin = 1"] {
        let pooler = Pooler::start(server, "transaction", size).unwrap();
        let options = server.options();
        options.clone().migrate().await.unwrap();
        let error = behind(&pooler, &options).await.unwrap_err();
        assert!(matches!(error, OpenError::Pooled), "{size}: {error}");
        assert!(error.to_string().contains("pool_mode = session"), "{error}");
        let through = Options::new(server.url_by(pooler.port())).schema(options.schema_name());
        let error = through.migrate().await.unwrap_err();
        assert!(matches!(error, OpenError::Pooled), "{size}: {error}");
        let url = server.url_by(pooler.port()).replace("?sslmode=disable", "");
        let (client, wire) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(wire);
        let said = client.simple_query("SHOW search_path").await.unwrap();
        let path = said.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        assert_eq!(path, Some("\"$user\", public"), "{size}");
    }
}

#[tokio::test]
async fn a_pooler_by_the_statement_is_refused() {
    let server = testing::shared().unwrap();
    let pooler = Pooler::start(server, "statement", "").unwrap();
    let error = behind(&pooler, &server.options()).await.unwrap_err().to_string();
    assert!(error.contains("statement pooling mode"), "{error}");
}

/// With a connection to itself for as long as it likes, a process works as without one, and hears
/// what others say.
#[tokio::test]
async fn a_pooler_by_the_session_is_as_good_as_none() {
    let server = testing::shared().unwrap();
    let pooler = Pooler::start(server, "session", "default_pool_size = 20").unwrap();
    let options = server.options();
    let one = behind(&pooler, &options).await.unwrap();
    let lease = held(&one, "a").await;
    one.turn(turn(lease, 1, "x")).await.unwrap();
    assert_eq!(history(&one, lease).await, ["started", "x"]);
    one.check().await.unwrap();
    let two = options.open().await.unwrap();
    let changed = one.changed();
    while tokio::time::timeout(Duration::from_millis(1300), changed.next()).await.is_ok() {}
    two.start(NewTask { hold: false, ..task("b") }).await.unwrap();
    let told = tokio::time::timeout(Duration::from_millis(500), changed.next()).await;
    assert!(told.is_ok(), "by NOTIFY, before it looks by itself");
}
