//! Whom each `sslmode` takes for the server, and whom a server takes for a client.

use std::os::unix::fs::PermissionsExt;

use rcgen::{KeyPair, date_time_ymd};
use steadfast_postgres::{Options, testing, testing::Setup};

use crate::{
    common::held,
    papers::{Door, common_name, is_encrypted, issuer, named, root, signed},
};

const UNKNOWN: &str = "invalid peer certificate";

#[tokio::test]
async fn each_mode_trusts_whom_it_says() {
    let (ours, theirs) = (issuer(), issuer());
    let door = Door::new(Setup::default(), &signed(&named(&["localhost"]), &ours));
    let ours = format!("sslrootcert={}", door.file("ours", &ours.pem()).display());
    let theirs = format!("sslrootcert={}", door.file("theirs", &theirs.pem()).display());
    for mode in ["disable", "allow"] {
        assert_eq!(door.open("127.0.0.1", &format!("sslmode={mode}")).await, Ok(false));
    }
    for mode in ["prefer", "require"] {
        door.opens("127.0.0.1", &format!("sslmode={mode}")).await;
    }
    door.opens("127.0.0.1", &format!("sslmode=require&{ours}")).await;
    door.refuses("127.0.0.1", &format!("sslmode=require&{theirs}"), UNKNOWN).await;
    // It promises nothing, and so it is not left unencrypted either, as libpq does then.
    door.opens("127.0.0.1", &format!("sslmode=prefer&{theirs}")).await;
    door.opens("127.0.0.1", &format!("sslmode=verify-ca&{ours}")).await;
    door.refuses("127.0.0.1", &format!("sslmode=verify-ca&{theirs}"), UNKNOWN).await;
    door.opens("localhost", &format!("sslmode=verify-full&{ours}")).await;
    door.refuses("127.0.0.1", &format!("sslmode=verify-full&{ours}"), "not valid for name").await;
    door.refuses("localhost", &format!("sslmode=verify-full&{theirs}"), UNKNOWN).await;
    door.refuses("localhost", "sslmode=verify-full&sslrootcert=/no/such", "/no/such").await;
    door.refuses("localhost", "sslmode=require&sslrootcert=/no/such", "/no/such").await;
    door.refuses("localhost", "channel_binding=require", "no channel binding").await;
    // A whole store, and not a connection alone.
    let url = door.server.url().replace("127.0.0.1", "localhost");
    let url = url.replace("sslmode=disable", &format!("sslmode=verify-full&{ours}"));
    let store = Options::new(url).schema("whole").open().await.unwrap();
    held(&store, "a").await;
}

/// `sslnegotiation=direct`, which servers know from version 17 on.
#[tokio::test]
async fn encryption_may_come_without_a_question() {
    let ours = issuer();
    let door = Door::new(Setup::default(), &signed(&named(&["localhost"]), &ours));
    door.file(".postgresql/root.crt", &ours.pem());
    for weak in ["disable", "allow", "prefer"] {
        let parameters = format!("sslmode={weak}&sslnegotiation=direct");
        door.refuses("localhost", &parameters, "sslnegotiation=direct needs").await;
    }
    let version = "DO $$ BEGIN IF current_setting('server_version_num')::int < 170000 \
                   THEN RAISE 'old'; END IF; END $$";
    let knows_it = testing::sql(&door.server.options(), version).await.is_ok();
    for strong in ["require", "verify-full"] {
        let found =
            door.open("localhost", &format!("sslmode={strong}&sslnegotiation=direct")).await;
        assert_eq!(found.is_ok_and(|encrypted| encrypted), knows_it, "{strong}");
    }
}

