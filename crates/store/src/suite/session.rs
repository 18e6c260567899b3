//! Sessions.

use super::{Fixture, make::*};
use crate::{Effect, Posted, SessionRow, Store, session_scope};

fn session(id: &str, n: i64, body: &str) -> SessionRow {
    SessionRow { id: id.into(), expires: at(n), body: bytes(body) }
}

async fn look(store: &impl Store, id: &str, n: i64) -> Option<SessionRow> {
    store.session(id.into(), at(n)).await.unwrap()
}

/// By every handle, also when the one that began it is dead.
pub async fn a_session_is_there_for_all<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    one.begin_session(session("a", 5, "1"), 10).await.unwrap();
    one.begin_session(session("b", 5, ""), 10).await.unwrap();
    fixture.kill(one).await;
    assert_eq!(look(&two, "a", 0).await, Some(session("a", 5, "1")));
    assert_eq!(look(&two, "b", 0).await, Some(session("b", 5, "")));
    assert_eq!(look(&two, "A", 0).await, None);
    assert_eq!(look(&two, "", 0).await, None);
}

/// Until then, and no longer, whether it has been swept or not.
pub async fn a_session_is_over_at_its_time<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    store.begin_session(session("a", 5, "1"), 10).await.unwrap();
    store.begin_session(session("b", 6, "2"), 10).await.unwrap();
    assert!(look(&store, "a", 4).await.is_some());
    assert_eq!(look(&store, "a", 5).await, None);
    store.sweep(at(5), 100).await.unwrap();
    assert_eq!(look(&store, "a", 0).await, None, "it is removed");
    assert!(look(&store, "b", 5).await.is_some());
    assert!(!store.keep_session(session("a", 9, "1"), bytes("1")).await.unwrap());
    assert!(!store.touch_session("a".into(), at(9)).await.unwrap());
}

/// By any handle; a time that is not later changes nothing, and what is known of it stays.
pub async fn a_session_is_kept_as_long_as_it_is_used<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    one.begin_session(session("a", 5, "1"), 10).await.unwrap();
    for n in [9, 7] {
        assert!(two.touch_session("a".into(), at(n)).await.unwrap());
    }
    one.sweep(at(8), 100).await.unwrap();
    assert_eq!(look(&one, "a", 8).await, Some(session("a", 9, "1")));
    assert_eq!(look(&one, "a", 9).await, None);
    // What is pushed out follows the new time.
    one.begin_session(session("b", 8, ""), 1).await.unwrap();
    assert!(look(&two, "a", 0).await.is_some());
}

/// Who has read what is no longer there writes nothing, and brings no time back either.
pub async fn a_session_is_changed_by_who_knows_it_as_it_is<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    one.begin_session(session("a", 5, "1"), 10).await.unwrap();
    assert!(two.keep_session(session("a", 9, "2"), bytes("1")).await.unwrap());
    assert!(!one.keep_session(session("a", 99, "3"), bytes("1")).await.unwrap());
    assert_eq!(look(&one, "a", 0).await, Some(session("a", 9, "2")));
    assert!(one.keep_session(session("a", 7, ""), bytes("2")).await.unwrap());
    assert_eq!(look(&two, "a", 0).await, Some(session("a", 9, "")));
    assert!(two.keep_session(session("a", 9, "4"), bytes("")).await.unwrap());
    assert_eq!(look(&one, "a", 0).await, Some(session("a", 9, "4")));
}

/// It says so if a store can know it: not while another is there, nor the same as before when that is gone.
pub async fn who_is_alone_knows_that_nothing_was_changed<F: Fixture>(fixture: &F) {
    let one = fixture.open().await;
    let Some(alone) = one.solitude() else { return };
    one.begin_session(session("a", 5, "1"), 10).await.unwrap();
    assert_eq!(one.solitude(), Some(alone), "its own changes are none of others");
    let two = fixture.open().await;
    let begun = std::time::Instant::now();
    // The other says hello, and need not wait until it was heard.
    while one.solitude().is_some() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "nobody came");
        tokio::task::yield_now().await;
    }
    two.touch_session("a".into(), at(6)).await.unwrap();
    fixture.kill(two).await;
    one.touch_session("a".into(), at(7)).await.unwrap();
    assert_ne!(one.solitude(), Some(alone), "it may have changed anything");
}

