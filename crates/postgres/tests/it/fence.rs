//! Leases: who is taken for dead can change nothing.

use std::time::{Duration, Instant};

use steadfast_core::Timestamp;
use steadfast_postgres::{Options, Store, testing};
use steadfast_store::{
    Adopted, ClaimTasks, Claimed, Error, NewTask, Poison, Refusal, Started, Store as _,
};

use crate::{
    common::{held, history, id, operator, task, turn},
    proxy::Proxy,
};

fn poison() -> Poison {
    Poison { deaths: 5, at: Timestamp(9), view: b"poisoned".to_vec() }
}

async fn claim(store: &Store) -> Vec<Claimed> {
    let tools = vec![("tool".into(), 1, 1)];
    store.claim(ClaimTasks { tools, limit: 99, now: Timestamp(1) }).await.unwrap()
}

#[tokio::test]
async fn a_process_past_its_lease_changes_nothing_also_if_nobody_has_noticed() {
    let options = testing::shared().unwrap().options();
    let (one, two) = (options.clone().open().await.unwrap(), options.clone().open().await.unwrap());
    let lease = held(&one, "a").await;
    let old = one.desk();
    testing::expire(&options, old).await.unwrap();
    let late = one.turn(turn(lease, 1, "late")).await;
    assert_eq!(late.unwrap_err().refusal(), Some(&Refusal::Fenced));
    assert_eq!(history(&two, lease).await, ["started"]);
    assert_ne!(one.desk(), old, "it goes on at another desk");
    assert!(one.held().await.unwrap().is_empty());
    let new = held(&one, "b").await;
    one.turn(turn(new, 1, "x")).await.unwrap();
    assert_eq!(two.dead().await.unwrap(), [old]);
    assert!(!two.is_alive(old).await.unwrap() && two.is_alive(one.desk()).await.unwrap());
    let expected = Adopted { ready: 1, ..Adopted::default() };
    assert_eq!(two.adopt(old, poison()).await.unwrap(), expected);
    let claimed = claim(&two).await;
    assert_eq!((claimed.len(), claimed[0].row.deaths), (1, 1));
    let late = one.turn(turn(lease, 1, "late")).await;
    assert_eq!(late.unwrap_err().refusal(), Some(&Refusal::Fenced));
    two.turn(turn(claimed[0].lease(), 1, "two")).await.unwrap();
    assert_eq!(history(&one, lease).await, ["started", "two"]);
}

/// A process that was taken for dead, and lives: what is bound to it and nobody took over still is.
#[tokio::test]
async fn what_is_bound_to_a_process_follows_it_to_its_new_desk() {
    let options = testing::shared().unwrap().options();
    let (one, two) = (options.clone().open().await.unwrap(), options.clone().open().await.unwrap());
    for name in ["taken", "left"] {
        one.start(NewTask { bound: true, ..task(name) }).await.unwrap();
        let old = one.desk();
        testing::expire(&options, old).await.unwrap();
        if name == "taken" {
            two.adopt(old, poison()).await.unwrap();
        }
        held(&one, &format!("next-{name}")).await;
        assert_ne!(one.desk(), old);
        let bound = two.get(operator(), id(name)).await.unwrap().bound;
        let expected = if name == "taken" { old } else { one.desk() };
        assert_eq!(bound, Some(expected), "{name}");
    }
}

#[tokio::test]
async fn its_heartbeat_notices_that_a_process_was_taken_for_dead() {
    let options = testing::shared().unwrap().options().lease(Duration::from_secs(1));
    let store = options.clone().open().await.unwrap();
    held(&store, "a").await;
    let (old, changed) = (store.desk(), store.changed());
    tokio::time::timeout(Duration::from_millis(100), changed.next()).await.ok();
    testing::expire(&options, old).await.unwrap();
    tokio::time::timeout(Duration::from_secs(3), changed.next()).await.unwrap();
    assert_ne!(store.desk(), old);
}

