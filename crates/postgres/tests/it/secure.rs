//! TLS and passwords.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use steadfast_postgres::{Options, testing, testing::Setup};

use crate::common::held;

fn issuer() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn file(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[tokio::test]
async fn each_mode_trusts_whom_it_says() {
    let (ours, theirs) = (issuer(), issuer());
    let key = KeyPair::generate().unwrap();
    let named = CertificateParams::new(vec!["localhost".into()]).unwrap();
    let certificate = named.signed_by(&key, &ours).unwrap();
    let server = Setup::default().tls(&certificate.pem(), &key.serialize_pem()).start().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let ours = file(dir.path(), "ours.pem", &ours.pem());
    let theirs = file(dir.path(), "theirs.pem", &theirs.pem());
    let open = async |host: &str, mode: &str, root: Option<&Path>| {
        let mut url = server.url().replace("127.0.0.1", host);
        url = url.replace("sslmode=disable", &format!("sslmode={mode}"));
        if let Some(root) = root {
            url += &format!("&sslrootcert={}", root.display());
        }
        let schema = server.options().schema_name().to_owned();
        match Options::new(url).schema(schema).open().await {
            Ok(store) => drop(held(&store, "a").await),
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    };
    for mode in ["disable", "allow", "prefer", "require"] {
        open("127.0.0.1", mode, None).await.unwrap();
    }
    open("127.0.0.1", "require", Some(&theirs)).await.unwrap_err();
    open("127.0.0.1", "verify-ca", Some(&ours)).await.unwrap();
    open("127.0.0.1", "verify-ca", Some(&theirs)).await.unwrap_err();
    open("localhost", "verify-full", Some(&ours)).await.unwrap();
    let name = open("127.0.0.1", "verify-full", Some(&ours)).await.unwrap_err();
    assert!(name.contains("not valid for name"), "{name}");
    open("localhost", "verify-full", Some(&theirs)).await.unwrap_err();
    open("localhost", "verify-full", Some(Path::new("system"))).await.unwrap_err();
    let missing = open("localhost", "verify-full", Some(Path::new("/no/such"))).await.unwrap_err();
    assert!(missing.contains("/no/such"), "{missing}");
}

/// What the server's rules are about decides whether a mode that leaves it open is encrypted.
#[tokio::test]
async fn a_mode_that_leaves_it_open_goes_by_the_rules_of_the_server() {
    let ours = issuer();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![]).unwrap().signed_by(&key, &ours).unwrap();
    let server = Setup::default().tls(&certificate.pem(), &key.serialize_pem()).start().unwrap();
    let is_encrypted = async |mode: &str| {
        let url = server.url().replace("sslmode=disable", &format!("sslmode={mode}"));
        let options = Options::new(url).schema(server.options().schema_name());
        let sql = "DO $$ BEGIN PERFORM 1 FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl; \
                   IF NOT FOUND THEN RAISE 'plain'; END IF; END $$";
        match testing::sql(&options, sql).await {
            Ok(()) => Ok(true),
            Err(error) if error.to_string().contains("plain") => Ok(false),
            Err(error) => Err(error.to_string()),
        }
    };
    for (rules, expected) in [
        ("host", [("disable", "no"), ("allow", "no"), ("prefer", "yes"), ("require", "yes")]),
        ("hostssl", [("disable", "-"), ("allow", "yes"), ("prefer", "yes"), ("require", "yes")]),
        ("hostnossl", [("disable", "no"), ("allow", "no"), ("prefer", "no"), ("require", "-")]),
    ] {
        server.rules(&format!("{rules} all all 127.0.0.1/32 trust\n")).unwrap();
        for (mode, expected) in expected {
            let found = is_encrypted(mode).await;
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
    let none = Options::new(url.clone()).schema(schema).open().await.unwrap_err().to_string();
    assert!(none.contains("password"), "{none}");
    let exact = file(dir.path(), "exact", "se:cret\n");
    Options::new(url.clone()).schema(schema).password_file(exact).open().await.unwrap();
    let line = format!("127.0.0.1:{}:*:ann:se\\:cret\n", server.port());
    let passfile = file(dir.path(), "passfile", &line);
    let with = format!("{url}&passfile={}", passfile.display());
    let open = Options::new(with.clone()).schema(schema).open().await.unwrap_err().to_string();
    assert!(open.contains("password"), "a file that others can read is ignored: {open}");
    std::fs::set_permissions(&passfile, std::fs::Permissions::from_mode(0o600)).unwrap();
    Options::new(with).schema(schema).open().await.unwrap();
    let wrong = file(dir.path(), "wrong", "wrong");
    let wrong = Options::new(url).schema(schema).password_file(wrong).open().await.unwrap_err();
    assert!(!wrong.to_string().contains("wrong;"), "{wrong}");
}
