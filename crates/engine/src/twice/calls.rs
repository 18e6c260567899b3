//! What a function asked for the first and the second time.

use std::mem::discriminant;

use steadfast_core::{Ask, Call, Json, OpId};

use super::{Difference, json::values};
use crate::context::Asked;

/// The first operation that was not the same the second time.
pub(crate) fn calls(first: &Asked, second: &Asked) -> Option<Difference> {
    let mut ids: Vec<&OpId> = first.keys().chain(second.keys()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.into_iter().find_map(|id| match (first.get(id), second.get(id)) {
        (Some(a), Some(b)) if (a.kind(), a.name()) == (b.kind(), b.name()) => {
            let (how, detail) = arguments(a, b)?;
            let what = format!("asked both times for {}, but {how}", describe(*id, a));
            Some(Difference::new(what).detail(detail))
        }
        (a, b) => {
            let show = |call: Option<&Call>| match call {
                Some(call) => describe(*id, call),
                None => format!("no operation {id}"),
            };
            let (a, b) = (show(a), show(b));
            Some(Difference::new(format!("asked first for {a}, and the second time for {b}")))
        }
    })
}

fn describe(id: OpId, call: &Call) -> String {
    let (kind, name) = (call.kind(), call.name());
    match &*name {
        "" => format!("{kind} as operation {id}"),
        name => format!("{kind} {name:?} as operation {id}"),
    }
}

/// How a call differs, and its values.
type Unlike = (String, Option<String>);

/// What a replay does not compare, because the history goes before it: but code that asks for
/// something else the second time goes on with something else too.
fn arguments(first: &Call, second: &Call) -> Option<Unlike> {
    match (first, second) {
        (Call::Timer { until: a }, Call::Timer { until: b }) => {
            unlike(a != b, "until another time", || format!("{a:?}, then {b:?}"))
        }
        (Call::Activity { input: a, .. }, Call::Activity { input: b, .. }) => json("input", a, b),
        (Call::Child(a), Call::Child(b)) => json("input", &a.input, &b.input)
            .or_else(|| unlike(a.id != b.id, "with another id", || ids(&a.id, &b.id)))
            .or_else(|| unlike(a.detached != b.detached, "detached only once", String::new)),
        (Call::StateSet { value: a, .. }, Call::StateSet { value: b, .. }) => {
            maybe_json("value", a.as_ref(), b.as_ref())
        }
        (Call::Send { to: a, payload: p, .. }, Call::Send { to: b, payload: q, .. }) => {
            unlike(a != b, "to another task", || format!("{a}, then {b}"))
                .or_else(|| json("payload", p, q))
        }
        (Call::Ask(a), Call::Ask(b)) => question(a, b),
        (Call::Step { undo: a, mode: m, .. }, Call::Step { undo: b, mode: n, .. }) => {
            let function = |undo: &Option<steadfast_core::Undo>| {
                undo.as_ref().map(|undo| undo.function.clone()).unwrap_or_default()
            };
            let input = |undo| Option::as_ref(undo).map(|undo: &steadfast_core::Undo| &undo.input);
            unlike(m != n, "with another promise of how often it runs", String::new)
                .or_else(|| {
                    unlike(function(a) != function(b), "with another undo function", || {
                        format!("{:?}, then {:?}", function(a), function(b))
                    })
                })
                .or_else(|| maybe_json("input of its undo function", input(a), input(b)))
        }
        _ => unlike(discriminant(first) != discriminant(second), "in another way", String::new),
    }
}

fn question(a: &Ask, b: &Ask) -> Option<Unlike> {
    unlike(a.message != b.message, "with another message", || {
        let shown = [a, b].map(|ask| super::clipped(&ask.message));
        format!("{:?}, then {:?}", shown[0], shown[1])
    })
    .or_else(|| json("schema", &a.schema, &b.schema))
    .or_else(|| maybe_json("data", a.data.as_ref(), b.data.as_ref()))
    .or_else(|| {
        unlike(a.deadline != b.deadline, "with another deadline", || {
            format!("{:?}, then {:?}", a.deadline, b.deadline)
        })
    })
}

fn unlike(is: bool, how: &str, detail: impl FnOnce() -> String) -> Option<Unlike> {
    is.then(|| (how.to_owned(), Some(detail()).filter(|detail| !detail.is_empty())))
}

fn json(what: &str, a: &Json, b: &Json) -> Option<Unlike> {
    let other = values(a, b)?;
    Some((format!("with another {what}, {}", other.place), Some(other.detail)))
}

fn maybe_json(what: &str, a: Option<&Json>, b: Option<&Json>) -> Option<Unlike> {
    match (a, b) {
        (Some(a), Some(b)) => json(what, a, b),
        _ => unlike(a.is_some() != b.is_some(), &format!("with {what} only once"), String::new),
    }
}

fn ids(a: &Option<steadfast_core::TaskId>, b: &Option<steadfast_core::TaskId>) -> String {
    format!("{a:?}, then {b:?}")
}