/// A host may be given by its number alone.
#[tokio::test]
async fn a_host_without_a_name_is_encrypted_as_well() {
    let ours = issuer();
    let door = Door::new(Setup::default(), &signed(&named(&["127.0.0.1"]), &ours));
    door.file(".postgresql/root.crt", &ours.pem());
    let port = door.server.port();
    for mode in ["prefer", "require", "verify-full"] {
        let address =
            format!("hostaddr=127.0.0.1 port={port} user=steadfast dbname=postgres sslmode={mode}");
        let options = Options::new(address).schema("x").home(door.home.path());
        assert_eq!(is_encrypted(&options).await, Ok(true), "{mode}");
    }
}

/// The roots of the system vouch for everybody who has a name: without it they are worth nothing.
#[tokio::test]
async fn the_roots_of_the_system_are_for_names_alone() {
    let ours = issuer();
    let door = Door::new(Setup::default(), &signed(&named(&["localhost"]), &ours));
    door.refuses("localhost", "sslmode=verify-ca", "sslmode=verify-ca needs a root").await;
    for mode in ["disable", "allow", "prefer", "require", "verify-ca"] {
        let weak = format!("sslmode={mode}&sslrootcert=system");
        door.refuses("localhost", &weak, "sslrootcert=system is too weak").await;
    }
    // Ours is none of them.
    for by_name in
        ["sslrootcert=system", "sslmode=verify-full&sslrootcert=system", "sslmode=verify-full"]
    {
        let error = door.open("localhost", by_name).await.unwrap_err();
        assert!(error.contains(UNKNOWN) || error.contains("No CA certificates"), "{error}");
    }
    // If there is a file where libpq looks for it, `verify-full` goes by that.
    door.file(".postgresql/root.crt", &ours.pem());
    door.opens("localhost", "sslmode=verify-full").await;
    let system = "sslmode=verify-full&sslrootcert=system";
    assert!(door.open("localhost", system).await.is_err(), "which was asked for");
}

#[tokio::test]
async fn a_root_in_the_home_counts_as_one_that_is_named() {
    let (ours, theirs) = (issuer(), issuer());
    let door = Door::new(Setup::default(), &signed(&named(&["localhost"]), &ours));
    door.file(".postgresql/root.crt", &theirs.pem());
    for mode in ["require", "verify-ca", "verify-full"] {
        door.refuses("localhost", &format!("sslmode={mode}"), UNKNOWN).await;
    }
    door.opens("localhost", "sslmode=prefer").await;
    let named = door.file("ours", &ours.pem());
    let named = format!("sslmode=verify-full&sslrootcert={}", named.display());
    door.opens("localhost", &named).await;
    door.file(".postgresql/root.crt", &ours.pem());
    for mode in ["require", "verify-ca", "verify-full"] {
        door.opens("localhost", &format!("sslmode={mode}")).await;
    }
    door.opens("127.0.0.1", "sslmode=verify-ca").await;
    door.refuses("127.0.0.1", "sslmode=verify-full", "not valid for name").await;
    door.file(".postgresql/root.crt", "nothing");
    door.refuses("localhost", "sslmode=require", "no certificate").await;
}

#[tokio::test]
async fn a_certificate_without_a_host_is_said_to_have_none() {
    let ours = issuer();
    let only = common_name(named(&[]), "localhost");
    let door = Door::new(Setup::default(), &signed(&only, &ours));
    door.file(".postgresql/root.crt", &ours.pem());
    door.opens("localhost", "sslmode=verify-ca").await;
    door.refuses("localhost", "sslmode=verify-full", "no host in subjectAltName").await;
}

