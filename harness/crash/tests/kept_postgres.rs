//! Databases of every version of the tables so far: each is opened as it was left, and all of its tasks
//! finish.
#![allow(clippy::unwrap_used)] // In a test a panic is the report.

use std::{path::PathBuf, sync::Arc, time::Duration};

use steadfast_crash::{Ledger, kept};
use steadfast_postgres::testing::{self, Setup};

fn path(version: i64) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("kept");
    dir.join(format!("postgres-{version}.sql"))
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_every_version_finish() {
    let server = Setup::default().start().unwrap();
    for version in 1..=testing::schema_version() {
        let dump = std::fs::read_to_string(path(version));
        let dump = dump.expect("a database of this version is kept: run cargo xtask keep-schema");
        let options = server.options().schema("kept").lease(Duration::from_secs(1));
        testing::sql(&options, &dump).await.unwrap();
        // As is said to those who want to look into it.
        let json = "SELECT convert_from(about, 'UTF8')::json, convert_from(view, 'UTF8')::json,
            convert_from(outcome, 'UTF8')::json, tags::json FROM task;
            SELECT convert_from(body, 'UTF8')::json FROM event";
        testing::sql(&options, json).await.unwrap();
        let store = Arc::new(options.clone().open().await.unwrap());
        let ledger = Ledger::in_memory();
        let finish = kept::finish(store, &ledger);
        let done = tokio::time::timeout(Duration::from_secs(60), finish).await;
        let wrong = done.expect("all of them finish").unwrap();
        assert!(wrong.is_empty(), "version {version}: {wrong:#?}");
        testing::sql(&options, "DROP SCHEMA kept CASCADE").await.unwrap();
    }
}

/// What is kept of today's version is what is made today: a migration that was run somewhere is not changed.
#[tokio::test(flavor = "multi_thread")]
async fn the_tables_that_are_kept_of_this_version_are_those_that_are_made() {
    let server = Setup::default().start().unwrap();
    server.options().schema("made").migrate().await.unwrap();
    let dump = std::fs::read_to_string(path(testing::schema_version())).unwrap();
    testing::sql(&server.options(), &dump).await.unwrap();
    let compared = "CREATE TEMP VIEW parts AS
        SELECT table_schema AS place, concat_ws(' ', table_name, column_name, data_type, is_nullable,
            collation_name, replace(column_default, table_schema || '.', '')) AS part
        FROM information_schema.columns
        UNION ALL SELECT schemaname, replace(indexdef, ' ' || schemaname || '.', ' ') FROM pg_indexes
        UNION ALL SELECT sequence_schema, sequence_name FROM information_schema.sequences
        UNION ALL SELECT trigger_schema, concat_ws(' ', trigger_name, event_object_table,
            event_manipulation, action_timing) FROM information_schema.triggers;
        DO $$ DECLARE different text; BEGIN
            SELECT string_agg(part, '; ') INTO different FROM (
                (SELECT part FROM parts WHERE place = 'kept'
                 EXCEPT SELECT part FROM parts WHERE place = 'made')
                UNION ALL (SELECT part FROM parts WHERE place = 'made'
                 EXCEPT SELECT part FROM parts WHERE place = 'kept')) AS d;
            IF different IS NOT NULL THEN RAISE 'different: %', different; END IF;
            IF (SELECT count(*) FROM parts WHERE place = 'kept') < 100 THEN RAISE 'no parts'; END IF;
        END $$";
    testing::sql(&server.options(), compared).await.unwrap();
}
