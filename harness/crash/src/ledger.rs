//! What happened, as seen from outside the process that dies.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which life of the process wrote it, from 1.
    pub life: u32,
    /// `effect`, `started`, `answered`, `cancelled`, `signalled`, `ended`.
    pub what: String,
    /// The task.
    pub task: String,
    /// The step, the answer, the status.
    pub detail: String,
}

#[derive(Debug)]
enum Paper {
    Memory(Vec<Entry>),
    File(File),
}

/// Where effects and acknowledgements are noted. A line is written with one call to the operating
/// system, so that a killed process leaves it whole or not at all.
#[derive(Clone, Debug)]
pub struct Ledger {
    paper: Arc<Mutex<Paper>>,
    life: u32,
}

impl Ledger {
    /// In memory, for simulations.
    #[must_use]
    pub fn in_memory() -> Ledger {
        Ledger { paper: Arc::new(Mutex::new(Paper::Memory(Vec::new()))), life: 1 }
    }

    /// In a file, for processes that die.
    pub fn in_file(path: &Path, life: u32) -> std::io::Result<Ledger> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Ledger { paper: Arc::new(Mutex::new(Paper::File(file))), life })
    }

    /// The same ledger, in the hands of the next life.
    #[must_use]
    pub fn next_life(&self) -> Ledger {
        Ledger { paper: self.paper.clone(), life: self.life + 1 }
    }

    /// Which life this is.
    #[must_use]
    pub fn life(&self) -> u32 {
        self.life
    }

    /// Notes something.
    pub fn note(&self, what: &str, task: &str, detail: &str) {
        let mut paper = self.paper.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *paper {
            Paper::Memory(entries) => entries.push(Entry {
                life: self.life,
                what: what.into(),
                task: task.into(),
                detail: detail.into(),
            }),
            Paper::File(file) => {
                let line = format!("{}\t{what}\t{task}\t{detail}\n", self.life);
                // A ledger that can't be written proves nothing: stop here.
                if let Err(error) = file.write_all(line.as_bytes()) {
                    panic!("the ledger can't be written: {error}");
                }
            }
        }
    }

    /// Notes an effect: what the world outside sees of a step.
    pub fn effect(&self, task: &str, step: &str) {
        self.note("effect", task, step);
    }

    /// All that was noted, in order.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        match &*self.paper.lock().unwrap_or_else(PoisonError::into_inner) {
            Paper::Memory(entries) => entries.clone(),
            Paper::File(_) => Vec::new(),
        }
    }

    /// Reads a file's lines.
    pub fn read(path: &Path) -> std::io::Result<Vec<Entry>> {
        let text = std::fs::read_to_string(path)?;
        let entry = |line: &str| {
            let mut parts = line.splitn(4, '\t');
            Some(Entry {
                life: parts.next()?.parse().ok()?,
                what: parts.next()?.into(),
                task: parts.next()?.into(),
                detail: parts.next()?.into(),
            })
        };
        Ok(text.lines().filter_map(entry).collect())
    }
}
