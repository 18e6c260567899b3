//! Random programs, as trees, and what runs them.

use std::{rc::Rc, time::Duration};

use proptest::prelude::*;
use steadfast_core::{
    Ask, Call, ChildSpec, Json, Mode, Note, Outcome, Progress, Retry, Scope, TaskId, Undo,
};

use crate::code::{Boxed, Op, Select, Shared, join};

/// A part of a program.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Step {
        name: u8,
        mode: u8,
        retry: bool,
        undo: bool,
    },
    Activity(u8),
    Timer(u16),
    Signal(u8),
    Ask(u8, Option<u16>),
    Child(u8, bool),
    Get(u8),
    Set(u8),
    Update(u8),
    Wait(u8),
    Send(u8),
    Note(u8),
    Version(u8),
    Draw,
    /// Begins the first, runs the second, then takes the result of the first.
    Hold(Box<Node>, Box<Node>),
    Seq(Vec<Node>),
    Join(Vec<Node>),
    Select(Vec<Node>),
    Loop(u8, Box<Node>),
    /// The first if what was seen last is odd.
    If(Box<Node>, Box<Node>),
}

/// A task's whole code: its body, and how often it begins anew.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) body: Node,
    pub(crate) runs: u32,
}

fn leaf() -> impl Strategy<Value = Node> {
    let step = (0..3u8, 0..4u8, any::<bool>(), proptest::bool::weighted(0.2))
        .prop_map(|(name, mode, retry, undo)| Node::Step { name, mode, retry, undo });
    prop_oneof![
        6 => step,
        1 => (0..2u8).prop_map(Node::Activity),
        2 => (0..300u16).prop_map(Node::Timer),
        3 => (0..2u8).prop_map(Node::Signal),
        2 => (0..2u8, proptest::option::of(0..300u16)).prop_map(|(k, d)| Node::Ask(k, d)),
        2 => (0..2u8, any::<bool>()).prop_map(|(tool, detached)| Node::Child(tool, detached)),
        1 => (0..2u8).prop_map(Node::Get),
        1 => (0..2u8).prop_map(Node::Set),
        2 => (0..2u8).prop_map(Node::Update),
        2 => (0..2u8).prop_map(Node::Wait),
        1 => (0..2u8).prop_map(Node::Send),
        1 => (0..3u8).prop_map(Node::Note),
        1 => (0..3u8).prop_map(Node::Version),
        1 => Just(Node::Draw),
    ]
}

fn node() -> impl Strategy<Value = Node> {
    leaf().prop_recursive(4, 24, 4, |inner| {
        let some = || proptest::collection::vec(inner.clone(), 1..4);
        let pair = || (inner.clone().prop_map(Box::new), inner.clone().prop_map(Box::new));
        prop_oneof![
            4 => some().prop_map(Node::Seq),
            3 => some().prop_map(Node::Join),
            3 => some().prop_map(Node::Select),
            1 => (leaf().prop_map(Box::new), inner.clone().prop_map(Box::new))
                .prop_map(|(a, b)| Node::Hold(a, b)),
            1 => (1..4u8, inner.clone().prop_map(Box::new)).prop_map(|(n, b)| Node::Loop(n, b)),
            1 => pair().prop_map(|(a, b)| Node::If(a, b)),
        ]
    })
}

pub(crate) fn program() -> impl Strategy<Value = Program> {
    let body = proptest::collection::vec(node(), 1..5).prop_map(Node::Seq);
    let runs = prop_oneof![3 => Just(0u32), 1 => 1..3u32];
    (body, runs).prop_map(|(body, runs)| Program { body, runs })
}

fn fold(seen: u64, text: &str) -> u64 {
    text.bytes().fold(seen, |all, byte| all.wrapping_mul(31).wrapping_add(u64::from(byte)))
}

fn seen(outcome: &Outcome) -> u64 {
    match outcome {
        Ok(json) => fold(1, json.text()),
        Err(failure) => fold(2, &failure.message),
    }
}

fn task(tool: u8) -> TaskId {
    TaskId::new(format!("task-{tool}")).unwrap()
}

fn text(value: impl serde::Serialize) -> Json {
    Json::of(&value).unwrap()
}

