//! When to encrypt, and passwords.

use std::os::unix::fs::PermissionsExt;

use steadfast_postgres::{Options, testing, testing::Setup};

use crate::papers::{Door, file, issuer, named, signed};

/// What the server's rules are about decides whether a mode that leaves it open is encrypted.
#[tokio::test]
async fn a_mode_that_leaves_it_open_goes_by_the_rules_of_the_server() {
    let door = Door::new(Setup::default(), &signed(&named(&[]), &issuer()));
    for (rules, expected) in [
        ("host", [("disable", "no"), ("allow", "no"), ("prefer", "yes"), ("require", "yes")]),
        ("hostssl", [("disable", "-"), ("allow", "yes"), ("prefer", "yes"), ("require", "yes")]),
        ("hostnossl", [("disable", "no"), ("allow", "no"), ("prefer", "no"), ("require", "-")]),
    ] {
        door.server.rules(&format!("{rules} all all 127.0.0.1/32 trust\n")).unwrap();
        for (mode, expected) in expected {
            let found = door.open("127.0.0.1", &format!("sslmode={mode}")).await;
            let as_expected = match expected {
                "-" => found.as_ref().is_err_and(|why| why.contains("pg_hba.conf")),
                expected => found == Ok(expected == "yes"),
            };
            assert!(as_expected, "{rules} {mode}: {found:?}");
        }
    }
}

#[tokio::test]
async fn a_password_comes_from_its_file_or_a_passfile() {
    let server = Setup::default().start().unwrap();
    let plain = server.options();
    let sql = "CREATE ROLE ann LOGIN SUPERUSER PASSWORD 'se:cret'";
    testing::sql(&plain, sql).await.unwrap();
    server.rules("host all all 127.0.0.1/32 scram-sha-256\n").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let url = server.url().replace("steadfast@", "ann@");
    let schema = plain.schema_name();
    let open = async |address: &str| {
        let options = Options::new(address).schema(schema).home(dir.path());
        options.open().await.map(drop).map_err(|error| error.to_string())
    };
    let none = open(&url).await.unwrap_err();
    assert!(none.contains("password"), "{none}");
    let exact = file(dir.path(), "exact", "se:cret\n");
    Options::new(url.clone()).schema(schema).password_file(exact).open().await.unwrap();
    let line = format!("127.0.0.1:{}:*:ann:se\\:cret\n", server.port());
    let passfile = file(dir.path(), "passfile", &line);
    let with = format!("{url}&passfile={}", passfile.display());
    let ignored = open(&with).await.unwrap_err();
    assert!(ignored.contains("password"), "a file that others can read is ignored: {ignored}");
    std::fs::set_permissions(&passfile, std::fs::Permissions::from_mode(0o600)).unwrap();
    open(&with).await.unwrap();
    std::fs::rename(&passfile, dir.path().join(".pgpass")).unwrap();
    open(&url).await.unwrap();
    let wrong = file(dir.path(), "wrong", "hunter2");
    let wrong = Options::new(url).schema(schema).password_file(wrong).open().await.unwrap_err();
    let said = format!("{wrong} {wrong:?}");
    assert!(said.contains("password authentication failed") && !said.contains("hunter2"), "{said}");
}

/// What libpq says of sslmode: it is ignored there.
#[tokio::test]
async fn a_socket_is_not_encrypted_whatever_the_mode() {
    let server = Setup::default().start().unwrap();
    let home = tempfile::tempdir().unwrap();
    let (socket, port) = (server.socket().display(), server.port());
    for mode in ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] {
        for address in [
            format!("host={socket} port={port} user=steadfast dbname=postgres sslmode={mode}"),
            format!("postgres://steadfast@/postgres?host={socket}&port={port}&sslmode={mode}"),
        ] {
            let options = Options::new(address).schema("x").home(home.path());
            testing::sql(&options, "SELECT 1").await.unwrap();
        }
    }
}
