//! How the processes of the server fared, as those know who did it to them, and which tasks each took up,
//! as its log says.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{Error, check::Effect, world::now};

/// How long a process that was in trouble may take to notice that it has lost something.
const NOTICE: i64 = 2_000;

/// How long a process that is told to stop may take to finish what it is at.
pub(crate) const DRAIN: i64 = 1_000;

/// How the processes fared.
#[derive(Default)]
pub(crate) struct Lives(Mutex<BTreeMap<u32, Life>>);

/// How one process fared.
#[derive(Clone, Debug, Default)]
struct Life {
    /// When it began to end, if it was ended.
    end: Option<i64>,
    /// When it was stopped, or cut off from the database, for longer than its lease: from, until.
    troubles: Vec<(i64, i64)>,
}

impl Lives {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u32, Life>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This process is about to be ended: from now on another may go on with what it is at.
    pub(crate) fn end(&self, life: u32) {
        self.all().entry(life).or_default().end = Some(now());
    }

    /// This process is told to stop: what it does not finish in its time another may do again, and nothing
    /// before that.
    pub(crate) fn told(&self, life: u32) {
        self.all().entry(life).or_default().end = Some(now() + DRAIN);
    }

    /// This process is about to lose its lease, perhaps.
    pub(crate) fn trouble(&self, life: u32) {
        self.all().entry(life).or_default().troubles.push((now(), i64::MAX));
    }

    /// Its trouble is over.
    pub(crate) fn relief(&self, life: u32) {
        if let Some(last) = self.all().entry(life).or_default().troubles.last_mut() {
            last.1 = now();
        }
    }

    /// Whether this process may have lost what it was at when it did something `since`, so that another
    /// could do it `at` this time.
    pub(crate) fn may_have_lost(&self, life: u32, since: i64, at: i64) -> bool {
        self.all().get(&life).is_some_and(|life| {
            let lost =
                |(from, until): &(i64, i64)| *from <= at && until.saturating_add(NOTICE) >= since;
            life.end.is_some_and(|end| end <= at) || life.troubles.iter().any(lost)
        })
    }

    /// For how long it was in trouble between these two times, and may not have known of it.
    pub(crate) fn trouble_between(&self, life: u32, from: i64, until: i64) -> i64 {
        let life = self.all().get(&life).cloned().unwrap_or_default();
        let within = life.troubles.iter().map(|(begin, end)| {
            (end.saturating_add(NOTICE).min(until) - (*begin).max(from)).max(0)
        });
        within.sum()
    }
}

/// Who has taken up which task when, by task and epoch.
#[derive(Default)]
pub(crate) struct TakeUps(BTreeMap<String, BTreeMap<i64, (u32, i64)>>);

impl TakeUps {
    /// Reads the logs of all processes. Each task and epoch is one process's, once: what is not so is put
    /// to the rest of what is wrong.
    pub(crate) fn read(dir: &Path, wrong: &mut Vec<String>) -> Result<TakeUps, Error> {
        let mut all = TakeUps::default();
        for entry in std::fs::read_dir(dir)? {
            let path = entry?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            let Some(life) = name.strip_prefix("life-").and_then(|life| life.parse().ok()) else {
                continue;
            };
            let log = std::fs::read(&path)?;
            for line in String::from_utf8_lossy(&log).lines() {
                if let Some((at, task, epoch)) = taken_up(line) {
                    all.add(life, at, task, epoch, wrong);
                }
            }
        }
        Ok(all)
    }

    fn add(&mut self, life: u32, at: i64, task: &str, epoch: i64, wrong: &mut Vec<String>) {
        let before = self.0.entry(task.into()).or_default().insert(epoch, (life, at));
        if let Some((other, _)) = before {
            wrong.push(format!("lives {other} and {life} both have task {task} in epoch {epoch}"));
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    /// How often a task went from one process to another.
    pub(crate) fn moves(&self) -> usize {
        let moves = self.0.values().map(|epochs| {
            let lives: Vec<u32> = epochs.values().map(|(life, _)| *life).collect();
            lives.windows(2).filter(|pair| pair[0] != pair[1]).count()
        });
        moves.sum()
    }

    /// When a task was taken up first.
    pub(crate) fn first(&self, task: &str) -> Option<i64> {
        self.0.get(task)?.values().map(|(_, at)| *at).min()
    }

    /// Who had a task in this epoch.
    pub(crate) fn holder(&self, task: &str, epoch: i64) -> Option<u32> {
        Some(self.0.get(task)?.get(&epoch)?.0)
    }

    /// Whether a process did this when another had taken the task from it, and could not know that yet: it
    /// had been stopped or cut off. Nothing of it is recorded.
    pub(crate) fn is_stale(&self, effect: &Effect, lives: &Lives) -> bool {
        let Some(epoch) = effect.epoch else { return false };
        let later = self.0.get(&effect.task).into_iter().flat_map(|of| of.range(epoch + 1..));
        let taken = later.map(|(_, (_, at))| *at).min();
        taken.is_some_and(|taken| {
            taken <= effect.at && lives.may_have_lost(effect.life, effect.at, taken)
        })
    }
}

/// When a task was taken up, which, and in which epoch, if that is what a line of a log says.
fn taken_up(line: &str) -> Option<(i64, &str, i64)> {
    let field = |name: &str| line.split_once(name)?.1.split(' ').next();
    let at = line.split(' ').next()?.parse().ok()?;
    line.contains("steadfast::lease: task taken up").then_some(())?;
    Some((at, field(" task=")?, field(" epoch=")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_log_is_read() {
        let line = "17 DEBUG steadfast::lease: task taken up task=abc epoch=3 desk=2";
        assert_eq!(taken_up(line), Some((17, "abc", 3)));
        assert_eq!(taken_up("17  WARN steadfast::lease: lost task=abc epoch=3"), None);
        assert_eq!(taken_up("its tasks are in PostgreSQL"), None);
    }

    #[test]
    fn who_was_well_has_lost_nothing() {
        let lives = Lives::default();
        assert!(!lives.may_have_lost(1, 0, now()));
        lives.trouble(1);
        lives.relief(1);
        let over = now() + NOTICE;
        assert!(lives.may_have_lost(1, over - 1, over));
        assert!(!lives.may_have_lost(1, over + 1_000, over + 2_000), "it was over long before");
        assert!(!lives.may_have_lost(2, over - 1, over));
        lives.end(2);
        assert!(lives.may_have_lost(2, 0, now()) && !lives.may_have_lost(2, 0, 1));
    }
}
