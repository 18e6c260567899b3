//! `steadfast migrate`, on a real server.

use std::{
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use steadfast_postgres::{Options, testing, testing::Setup};

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

/// A database as a server of the first version of the tables left it.
const FIRST: &str = include_str!("../../../../harness/crash/kept/postgres-1.sql");

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_an_earlier_version_are_those_of_today_after_it() {
    let server = testing::shared().unwrap();
    testing::sql(&server.options(), FIRST).await.unwrap();
    let open = || Options::new(server.url()).schema("kept").migrate_on_open(false).open();
    let older = open().await.err().unwrap().to_string();
    assert!(older.contains("the schema kept has version 1"), "{older}");
    let done = migrate(&server.url(), "kept");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    open().await.unwrap();
}

#[test]
fn a_database_that_can_not_be_reached_is_an_error_without_its_password() {
    let failed = migrate("postgres://ada:secret@127.0.0.1:1/none", "apart");
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(2), "{said}");
    assert!(said.contains("can't connect to PostgreSQL") && !said.contains("secret"), "{said}");
}

/// What the address leaves out comes from where libpq looks for it, and is not said.
#[tokio::test(flavor = "multi_thread")]
async fn a_password_and_a_mode_may_come_from_the_environment() {
    let server = Setup::default().start().unwrap();
    let role = "CREATE ROLE ann LOGIN SUPERUSER PASSWORD 'hush'";
    testing::sql(&server.options(), role).await.unwrap();
    server.rules("host all all 127.0.0.1/32 scram-sha-256\n").unwrap();
    let home = tempfile::tempdir().unwrap();
    let address = format!("postgres://ann@127.0.0.1:{}/postgres", server.port());
    let run = |variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
        command.args(["migrate", &address]).env("HOME", home.path());
        for name in ["PGPASSWORD", "PGPASSFILE", "PGSSLMODE"] {
            command.env_remove(name);
        }
        let done = command.envs(variables.iter().copied()).output().unwrap();
        let said = [done.stdout, done.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(!said.contains("hush"), "{said}");
        (done.status.success(), said)
    };
    let file = |name: &str, password: &str| {
        let path = home.path().join(name);
        std::fs::write(&path, format!("127.0.0.1:*:postgres:ann:{password}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (done, said) = run(&[]);
    assert!(!done && said.contains("password"), "{said}");
    assert!(run(&[("PGPASSWORD", "hush")]).0);
    assert!(run(&[("PGPASSFILE", &text(&file("right", "hush")))]).0);
    file(".pgpass", "hush");
    assert!(run(&[]).0);
    let wrong = text(&file("wrong", "no"));
    assert!(!run(&[("PGPASSFILE", &wrong)]).0, "which comes before that of the home");
    assert!(run(&[("PGPASSFILE", &wrong), ("PGPASSWORD", "hush")]).0, "which comes before both");
    let (done, said) = run(&[("PGSSLMODE", "require")]);
    assert!(!done && said.contains("TLS"), "{said}");
    let (done, said) = run(&[("PGSSLMODE", "hush")]);
    assert!(!done && said.contains("sslmode is none of"), "{said}");
}

/// The papers of both sides, too.
#[test]
fn roots_and_certificates_may_come_from_the_environment_and_the_home() {
    let issuer = || {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    };
    let (ours, theirs): (CertifiedIssuer<'_, _>, CertifiedIssuer<'_, _>) = (issuer(), issuer());
    let signed = |hosts: &[&str]| {
        let hosts = hosts.iter().map(|&host| host.into()).collect::<Vec<String>>();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, "steadfast");
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &ours).unwrap().pem(), key.serialize_pem())
    };
    let (certificate, key) = signed(&["localhost"]);
    let server = Setup::default().tls(&certificate, &key).clients(&ours.pem()).start().unwrap();
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".postgresql")).unwrap();
    let file = |name: &str, text: &str| {
        let path = home.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let address = format!("postgres://steadfast@localhost:{}/postgres", server.port());
    let run = |variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
        command.args(["migrate", &address]).env("HOME", home.path());
        for name in ["PGSSLMODE", "PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY"] {
            command.env_remove(name);
        }
        let done = command.envs(variables.iter().copied()).output().unwrap();
        (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (ours, theirs) = (file("ours", &ours.pem()), file("theirs", &theirs.pem()));
    let mode = |mode| ("PGSSLMODE", mode);
    let (done, said) = run(&[mode("verify-ca")]);
    assert!(!done && said.contains("needs a root"), "{said}");
    let (done, said) = run(&[("PGSSLROOTCERT", "system"), mode("require")]);
    assert!(!done && said.contains("sslrootcert=system"), "{said}");
    assert!(!run(&[("PGSSLROOTCERT", "system")]).0, "which is verify-full");
    assert!(run(&[mode("require")]).0);
    for strict in ["require", "verify-ca", "verify-full"] {
        assert!(run(&[mode(strict), ("PGSSLROOTCERT", &ours)]).0, "{strict}");
        assert!(!run(&[mode(strict), ("PGSSLROOTCERT", &theirs)]).0, "{strict}");
    }
    std::fs::copy(&theirs, home.path().join(".postgresql/root.crt")).unwrap();
    assert!(!run(&[mode("require")]).0 && !run(&[mode("verify-full")]).0);
    std::fs::copy(&ours, home.path().join(".postgresql/root.crt")).unwrap();
    assert!(run(&[mode("require")]).0 && run(&[mode("verify-full")]).0);

    server.rules("hostssl all all 127.0.0.1/32 cert\n").unwrap();
    assert!(!run(&[mode("require")]).0);
    let (certificate, key) = signed(&[]);
    let (cert, key) = (file("us.crt", &certificate), file("us.key", &key));
    assert!(run(&[mode("require"), ("PGSSLCERT", &cert), ("PGSSLKEY", &key)]).0);
    std::fs::copy(&cert, home.path().join(".postgresql/postgresql.crt")).unwrap();
    std::fs::copy(&key, home.path().join(".postgresql/postgresql.key")).unwrap();
    assert!(run(&[mode("verify-full")]).0);
}

/// libpq's other form, which would be a fine name for a file as well.
#[test]
fn an_address_in_words_is_one_and_no_file() {
    let server = testing::shared().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
        let done = command.args(words).current_dir(dir.path()).output().unwrap();
        let said = [done.stdout, done.stderr].concat();
        (done.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    let words = format!(
        "host=127.0.0.1 port={} user=steadfast password=hush dbname=postgres sslmode=disable",
        server.port()
    );
    let schema = ["--store-schema", "words"];
    let (code, said) = run(&[&["migrate", &words], &schema[..]].concat());
    assert!(code == Some(0) && !said.contains("hush"), "{said}");
    let (code, said) = run(&[&["reopen", "--store", &words], &schema[..]].concat());
    assert!(code == Some(0) && said.contains("was not closed"), "{said}");
    for wrong in ["mysql://ada:hush@db/d", "password=hush nonsense", "service=x password=hush"] {
        let (code, said) = run(&["reopen", "--store", wrong]);
        assert!(code == Some(2) && said.contains("postgres://user@host"), "{said}");
        assert!(!said.contains("hush"), "{said}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
