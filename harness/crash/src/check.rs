//! What may have happened, and what may not.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Entry,
    workload::{Kind, Plan},
};

/// In which lives a process lost a lease, and may have taken the task up again: then a step may take effect
/// again in the same life.
#[derive(Clone, Debug)]
pub enum LostLeases {
    /// In none.
    Never,
    /// Nobody knows.
    Perhaps,
    /// In these.
    In(BTreeSet<u32>),
}

impl LostLeases {
    fn has(&self, life: u32) -> bool {
        match self {
            LostLeases::Never => false,
            LostLeases::Perhaps => true,
            LostLeases::In(lives) => lives.contains(&life),
        }
    }
}

/// What a ledger is compared with.
#[derive(Clone, Debug)]
pub struct Expect {
    /// Fixes what each task does.
    pub seed: u64,
    /// How many tasks there were.
    pub tasks: u64,
    /// The shared counter's last value.
    pub counter: u64,
    /// Where a step may take effect again.
    pub lost_leases: LostLeases,
}

/// Compares a ledger with the invariants.
///
/// Returns what is wrong, one sentence each; nothing if all is well.
#[must_use]
pub fn check(entries: &[Entry], expect: Expect) -> Vec<String> {
    let Expect { seed, tasks, counter, lost_leases } = expect;
    let mut wrong = Vec::new();
    let mut by_task: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        by_task.entry(&entry.task).or_default().push(entry);
    }
    let mut counted = 0;
    for i in 0..tasks {
        let id = format!("t{i}");
        let plan = Plan::of(seed, i);
        let lines = by_task.remove(id.as_str()).unwrap_or_default();
        let task = Task { id: &id, plan, lines, lost_leases: &lost_leases };
        counted += u64::from(plan.kind == Kind::Counter && task.is("completed"));
        task.check(&mut wrong);
    }
    if counted != counter {
        wrong.push(format!("{counted} tasks counted, and the counter says {counter}"));
    }
    for (child, lines) in by_task {
        effects(child, &lines, &lost_leases, &mut wrong);
    }
    wrong
}

struct Task<'a> {
    id: &'a str,
    plan: Plan,
    lines: Vec<&'a Entry>,
    lost_leases: &'a LostLeases,
}

impl Task<'_> {
    fn all<'s>(&'s self, what: &'s str) -> impl Iterator<Item = &'s str> {
        self.lines.iter().filter(move |e| e.what == what).map(|e| e.detail.as_str())
    }

    fn end(&self) -> &str {
        self.all("ended").next().unwrap_or("-")
    }

    fn is(&self, status: &str) -> bool {
        self.end().starts_with(status)
    }

    fn output(&self) -> &str {
        self.end().split_once(' ').map_or("", |(_, output)| output.trim_matches('"'))
    }

    fn check(&self, wrong: &mut Vec<String>) {
        let id = self.id;
        let mut say = |what: String| wrong.push(format!("{id} ({:?}): {what}", self.plan));
        if self.all("started").next().is_none() {
            return say("was never started".into());
        }
        for gone in self.all("vanished") {
            say(format!("was acknowledged and is gone: {gone}"));
        }
        let ends: BTreeSet<&str> = self.all("ended").collect();
        match ends.len() {
            0 => return say("never ended".into()),
            1 => {}
            _ => say(format!("a terminal state changed: {ends:?}")),
        }
        let cancelled = self.all("cancelled").next().is_some();
        if cancelled && !self.is("cancelled") {
            say(format!("its cancel was acknowledged, and it ended as {}", self.end()));
        }
        let expected = match self.plan.kind {
            Kind::Saga => "failed",
            _ if self.is("cancelled") && self.plan.cancel_after.is_some() => "cancelled",
            _ => "completed",
        };
        if !self.is(expected) {
            say(format!("ended as {}, not {expected}", self.end()));
        }
        if self.is("completed") {
            self.check_result(&mut say);
        }
        effects(id, &self.lines, self.lost_leases, wrong);
    }

    fn check_result(&self, say: &mut impl FnMut(String)) {
        let output = self.output();
        let once = self.all("effect").filter(|step| *step == "once").count();
        let acked: Vec<&str> = self.all("answered").collect();
        match self.plan.kind {
            Kind::Chain if once == 0 && output != "cut off" => say("its one step never ran".into()),
            Kind::Ask if acked.len() > 1 => say(format!("two answers were accepted: {acked:?}")),
            Kind::Ask if acked.first().is_some_and(|number| *number != output) => {
                say(format!("the answer {acked:?} was accepted and {output} applied"));
            }
            Kind::Events if output != "6" => say(format!("its events sum up to {output}, not 6")),
            _ => {}
        }
        let steps: BTreeSet<&str> = self.all("effect").collect();
        let wanted: &[&str] = match self.plan.kind {
            Kind::Chain | Kind::Events | Kind::Activity | Kind::Sleepy => &["s1", "s2", "s3"],
            _ => &["s1", "s2"],
        };
        for step in wanted {
            if !steps.contains(step) {
                say(format!("completed, and its step {step} never took effect"));
            }
        }
    }
}

/// A step takes effect at most once in one life, never again once a later one did, and an
/// at-most-once step never twice.
fn effects(id: &str, lines: &[&Entry], lost_leases: &LostLeases, wrong: &mut Vec<String>) {
    let mut seen: BTreeMap<(&str, u32), u32> = BTreeMap::new();
    let mut latest = "";
    let mut once = 0;
    let mut undone = "";
    for entry in lines.iter().filter(|entry| entry.what == "effect") {
        let step = entry.detail.as_str();
        let count = seen.entry((step, entry.life)).or_insert(0);
        *count += 1;
        if *count > 1 && !lost_leases.has(entry.life) {
            wrong.push(format!("{id}: {step} took effect {count} times in life {}", entry.life));
        }
        if step == "once" {
            once += 1;
            if once > 1 {
                wrong.push(format!("{id}: the at-most-once step took effect {once} times"));
            }
        } else if let Some(back) = step.strip_prefix("undo ") {
            if !undone.is_empty() && back > undone {
                wrong.push(format!("{id}: {back} was undone after {undone}"));
            }
            undone = back;
        } else {
            if step < latest {
                wrong.push(format!("{id}: {step} took effect after {latest}, which came after it"));
            }
            if !undone.is_empty() {
                wrong.push(format!("{id}: {step} took effect after it was undone"));
            }
            latest = latest.max(step);
        }
    }
}
