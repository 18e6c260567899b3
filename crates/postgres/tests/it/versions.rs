//! Tables of another version than this code's, and those who may not alter them.

use std::time::Duration;

use steadfast_postgres::{OpenError, Options, testing, testing::Setup};
use steadfast_store::{Error, Store as _};

use crate::{common::task, works::works};

/// What the next version may do while this one runs: add.
const NEXT: &str = "
    DO $$ DECLARE name text; BEGIN
        FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() LOOP
            EXECUTE format('ALTER TABLE %I ADD COLUMN later text NOT NULL DEFAULT ''x''', name);
        END LOOP;
    END $$;
    CREATE TABLE later (n bigint PRIMARY KEY);
    CREATE INDEX task_later ON task (later, key);
    INSERT INTO schema_version (version, oldest) SELECT max(version) + 1, max(version)
    FROM schema_version";

/// Processes of this version go on while the next one's tables are made, and can be gone back to.
#[tokio::test]
async fn the_tables_of_the_next_version_serve_this_one() {
    let options = testing::shared().unwrap().options();
    let before = options.clone().open().await.unwrap();
    works(&options, &before, "before").await;
    testing::sql(&options, NEXT).await.unwrap();
    works(&options, &before, "meanwhile").await;
    let back = options.clone().open().await.unwrap();
    works(&options, &back, "back").await;
    // Nor does it take them back.
    options.clone().migrate().await.unwrap();
    works(&options, &before, "after").await;
}

/// Those of the one after that don't: who begins is told, and who runs stops writing and says why.
#[tokio::test]
async fn the_tables_of_the_version_after_that_do_not() {
    let options = testing::shared().unwrap().options().lease(Duration::from_secs(1));
    let running = options.clone().open().await.unwrap();
    testing::sql(&options, NEXT).await.unwrap();
    works(&options, &running, "next").await;
    let after = "INSERT INTO schema_version (version, oldest) SELECT max(version) + 1, max(version)
                 FROM schema_version";
    testing::sql(&options, after).await.unwrap();
    for error in
        [options.clone().open().await.unwrap_err(), options.clone().migrate().await.unwrap_err()]
    {
        let two_ahead =
            matches!(error, OpenError::Newer { known, found, .. } if found == known + 2);
        assert!(two_ahead, "{error}");
    }
    let begun = std::time::Instant::now();
    let refused = loop {
        match running.start(task(&format!("t{}", begun.elapsed().as_micros()))).await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => break error,
        }
        assert!(begun.elapsed() < Duration::from_secs(5));
    };
    let says = |error: &Error| matches!(error, Error::Unavailable(why) if why.contains("upgrade this program"));
    assert!(says(&refused), "{refused}");
    let ready = running.check().await.unwrap_err();
    assert!(says(&ready), "{ready}");
}

async fn role(server: &testing::Server, sql: &str) -> Options {
    testing::sql(&server.options(), sql).await.unwrap();
    Options::new(server.url().replace("steadfast@", "app@")).schema("apart")
}

/// What a server needs if others make the tables for it.
#[tokio::test]
async fn who_may_only_read_and_write_the_tables_can_work_on_them() {
    let server = Setup::default().start().unwrap();
    let options = role(&server, "CREATE ROLE app LOGIN").await;
    let none = options.clone().open().await.unwrap_err().to_string();
    assert!(none.contains("permission denied for database") && none.contains("grant"), "{none}");
    Options::new(server.url()).schema("apart").migrate().await.unwrap();
    let options = options.migrate_on_open(false);
    let unseen = options.clone().open().await.unwrap_err().to_string();
    assert!(unseen.contains("permission denied for schema"), "{unseen}");
    let grants = "GRANT USAGE ON SCHEMA apart TO app;
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA apart TO app;
        GRANT USAGE ON ALL SEQUENCES IN SCHEMA apart TO app";
    testing::sql(&server.options(), grants).await.unwrap();
    works(&options, &options.clone().open().await.unwrap(), "granted").await;
}

/// A schema that was made for it is enough: it need not be allowed to make schemas.
#[tokio::test]
async fn who_was_given_a_schema_makes_the_tables_in_it() {
    let server = Setup::default().start().unwrap();
    let sql = "CREATE ROLE app LOGIN; CREATE SCHEMA apart AUTHORIZATION app";
    let options = role(&server, sql).await;
    works(&options, &options.clone().open().await.unwrap(), "given").await;
}
