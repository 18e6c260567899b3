//! A server that may not alter tables.

use serde_json::json;
use steadfast_postgres::{Options, testing};

use crate::{
    client::Client,
    server::{Server, database},
};

/// A database as a server of the first version of the tables left it.
const FIRST: &str = include_str!("../../../crash/kept/postgres-1.sql");

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

/// Does not start before somebody has migrated, and changes nothing.
fn starts_after_a_migration(schema: &str, says: &str) {
    let mut server = Server::prepared_in(schema, &["--store-no-migrate"]);
    for _ in 0..2 {
        let said = server.does_not_start();
        assert!(said.contains(says) && said.contains("run the migration first"), "{said}");
    }
    run(Options::new(database().url()).schema(schema).migrate()).unwrap();
    server.up();
    let client = Client::connect(server.address(), "2025-11-25");
    let done = client.call(server.address(), json!(1), "short", json!({ "number": 5 })).last();
    assert_eq!(done["result"]["content"][0]["text"], "5", "{done}");
}

#[test]
fn without_tables_it_does_not_start() {
    starts_after_a_migration("none_yet", "there is no schema none_yet");
}

#[test]
fn with_those_of_an_earlier_version_it_does_not_start() {
    run(testing::sql(&database().options(), FIRST)).unwrap();
    starts_after_a_migration("kept", "the schema kept has version 1");
}
