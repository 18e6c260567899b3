//! Calls made up from a seed, in a small world where they meet.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use steadfast_core::{OpId, Principal, Status, TaskId, Timestamp};
use steadfast_store::{
    ActivityEnd, ActivityLease, ActivityRow, After, Bond, Caller, Cancel, ClaimActivities,
    ClaimTasks, Claimed, Dedup, Effect, Lease, NewTask, Parent, Result, Resume, Retried, SendTo,
    SessionRow, Since, Started, Store, Suspend, Swept, TaskKey, Touched, Turn, Turned,
    session_scope, task_scope,
};

use super::Book;
use crate::common::since;

/// When a key is freed: later than anything here is asked for, however long it takes.
fn freed() -> Since {
    let hour = Duration::from_secs(3_600);
    Since { instant: Instant::now() + hour, ..since(0) }
}

pub(crate) const IDS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
pub(crate) const SESSIONS: [&str; 3] = ["s1", "s2", "s3"];
pub(crate) const DEDUPS: [&str; 2] = ["x", "y\0"];
pub(crate) const KEYS: [&str; 2] = ["k", "l\0"];

pub(crate) fn owners() -> [Option<Principal>; 3] {
    [None, Some("ann"), Some("bob")].map(|name| name.map(|name| Principal::new(name).unwrap()))
}

pub(crate) fn scopes() -> Vec<String> {
    vec!["shared".into(), session_scope("s1"), task_scope(&id("a"))]
}

pub(crate) fn id(text: &str) -> TaskId {
    TaskId::new(text).unwrap()
}

/// A call. Leases and numbers are filled in when it is made, as they differ between stores.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Start(NewTask),
    Unbind(TaskId, Bond),
    Turn(String, Turn),
    Send(Caller, SendTo),
    Answer(Caller, TaskId, String, Vec<u8>),
    Cancel(Caller, TaskId, Cancel),
    Suspend(Caller, TaskId, Suspend),
    Resume(Caller, TaskId, Resume),
    Purge(Caller, TaskId),
    EndActivity(String),
    RetryActivity(String, Timestamp),
    Beat(String, Option<Timestamp>, bool),
    BeginSession(SessionRow),
    KeepSession(SessionRow, Vec<u8>),
    TouchSession(String, Timestamp),
    EndSession(String),
    Post(Vec<u8>, Timestamp),
    Claim(ClaimTasks),
    ClaimActivities(ClaimActivities),
    Sweep(Timestamp, usize),
    Close,
}

#[derive(Debug)]
pub(crate) enum Answer {
    Nothing,
    Started(Result<Started>),
    Turned(Result<Turned>),
    Touched(Result<Option<Touched>>),
    Many(Result<Vec<Touched>>),
    Unit(Result<()>),
    Known(Result<bool>),
    Number(Result<u64>),
    Claimed(Result<Vec<Claimed>>),
    Works(Result<Vec<ActivityRow>>),
    Swept(Result<Swept>),
}

impl Call {
    pub(crate) async fn make(&self, store: &impl Store, by: usize, book: &Book) -> Answer {
        let work = |token: &String| {
            book.works.get(token).map(|&(key, epoch)| ActivityLease { key, epoch })
        };
        let body = b"done".to_vec();
        match self.clone() {
            Call::Start(task) => Answer::Started(store.start(task).await),
            Call::Unbind(id, bond) => Answer::Unit(store.unbind(vec![(id, bond)], freed()).await),
            Call::Turn(id, turn) => {
                let Some(&lease) = book.leases.get(&(by, id.clone())) else {
                    return Answer::Nothing;
                };
                let length = book.lengths.get(&id).copied().unwrap_or(0);
                let first = if turn.restart { 0 } else { length };
                Answer::Turned(store.turn(Turn { lease, first, ..turn }).await)
            }
            Call::Send(caller, send) => Answer::Touched(store.send(caller, send).await),
            Call::Answer(caller, id, question, body) => {
                Answer::Touched(store.answer(caller, id, question, body).await.map(Some))
            }
            Call::Cancel(caller, id, cancel) => {
                Answer::Many(store.cancel(caller, id, cancel).await)
            }
            Call::Suspend(caller, id, how) => {
                Answer::Touched(store.suspend(caller, id, how).await.map(Some))
            }
            Call::Resume(caller, id, how) => {
                Answer::Touched(store.resume(caller, id, how).await.map(Some))
            }
            Call::Purge(caller, id) => Answer::Unit(store.purge(caller, id).await),
            Call::EndActivity(token) => match work(&token) {
                Some(lease) => {
                    let end = ActivityEnd { lease, body };
                    Answer::Touched(store.end_activity(end).await.map(Some))
                }
                None => Answer::Nothing,
            },
            Call::RetryActivity(token, due) => match work(&token) {
                Some(lease) => {
                    let retried = Retried { lease, due, body };
                    Answer::Touched(store.retry_activity(retried).await.map(Some))
                }
                None => Answer::Nothing,
            },
            Call::Beat(token, until, release) => match work(&token) {
                Some(lease) => Answer::Unit(store.beat_activity(lease, until, release).await),
                None => Answer::Nothing,
            },
            Call::BeginSession(row) => Answer::Unit(store.begin_session(row, 2).await),
            Call::KeepSession(row, before) => Answer::Known(store.keep_session(row, before).await),
            Call::TouchSession(id, expires) => {
                Answer::Known(store.touch_session(id, expires).await)
            }
            Call::EndSession(id) => Answer::Known(store.end_session(id).await),
            Call::Post(body, until) => Answer::Number(store.post(body, until, 100).await),
            Call::Claim(claim) => Answer::Claimed(store.claim(claim).await),
            Call::ClaimActivities(claim) => Answer::Works(store.claim_activities(claim).await),
            Call::Sweep(now, limit) => Answer::Swept(store.sweep(now, limit).await),
            Call::Close => Answer::Unit(store.close().await),
        }
    }
}

