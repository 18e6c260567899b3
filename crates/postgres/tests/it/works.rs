//! One of every kind of call that writes.

use steadfast_core::{OpId, Timestamp};
use steadfast_engine::Error;
use steadfast_postgres::{Options, Store, in_postgres, testing};
use steadfast_store::{
    ActivityEnd, ActivityLease, ActivityRow, After, Bond, Cancel, ClaimActivities, ClaimTasks,
    Dedup, Effect, Join, Judge, Lease, NewTask, Overruled, Parent, Poison, Prepared, Refusal,
    Resume, Retried, SendTo, SessionRow, Store as _, Suspend, Turn, Work as _,
};

use crate::common::{held, history, id, operator, since, task, turn};

/// Makes them all. The round is part of every name.
pub(crate) async fn works(options: &Options, store: &Store, round: &str) {
    let name = |what: &str| format!("{what}-{round}");
    let lease = held(store, &name("held")).await;
    store.turn(turn(lease, 1, "x")).await.unwrap();
    books(store, lease, 2, "CREATE TEMP TABLE IF NOT EXISTS booked (n int)").await;
    assert_eq!(history(store, lease).await, ["started", "x", "booked"]);
    claims_and_adopts(options, store, &name).await;
    asks(store, &name).await;
    acts(store, &name).await;
    steers(store, &name).await;
    meets(store, &name).await;
    store.post(b"notice".to_vec(), Timestamp(99), 10).await.unwrap();
    store.sweep(Timestamp(5), 10).await.unwrap();
    store.check().await.unwrap();
}

