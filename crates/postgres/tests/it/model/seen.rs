//! What is seen of a store, with names in place of its numbers.

use steadfast_core::Timestamp;
use steadfast_store::{
    ActivityRow, Caller, Filter, Order, Started, Store, TaskKey, TaskRow, Touched,
};

use super::{
    Book,
    made::{Answer, Call, DEDUPS, IDS, KEYS, SESSIONS, id, owners, scopes},
};

async fn name(store: &impl Store, key: TaskKey, book: &mut Book) -> String {
    if let Some(name) = book.tasks.get(&key.0) {
        return name.clone();
    }
    let name = store.row(key).await.unwrap().map_or("?".into(), |row| row.id.to_string());
    book.tasks.insert(key.0, name.clone());
    name
}

async fn touched(store: &impl Store, all: &[Touched], book: &mut Book) -> Vec<(String, bool)> {
    let mut names = Vec::new();
    for touched in all {
        names.push((name(store, touched.key, book).await, touched.here));
    }
    names.sort();
    names
}

async fn row(stores: &[impl Store], row: TaskRow, book: &mut Book) -> String {
    let desk = |desk| stores.iter().position(|store| Some(store.desk()) == desk);
    let (held, bound) = (desk(row.desk), desk(row.bound));
    let parent = match row.parent {
        Some((key, op)) => Some((name(&stores[0], key, book).await, op)),
        None => None,
    };
    let plain = TaskRow { key: TaskKey(0), desk: None, bound: None, parent: None, ..row };
    format!("{plain:?} held by {held:?} bound {bound:?} parent {parent:?}")
}

fn work(stores: &[impl Store], row: ActivityRow, book: &mut Book) -> String {
    book.activities.insert(row.key, row.token.clone());
    let desk = stores.iter().position(|store| Some(store.desk()) == row.desk);
    let plain = ActivityRow { key: 0, task: TaskKey(0), desk: None, ..row };
    format!("{plain:?} at {desk:?}")
}

/// The answer to a call, and what is learned from it.
pub(crate) async fn answer(
    stores: &[impl Store],
    by: usize,
    call: &Call,
    answer: Answer,
    book: &mut Book,
) -> String {
    let store = &stores[by];
    match answer {
        Answer::Nothing => "nothing".into(),
        Answer::Started(Ok(Started::New { key, lease, mail })) => {
            let Call::Start(new) = call else { unreachable!() };
            book.tasks.insert(key.0, new.id.to_string());
            if let Some(lease) = lease {
                book.leases.insert((by, new.id.to_string()), lease);
            }
            format!("new {} {mail}", lease.is_some())
        }
        Answer::Started(Ok(Started::Existing { id, freed, .. })) => {
            format!("existing {id}, freed {freed}")
        }
        Answer::Started(Err(error)) => format!("{error:?}"),
        Answer::Turned(Ok(turned)) => {
            let names = touched(store, &turned.touched, book).await;
            let works: Vec<_> =
                turned.cancelled.iter().map(|key| book.activities.get(key).cloned()).collect();
            format!("{names:?} {} {works:?} {}", turned.activities, turned.ready)
        }
        Answer::Turned(Err(error)) => format!("{error:?}"),
        Answer::Touched(Ok(one)) => {
            format!("{:?}", touched(store, one.as_slice(), book).await)
        }
        Answer::Touched(Err(error)) => format!("{error:?}"),
        Answer::Many(Ok(many)) => format!("{:?}", touched(store, &many, book).await),
        Answer::Many(Err(error)) => format!("{error:?}"),
        Answer::Unit(done) => format!("{done:?}"),
        Answer::Known(known) => format!("{known:?}"),
        Answer::Number(number) => format!("{number:?}"),
        Answer::Swept(swept) => format!("{swept:?}"),
        Answer::Claimed(claimed) => {
            let mut lines = Vec::new();
            for claimed in claimed.unwrap() {
                let id = claimed.row.id.to_string();
                book.leases.insert((by, id), claimed.lease());
                let task = row(stores, claimed.row, book).await;
                lines.push(format!("{task} {:?} {:?}", claimed.history, claimed.inbox));
            }
            lines.sort();
            lines.join("\n")
        }
        Answer::Works(works) => {
            let mut lines = Vec::new();
            for row in works.unwrap() {
                book.works.insert(row.token.clone(), (row.key, row.epoch));
                lines.push(work(stores, row, book));
            }
            lines.join("\n")
        }
    }
}