pub(crate) struct Maker {
    state: u64,
    pub(crate) now: i64,
    /// Numbers of operations, and with them tokens.
    pub(crate) ops: u32,
    /// Tasks that the handle holds whose call is made up.
    held: Vec<String>,
}

impl Maker {
    pub(crate) fn new(seed: u64) -> Maker {
        Maker {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            now: 1_000,
            ops: 0,
            held: vec![],
        }
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 16) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }

    fn bytes(&mut self) -> Vec<u8> {
        vec![b'x'; self.below(4) as usize]
    }

    fn at(&mut self, around: u64) -> Timestamp {
        Timestamp(self.now + self.below(around) as i64)
    }

    fn owner(&mut self) -> Option<Principal> {
        self.of(&owners())
    }

    fn caller(&mut self) -> Caller {
        let principal = if self.one_in(5) { self.owner() } else { None };
        Caller { principal, now: Timestamp(self.now) }
    }

    fn task_id(&mut self) -> TaskId {
        let name = self.of(&IDS);
        id(name)
    }

    fn expires(&mut self) -> Option<Timestamp> {
        self.one_in(5).then(|| self.at(30))
    }

    /// What a handle does next.
    pub(crate) fn batch(&mut self, held: Vec<String>) -> Vec<Call> {
        self.held = held;
        self.now += self.below(3) as i64;
        match self.below(10) {
            0 | 1 => vec![self.claim()],
            2 => vec![Call::ClaimActivities(ClaimActivities {
                names: vec!["work".into(), "play".into()],
                limit: self.below(4) as usize,
                now: Timestamp(self.now),
            })],
            3 if self.one_in(2) => vec![Call::Sweep(Timestamp(self.now), self.below(4) as usize)],
            4 if self.one_in(8) => vec![Call::Close],
            5 if self.one_in(2) => {
                // Of so few bodies it is often the right one.
                let (row, before) = (self.session(), self.bytes());
                vec![match self.one_in(3) {
                    true => Call::TouchSession(row.id, row.expires),
                    false => Call::KeepSession(row, before),
                }]
            }
            _ => (0..2 + self.below(6)).map(|_| self.call()).collect(),
        }
    }

    fn claim(&mut self) -> Call {
        let tools = self.of(&[vec![("t", 1, 1)], vec![("t", 0, 9), ("u", 2, 3)]]);
        let tools = tools.into_iter().map(|(name, low, high)| (name.into(), low, high)).collect();
        // All of them: in which order owners take turns is for each store to say.
        Call::Claim(ClaimTasks { tools, limit: 99, now: Timestamp(self.now) })
    }

    fn call(&mut self) -> Call {
        let token = format!("t{}", self.ops.saturating_sub(self.below(6) as u32));
        match self.below(24) {
            0..=2 => Call::Start(self.new_task()),
            3 => Call::Unbind(self.task_id(), self.of(&[Bond::Key, Bond::Desk])),
            4..=12 => self.turn(),
            13 | 14 => {
                let keep_until = self.one_in(2).then(|| self.at(8));
                let send = SendTo { id: self.task_id(), body: self.bytes(), keep_until };
                Call::Send(self.caller(), send)
            }
            15 => Call::Answer(self.caller(), self.task_id(), self.question(), self.bytes()),
            16 => Call::Cancel(self.caller(), self.task_id(), self.cancel()),
            17 => {
                let (at, view) = (Timestamp(self.now), self.bytes());
                let (caller, id) = (self.caller(), self.task_id());
                match self.one_in(2) {
                    true => Call::Suspend(caller, id, Suspend { at, view }),
                    false => Call::Resume(caller, id, Resume { at, view }),
                }
            }
            18 => Call::Purge(self.caller(), self.task_id()),
            19 => Call::EndActivity(token),
            20 => match self.one_in(2) {
                true => Call::RetryActivity(token, self.at(5)),
                false => {
                    let until = self.one_in(2).then(|| self.at(5));
                    Call::Beat(token, until, self.one_in(2))
                }
            },
            21 => Call::BeginSession(self.session()),
            22 => Call::EndSession(self.of(&SESSIONS).into()),
            _ => Call::Post(self.bytes(), self.at(6)),
        }
    }

    fn session(&mut self) -> SessionRow {
        SessionRow { id: self.of(&SESSIONS).into(), expires: self.at(9), body: self.bytes() }
    }

    fn question(&mut self) -> String {
        self.of(&["q", "r\0"]).into()
    }

    fn cancel(&mut self) -> Cancel {
        Cancel {
            at: Timestamp(self.now),
            event: b"cancelled".to_vec(),
            view: self.bytes(),
            end: self.bytes(),
            tell: b"child cancelled".to_vec(),
            expires: self.expires(),
            frees: self.one_in(3).then(freed),
        }
    }

    fn new_task(&mut self) -> NewTask {
        let status = self.of(&[Status::Running, Status::Running, Status::Queued]);
        let tags = if self.one_in(3) { vec![("t", "1\0")] } else { vec![] };
        NewTask {
            id: self.task_id(),
            tool: self.of(&["t", "t", "u"]).into(),
            version: self.of(&[Some(1), Some(2), None]),
            owner: self.owner(),
            tags: tags
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .collect::<BTreeMap<_, _>>(),
            parent: None,
            // Before anything was freed: the clock of the one is not that of the other.
            dedup: self.one_in(3).then(|| Dedup {
                unless: self.one_in(3).then(|| self.of(&DEDUPS).into()),
                asked: since(1),
                instead_of: self.one_in(4).then(|| self.task_id()),
                ..Dedup::from(self.of(&DEDUPS))
            }),
            bound: self.one_in(4),
            status,
            created: Timestamp(self.now),
            wake: if status == Status::Queued { Some(self.at(5)) } else { None },
            expires: self.expires(),
            hold: !self.one_in(3),
            about: self.bytes(),
            view: self.bytes(),
            events: vec![b"started".to_vec(); self.below(3) as usize],
        }
    }

    fn turn(&mut self) -> Call {
        let statuses = [Status::Running, Status::Waiting, Status::InputRequired, Status::Stuck];
        let view = self.one_in(3).then(|| (self.of(&statuses), self.bytes()));
        let after = match self.below(12) {
            0..=6 => After::Keep,
            7 | 8 => After::Park { wake: self.one_in(2).then(|| self.at(6)) },
            9 => After::Yield,
            _ => After::End {
                status: self.of(&[Status::Completed, Status::Failed]),
                expires: self.expires(),
                end: self.bytes(),
                tell: b"child ended".to_vec(),
                keep: self.one_in(3),
            },
        };
        let effects = (0..self.below(5)).map(|_| self.effect()).collect();
        let turn = Turn {
            lease: Lease { key: TaskKey(0), epoch: 0 },
            at: Timestamp(self.now),
            first: 0,
            events: vec![b"event".to_vec(); self.below(3) as usize],
            restart: self.one_in(12),
            consumed: self.one_in(3).then(|| self.below(8) as i64),
            view,
            progress: self.one_in(2),
            effects,
            after,
        };
        let of = match self.held.is_empty() || self.one_in(10) {
            true => self.of(&IDS).into(),
            false => self.of(&self.held.clone()),
        };
        Call::Turn(of, turn)
    }

    fn op(&mut self) -> OpId {
        self.ops += 1;
        OpId(self.ops)
    }

    fn effect(&mut self) -> Effect {
        let (scope, key) = (self.of(&scopes()), self.of(&KEYS).to_owned());
        let (value, notice) = ((!self.one_in(4)).then(|| self.bytes()), key.clone().into_bytes());
        match self.below(16) {
            0 => Effect::Post { body: self.bytes(), until: self.at(6), most: 100 },
            1 | 2 => {
                Effect::OpenQuestion { key: self.question(), op: self.op(), body: self.bytes() }
            }
            3 => Effect::CloseQuestion { key: self.question() },
            4 => Effect::ExpireQuestion { op: self.op(), key: self.question() },
            5 | 6 => {
                let (op, name) = (self.op(), self.of(&["work", "play", "other"]).to_owned());
                Effect::ScheduleActivity {
                    op,
                    name,
                    token: format!("t{}", op.0),
                    body: self.bytes(),
                }
            }
            7 => Effect::CancelActivity { op: OpId(self.ops.saturating_sub(self.below(6) as u32)) },
            8 | 9 => {
                let parent = Parent { key: TaskKey(0), op: self.op(), notify: !self.one_in(4) };
                let task = NewTask { parent: Some(parent), ..self.new_task() };
                Effect::StartTask { task: Box::new(task), exists: b"child exists".to_vec() }
            }
            10 => Effect::CancelTask { id: self.task_id(), cancel: Box::new(self.cancel()) },
            11 => Effect::WriteState { scope, key, value, notice },
            12 => {
                let expect = self.below(3);
                Effect::SwapState { op: self.op(), scope, key, value, expect, notice }
            }
            13 => Effect::Watch { scope, key },
            14 => Effect::Unwatch { scope, key },
            _ => Effect::Send { to: self.task_id(), body: self.bytes() },
        }
    }
}