/// For everybody and for good: who still uses it can't bring it back.
pub async fn a_session_that_was_ended_stays_so<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    one.begin_session(session("a", 5, "1"), 10).await.unwrap();
    assert!(two.end_session("a".into()).await.unwrap());
    assert_eq!(look(&one, "a", 0).await, None);
    assert!(!one.keep_session(session("a", 9, "1"), bytes("1")).await.unwrap());
    assert!(!one.touch_session("a".into(), at(9)).await.unwrap());
    assert_eq!(look(&two, "a", 0).await, None);
    assert!(!one.end_session("a".into()).await.unwrap());
}

/// Those go that would be over first.
pub async fn there_are_no_more_sessions_than_allowed<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    for (id, n) in [("a", 7), ("b", 5), ("c", 6)] {
        store.begin_session(session(id, n, id), 3).await.unwrap();
    }
    store.begin_session(session("d", 9, "d"), 3).await.unwrap();
    assert_eq!(look(&store, "b", 0).await, None);
    store.begin_session(session("e", 9, "e"), 2).await.unwrap();
    for (id, there) in [("a", false), ("c", false), ("d", true), ("e", true)] {
        assert_eq!(look(&store, id, 0).await.is_some(), there, "{id}");
    }
}

/// Whatever way the session goes; and nothing is written to it afterwards.
pub async fn the_state_of_a_session_goes_with_it<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("t")).await;
    let write = |id: &str, value: &str| Effect::WriteState {
        scope: session_scope(id),
        key: "k".into(),
        value: Some(bytes(value)),
        notice: bytes("notice"),
    };
    let read = async |id: &str| store.state(session_scope(id), "k".into()).await.unwrap().value;
    for (name, n) in [("ended", 9), ("swept", 5), ("pushed out", 6), ("kept", 8)] {
        store.begin_session(session(name, n, ""), 10).await.unwrap();
        take(&store, effects(lease, [write(name, "1")])).await;
        assert_eq!(read(name).await, Some(bytes("1")));
    }
    assert!(store.end_session("ended".into()).await.unwrap());
    store.sweep(at(5), 9).await.unwrap();
    store.begin_session(session("new", 9, ""), 2).await.unwrap();
    for name in ["ended", "swept", "pushed out", "never"] {
        assert_eq!(read(name).await, None, "{name}");
        take(&store, effects(lease, [write(name, "2")])).await;
        assert_eq!(read(name).await, None, "{name}");
    }
    assert!(store.keep_session(session("kept", 9, "more"), bytes("")).await.unwrap());
    assert!(store.touch_session("kept".into(), at(10)).await.unwrap());
    assert_eq!(read("kept").await, Some(bytes("1")));
}

/// In their order, for every handle, until their time.
pub async fn a_notice_is_read_by_all<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    assert_eq!(one.posted(0, 9).await.unwrap(), Posted::default());
    let first = one.post(bytes("a"), at(5), 9).await.unwrap();
    let second = two.post(bytes("b"), at(9), 9).await.unwrap();
    let third = one.post(bytes("b"), at(5), 9).await.unwrap();
    assert!(0 < first && first < second && second < third);
    fixture.kill(one).await;
    let all = [(first, bytes("a")), (second, bytes("b")), (third, bytes("b"))];
    let read = async |after, limit| two.posted(after, limit).await.unwrap();
    assert_eq!(read(0, 9).await, Posted { notices: all.to_vec(), last: third });
    assert_eq!(read(0, 2).await, Posted { notices: all[..2].to_vec(), last: third });
    assert_eq!(read(first, 9).await, Posted { notices: all[1..].to_vec(), last: third });
    assert_eq!(read(third, 9).await, Posted { notices: vec![], last: third });
    assert_eq!(read(u64::MAX, 9).await, Posted { notices: vec![], last: third });
    two.sweep(at(5), 9).await.unwrap();
    assert_eq!(read(0, 9).await, Posted { notices: all[1..2].to_vec(), last: third });
}

/// Also when none is left.
pub async fn the_number_of_a_notice_is_never_used_again<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let mut last = 0;
    for _ in 0..5 {
        let number = store.post(bytes("a"), at(5), 2).await.unwrap();
        assert!(number > last);
        last = number;
    }
    let up = store.posted(0, 9).await.unwrap();
    assert_eq!(up.notices.len(), 2, "the oldest have gone");
    store.sweep(at(5), 9).await.unwrap();
    assert_eq!(store.posted(0, 9).await.unwrap(), Posted { notices: vec![], last });
    assert!(store.post(bytes("b"), at(5), 2).await.unwrap() > last);
}
