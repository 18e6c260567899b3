//! Running a task again from one of its steps, as a new task.

use std::collections::BTreeSet;

use steadfast_core::{Event, OpId, Record, TaskId, encode};
use steadfast_store::{NewTask, Order};

use super::{CallError, HistoryEntry, Result, StartedTask, Tasks, new::new_task, start::begin};
use crate::{
    blob::{self, About},
    finish::finish,
};

/// From where to run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RerunFrom {
    /// From the very beginning.
    Start,
    /// From the operation with this number.
    Operation(OpId),
    /// From a step or activity with this name: the first is number 1.
    Step {
        /// Its name.
        name: String,
        /// Which of those with this name.
        occurrence: usize,
    },
}

impl Tasks {
    /// Starts a new task that keeps the results recorded before the given step, and runs on from
    /// there. It is linked to the old one, which stays as it is.
    pub async fn rerun(&self, id: &TaskId, from: RerunFrom) -> Result<StartedTask> {
        let row = self.row(id).await?;
        let mut history = Vec::new();
        let mut cursor = None;
        loop {
            let page = self.whole_history(id, Order::OldestFirst, cursor.as_deref(), 1_000).await?;
            history.extend(page.entries);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        let kept = keep(id, history, &from)?;
        let about: About = blob::read(&row.about).map_err(CallError::Store)?;
        let origin = about.origin.clone().or_else(|| Some(id.clone()));
        let about = About { parent: None, rerun_of: Some(id.clone()), origin, ..about };
        let core = &self.core;
        let new = core.new_id();
        let events = kept.iter().map(encode).collect();
        let task = NewTask {
            owner: row.owner,
            tags: row.tags,
            version: row.version,
            ..new_task(core, new, &row.tool, &about, core.world.now(), events)
        };
        let whole = core.clone();
        let begun = finish(core, async move { begin(&whole, task, kept, false).await }).await;
        begun.map(|(started, _)| started)
    }
}

/// The part of a history that the new task begins with.
fn keep(id: &TaskId, history: Vec<HistoryEntry>, from: &RerunFrom) -> Result<Vec<Record>> {
    let cut = match from {
        RerunFrom::Start => 1,
        RerunFrom::Operation(op) => first_of(id, &history, *op)?,
        RerunFrom::Step { name, occurrence } => {
            let op = find(&history, name, *occurrence).ok_or_else(|| CallError::NoSuchStep {
                id: id.clone(),
                what: format!("step {name:?} number {occurrence}"),
            })?;
            first_of(id, &history, op)?
        }
    };
    let kept = &history[..cut];
    // What was begun and had not ended at that point must begin anew: its end would never come.
    let ended: BTreeSet<OpId> =
        kept.iter().filter(|e| ends(&e.event)).filter_map(|e| e.event.op()).collect();
    let keeps = |event: &Event| match event {
        Event::Stuck { .. } => false,
        event => event.op().is_none_or(|op| ended.contains(&op)),
    };
    let kept = kept.iter().filter(|entry| keeps(&entry.event));
    Ok(kept.map(|entry| Record { at: entry.at, event: entry.event.clone() }).collect())
}

fn first_of(id: &TaskId, history: &[HistoryEntry], op: OpId) -> Result<usize> {
    history
        .iter()
        .position(|entry| entry.event.op() == Some(op))
        .ok_or_else(|| CallError::NoSuchStep { id: id.clone(), what: format!("operation {op}") })
}

fn find(history: &[HistoryEntry], wanted: &str, occurrence: usize) -> Option<OpId> {
    let mut seen = BTreeSet::new();
    for entry in history {
        let (op, name) = match &entry.event {
            Event::StepStarted { op, name, .. }
            | Event::StepCompleted { op, name, .. }
            | Event::StepFailed { op, name, .. }
            | Event::StepRetrying { op, name, .. }
            | Event::UndoRecorded { op, name, .. }
            | Event::ActivityScheduled { op, name, .. } => (*op, name),
            _ => continue,
        };
        if name == wanted && seen.insert(op) && seen.len() == occurrence {
            return Some(op);
        }
    }
    None
}

/// Whether nothing more will come for the operation that the event speaks of.
fn ends(event: &Event) -> bool {
    !matches!(
        event,
        Event::StepStarted { .. }
            | Event::StepRetrying { .. }
            | Event::UndoRecorded { .. }
            | Event::ActivityScheduled { .. }
            | Event::TimerSet { .. }
            | Event::QuestionAsked { .. }
            | Event::ChildStarted { detached: false, .. }
            | Event::ConditionWatched { .. }
    )
}
