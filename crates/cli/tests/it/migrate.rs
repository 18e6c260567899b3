//! `steadfast migrate`, on a real server.

use std::process::{Command, Output};

use steadfast_postgres::{Options, testing};

fn migrate(address: &str, schema: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
    command.args(["migrate", address, "--store-schema", schema]).output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_alter_tables_finds_them_after_it_and_not_before() {
    let server = testing::shared().unwrap();
    let open = || Options::new(server.url()).schema("apart").migrate_on_open(false).open();
    let missing = open().await.err().unwrap().to_string();
    assert!(missing.contains("there is no schema apart"), "{missing}");
    for _ in 0..2 {
        let done = migrate(&server.url(), "apart");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    open().await.unwrap();
}

#[test]
fn a_database_that_can_not_be_reached_is_an_error_without_its_password() {
    let failed = migrate("postgres://ada:secret@127.0.0.1:1/none", "apart");
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(2), "{said}");
    assert!(said.contains("can't connect to PostgreSQL") && !said.contains("secret"), "{said}");
}
