//! Roughly how many bytes a call writes, so that batches can be bounded.

use steadfast_store::{After, Cancel, Effect, NewTask, Turn};

fn sum(parts: &[Vec<u8>]) -> usize {
    parts.iter().map(Vec::len).sum()
}

pub(crate) fn task(task: &NewTask) -> usize {
    task.about.len() + task.view.len() + sum(&task.events)
}

pub(crate) fn cancel(cancel: &Cancel) -> usize {
    cancel.event.len() + cancel.view.len() + cancel.end.len() + cancel.tell.len()
}

pub(crate) fn turn(turn: &Turn) -> usize {
    let view = turn.view.as_ref().map_or(0, |(_, view)| view.len());
    let end = match &turn.after {
        After::End { end, tell, .. } => end.len() + tell.len(),
        After::Keep | After::Park { .. } | After::Yield => 0,
    };
    sum(&turn.events) + view + end + turn.effects.iter().map(effect).sum::<usize>()
}

fn effect(effect: &Effect) -> usize {
    match effect {
        Effect::Post { body, .. }
        | Effect::OpenQuestion { body, .. }
        | Effect::ScheduleActivity { body, .. }
        | Effect::Send { body, .. } => body.len(),
        Effect::StartTask { task: child, exists } => task(child) + exists.len(),
        Effect::CancelTask { cancel: how, .. } => cancel(how),
        Effect::WriteState { value, .. } | Effect::SwapState { value, .. } => {
            value.as_ref().map_or(0, Vec::len)
        }
        Effect::CloseQuestion { .. }
        | Effect::ExpireQuestion { .. }
        | Effect::CancelActivity { .. }
        | Effect::Watch { .. }
        | Effect::Unwatch { .. } => 0,
    }
}
