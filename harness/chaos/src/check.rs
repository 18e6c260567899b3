//! What may have happened, and what may not.

use steadfast::{engine::Compensation, prelude::Status};

use crate::{
    book::{Call, Kind, Tool},
    lives::{Lives, TakeUps},
    store::Task,
};

/// How long a server may take to see that a connection was closed, and to cancel.
const SLOW: i64 = 1_500;

/// A line of what the server's tools did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Effect {
    pub(crate) number: u64,
    /// Whether it was taken back, not done.
    pub(crate) undone: bool,
    pub(crate) step: String,
    pub(crate) task: String,
    pub(crate) life: u32,
    /// When, in milliseconds.
    pub(crate) at: i64,
    /// The epoch in which its process held the task. Who takes something back does not know it.
    pub(crate) epoch: Option<i64>,
}

impl Effect {
    pub(crate) fn read(line: &str) -> Option<Effect> {
        let mut parts = line.split('\t');
        Some(Effect {
            number: parts.next()?.parse().ok()?,
            undone: parts.next()? == "undo",
            step: parts.next()?.into(),
            task: parts.next()?.into(),
            life: parts.next()?.parse().ok()?,
            at: parts.next()?.parse().ok()?,
            epoch: parts.next()?.parse().ok(),
        })
    }
}

/// All that is known of a call.
pub(crate) struct Case<'a> {
    pub(crate) number: u64,
    pub(crate) call: &'a Call,
    pub(crate) tasks: &'a [Task],
    pub(crate) effects: &'a [Effect],
    pub(crate) lives: &'a Lives,
    pub(crate) take_ups: &'a TakeUps,
}