fn bytes(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

/// A turn that does this and nothing else.
async fn does(store: &Store, lease: Lease, effects: Vec<Effect>) {
    let turn = Turn { events: Vec::new(), effects, ..turn(lease, 1, "") };
    store.turn(turn).await.unwrap();
}

async fn inbox(store: &Store, lease: Lease) -> Vec<String> {
    let mail = store.inbox(lease.key, 0).await.unwrap();
    mail.into_iter().map(|row| String::from_utf8(row.body).unwrap()).collect()
}

async fn claims_and_adopts(options: &Options, store: &Store, name: &impl Fn(&str) -> String) {
    let dedup = Some(Dedup::from(name("key")));
    store.start(NewTask { hold: false, dedup, bound: true, ..task(&name("ready")) }).await.unwrap();
    let free = vec![(id(&name("ready")), Bond::Key), (id(&name("ready")), Bond::Desk)];
    store.unbind(free, since(0)).await.unwrap();
    store.turn(turn(takes_one(store).await, 1, "y")).await.unwrap();

    let dead = options.clone().open().await.unwrap();
    held(&dead, &name("left")).await;
    dead.kill();
    testing::expire(options, dead.desk()).await.unwrap();
    let poison = Poison { deaths: 5, at: Timestamp(2), view: bytes("view") };
    assert_eq!(store.adopt(dead.desk(), poison).await.unwrap().ready, 1);
    takes_one(store).await;

    let leaves = options.clone().open().await.unwrap();
    held(&leaves, &name("returned")).await;
    leaves.close().await.unwrap();
    takes_one(store).await;
}

async fn takes_one(store: &Store) -> Lease {
    let tools = vec![("tool".into(), 1, 1)];
    let ready = store.claim(ClaimTasks { tools, limit: 9, now: Timestamp(1) }).await.unwrap();
    assert_eq!(ready.len(), 1);
    ready[0].lease()
}

/// What was cancelled is on the ready pile, for what is left to do of it: nothing.
async fn clears_up(store: &Store) {
    let lease = takes_one(store).await;
    let after = After::Park { wake: None };
    let turn = Turn { events: Vec::new(), after, ..turn(lease, 1, "") };
    store.turn(turn).await.unwrap();
}

async fn asks(store: &Store, name: &impl Fn(&str) -> String) {
    let lease = held(store, &name("asks")).await;
    let body = || bytes("body");
    let ask = |key: &str| Effect::OpenQuestion { key: key.into(), op: OpId(1), body: body() };
    does(store, lease, vec![ask("q"), ask("r"), ask("s")]).await;
    let close = Effect::CloseQuestion { key: "r".into() };
    let expire = Effect::ExpireQuestion { op: OpId(1), key: "s".into() };
    does(store, lease, vec![close, expire]).await;
    store.answer(operator(), id(&name("asks")), "q".into(), bytes("answer")).await.unwrap();
    let send = |to: &str| SendTo {
        id: id(&name(to)),
        body: bytes("letter"),
        keep_until: Some(Timestamp(99)),
    };
    store.send(operator(), send("asks")).await.unwrap().unwrap();
    assert!(store.send(operator(), send("later")).await.unwrap().is_none());
    let later = held(store, &name("later")).await;
    assert_eq!(inbox(store, later).await, ["letter"]);
    let to_it = Effect::Send { to: id(&name("later")), body: bytes("of a task") };
    does(store, lease, vec![to_it]).await;
    assert_eq!(inbox(store, later).await, ["letter", "of a task"]);
    assert_eq!(inbox(store, lease).await, ["answer", "letter"]);
    let seen = store.inbox(lease.key, 0).await.unwrap().pop().unwrap().seq;
    store.turn(Turn { consumed: Some(seen), ..turn(lease, 1, "read") }).await.unwrap();
    assert!(inbox(store, lease).await.is_empty());
}

async fn acts(store: &Store, name: &impl Fn(&str) -> String) {
    let lease = held(store, &name("acts")).await;
    let act = |op, token: &str| Effect::ScheduleActivity {
        op: OpId(op),
        name: "act".into(),
        token: name(token),
        body: bytes("body"),
    };
    does(store, lease, vec![act(1, "one"), act(2, "two")]).await;
    does(store, lease, vec![Effect::CancelActivity { op: OpId(2) }]).await;
    let claim = async || -> ActivityRow {
        let claim = ClaimActivities { names: vec!["act".into()], limit: 9, now: Timestamp(9) };
        let mut all = store.claim_activities(claim).await.unwrap();
        assert_eq!(all.len(), 1);
        all.remove(0)
    };
    let of = |row: &ActivityRow| ActivityLease { key: row.key, epoch: row.epoch };
    let row = claim().await;
    store.beat_activity(of(&row), Some(Timestamp(20)), false).await.unwrap();
    let retried = Retried { lease: of(&row), due: Timestamp(5), body: bytes("again") };
    store.retry_activity(retried).await.unwrap();
    let end = ActivityEnd { lease: of(&claim().await), body: bytes("done") };
    store.end_activity(end).await.unwrap();
    assert_eq!(inbox(store, lease).await, ["again", "done"]);
}

async fn steers(store: &Store, name: &impl Fn(&str) -> String) {
    let lease = held(store, &name("steers")).await;
    let parent = Some(Parent { key: lease.key, op: OpId(1), notify: true });
    let child = NewTask { hold: false, parent, ..task(&name("child")) };
    let start = Effect::StartTask { task: Box::new(child), exists: bytes("exists") };
    does(store, lease, vec![start]).await;
    let child = id(&name("child"));
    let suspend = Suspend { at: Timestamp(3), view: bytes("view") };
    store.suspend(operator(), child.clone(), suspend).await.unwrap();
    let resume = Resume { at: Timestamp(3), view: bytes("view") };
    store.resume(operator(), child.clone(), resume).await.unwrap();
    let cancel = || Cancel {
        at: Timestamp(3),
        event: bytes("cancelled"),
        view: bytes("view"),
        end: bytes("end"),
        tell: bytes("ended"),
        expires: None,
        frees: Some(since(0)),
    };
    store.cancel(operator(), child.clone(), cancel()).await.unwrap();
    assert_eq!(inbox(store, lease).await, ["ended"]);
    clears_up(store).await;
    store.purge(operator(), child).await.unwrap();
    let other = id(&name("held"));
    let its = Effect::CancelTask { id: other.clone(), cancel: Box::new(cancel()) };
    does(store, lease, vec![its]).await;
    clears_up(store).await;
    let again = store.cancel(operator(), other, cancel()).await.unwrap_err();
    assert!(matches!(again.refusal(), Some(Refusal::Terminal(_))), "{again}");
}

/// What tasks share, and sessions.
async fn meets(store: &Store, name: &impl Fn(&str) -> String) {
    let lease = held(store, &name("meets")).await;
    let (scope, key) = (name("scope"), "key".to_owned());
    let value = |text: &str| Some(bytes(text));
    let (notice, body) = (bytes("changed"), bytes("notice"));
    let watch = Effect::Watch { scope: scope.clone(), key: key.clone() };
    let write = Effect::WriteState {
        scope: scope.clone(),
        key: key.clone(),
        value: value("one"),
        notice: notice.clone(),
    };
    let post = Effect::Post { body, until: Timestamp(99), most: 10 };
    does(store, lease, vec![watch, write, post]).await;
    let expect = store.state(scope.clone(), key.clone()).await.unwrap().version;
    let swap = Effect::SwapState {
        op: OpId(1),
        scope: scope.clone(),
        key: key.clone(),
        value: value("two"),
        expect,
        notice,
    };
    let unwatch = Effect::Unwatch { scope: scope.clone(), key: key.clone() };
    does(store, lease, vec![swap, unwatch]).await;
    assert_eq!(store.state(scope, key).await.unwrap().value, value("two"));
    assert_eq!(inbox(store, lease).await, ["changed"]);

    let session =
        |text: &str| SessionRow { id: name("session"), expires: Timestamp(50), body: bytes(text) };
    store.begin_session(session("one"), 10).await.unwrap();
    assert!(store.keep_session(session("two"), bytes("one")).await.unwrap());
    assert!(store.touch_session(name("session"), Timestamp(60)).await.unwrap());
    assert!(store.end_session(name("session")).await.unwrap());
}

/// A turn with SQL of an author's in its transaction.
pub(crate) async fn books(store: &Store, lease: Lease, first: u64, sql: &str) {
    let mut work = in_postgres(|tx| async move {
        tx.execute(sql, &[]).await?;
        Ok::<_, Error>(())
    });
    let Prepared::Ready(parcel) = work.prepare(store, Box::new(Yes)).await else {
        panic!("it is done, but for the commit")
    };
    let turn = Turn { events: Vec::new(), ..turn(lease, first, "") };
    store.turn_with(turn, Join { op: OpId(7), parcel }).await.unwrap();
}

/// Takes all that does not fail.
struct Yes;

impl Judge<Result<(), Error>> for Yes {
    fn run(&mut self, code: Box<dyn FnOnce() -> Result<(), Error> + '_>) -> Option<Vec<u8>> {
        code().ok().map(|()| b"booked".to_vec())
    }

    fn overrule(&mut self, why: Overruled) {
        panic!("{why:?}");
    }
}
