//! What a run says at its end.
#![allow(clippy::print_stdout)] // It talks to a person.

use std::collections::BTreeMap;

use crate::check::Case;

/// Sums of a kind of client.
#[derive(Default)]
pub(crate) struct Row {
    calls: u64,
    pub(crate) answered: u64,
    completed: u64,
    pub(crate) taken_back: u64,
    /// Nothing of it reached the server.
    lost: u64,
    pub(crate) resumes: u64,
    repeats: u64,
    /// Calls that ran again because their answer was lost behind the server.
    again: u64,
    /// Effects of steps that a death made happen once more.
    repeated: u64,
}

impl Row {
    pub(crate) fn add(&mut self, case: &Case<'_>) {
        self.calls += 1;
        self.answered += u64::from(!case.call.answers.is_empty());
        self.completed += u64::from(case.is_completed());
        self.taken_back += u64::from(case.is_taken_back());
        self.lost += u64::from(case.tasks.is_empty());
        self.resumes += case.call.resumes;
        self.repeats += case.call.repeats;
        self.again += (case.tasks.len() as u64).saturating_sub(1);
        let mut times: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for effect in case.effects.iter().filter(|effect| !effect.undone) {
            *times.entry((&effect.task, &effect.step)).or_default() += 1;
        }
        self.repeated += times.values().map(|times| times - 1).sum::<u64>();
    }

    fn join(&mut self, other: &Row) {
        self.calls += other.calls;
        self.answered += other.answered;
        self.completed += other.completed;
        self.taken_back += other.taken_back;
        self.lost += other.lost;
        self.resumes += other.resumes;
        self.repeats += other.repeats;
        self.again += other.again;
        self.repeated += other.repeated;
    }

    fn print(&self, name: &str) {
        println!(
            "{name:<20} {:>6} {:>8} {:>9} {:>10} {:>6} {:>7} {:>7} {:>9} {:>14}",
            self.calls,
            self.answered,
            self.completed,
            self.taken_back,
            self.lost,
            self.resumes,
            self.repeats,
            self.again,
            self.repeated
        );
    }
}

/// A table by kind of client, and the sum of all.
pub(crate) fn table(rows: &BTreeMap<String, Row>) -> Row {
    println!(
        "{:<20} {:>6} {:>8} {:>9} {:>10} {:>6} {:>7} {:>7} {:>9} {:>14}",
        "client",
        "calls",
        "answered",
        "completed",
        "taken back",
        "lost",
        "resumes",
        "repeats",
        "ran again",
        "repeated steps"
    );
    let mut sum = Row::default();
    for (name, row) in rows {
        row.print(name);
        sum.join(row);
    }
    sum.print("all");
    sum
}

/// All events of a call in the order of each who saw them.
pub(crate) fn story(case: &Case<'_>) {
    println!("call {}: {} by {}", case.number, case.call.tool.name(), case.call.kind.name());
    for (at, what) in &case.call.story {
        println!("  client {at:>7} ms: {what}");
    }
    for effect in case.effects {
        let what = if effect.undone { "undone" } else { "done" };
        println!(
            "  effect: {} {what} at {} in life {}, epoch {:?}, task {}",
            effect.step, effect.at, effect.life, effect.epoch, effect.task
        );
    }
    for task in case.tasks {
        let info = &task.info;
        println!("  task {}: {}, {:?}, {:?}", info.id, info.status, info.reason, info.compensation);
        for event in &task.history {
            println!("    {event}");
        }
    }
}
