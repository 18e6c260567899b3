//! One task with everything in it, in a real process that is aborted before and after every commit.

use std::process::{Command, Output};

use steadfast_crash::{
    Ledger, Place,
    everything::{self, Finale},
};
use tempfile::TempDir;

/// A store of its own for one task, and the ledger of what it did.
pub(crate) struct Ground {
    pub(crate) place: Place,
    pub(crate) dir: TempDir,
}

/// A kind of store.
pub(crate) trait Kind {
    /// An empty one.
    fn ground(&self) -> Ground;

    /// What is to happen between a death and the next life.
    fn died(&self, _: &Ground) {}
}

fn victim(ground: &Ground, finale: &str, life: u32, die: Option<String>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_victim"));
    command
        .args(ground.place.flags())
        .arg("--ledger")
        .arg(ground.dir.path().join("ledger"))
        .args(["--life", &life.to_string(), "--everything", finale]);
    if let Some(die) = die {
        command.args(["--die", &die]);
    }
    command.output().unwrap()
}

/// `commits status output` of a life that went to the end.
fn ended(output: &Output, what: &str) -> (u64, String) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {:?} {text} {errors}", output.status);
    let (commits, rest) = text.trim().split_once(' ').unwrap();
    (commits.parse().unwrap(), rest.to_owned())
}

fn check_end(end: &str, finale: Finale, what: &str) {
    match finale {
        Finale::Complete => {
            let rest = end.strip_prefix("completed \"").and_then(|e| e.split_once(' ')).unwrap().1;
            assert_eq!(rest, "7 true in-child activity 1\"", "{what}");
        }
        Finale::Fail => assert_eq!(end, "failed -", "{what}"),
        Finale::Cancelled => assert_eq!(end, "cancelled -", "{what}"),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn recorded(ground: &Ground) -> std::collections::BTreeSet<String> {
    let store = ground.place.open().await.unwrap();
    let recorded = everything::recorded(&*store).await.unwrap();
    store.close().await.unwrap();
    recorded
}

fn effects(ground: &Ground) -> std::collections::BTreeMap<String, u32> {
    everything::effects(&Ledger::read(&ground.dir.path().join("ledger")).unwrap())
}

/// Lets a process die before and after each commit of a task, one time each, and another finish it.
pub(crate) fn sweep(kind: &dyn Kind, name: &str, finale: Finale) {
    let whole = kind.ground();
    let (commits, end) = ended(&victim(&whole, name, 1, None), "without a crash");
    check_end(&end, finale, "without a crash");
    assert!(commits > 15, "the sweep covers something: {commits}");
    for number in 1..=commits {
        for side in ["before", "after"] {
            let what = format!("{name}, {side} commit {number} of {commits}");
            let ground = kind.ground();
            let dead = victim(&ground, name, 1, Some(format!("{side}:{number}")));
            let recorded = recorded(&ground);
            let before = effects(&ground);
            kind.died(&ground);
            // How many commits there are depends on timing: a life may end before the one meant.
            let died = !dead.status.success();
            let (_, end) = ended(&victim(&ground, name, 2, None), &what);
            check_end(&end, finale, &what);
            let expected = everything::expected(&before, &recorded, finale);
            assert_eq!(effects(&ground), expected, "{what} (died: {died})");
        }
    }
}
