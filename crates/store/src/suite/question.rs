//! Questions.

use steadfast_core::{OpId, Status};

use super::{Fixture, make::*};
use crate::{Caller, Effect, NewTask, QuestionRow, Refusal, Store, Touched, Turn};

async fn open(store: &impl Store, name: &str) -> Vec<String> {
    let key = get(store, name).await.key;
    store.questions(key).await.unwrap().into_iter().map(|question| question.key).collect()
}

fn close(key: &str) -> Effect {
    Effect::CloseQuestion { key: key.into() }
}

fn expire(op: u32, key: &str) -> Effect {
    Effect::ExpireQuestion { op: OpId(op), key: key.into() }
}

/// Not in the order of their keys.
pub async fn questions_are_in_the_order_they_were_asked<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    take(&store, effects(lease, [question(3, "z"), question(4, "m")])).await;
    take(&store, effects(lease, [question(5, "a")])).await;
    assert_eq!(open(&store, "a").await, ["z", "m", "a"]);
    let first = store.questions(lease.key).await.unwrap().remove(0);
    assert_eq!(first, QuestionRow { key: "z".into(), op: OpId(3), body: bytes("question") });
}

/// And the task is shown or refused as without them.
pub async fn a_task_is_read_with_its_open_questions<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let lease = hold(&one, NewTask { owner: Some(who("ann")), ..task("a") }).await;
    take(&one, Turn { effects: vec![question(3, "q"), question(4, "r")], ..park(lease, None) })
        .await;
    one.answer(operator(0), id("a"), "q".into(), bytes("yes")).await.unwrap();
    for store in [&one, &two] {
        let (row, asked) = store.get_with_questions(operator(0), id("a")).await.unwrap();
        assert_eq!(row, get(store, "a").await);
        assert_eq!(asked, store.questions(lease.key).await.unwrap());
        assert_eq!(asked.len(), 1);
    }
    let bob = Caller { principal: Some(who("bob")), now: at(0) };
    assert_eq!(refused(one.get_with_questions(bob, id("a")).await), Refusal::Unknown);
    assert_eq!(refused(one.get_with_questions(operator(0), id("b")).await), Refusal::Unknown);
    let lease = claim(&one, 0).await.remove(0).lease();
    take(&one, end_at(lease, Some(at(5)), false)).await;
    let (row, asked) = one.get_with_questions(operator(4), id("a")).await.unwrap();
    assert_eq!((row.status, asked), (Status::Completed, Vec::new()));
    assert_eq!(refused(one.get_with_questions(operator(5), id("a")).await), Refusal::Expired);
}

/// The message is for the operation that asked, and a parked task is ready.
pub async fn an_answer_closes_the_question_and_wakes_the_task<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let lease = hold(&one, task("a")).await;
    let asked = vec![question(3, "q"), question(4, "r")];
    take(&one, Turn { effects: asked, ..park(lease, None) }).await;
    let touched = two.answer(operator(0), id("a"), "q".into(), bytes("yes")).await.unwrap();
    assert_eq!(touched, Touched { key: lease.key, here: false });
    assert_eq!(open(&one, "a").await, ["r"]);
    let claimed = claim(&two, 0).await.remove(0);
    assert_eq!((claimed.inbox[0].op, text(&claimed.inbox[0])), (Some(OpId(3)), "yes".into()));
    let touched = two.answer(operator(0), id("a"), "r".into(), bytes("no")).await.unwrap();
    assert!(touched.here);
}

/// The second finds it closed, whichever handle it comes through.
pub async fn a_question_is_answered_once<F: Fixture>(fixture: &F) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let lease = hold(&one, task("a")).await;
    take(&one, effects(lease, [question(3, "q")])).await;
    one.answer(operator(0), id("a"), "q".into(), bytes("first")).await.unwrap();
    for store in [&one, &two] {
        let again = store.answer(operator(0), id("a"), "q".into(), bytes("second")).await;
        assert_eq!(refused(again), Refusal::NotOpen);
    }
    let never = one.answer(operator(0), id("a"), "never".into(), bytes("m")).await;
    assert_eq!(refused(never), Refusal::NotOpen);
    assert_eq!(inbox(&one, lease.key).await, ["first"]);
}

/// What the checks of every call say comes before whether the question is open.
pub async fn an_answer_is_refused_in_the_order_of_the_checks<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, NewTask { owner: Some(who("ann")), ..task("a") }).await;
    take(&store, end_at(lease, Some(at(5)), false)).await;
    let as_at = |name: &str, n| Caller { principal: Some(who(name)), now: at(n) };
    let answer = async |by| refused(store.answer(by, id("a"), "q".into(), vec![]).await);
    assert_eq!(answer(as_at("bob", 5)).await, Refusal::Unknown);
    assert_eq!(answer(as_at("ann", 5)).await, Refusal::Expired);
    assert_eq!(answer(as_at("ann", 4)).await, Refusal::Terminal(Status::Completed));
}

/// Closing is no race: it may be answered already.
pub async fn closing_a_question_never_fails<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    take(&store, effects(lease, [question(1, "q"), question(2, "r")])).await;
    take(&store, effects(lease, [close("q")])).await;
    assert_eq!(open(&store, "a").await, ["r"]);
    take(&store, effects(lease, [close("q"), close("none")])).await;
    let late = store.answer(operator(0), id("a"), "q".into(), vec![]).await;
    assert_eq!(refused(late), Refusal::NotOpen);
}

/// Either the answer counts or the deadline, never both.
pub async fn an_answer_and_a_deadline_exclude_each_other<F: Fixture>(fixture: &F) {
    let store = fixture.open().await;
    let lease = hold(&store, task("a")).await;
    take(&store, effects(lease, [question(1, "q"), question(2, "r")])).await;
    store.answer(operator(0), id("a"), "q".into(), bytes("in time")).await.unwrap();
    let both = effects(lease, [expire(2, "r"), expire(1, "q")]);
    assert_eq!(refused(store.turn(both).await), Refusal::Guard(OpId(1)));
    assert_eq!(open(&store, "a").await, ["r"]);
    take(&store, effects(lease, [expire(2, "r")])).await;
    let late = store.answer(operator(0), id("a"), "r".into(), bytes("late")).await;
    assert_eq!(refused(late), Refusal::NotOpen);
    assert_eq!(inbox(&store, lease.key).await, ["in time"]);
}