/// All that can be read.
pub(crate) async fn all(stores: &[impl Store], book: &mut Book, now: i64, ops: u32) -> Vec<String> {
    let store = &stores[0];
    let operator = Caller { principal: None, now: Timestamp(now) };
    let mut lines = Vec::new();
    for text in IDS {
        let early = Caller { now: Timestamp(i64::MIN + 1), ..operator.clone() };
        let Ok((task, questions)) = store.get_with_questions(early, id(text)).await else {
            lines.push(format!("{text}: none"));
            continue;
        };
        let key = task.key;
        book.tasks.insert(key.0, text.into());
        let page = store.history(key, Order::OldestFirst, None, 999).await.unwrap();
        book.lengths.insert(text.into(), page.events.len() as u64);
        lines.push(format!("{text}: {}", row(stores, task, book).await));
        lines.push(format!("  history {:?}", page.events));
        lines.push(format!("  inbox {:?}", store.inbox(key, 0).await.unwrap()));
        lines.push(format!("  questions {questions:?}"));
    }
    for (principal, key) in
        owners().into_iter().flat_map(|owner| DEDUPS.map(|key| (owner.clone(), key)))
    {
        let caller = Caller { principal, ..operator.clone() };
        let keyed = store.keyed(caller.clone(), key.into()).await.unwrap();
        let keyed = keyed.map(|keyed| (keyed.id, keyed.freed.is_some()));
        lines.push(format!("{key:?} of {:?}: {keyed:?}", caller.principal));
    }
    for op in ops.saturating_sub(60)..=ops {
        if let Some(row) = store.activity(format!("t{op}")).await.unwrap() {
            lines.push(format!("activity {}", work(stores, row, book)));
        }
    }
    for (at, handle) in stores.iter().enumerate() {
        let mut held = Vec::new();
        for one in handle.held().await.unwrap() {
            held.push((
                name(store, one.lease.key, book).await,
                one.lease.epoch,
                one.status,
                one.mail,
            ));
        }
        held.sort_by(|a, b| a.0.cmp(&b.0));
        lines.push(format!("desk {at}: {held:?}"));
        let works = handle.held_activities().await.unwrap();
        let mut works: Vec<_> =
            works.iter().map(|one| (book.activities.get(&one.key).cloned(), one.epoch)).collect();
        works.sort();
        lines.push(format!("  at {works:?}"));
    }
    for scope in scopes() {
        for key in KEYS {
            let state = store.state(scope.clone(), key.into()).await.unwrap();
            lines.push(format!("{scope}/{key}: {state:?}"));
        }
    }
    for session in SESSIONS {
        let found = store.session(session.into(), Timestamp(now)).await.unwrap();
        lines.push(format!("{session}: {found:?}"));
    }
    lines.push(format!("{:?}", store.posted(0, 999).await.unwrap()));
    lines.push(format!("wake {:?}", store.next_wake().await.unwrap()));
    lines.push(format!("{:?}", store.counts(operator).await.unwrap()));
    let filter = Filter { now: Timestamp(now), ..Filter::default() };
    let page = store.list(filter, Order::OldestFirst, None, 99).await.unwrap();
    let names: Vec<String> = page.tasks.iter().map(|row| row.id.to_string()).collect();
    lines.push(format!("{names:?}"));
    lines
}
