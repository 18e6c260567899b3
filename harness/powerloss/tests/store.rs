//! The SQLite store under power loss: what it acknowledged is there, and every turn is whole.

#![cfg(unix)]
// In a test's helpers a panic is the report.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeMap, path::Path, sync::Arc};

use rusqlite::{Connection, OpenFlags, config::DbConfig};
use steadfast_core::{Status, TaskId, Timestamp};
use steadfast_powerloss::{Image, Log, Loss, Recorder, Rng, runs, scratch};
use steadfast_sqlite::{Durability, Options};
use steadfast_store::{
    After, Caller, Effect, Error, Lease, NewTask, Order, Started, Store, TaskKey, Turn,
};

const TASKS: u32 = 8;
const TURNS: u32 = 25;

fn id(task: u32) -> TaskId {
    TaskId::new(format!("task-{task}")).unwrap()
}

fn operator() -> Caller {
    Caller { principal: None, now: Timestamp(1) }
}

fn text(task: u32, turn: u32) -> Vec<u8> {
    format!("{task} {turn}").into_bytes()
}

/// The events of one turn: some small, some of several pages, none like another turn's.
fn events(task: u32, turn: u32) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(u64::from(task) << 32 | u64::from(turn));
    let event = |rng: &mut Rng| {
        let mut bytes = text(task, turn);
        let start = bytes.len();
        let more = if rng.chance(5) { 9000 } else { 300 };
        bytes.resize(start + rng.below(more), 0);
        rng.fill(&mut bytes[start..]);
        bytes
    };
    (0..1 + rng.below(4)).map(|_| event(&mut rng)).collect()
}

fn new_task(task: u32) -> NewTask {
    NewTask {
        id: id(task),
        tool: "tool".into(),
        version: Some(1),
        owner: None,
        tags: BTreeMap::new(),
        parent: None,
        dedup: None,
        bound: false,
        status: Status::Running,
        created: Timestamp(1),
        wake: None,
        expires: None,
        hold: true,
        about: b"about".to_vec(),
        view: text(task, 0),
        events: events(task, 0),
    }
}

/// A turn that touches as many tables as one can: events, view, state, and a message to the next
/// task.
fn new_turn(task: u32, turn: u32, lease: Lease, first: u64) -> Turn {
    Turn {
        lease,
        at: Timestamp(1),
        first,
        events: events(task, turn),
        restart: false,
        consumed: None,
        view: Some((Status::Running, text(task, turn))),
        progress: true,
        effects: vec![
            Effect::WriteState {
                scope: "scope".into(),
                key: task.to_string(),
                value: Some(text(task, turn)),
                notice: Vec::new(),
            },
            Effect::Send { to: id((task + 1) % TASKS), body: text(task, turn) },
        ],
        after: After::Keep,
    }
}

/// One task from its start on; each acknowledgement is marked as "task turn", the start as turn 0.
async fn live(store: Arc<dyn Store>, recorder: Arc<Recorder>, task: u32, lease: Lease) {
    let mut first = events(task, 0).len() as u64;
    for turn in 1..=TURNS {
        let new = new_turn(task, turn, lease, first);
        first += new.events.len() as u64;
        store.turn(new).await.unwrap();
        recorder.mark(format!("{task} {turn}"));
    }
}

/// All tasks at once, so that their commits share flushes, and a second connection that
/// checkpoints while they write, so that the main file is written to as well.
fn record(vfs: &str, durability: Durability) -> Log {
    let dir = scratch().unwrap();
    let path = dir.path().join("db");
    let recorder = Arc::new(Recorder::register(vfs).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = Options::new(&path).vfs(vfs).durability(durability).open().unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let mut lives = Vec::new();
        for task in 0..TASKS {
            let started = store.start(new_task(task)).await.unwrap();
            let Started::New { lease: Some(lease), .. } = started else {
                panic!("{started:?}");
            };
            recorder.mark(format!("{task} 0"));
            lives.push((task, lease));
        }
        let lives = lives.into_iter().map(|(task, lease)| {
            tokio::spawn(live(Arc::clone(&store), Arc::clone(&recorder), task, lease))
        });
        let lives: Vec<_> = lives.collect();
        let other = Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), vfs).unwrap();
        for life in lives {
            while !life.is_finished() {
                other.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
            }
            life.await.unwrap();
        }
        recorder.log()
    })
}

/// What is wrong with an image, if anything: damage, and what was acknowledged and is lost.
fn examine(image: &Image) -> Result<(), String> {
    let dir = scratch().unwrap();
    image.write_to(dir.path()).unwrap();
    let path = dir.path().join("db");
    integrity(&path).map_err(|error| format!("damage: {error}"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = Options::new(&path).open().map_err(|error| format!("damage: {error}"))?;
        let mut last = BTreeMap::new();
        for task in 0..TASKS {
            if let Some(turn) = whole(&store, task).await? {
                last.insert(task, turn);
            }
        }
        mail(&store, &last).await?;
        for mark in &image.marks {
            let (task, turn) = mark.split_once(' ').unwrap();
            let (task, turn): (u32, u32) = (task.parse().unwrap(), turn.parse().unwrap());
            if last.get(&task).is_none_or(|last| *last < turn) {
                return Err(format!("lost: turn {turn} of task {task}"));
            }
        }
        Ok(())
    })
}

