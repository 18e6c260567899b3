//! Roughly how many bytes a call writes, so that stores can bound what they commit together.

use crate::{After, Cancel, Effect, NewTask, Turn};

fn sum(parts: &[Vec<u8>]) -> usize {
    parts.iter().map(Vec::len).sum()
}

impl NewTask {
    /// Roughly how many bytes it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.about.len() + self.view.len() + sum(&self.events)
    }
}

impl Cancel {
    /// Roughly how many bytes it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.event.len() + self.view.len() + self.end.len() + self.tell.len()
    }
}

impl Turn {
    /// Roughly how many bytes it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let view = self.view.as_ref().map_or(0, |(_, view)| view.len());
        let end = match &self.after {
            After::End { end, tell, .. } => end.len() + tell.len(),
            After::Keep | After::Park { .. } | After::Yield => 0,
        };
        sum(&self.events) + view + end + self.effects.iter().map(effect).sum::<usize>()
    }
}

fn effect(effect: &Effect) -> usize {
    match effect {
        Effect::Post { body, .. }
        | Effect::OpenQuestion { body, .. }
        | Effect::ScheduleActivity { body, .. }
        | Effect::Send { body, .. } => body.len(),
        Effect::StartTask { task, exists } => task.bytes() + exists.len(),
        Effect::CancelTask { cancel, .. } => cancel.bytes(),
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
