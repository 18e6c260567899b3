//! A process that stood still while its lease ran out and its store was moved.

use std::{
    process::{Child, Command},
    time::Duration,
};

use steadfast_crash::{
    Ledger, Place,
    check::{Expect, LostLeases, check},
};

use crate::workload::{SEED, TASKS, begin, export, import, victim};

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// It goes on for a moment when the store was moved away under it, and another finishes its tasks there. What
/// is wrong then.
async fn moved_while_it_stood_still(undead: bool) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let ledger = dir.path().join("ledger");
    let server = steadfast_postgres::testing::shared().unwrap();
    let one = Place { store: server.url(), schema: Some(format!("undead_{undead}")) };
    let two = Place::file(&dir.path().join("two.db"));

    let mut first = victim(&one, &ledger, 1, false);
    if undead {
        first.arg("--undead");
    }
    let mut first = begin(first, &ledger, 100);
    signal(&first, "STOP");
    // Waits until its lease is over.
    import(&two, export(&one).await).await;
    signal(&first, "CONT");
    tokio::time::sleep(Duration::from_secs(1)).await;
    first.kill().unwrap();
    first.wait().unwrap();

    let last = victim(&two, &ledger, 2, true).output().unwrap();
    assert!(last.status.success(), "{}", String::from_utf8_lossy(&last.stderr));
    let counter = String::from_utf8(last.stdout).unwrap().trim().parse().unwrap();
    // A step may be in flight when it stands still, and take effect when others have gone on.
    let expect = Expect { seed: SEED, tasks: TASKS, counter, lost_leases: LostLeases::Perhaps };
    check(&Ledger::read(&ledger).unwrap(), expect)
}

#[tokio::test(flavor = "multi_thread")]
async fn it_changes_nothing_where_the_tasks_were() {
    let wrong = moved_while_it_stood_still(false).await;
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What it was told is written nobody will find.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_writes_though_its_lease_is_over_is_noticed() {
    let wrong = moved_while_it_stood_still(true).await;
    assert!(wrong.iter().any(|line| line.contains("is gone")), "{wrong:#?}");
}
