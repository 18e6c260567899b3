//! Commits whose answer is lost: how they ended is found out.

use std::time::Duration;

use steadfast_core::Timestamp;
use steadfast_postgres::{Options, Store, testing};
use steadfast_store::{ClaimTasks, NewTask, Order, Store as _};

use crate::{
    common::{held, history, id, operator, task, turn},
    proxy::{Fate, Proxy},
};

/// A store behind a proxy, and one beside it.
async fn proxied() -> (Proxy, Store, Store) {
    let server = testing::shared().unwrap();
    let proxy = Proxy::to(server.port()).await;
    let direct = server.options();
    let store = direct.at(server.url_by(proxy.port)).open().await.unwrap();
    (proxy, store, direct.open().await.unwrap())
}

/// Options with another address and the same schema.
trait At {
    fn at(&self, url: String) -> Options;
}

impl At for Options {
    fn at(&self, url: String) -> Options {
        Options::new(url).schema(self.schema_name())
    }
}

const FATES: [Fate; 3] = [Fate::AnswerLost, Fate::Lost, Fate::Late];

#[tokio::test]
async fn a_turn_whose_answer_is_lost_is_written_once() {
    let (proxy, store, beside) = proxied().await;
    let lease = held(&store, "a").await;
    let mut expected = vec!["started".to_owned()];
    for (at, fate) in FATES.into_iter().enumerate() {
        proxy.next_commit(fate, 0);
        let event = format!("{fate:?}");
        store.turn(turn(lease, at as u64 + 1, &event)).await.unwrap();
        assert!(proxy.met());
        expected.push(event);
        assert_eq!(history(&beside, lease).await, expected);
    }
}

#[tokio::test]
async fn a_start_whose_answer_is_lost_is_made_once() {
    let (proxy, store, beside) = proxied().await;
    for fate in FATES {
        proxy.next_commit(fate, 0);
        let lease = held(&store, &format!("{fate:?}")).await;
        assert!(proxy.met());
        store.turn(turn(lease, 1, "x")).await.unwrap();
    }
    let page = beside.list(Default::default(), Order::OldestFirst, None, 9).await.unwrap();
    assert_eq!(page.tasks.len(), 3);
}

#[tokio::test]
async fn a_claim_whose_answer_is_lost_is_made_once() {
    let (proxy, store, beside) = proxied().await;
    for fate in FATES {
        beside.start(NewTask { hold: false, ..task(&format!("{fate:?}")) }).await.unwrap();
        proxy.next_commit(fate, 0);
        let tools = vec![("tool".into(), 1, 1)];
        let claimed = store.claim(ClaimTasks { tools, limit: 9, now: Timestamp(1) }).await.unwrap();
        assert!(proxy.met());
        assert_eq!(claimed.len(), 1, "{fate:?}");
        assert_eq!(claimed[0].row.epoch, 2, "{fate:?}");
        store.turn(turn(claimed[0].lease(), 1, "x")).await.unwrap();
    }
}

/// Its desk is dead then, which is as it should be.
#[tokio::test]
async fn giving_back_is_done_once_also_if_its_answer_is_lost() {
    for fate in FATES {
        let (proxy, store, beside) = proxied().await;
        held(&store, "a").await;
        let desk = store.desk();
        proxy.next_commit(fate, 0);
        store.close().await.unwrap();
        assert!(proxy.met());
        assert!(!beside.is_alive(desk).await.unwrap(), "{fate:?}");
        assert_eq!(store.desk(), desk, "{fate:?}");
        let tools = vec![("tool".into(), 1, 1)];
        let claim = ClaimTasks { tools, limit: 9, now: Timestamp(1) };
        let claimed = beside.claim(claim).await.unwrap();
        assert_eq!((claimed.len(), claimed[0].row.epoch), (1, 3), "{fate:?}");
    }
}

#[tokio::test]
async fn what_can_not_be_found_out_is_said_to_be_unknown() {
    let server = testing::shared().unwrap();
    let proxy = Proxy::to(server.port()).await;
    let direct = server.options();
    let behind = direct.at(server.url_by(proxy.port)).patience(Duration::from_millis(300));
    let (store, beside) = (behind.open().await.unwrap(), direct.open().await.unwrap());
    proxy.next_commit(Fate::AnswerLost, 0);
    proxy.then_refuse();
    let result = store.start(task("a")).await;
    assert!(matches!(result, Err(steadfast_store::Error::Unknown(_))), "{result:?}");
    proxy.let_in();
    assert!(beside.get(operator(), id("a")).await.is_ok(), "it was committed");
    held(&store, "b").await;
    assert!(store.get(operator(), id("b")).await.is_ok(), "reading goes on too");
}

