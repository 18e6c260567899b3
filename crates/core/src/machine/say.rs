//! What the code says and asks without waiting: notes, version markers, random numbers.

use super::{Late, Machine, mix};
use crate::{Event, Kind, Note, OpId, Progress};

/// How much progress waits to be told at most; of more the last takes the place of the one before it.
const MOST_PASSING: usize = 1_000;

/// Progress that was said and not told yet.
#[derive(Debug)]
pub(super) struct Passing {
    /// The event that comes after it. It is told when those before it are durable: it may depend on them,
    /// and comes after what was said in them.
    before: u64,
    progress: Progress,
}

impl Machine {
    /// From now on progress is not recorded, and [`take_progress`](Machine::take_progress) tells it. Must be
    /// the same in every replay.
    #[must_use]
    pub fn passing_progress(mut self, passes: bool) -> Machine {
        self.passes_progress = passes;
        self
    }

    /// Whether progress is not recorded.
    #[must_use]
    pub fn passes_progress(&self) -> bool {
        self.passes_progress
    }

    /// Something the task says. Numbered, so that a replay says it no second time.
    pub fn note(&mut self, note: Note) {
        if self.inside.is_some() {
            // Inside a step nothing is replayed, so nothing needs a number.
            return self.say(None, note);
        }
        let id = self.number(Kind::Note, "");
        if self.recorded.remove(&id).is_some() || self.halt.is_some() {
            return;
        }
        if self.live {
            self.say(Some(id), note);
        } else if !self.is_passing(&note) || self.last_recorded.is_none_or(|last| last < id) {
            self.late.push(Late::Note(id, note));
        }
        // What is left is progress that was told before, or was to be: the history goes on behind it.
    }

    /// Says something now.
    pub(super) fn say(&mut self, op: Option<OpId>, note: Note) {
        let note = note.finite();
        match note {
            Note::Progress(progress) if self.passes_progress => self.pass(progress, op.is_none()),
            note => self.append_note(op, note),
        }
    }

    fn is_passing(&self, note: &Note) -> bool {
        self.passes_progress && matches!(note, Note::Progress(_))
    }

    fn pass(&mut self, progress: Progress, inside: bool) {
        self.view.progress = Some(progress.clone());
        let passing = Passing { before: self.appended, progress };
        // Of the progress that a step reports in a row only the last matters.
        let (full, at) = (self.passing.len() >= MOST_PASSING, self.appended);
        match self.passing.last_mut().filter(|last| full || inside && last.before == at) {
            Some(last) => *last = passing,
            None => self.passing.push(passing),
        }
    }

    /// Progress that is not recorded and can be told, once: all that happened before it is durable. Each
    /// with the number of the event that comes after it in the history.
    pub fn take_progress(&mut self) -> Vec<(u64, Progress)> {
        let (durable, appended) = (self.durable, self.appended);
        // Events that were refused have made way for others.
        let held = self.passing.iter().position(|passing| passing.before.min(appended) > durable);
        let free = held.unwrap_or(self.passing.len());
        self.passing.drain(..free).map(|passing| (passing.before, passing.progress)).collect()
    }

    /// Which version of the code named `change` this task follows: `newest` for a task that comes
    /// here first, 0 for one that went past this point before there was a marker.
    pub fn version(&mut self, change: &str, newest: u32) -> u32 {
        if self.refuse_inside(|| format!("version marker {change:?}")) {
            return newest;
        }
        if let Some(version) = self.versions.get(change) {
            return *version;
        }
        let next = OpId(self.next);
        let version = match self.recorded.get(&next).and_then(|rec| rec.version(change)) {
            Some(version) => {
                self.next = self.next.saturating_add(1);
                self.recorded.remove(&next);
                version
            }
            // The history goes on past this point without a marker: it was made by older code.
            None if !self.live && self.last_recorded.is_some_and(|last| last >= next) => 0,
            None => {
                let op = self.number(Kind::Version, change);
                let change = change.to_owned();
                if self.live {
                    self.append(Event::VersionMarked { op, change, version: newest });
                } else {
                    self.late.push(Late::Version(op, change, newest));
                }
                newest
            }
        };
        self.versions.insert(change.to_owned(), version);
        version
    }

    /// 64 bits that are the same in every replay. Takes a number, so that code that draws more or
    /// less than it did is noticed.
    pub fn draw(&mut self) -> u64 {
        if self.inside.is_some() {
            // A step is not replayed, so its draws take no number. They need only be new each time,
            // over restarts as well: hence the clock and the length of the history.
            self.drawn_inside += 1;
            let seed = mix(self.seed, self.appended, self.wall.0.unsigned_abs());
            return mix(seed, self.drawn_inside, 4);
        }
        let salt = self.next;
        self.next = self.next.saturating_add(1);
        mix(self.seed, u64::from(salt), 0)
    }
}
