//! What a process remembers of its tasks, when its two writers work on the same ones.

use std::{sync::Arc, time::Duration};

use steadfast_core::{OpId, Status};
use steadfast_postgres::{Options, Store, testing, testing::Setup};
use steadfast_store::{After, Bond, Lease, NewTask, Parent, Started, Store as _, Turn};

use crate::common::{held, history, id, since, task, turn};

/// Waits until so many transactions wait for a lock.
async fn until_waiting(options: &Options, count: i64) {
    let waits = async {
        while testing::waiting(options).await.unwrap() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waits).await.unwrap();
}

async fn child(store: &Store, name: &str, of: Lease) -> Lease {
    let parent = Some(Parent { key: of.key, op: OpId(1), notify: true });
    match store.start(NewTask { parent, ..task(name) }).await.unwrap() {
        Started::New { lease: Some(lease), .. } => lease,
        other => panic!("{other:?}"),
    }
}

fn end(lease: Lease) -> Turn {
    let (end, tell) = (b"end".to_vec(), b"it ended".to_vec());
    let after = After::End { status: Status::Completed, expires: None, end, tell, keep: false };
    Turn { after, ..turn(lease, 1, "ended") }
}

/// The end of a child writes to its parent, whose own turn is on its way in the other writer: where the parent's
/// history ends is not for the child to say.
#[tokio::test]
async fn a_child_that_ends_beside_a_turn_of_its_parent_leaves_the_parents_history_alone() {
    let server = Setup::default().start().unwrap();
    let options = server.options();
    let store = Arc::new(options.clone().open().await.unwrap());
    let parent = held(&store, "parent").await;
    let ended = child(&store, "child", parent).await;
    let mut others = Vec::new();
    // The second writer takes a crowd and no less.
    for n in 0..120 {
        others.push(held(&store, &format!("other{n}")).await);
    }
    let held = testing::hold_event(&options, "slow").await.unwrap();
    let spawn = |turn: Turn| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.turn(turn).await.map(drop) })
    };
    let mut turns = vec![spawn(turn(parent, 1, "slow"))];
    until_waiting(&options, 1).await;
    turns.push(spawn(end(ended)));
    turns.extend(others.iter().map(|lease| spawn(turn(*lease, 1, "a"))));
    let beside = Arc::clone(&store);
    // So that its batch is not decided by memory alone.
    let unbind = async move { beside.unbind(vec![(id("other0"), Bond::Desk)], since(0)).await };
    turns.push(tokio::spawn(unbind));
    until_waiting(&options, 2).await;
    drop(held);
    for turn in turns {
        turn.await.unwrap().unwrap();
    }
    for n in 2..5 {
        // Together with what has to be looked up, so that this is not decided by memory alone either.
        let pause = testing::hold(&options, store.desk()).await.unwrap();
        let release = async {
            until_waiting(&options, 1).await;
            drop(pause);
        };
        let (none, some, taken, ()) = tokio::join!(
            store.unbind(vec![], since(0)),
            store.unbind(vec![(id("other1"), Bond::Desk)], since(0)),
            store.turn(turn(parent, n, "b")),
            release,
        );
        none.and(some).unwrap();
        taken.unwrap();
    }
    assert_eq!(history(&store, parent).await, ["started", "slow", "b", "b", "b"]);
    assert_eq!(history(&store, ended).await, ["started", "ended"]);
}