/// A turn is the record of what was done, and who does not know whether it is recorded would do it again: so he
/// waits, for longer than others.
#[tokio::test]
async fn a_turn_waits_until_it_is_known_what_became_of_it() {
    let server = testing::shared().unwrap();
    let direct = server.options();
    let beside = direct.clone().open().await.unwrap();
    for fate in [Fate::AnswerLost, Fate::Lost] {
        let proxy = Proxy::to(server.port()).await;
        let behind = direct.at(server.url_by(proxy.port)).patience(Duration::from_millis(300));
        let store = behind.open().await.unwrap();
        let lease = held(&store, &format!("{fate:?}")).await;
        store.turn(turn(lease, 1, "before")).await.unwrap();
        proxy.next_commit(fate, 0);
        proxy.then_refuse();
        let later = async {
            while !proxy.met() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            // Nobody can get through. Others are told so all the same.
            proxy.freeze(true);
            for n in 0..3 {
                let begun = std::time::Instant::now();
                let error = store.start(task(&format!("{fate:?}{n}"))).await.unwrap_err();
                assert!(begun.elapsed() < Duration::from_secs(15), "{error:?}");
            }
            proxy.freeze(false);
            proxy.let_in();
        };
        let (turned, ()) = tokio::join!(store.turn(turn(lease, 2, "x")), later);
        turned.unwrap();
        store.turn(turn(lease, 3, "y")).await.unwrap();
        assert_eq!(history(&beside, lease).await, ["started", "before", "x", "y"], "{fate:?}");
    }
}

/// What was committed is there. But who was taken for dead before he knew must not go on as if he held it.
#[tokio::test]
async fn a_commit_that_is_found_after_the_lease_is_no_leave_to_go_on() {
    let server = testing::shared().unwrap();
    let proxy = Proxy::to(server.port()).await;
    let direct = server.options();
    let behind = Options::new(server.url_by(proxy.port)).schema(direct.schema_name());
    let (one, two) = (behind.open().await.unwrap(), direct.clone().open().await.unwrap());
    let lease = held(&one, "a").await;
    let old = one.desk();
    proxy.next_commit(Fate::AnswerLost, 0);
    proxy.then_refuse();
    let others = async {
        while !proxy.met() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        testing::expire(&direct, old).await.unwrap();
        proxy.let_in();
    };
    let (turned, ()) = tokio::join!(one.turn(turn(lease, 1, "one")), others);
    assert!(matches!(turned, Err(steadfast_store::Error::Unknown(_))), "{turned:?}");
    assert_eq!(history(&two, lease).await, ["started", "one"]);
    assert_ne!(one.desk(), old, "it goes on at another desk");
}

/// A process that was taken for dead takes another desk, and may not hear that it did. What is bound to the process
/// is not bound to that desk, where nobody sits.
#[tokio::test]
async fn what_is_bound_to_a_process_is_not_left_at_a_desk_that_it_does_not_know_of() {
    let server = testing::shared().unwrap();
    let proxy = Proxy::to(server.port()).await;
    // So long that no heartbeat comes in between.
    let options = server.options().lease(Duration::from_secs(600));
    let behind = options.at(server.url_by(proxy.port)).lease(Duration::from_secs(600));
    let (store, beside) = (behind.open().await.unwrap(), options.clone().open().await.unwrap());
    store.start(NewTask { bound: true, ..task("a") }).await.unwrap();
    let old = store.desk();
    for _ in 0..2 {
        proxy.next_seat_is_lost();
        testing::expire(&options, old).await.unwrap();
        while !proxy.met() {
            let _ = store.start(task("b")).await;
        }
        assert_eq!(store.desk(), old);
        let bound = beside.get(operator(), id("a")).await.unwrap().bound;
        assert_ne!(bound, Some(old), "it was taken");
    }
    held(&store, "c").await;
    assert_ne!(store.desk(), old);
    let bound = beside.get(operator(), id("a")).await.unwrap().bound;
    assert_eq!(bound, Some(store.desk()));
}

/// PostgreSQL has no room for notices if somebody listens and does not hear, and says so at the commit.
#[tokio::test]
async fn a_desk_is_given_back_also_if_nobody_can_be_told() {
    let options = testing::shared().unwrap().options();
    let (store, beside) =
        (options.clone().open().await.unwrap(), options.clone().open().await.unwrap());
    held(&store, "a").await;
    let sql = "CREATE SEQUENCE tries;
         CREATE FUNCTION full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('tries') = 1 THEN
                RAISE EXCEPTION 'too many notifications in the NOTIFY queue' USING ERRCODE = '54000';
            END IF;
            RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER full_queue AFTER DELETE ON desk DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION full()";
    testing::sql(&options, &sql.replace("full()", "full_queue()")).await.unwrap();
    store.close().await.unwrap();
    assert!(!beside.is_alive(store.desk()).await.unwrap());
    let tools = vec![("tool".into(), 1, 1)];
    let claim = ClaimTasks { tools, limit: 9, now: Timestamp(1) };
    let claimed = beside.claim(claim).await.unwrap();
    assert_eq!((claimed.len(), claimed[0].row.deaths), (1, 0));
}