#[tokio::test]
async fn an_idle_process_lives_and_a_dead_one_is_seen_within_its_lease() {
    let options = testing::shared().unwrap().options().lease(Duration::from_secs(1));
    let (one, two) = (options.clone().open().await.unwrap(), options.open().await.unwrap());
    held(&one, "a").await;
    let desk = one.desk();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert!(two.is_alive(desk).await.unwrap());
    assert!(two.dead().await.unwrap().is_empty());
    one.kill();
    let begun = Instant::now();
    while two.dead().await.unwrap().is_empty() {
        assert!(begun.elapsed() < Duration::from_millis(1500));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(two.adopt(desk, poison()).await.unwrap().ready, 1);
    assert_eq!(claim(&two).await.len(), 1);
}

#[tokio::test]
async fn what_was_begun_within_the_lease_is_waited_for() {
    let options = testing::shared().unwrap().options();
    let (one, two) = (options.clone().open().await.unwrap(), options.clone().open().await.unwrap());
    held(&one, "a").await;
    let desk = one.desk();
    // As a transaction of that desk has it until its end.
    let begun = testing::alive(&options, desk).await.unwrap();
    one.kill();
    testing::expire(&options, desk).await.unwrap();
    let adopting = two.adopt(desk, poison());
    tokio::pin!(adopting);
    let early = tokio::time::timeout(Duration::from_millis(300), &mut adopting).await;
    assert!(early.is_err(), "{early:?}");
    drop(begun);
    assert_eq!(adopting.await.unwrap().ready, 1);
}

/// Not even its heart has it sit down again.
#[tokio::test]
async fn a_process_that_gave_back_what_it_held_takes_no_other_desk() {
    let options = testing::shared().unwrap().options().lease(Duration::from_secs(1));
    let (one, two) = (options.clone().open().await.unwrap(), options.clone().open().await.unwrap());
    held(&one, "a").await;
    let old = one.desk();
    one.close().await.unwrap();
    tokio::time::sleep(Duration::from_millis(600)).await;
    let late = one.start(task("b")).await;
    assert!(matches!(late, Err(Error::Unavailable(_))), "{late:?}");
    assert!(matches!(one.check().await, Err(Error::Unavailable(_))), "it is not ready either");
    assert_eq!(one.desk(), old);
    testing::sql(&options, "DO $$ BEGIN ASSERT (SELECT count(*) FROM desk) = 1; END $$")
        .await
        .unwrap();
    assert!(two.is_alive(two.desk()).await.unwrap());
    assert_eq!(claim(&two).await[0].row.deaths, 0);
}

#[tokio::test]
async fn what_is_being_written_in_its_name_is_waited_for_before_a_desk_is_given_back() {
    let options = testing::shared().unwrap().options();
    let (one, two) = (options.clone().open().await.unwrap(), options.clone().open().await.unwrap());
    held(&one, "a").await;
    let begun = testing::alive(&options, one.desk()).await.unwrap();
    let closing = one.close();
    tokio::pin!(closing);
    let early = tokio::time::timeout(Duration::from_millis(300), &mut closing).await;
    assert!(early.is_err(), "{early:?}");
    assert!(claim(&two).await.is_empty() && two.is_alive(one.desk()).await.unwrap());
    drop(begun);
    closing.await.unwrap();
    assert_eq!(claim(&two).await.len(), 1);
}

/// It says so: what it held is adopted, and its death counts.
#[tokio::test]
async fn a_process_past_its_lease_has_nothing_to_give_back() {
    let options = testing::shared().unwrap().options();
    let (one, two) = (options.clone().open().await.unwrap(), options.clone().open().await.unwrap());
    held(&one, "a").await;
    let old = one.desk();
    testing::expire(&options, old).await.unwrap();
    let closed = one.close().await;
    assert!(matches!(&closed, Err(Error::Unavailable(why)) if why.contains("dead")), "{closed:?}");
    assert_eq!(one.desk(), old);
    assert_eq!(two.adopt(old, poison()).await.unwrap().ready, 1);
}

/// Whoever wanted it has asked another process meanwhile.
#[tokio::test]
async fn a_start_that_comes_later_than_a_lease_is_not_made() {
    let server = testing::shared().unwrap();
    let proxy = Proxy::to(server.port()).await;
    let direct = server.options();
    let behind = Options::new(server.url_by(proxy.port)).schema(direct.schema_name());
    let one = behind.lease(Duration::from_secs(1)).open().await.unwrap();
    let two = direct.open().await.unwrap();
    proxy.freeze(true);
    let late = async {
        let late = one.start(task("late")).await;
        assert!(matches!(&late, Err(Error::Unavailable(_))), "{late:?}");
    };
    let thaw = async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        proxy.freeze(false);
    };
    tokio::join!(late, thaw);
    assert!(two.get(operator(), id("late")).await.is_err(), "it was started all the same");
    held(&one, "late").await;
}

/// Cut off from the database in the middle of everything: others take over within the lease, whatever
/// it had open, and when it is back it can only begin anew.
#[tokio::test]
async fn a_process_that_is_cut_off_loses_what_it_held() {
    let server = testing::shared().unwrap();
    let proxy = Proxy::to(server.port()).await;
    let direct = server.options().lease(Duration::from_secs(1));
    let behind = Options::new(server.url_by(proxy.port)).schema(direct.schema_name());
    let behind = behind.lease(Duration::from_secs(1));
    let (one, two) = (behind.open().await.unwrap(), direct.clone().open().await.unwrap());
    let lease = held(&one, "a").await;
    let old = one.desk();
    // Turn after turn, so that it stops somewhere in the middle of one.
    let turns = async {
        for n in 1.. {
            if let Err(error) = one.turn(turn(lease, n, "one")).await {
                return error;
            }
        }
        unreachable!()
    };
    let others = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        proxy.freeze(true);
        let begun = Instant::now();
        while two.dead().await.unwrap() != [old] {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(two.adopt(old, poison()).await.unwrap().ready, 1);
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        let claimed = claim(&two).await.remove(0);
        let next = claimed.history.len() as u64;
        two.turn(turn(claimed.lease(), next, "two")).await.unwrap();
        proxy.freeze(false);
    };
    let (error, ()) = tokio::join!(turns, others);
    assert_eq!(error.refusal(), Some(&Refusal::Fenced), "{error:?}");
    assert_eq!(history(&two, lease).await.last().unwrap(), "two");
    let count = history(&two, lease).await.iter().filter(|event| *event == "two").count();
    assert_eq!(count, 1);
    assert!(matches!(one.start(task("b")).await.unwrap(), Started::New { lease: Some(_), .. }));
    assert!(one.get(operator(), id("b")).await.is_ok());
    two.start(NewTask { hold: false, ..task("c") }).await.unwrap();
}