fn integrity(path: &Path) -> Result<(), String> {
    let verdict = || {
        let db = Connection::open(path)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        db.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))
    };
    match verdict() {
        Ok(verdict) if verdict == "ok" => Ok(()),
        Ok(verdict) => Err(verdict),
        Err(error) => Err(error.to_string()),
    }
}

/// The last turn of a task, if the task is there; an error if any turn is there in part.
async fn whole(store: &dyn Store, task: u32) -> Result<Option<u32>, String> {
    let Ok(row) = store.get(operator(), id(task)).await else {
        return Ok(None);
    };
    let page = store.history(row.key, Order::OldestFirst, None, 10_000).await.unwrap();
    let found: Vec<Vec<u8>> = page.events.into_iter().map(|(_, event)| event).collect();
    let mut wanted = Vec::new();
    let turn = (0..=TURNS).find(|turn| {
        wanted.extend(events(task, *turn));
        wanted.len() >= found.len()
    });
    let turn = turn.ok_or("damage: more events than were written")?;
    if found != wanted {
        return Err(format!("damage: turn {turn} of task {task} is there in part"));
    }
    if row.view != text(task, turn) {
        return Err(format!("damage: the view of task {task} is not that of turn {turn}"));
    }
    let state = store.state("scope".into(), task.to_string()).await.unwrap();
    let value = (turn > 0).then(|| text(task, turn));
    if (state.value, state.version) != (value, u64::from(turn)) {
        return Err(format!("damage: the state of task {task} is not that of turn {turn}"));
    }
    Ok(Some(turn))
}

/// Each task's inbox holds what the turns of the one before it sent, and nothing else.
async fn mail(store: &dyn Store, last: &BTreeMap<u32, u32>) -> Result<(), String> {
    for task in last.keys() {
        let from = (task + TASKS - 1) % TASKS;
        let sent = last.get(&from).copied().unwrap_or(0);
        let key: TaskKey = store.get(operator(), id(*task)).await.unwrap().key;
        let inbox = store.inbox(key, 0).await.unwrap();
        let found: Vec<Vec<u8>> = inbox.into_iter().map(|row| row.body).collect();
        let wanted: Vec<Vec<u8>> = (1..=sent).map(|turn| text(from, turn)).collect();
        if found != wanted {
            return Err(format!("damage: task {task} has not the mail that {from} sent"));
        }
    }
    Ok(())
}

fn report(image: &Image, verdict: &str) -> String {
    let kept = image.keep().unwrap();
    let Image { seed, cut, loss, .. } = image;
    format!("{verdict}: images {seed}, cut {cut}, loss {loss:?}; kept in {}", kept.display())
}

#[test]
fn with_full_durability_every_acknowledged_turn_survives_a_power_cut_whole() {
    for seed in runs(3) {
        let log = record("store-full", Durability::Full);
        for image in log.images(seed, 300) {
            if let Err(verdict) = examine(&image) {
                panic!("{}", report(&image, &verdict));
            }
        }
    }
}

#[test]
fn with_the_weaker_durability_turns_are_lost_but_none_in_part() {
    let log = record("store-weak", Durability::ProcessCrashOnly);
    let mut lost = 0;
    for image in log.images(1, 300) {
        if let Err(verdict) = examine(&image) {
            let expected = verdict.starts_with("lost") && image.loss != Loss::Nothing;
            assert!(expected, "{}", report(&image, &verdict));
            lost += 1;
        }
    }
    assert!(lost > 0, "the weaker setting flushes as often as the stronger one");
}

/// A flush that fails leaves open whether the commit counts: the caller is told so, this process
/// goes on as if it didn't, and after a power cut it may.
#[test]
fn a_turn_whose_flush_failed_may_or_may_not_have_happened() {
    let dir = scratch().unwrap();
    let recorder = Recorder::register("store-failing").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let logs = runtime.block_on(async {
        let store = Options::new(dir.path().join("db")).vfs("store-failing").open().unwrap();
        let mut leases = Vec::new();
        for task in 0..TASKS {
            let started = store.start(new_task(task)).await.unwrap();
            let Started::New { lease: Some(lease), .. } = started else { panic!("{started:?}") };
            recorder.mark(format!("{task} 0"));
            leases.push(lease);
        }
        let first = events(0, 0).len() as u64;
        recorder.fail_syncs(1);
        let failed = store.turn(new_turn(0, 1, leases[0], first)).await.unwrap_err();
        assert!(matches!(failed, Error::Unknown(_)), "{failed:?}");
        assert_eq!(whole(&store, 0).await.unwrap(), Some(0));
        let cut = recorder.log();
        // The handle is as good as before: the same turn, and one of another task.
        store.turn(new_turn(0, 1, leases[0], first)).await.unwrap();
        recorder.mark("0 1");
        let other = events(1, 0).len() as u64;
        store.turn(new_turn(1, 1, leases[1], other)).await.unwrap();
        recorder.mark("1 1");
        assert_eq!(whole(&store, 0).await.unwrap(), Some(1));
        assert_eq!(whole(&store, 1).await.unwrap(), Some(1));
        [cut, recorder.log()]
    });
    for image in logs.iter().flat_map(|log| log.images(1, 100)) {
        if let Err(verdict) = examine(&image) {
            panic!("{}", report(&image, &verdict));
        }
    }
}