/// The operation of a leaf; `None` for what needs no waiting.
fn op(node: &Node, shared: &Rc<Shared>, last: u64) -> Option<Op> {
    let key = |key: &u8| format!("key-{key}");
    let now = shared.machine.borrow().now();
    let after = |ms: &u16| now.plus(Duration::from_millis(u64::from(*ms)));
    Some(shared.call(match node {
        Node::Step { name, mode, retry, undo } => {
            let name = format!("step-{name}");
            let undo = undo.then(|| Undo { function: format!("undo {name}"), input: text(last) });
            let reset = |mode: u8| if mode == 3 { vec!["again".to_owned()] } else { vec![] };
            let mode = match mode {
                0 | 1 => Mode::AtLeastOnce,
                other => Mode::AtMostOnce { reset_on: reset(*other) },
            };
            let retry = retry.then(|| Retry::exponential().attempts(3));
            Call::Step { name, mode, retry, undo }
        }
        Node::Activity(name) => Call::Activity {
            name: format!("activity-{name}"),
            input: text(last),
            retry: Retry::exponential(),
            heartbeat_ms: None,
        },
        Node::Timer(ms) => Call::Timer { until: after(ms) },
        Node::Signal(name) => Call::Signal { name: format!("signal-{name}") },
        Node::Ask(wish, deadline) => Call::Ask(Ask {
            key: if *wish == 0 { String::new() } else { key(wish) },
            message: "what?".into(),
            schema: text(true),
            data: None,
            deadline: deadline.as_ref().map(after),
        }),
        Node::Child(tool, detached) => Call::Child(ChildSpec {
            tool: format!("tool-{tool}"),
            input: text(last),
            id: None,
            detached: *detached,
        }),
        Node::Get(k) => Call::StateGet { scope: Scope::Owner, key: key(k) },
        Node::Set(k) => {
            // Now and then the key is removed.
            let value = (!last.is_multiple_of(4)).then(|| text(last));
            Call::StateSet { scope: Scope::Owner, key: key(k), value }
        }
        Node::Update(k) => Call::StateUpdate { scope: Scope::Owner, key: key(k) },
        Node::Wait(k) => Call::StateWait { scope: Scope::Owner, key: key(k) },
        Node::Send(to) => Call::Send { to: task(*to), name: "sent".into(), payload: text(last) },
        _ => return None,
    }))
}

fn note(kind: u8, last: u64) -> Note {
    match kind {
        0 => Note::Status(format!("saw {last}")),
        1 => Note::Progress(Progress { done: f64::NAN, total: Some(1.0), text: None }),
        _ => Note::Log { level: "info".into(), text: format!("saw {last}") },
    }
}

/// Runs a part of a program; the result stands for all that it saw.
fn run<'a>(node: &'a Node, shared: &'a Rc<Shared>, last: u64) -> Boxed<'a, u64> {
    Box::pin(async move {
        match node {
            Node::Note(kind) => {
                shared.machine.borrow_mut().note(note(*kind, last));
                last
            }
            Node::Version(change) => {
                let change = format!("change-{change}");
                let version = shared.machine.borrow_mut().version(&change, 7);
                shared.say(format!("version {change} {version}"));
                last.wrapping_add(u64::from(version))
            }
            Node::Draw => {
                let drawn = shared.machine.borrow_mut().draw();
                shared.say(format!("drawn {drawn}"));
                drawn
            }
            Node::Hold(held, meanwhile) => match op(held, shared, last) {
                None => {
                    let last = run(held, shared, last).await;
                    run(meanwhile, shared, last).await
                }
                Some(held) => {
                    let mut held: Boxed<'_, Outcome> = Box::pin(held);
                    let begun =
                        std::future::poll_fn(|cx| held.as_mut().poll(cx).map(Some).into_now());
                    let early = begun.await;
                    let last = run(meanwhile, shared, last).await;
                    match early {
                        Some(outcome) => seen(&outcome).wrapping_add(last),
                        None => seen(&held.await).wrapping_add(last),
                    }
                }
            },
            Node::Seq(parts) => {
                let mut last = last;
                for part in parts {
                    last = run(part, shared, last).await;
                }
                last
            }
            Node::Join(parts) => {
                let branches = parts.iter().map(|part| run(part, shared, last)).collect();
                join(branches).await.into_iter().fold(last, u64::wrapping_add)
            }
            Node::Select(parts) => {
                let branches = parts.iter().map(|part| run(part, shared, last)).collect();
                let (index, value) = Select(branches).await;
                shared.say(format!("branch {index} won"));
                value.wrapping_add(index as u64)
            }
            Node::Loop(times, body) => {
                let mut last = last;
                for _ in 0..*times {
                    last = run(body, shared, last).await;
                }
                last
            }
            Node::If(odd, even) => run(if last % 2 == 1 { odd } else { even }, shared, last).await,
            leaf => match op(leaf, shared, last) {
                Some(op) => seen(&op.await),
                None => last,
            },
        }
    })
}

/// `Pending` as a value, for a poll that must not wait.
trait IntoNow<T> {
    fn into_now(self) -> std::task::Poll<Option<T>>;
}

impl<T> IntoNow<T> for std::task::Poll<Option<T>> {
    fn into_now(self) -> std::task::Poll<Option<T>> {
        std::task::Poll::Ready(match self {
            std::task::Poll::Ready(value) => value,
            std::task::Poll::Pending => None,
        })
    }
}

impl Program {
    /// The task's future.
    pub(crate) fn start(&self, shared: &Rc<Shared>) -> Boxed<'static, Outcome> {
        let (program, shared) = (self.clone(), Rc::clone(shared));
        Box::pin(async move {
            // Whatever a foreign history holds counts as the first run.
            let input = shared.machine.borrow().input().and_then(|input| input.read().ok());
            let run_no: u32 = input.unwrap_or(0);
            let last = run(&program.body, &shared, u64::from(run_no)).await;
            shared.say(format!("ended with {last}"));
            if run_no < program.runs {
                shared.machine.borrow_mut().continue_as_new(text(run_no + 1));
            }
            Ok(text(last))
        })
    }
}