impl Case<'_> {
    pub(crate) fn is_completed(&self) -> bool {
        self.tasks.iter().any(|task| task.info.status == Status::Completed)
    }

    /// Nothing is left of what it did.
    pub(crate) fn is_taken_back(&self) -> bool {
        !self.tasks.is_empty() && !self.is_completed()
    }

    /// What is wrong with it, one sentence each; nothing if all is well.
    pub(crate) fn check(&self) -> Vec<String> {
        let mut wrong = self.call.wrong.clone();
        self.check_answers(&mut wrong);
        self.check_count(&mut wrong);
        for task in self.tasks {
            self.check_task(task, &mut wrong);
            self.check_end(task, &mut wrong);
        }
        for effect in self.effects {
            if !self.tasks.iter().any(|task| task.info.id.as_str() == effect.task) {
                wrong.push(format!("{effect:?} is of no task of its"));
            }
        }
        wrong
    }

    fn check_answers(&self, wrong: &mut Vec<String>) {
        let Call { answers, tool, survives, .. } = self.call;
        match answers.as_slice() {
            _ if self.call.refused && (self.is_completed() || *survives) => {
                wrong.push("its client was told that it was cancelled, and it was not".into());
            }
            [] if *survives => wrong.push("its client can come back, and has no answer".into()),
            [] => {}
            [answer] if !tool.is_right(self.number, answer) => {
                wrong.push(format!("the answer {answer:?} is wrong"));
            }
            [answer] if *tool == Tool::Once && !self.tasks.iter().any(|task| task.says(answer)) => {
                wrong.push(format!("no task of its knows what {answer:?} says"));
            }
            [_] if !self.is_completed() => wrong.push("answered, but not completed".into()),
            [_] => {}
            several => wrong.push(format!("{} answers", several.len())),
        }
    }

    /// A request that is made again is the same call. Only the id of a request is free again when its
    /// answer was sent, and a server can't know that it was lost after that; but then the one before
    /// has ended, and a copy of the request has come to a process after that. One that came before, and
    /// waited in a process that stood still or was cut off, does nothing.
    fn check_count(&self, wrong: &mut Vec<String>) {
        let again = matches!(self.call.kind, Kind::Resumes(_) | Kind::Repeats(_));
        for pair in self.tasks.windows(2) {
            // When it was begun, not when it was asked for: a process may have stood still in between.
            let begun = self.take_ups.first(pair[1].info.id.as_str());
            let begun = begun.unwrap_or(pair[1].info.created.0);
            let ended = pair[0].info.ended.map_or(i64::MAX, |ended| ended.0);
            let came = self.call.came.iter().any(|at| (ended..=begun).contains(at));
            if !again || !came {
                wrong.push(format!("it ran twice: {} and {}", pair[0].info.id, pair[1].info.id));
            }
        }
    }

    /// What ends with its connection, or was taken back, has completed before, or not at all.
    fn check_end(&self, task: &Task, wrong: &mut Vec<String>) {
        let (Some(closed), Some(ended)) = (self.call.closed, task.info.ended) else { return };
        // Who stands still sees nothing, and who is cut off can't cancel.
        let trouble = |life| self.lives.trouble_between(life, closed, ended.0);
        let in_trouble = self.call.life.map_or(0, trouble);
        if task.info.status == Status::Completed && ended.0 > closed + SLOW + in_trouble {
            let late = ended.0 - closed;
            let why = match self.call.kind {
                Kind::Cancels(_) => "it was taken back",
                _ => "its connection was closed",
            };
            wrong.push(format!("it went on for {late} ms after {why}"));
        }
    }

    fn check_task(&self, task: &Task, wrong: &mut Vec<String>) {
        let (info, tool) = (&task.info, self.call.tool);
        let of_it = |effect: &&Effect| effect.task == info.id.as_str();
        let effects: Vec<&Effect> = self.effects.iter().filter(of_it).collect();
        self.check_lives(task, &effects, wrong);
        // What a process did that did not know yet that others had gone on is out of order.
        let stale = |effect: &&Effect| self.take_ups.is_stale(effect, self.lives);
        check_order(tool, effects.iter().copied().filter(|effect| !stale(effect)), wrong);
        let times = |step: &str, undone: bool| {
            effects.iter().filter(|effect| effect.step == step && effect.undone == undone).count()
        };
        if times("once", false) > 1 {
            wrong.push("the step that runs at most once ran twice".into());
        }
        match info.status {
            Status::Completed => {
                for step in tool.steps() {
                    if times(step, false) == 0 && !(*step == "once" && task.unsure) {
                        wrong.push(format!("completed, but {step} was not done"));
                    }
                    if times(step, true) > 0 {
                        wrong.push(format!("completed, but {step} was undone"));
                    }
                    if task.recorded.get(*step) != Some(&1) {
                        wrong.push(format!("{step} is not once in the history"));
                    }
                }
            }
            Status::Cancelled | Status::Failed => {
                if self.call.survives {
                    wrong.push(format!("{}, though its client can come back", info.status));
                }
                for step in tool.steps() {
                    if times(step, false) > 0 && times(step, true) == 0 {
                        wrong.push(format!("{}, and {step} is left half done", info.status));
                    }
                }
                if !matches!(info.compensation, None | Some(Compensation::Done)) {
                    wrong.push(format!("its compensation is {:?}", info.compensation));
                }
            }
            status => wrong.push(format!("it never ended: {status}")),
        }
    }

    /// A step takes effect once, and once more for each process that was ended, or lost its lease, between its
    /// effect and its record: never when it is recorded, and never while the process of the time before is
    /// well. In one epoch there is one process.
    fn check_lives(&self, task: &Task, effects: &[&Effect], wrong: &mut Vec<String>) {
        for (n, effect) in effects.iter().enumerate() {
            let Effect { step, undone, life, at, epoch, .. } = effect;
            let recorded = task.recorded_at.get(step).is_some_and(|recorded| recorded < at);
            if !undone && recorded && !self.take_ups.is_stale(effect, self.lives) {
                wrong.push(format!("{step} took effect in life {life} after it was recorded"));
            }
            if let Some(epoch) = epoch
                && self.take_ups.holder(&effect.task, *epoch) != Some(*life)
            {
                wrong.push(format!(
                    "{step} took effect in life {life}, not the holder's: {effect:?}"
                ));
            }
            let same = |other: &&&Effect| other.step == *step && other.undone == *undone;
            let Some(last) = effects[..n].iter().rev().find(same) else { continue };
            // Who had the task first may come last.
            let (old, new) = if epoch < &last.epoch { (effect, last) } else { (last, effect) };
            let lost =
                |old: &Effect, new: &Effect| self.lives.may_have_lost(old.life, old.at, new.at);
            // Who takes something back does not know its epoch.
            let late = epoch.is_none() && lost(effect, last);
            if (old.life, old.epoch) == (new.life, new.epoch) && epoch.is_some() {
                wrong.push(format!("{step} took effect 2 times in life {life}: {effect:?}"));
            } else if !lost(old, new) && !late {
                wrong.push(match old.life == new.life {
                    true => format!("{step} took effect 2 times in life {life}: {effect:?}"),
                    false => format!(
                        "{step} took effect in life {}, and life {} lives",
                        new.life, old.life
                    ),
                });
            }
        }
    }
}

/// A step that runs at most once does so in all; none takes effect before an earlier step, and none when
/// taking back has begun.
fn check_order<'a>(tool: Tool, effects: impl Iterator<Item = &'a Effect>, wrong: &mut Vec<String>) {
    let (mut latest, mut undoing) = (0, false);
    for effect in effects {
        let Effect { step, undone, .. } = effect;
        let at = tool.steps().iter().position(|known| known == step).unwrap_or(usize::MAX);
        if *undone {
            undoing = true;
            continue;
        }
        if undoing {
            wrong.push(format!("{step} was done when taking back had begun"));
        }
        if at < latest {
            wrong.push(format!("{step} was done after a later step"));
        }
        latest = latest.max(at);
    }
}
