//! No password is in the log of what we are built on. (Ours is looked at where there is a whole server: see
//! `harness/survive`.)

use std::sync::{Mutex, PoisonError};

use steadfast_postgres::{Options, testing, testing::Setup};

use crate::papers::{Door, file, issuer, named, signed};

/// Hears what the driver writes to `log`.
struct Ear(Mutex<Vec<String>>);

static EAR: Ear = Ear(Mutex::new(Vec::new()));

impl log::Log for Ear {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = format!("{} {}", record.target(), record.args());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    fn flush(&self) {}
}

#[tokio::test]
async fn the_driver_logs_no_password_however_it_is_sent() {
    let door = Door::new(Setup::default(), &signed(&named(&["localhost"]), &issuer()));
    let role = "CREATE ROLE ann LOGIN SUPERUSER PASSWORD 'whisper-right'";
    testing::sql(&door.server.options(), role).await.unwrap();
    log::set_logger(&EAR).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    let right = file(door.home.path(), "right", "whisper-right\n");
    let wrong = file(door.home.path(), "wrong", "whisper-wrong\n");
    let port = door.server.port();
    for method in ["scram-sha-256", "password"] {
        door.server.rules(&format!("host all all 127.0.0.1/32 {method}\n")).unwrap();
        for mode in ["disable", "require"] {
            let address = |user: &str| {
                let place = format!("{user}@127.0.0.1:{port}/postgres?sslmode={mode}");
                Options::new(format!("postgres://{place}")).schema("x").home(door.home.path())
            };
            testing::sql(&address("ann:whisper-right"), "SELECT 1").await.unwrap();
            let by_file = address("ann").password_file(&right).open().await.unwrap();
            drop(by_file);
            for refused in [address("ann:whisper-wrong"), address("ann").password_file(&wrong)] {
                let error = refused.open().await.unwrap_err();
                let said = format!("{error} {error:?}");
                assert!(said.contains("authentication failed"), "{said}");
                assert!(!said.contains("whisper"), "{said}");
            }
        }
    }
    log::set_max_level(log::LevelFilter::Off);
    let heard = std::mem::take(&mut *EAR.0.lock().unwrap());
    assert!(heard.iter().any(|line| line.contains("search_path")), "it logs what it does");
    let told = heard.iter().find(|line| line.contains("whisper"));
    assert_eq!(told, None);
}
