//! Opening, migrating, and what is refused.

use steadfast_postgres::{OpenError, Options, Store, testing, testing::Setup};
use steadfast_store::Store as _;

use crate::common::held;

#[tokio::test]
async fn however_many_begin_at_once_the_tables_are_made_once() {
    let options = testing::shared().unwrap().options();
    let open = || tokio::spawn(options.clone().open());
    let all = [open(), open(), open(), open(), open()];
    let mut desks = std::collections::BTreeSet::new();
    for opened in all {
        desks.insert(opened.await.unwrap().unwrap().desk());
    }
    assert_eq!(desks.len(), 5);
}

#[tokio::test]
async fn tables_are_made_beforehand_if_the_server_may_not() {
    let options = testing::shared().unwrap().options().migrate_on_open(false);
    let error = options.clone().open().await.unwrap_err();
    assert!(matches!(error, OpenError::NoSchema { .. }), "{error}");
    options.clone().migrate().await.unwrap();
    options.clone().migrate().await.unwrap();
    let store = options.open().await.unwrap();
    held(&store, "a").await;
}

/// A database as a server of the first version of the tables left it.
const FIRST: &str = include_str!("../../../../harness/crash/kept/postgres-1.sql");

#[tokio::test]
async fn older_tables_are_brought_up_to_date_beforehand_if_the_server_may_not() {
    let server = testing::shared().unwrap();
    let options = server.options().schema("kept").migrate_on_open(false);
    testing::sql(&options, FIRST).await.unwrap();
    let error = options.clone().open().await.unwrap_err();
    let text = error.to_string();
    let known = testing::schema_version();
    let older = matches!(error, OpenError::Older { found: 1, known: k, .. } if k == known);
    assert!(older && text.contains("run the migration first"), "{text}");
    // It was left as it is.
    let again = options.clone().open().await.unwrap_err();
    assert_eq!(again.to_string(), text);
    options.clone().migrate().await.unwrap();
    held(&options.open().await.unwrap(), "a").await;
}

/// Else some texts could not be written, one day.
#[tokio::test]
async fn a_database_that_does_not_keep_every_text_is_refused() {
    let server = testing::shared().unwrap();
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let name = encoding.to_lowercase();
        let make = format!(
            "CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
        );
        testing::sql(&server.options(), &make).await.unwrap();
        let options = Options::new(server.url().replace("/postgres?", &format!("/{name}?")));
        for error in [
            options.clone().open().await.unwrap_err(),
            options.clone().migrate().await.unwrap_err(),
        ] {
            let text = error.to_string();
            assert!(matches!(error, OpenError::Encoding { .. }), "{text}");
            assert!(text.contains(encoding) && text.contains("UTF8"), "{text}");
        }
    }
}

/// Of those that `STEADFAST_POSTGRES_TOO_OLD` names, as `cargo xtask postgres-versions` does.
#[tokio::test]
async fn a_server_that_is_too_old_is_refused_with_its_version() {
    let named = std::env::var_os("STEADFAST_POSTGRES_TOO_OLD");
    for programs in named.iter().flat_map(std::env::split_paths) {
        let server = Setup::default().programs(&programs).start().unwrap();
        let options = server.options();
        for error in [
            options.clone().open().await.unwrap_err(),
            options.clone().migrate().await.unwrap_err(),
        ] {
            let text = error.to_string();
            let OpenError::ServerTooOld { found } = error else { panic!("{text}") };
            let told = format!("PostgreSQL is version {found}; version 14 or newer is needed");
            assert!(text.starts_with(&told) && !found.starts_with("14"), "{text}");
            println!("refused: {found}");
        }
    }
}

/// One version ahead is fine as long as its migration says so.
#[tokio::test]
async fn a_newer_schema_is_refused_unless_it_still_serves_us() {
    let options = testing::shared().unwrap().options();
    options.clone().migrate().await.unwrap();
    let next = "INSERT INTO schema_version SELECT max(version) + 1, 1 FROM schema_version";
    testing::sql(&options, next).await.unwrap();
    held(&options.clone().open().await.unwrap(), "a").await;
    let later = "INSERT INTO schema_version SELECT max(version) + 1, 1000 FROM schema_version";
    testing::sql(&options, later).await.unwrap();
    let error = options.open().await.unwrap_err();
    let two_ahead = matches!(error, OpenError::Newer { known, found, .. } if found == known + 2);
    assert!(two_ahead, "{error}");
}

#[tokio::test]
async fn stores_in_two_schemas_know_nothing_of_each_other() {
    let server = testing::shared().unwrap();
    let (one, two) = (server.options(), server.options().schema("with \"quotes\" and 'more'"));
    let (one, two) = (one.open().await.unwrap(), two.open().await.unwrap());
    held(&one, "a").await;
    held(&two, "a").await;
    assert_eq!(one.held().await.unwrap().len(), 1);
}

#[tokio::test]
async fn who_can_not_get_in_is_told_why_and_no_password_is_in_it() {
    let nobody = Options::new("postgres://ann:secret@127.0.0.1:1/d").open().await.unwrap_err();
    let text = nobody.to_string();
    assert!(matches!(nobody, OpenError::Connect(_)), "{text}");
    assert!(text.contains("127.0.0.1") && !text.contains("secret"), "{text}");
    let port = testing::shared().unwrap().port();
    for (url, what) in [
        (format!("postgres://nobody:secret@127.0.0.1:{port}/postgres?sslmode=disable"), "nobody"),
        (format!("postgres://steadfast:secret@127.0.0.1:{port}/none?sslmode=disable"), "none"),
        (format!("postgres://steadfast:secret@127.0.0.1:{port}/postgres?sslmode=require"), "TLS"),
    ] {
        let text = Options::new(url).open().await.unwrap_err().to_string();
        assert!(text.contains(what) && !text.contains("secret"), "{text}");
    }
}

#[tokio::test]
async fn a_server_without_room_says_so() {
    let setup = Setup::default().set("max_connections", "7");
    let server = setup.set("superuser_reserved_connections", "0").start().unwrap();
    let mut open: Vec<Store> = Vec::new();
    let error = loop {
        match server.options().open().await {
            Ok(store) => open.push(store),
            Err(error) => break error.to_string(),
        }
    };
    assert_eq!(open.len(), 1, "four connections each before anything is read");
    assert!(error.contains("max_connections"), "{error}");
}