/// As PostgreSQL's manual makes one: it is the server's, and can sign others.
#[tokio::test]
async fn a_certificate_may_be_its_own_root() {
    let make = |hosts: &[&str]| {
        let key = KeyPair::generate().unwrap();
        let params = common_name(root(hosts), "localhost");
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    };
    let (own, other) = (make(&["localhost"]), make(&["localhost"]));
    let door = Door::new(Setup::default(), &own);
    door.file(".postgresql/root.crt", &format!("{}{}", other.0, own.0));
    for mode in ["require", "verify-ca", "verify-full"] {
        door.opens("localhost", &format!("sslmode={mode}")).await;
    }
    door.opens("127.0.0.1", "sslmode=verify-ca").await;
    door.refuses("127.0.0.1", "sslmode=verify-full", "not valid for name").await;
    // Of the same name, with another key.
    door.file(".postgresql/root.crt", &other.0);
    for mode in ["require", "verify-ca", "verify-full"] {
        door.refuses("localhost", &format!("sslmode={mode}"), "not in the file of roots").await;
    }
    let nameless = make(&[]);
    let door = Door::new(Setup::default(), &nameless);
    door.file(".postgresql/root.crt", &nameless.0);
    door.opens("localhost", "sslmode=verify-ca").await;
    door.refuses("localhost", "sslmode=verify-full", "no host in subjectAltName").await;
}

#[tokio::test]
async fn its_own_root_is_none_after_its_time() {
    for mut params in [root(&["localhost"]), named(&["localhost"])] {
        let key = KeyPair::generate().unwrap();
        params.not_after = date_time_ymd(2020, 1, 1);
        let old = (params.self_signed(&key).unwrap().pem(), key.serialize_pem());
        let door = Door::new(Setup::default(), &old);
        door.file(".postgresql/root.crt", &old.0);
        for mode in ["require", "verify-ca", "verify-full"] {
            door.refuses("localhost", &format!("sslmode={mode}"), "expired").await;
        }
    }
}

#[tokio::test]
async fn a_client_is_known_by_its_certificate() {
    let (ours, theirs) = (issuer(), issuer());
    let setup = Setup::default().clients(&ours.pem());
    let door = Door::new(setup, &signed(&named(&["localhost"]), &ours));
    door.server.rules("hostssl all all 127.0.0.1/32 cert\n").unwrap();
    let us = signed(&common_name(named(&[]), "steadfast"), &ours);
    let somebody = signed(&common_name(named(&[]), "somebody"), &ours);
    let stranger = signed(&common_name(named(&[]), "steadfast"), &theirs);
    let key = |name: &str, text: &str, mode: u32| {
        let path = door.file(name, text);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.display().to_string()
    };
    let with = |name: &str, (cert, text): &(String, String)| {
        let cert = door.file(&format!("{name}.crt"), cert);
        let key = key(&format!("{name}.key"), text, 0o600);
        format!("sslmode=require&sslcert={}&sslkey={key}", cert.display())
    };
    door.refuses("127.0.0.1", "sslmode=require", "certificate").await;
    door.opens("127.0.0.1", &with("us", &us)).await;
    door.refuses("127.0.0.1", &with("somebody", &somebody), "authentication failed").await;
    assert!(door.open("127.0.0.1", &with("stranger", &stranger)).await.is_err());
    let mixed = (us.0.clone(), somebody.1.clone());
    door.refuses("127.0.0.1", &with("mixed", &mixed), "mixed.key").await;
    // A key that others can read.
    let parameters = with("us", &us);
    for mode in [0o604, 0o644, 0o660] {
        key("us.key", &us.1, mode);
        door.refuses("127.0.0.1", &parameters, "others have access to this key").await;
    }
    key("us.key", &us.1, 0o400);
    door.opens("127.0.0.1", &parameters).await;
    // The one without the other.
    let (cert, _) = parameters.rsplit_once('&').unwrap();
    door.refuses("127.0.0.1", cert, "give sslkey").await;
    let alone = format!("sslmode=require&sslkey={}", key("us.key", &us.1, 0o600));
    door.refuses("127.0.0.1", &alone, "give sslcert").await;
    // Where libpq looks for both.
    door.file(".postgresql/postgresql.crt", &us.0);
    key(".postgresql/postgresql.key", &us.1, 0o600);
    door.opens("127.0.0.1", "sslmode=require").await;
    door.opens("127.0.0.1", cert).await;
    door.refuses("127.0.0.1", &with("somebody", &somebody), "authentication failed").await;
}
