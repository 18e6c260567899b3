//! Tasks of several kinds in a process that is killed, moved, killed again, moved back, and finished.

use std::{
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use steadfast_crash::{
    Ledger, Place,
    check::{Expect, LostLeases, check},
};
use steadfast_store::moving::{Reader, Writer};

use crate::home::move_away;

pub(crate) const SEED: u64 = 7;
pub(crate) const TASKS: u64 = 120;

pub(crate) fn victim(place: &Place, ledger: &Path, life: u32, finish: bool) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_victim"));
    command.args(place.flags()).arg("--ledger").arg(ledger).args([
        "--life",
        &life.to_string(),
        "--seed",
        &SEED.to_string(),
        "--tasks",
        &TASKS.to_string(),
    ]);
    if finish {
        command.arg("--finish");
    }
    command
}

/// Starts a process, and waits until so much was noted.
pub(crate) fn begin(mut victim: Command, ledger: &Path, entries: usize) -> Child {
    let child = victim.stdout(Stdio::null()).spawn().unwrap();
    let limit = Instant::now() + Duration::from_secs(30);
    while Ledger::read(ledger).map_or(0, |all| all.len()) < entries {
        assert!(Instant::now() < limit, "it does not come to {entries} entries");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

/// Kills a process when so much was noted.
fn live(place: &Place, ledger: &Path, life: u32, entries: usize) {
    let mut child = begin(victim(place, ledger, life, false), ledger, entries);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// All that is there. The process that was just killed is waited for, until it is taken for dead.
pub(crate) async fn export(place: &Place) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), "test", 1).unwrap();
    let mut sink = |record| writer.put(&record);
    match place.postgres() {
        Some(options) => options.export(&move_away(), &mut sink).await.unwrap(),
        None => {
            steadfast_sqlite::Options::new(&place.store).export(&move_away(), &mut sink).unwrap();
        }
    }
    writer.finish().unwrap().0
}

pub(crate) async fn import(place: &Place, file: Vec<u8>) {
    let mut reader = Reader::new(Box::new(std::io::Cursor::new(file))).unwrap();
    match place.postgres() {
        Some(options) => options.import(&mut reader).await.unwrap(),
        None => steadfast_sqlite::Options::new(&place.store).import(&mut reader).unwrap(),
    };
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_killed_on_one_store_and_moved_is_finished_on_another_with_exact_effects() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = dir.path().join("ledger");
    let server = steadfast_postgres::testing::shared().unwrap();
    let one = Place::file(&dir.path().join("one.db"));
    let two = Place { store: server.url(), schema: Some("moved_workload".into()) };
    let three = Place::file(&dir.path().join("three.db"));

    live(&one, &ledger, 1, 150);
    import(&two, export(&one).await).await;
    live(&two, &ledger, 2, 320);
    import(&three, export(&two).await).await;
    let Output { status, stdout, stderr } = victim(&three, &ledger, 3, true).output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));

    let counter = String::from_utf8(stdout).unwrap().trim().parse().unwrap();
    let expect = Expect { seed: SEED, tasks: TASKS, counter, lost_leases: LostLeases::Never };
    let entries = Ledger::read(&ledger).unwrap();
    let lives: std::collections::BTreeSet<u32> = entries.iter().map(|entry| entry.life).collect();
    assert_eq!(lives.len(), 3, "each life did something");
    let wrong = check(&entries, expect);
    assert!(wrong.is_empty(), "{wrong:#?}");
}
