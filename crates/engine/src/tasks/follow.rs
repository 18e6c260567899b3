//! Following a task: what it says, as it says it.

use std::{pin::pin, time::Duration};

use steadfast_core::{Event, Status, TaskId};

use super::{Result, TaskInfo, Tasks};
use crate::watch::{Cursor, News, Said, Watch};

/// Somebody who hears what a task says from some point of its history on.
///
/// Of a task that runs in this process nothing is read from the store until it asks something or ends.
pub struct Follow {
    tasks: Tasks,
    id: TaskId,
    watch: Watch,
    cursor: Cursor,
}

/// For how long a task is waited for that has ended and is still in memory.
const SOON: Duration = Duration::from_secs(1);

/// What a task has said, and where it stands if that has changed.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// What it said, oldest first.
    pub said: Vec<Said>,
    /// How much of its history is behind this.
    pub seen: u64,
    /// The task, if more than this is new of it.
    pub info: Option<TaskInfo>,
}

impl Tasks {
    /// Follows a task from behind event `seen` of its history on.
    pub async fn follow(&self, id: &TaskId, seen: u64) -> Result<Follow> {
        let watch = self.core.watchers.watch(self.row(id).await?.key);
        let cursor = watch.feed.from(seen);
        Ok(Follow { tasks: self.clone(), id: id.clone(), watch, cursor })
    }
}

impl Follow {
    /// Follows a task that was just started, and has not run before it was watched.
    pub(super) fn new_task(tasks: Tasks, id: TaskId, watch: Watch) -> Follow {
        Follow { tasks, id, watch, cursor: Cursor::of_new_task() }
    }

    /// Waits until the task has said something, asks something or has ended; or may have. The first time,
    /// unless it was followed from its start, that is at once. All that was said before a question, or
    /// before the end, comes with it or before it. After an error it can be called again, and nothing is
    /// missed.
    pub async fn next(&mut self) -> Result<Heard> {
        let feed = self.watch.feed.clone();
        loop {
            let mut changed = pin!(feed.notify.notified());
            let listening = changed.as_mut().enable();
            match feed.hear(&mut self.cursor) {
                News::None if !listening => changed.await,
                News::None => {}
                News::Said(said) => {
                    return Ok(Heard { said, seen: self.cursor.seen, info: None });
                }
                // Of its own size while it is at it: many follow, few look.
                News::Look => return Box::pin(self.look()).await,
            }
        }
    }

    /// Where the task stands by the store, and what it said up to there.
    async fn look(&mut self) -> Result<Heard> {
        let looked = self.tasks.look(&self.id, self.cursor.seen).await;
        if looked.is_err() {
            // There still is a reason to, the next time.
            self.cursor.looks_again();
        }
        let (info, events) = looked?;
        let seen = events.last().map_or(self.cursor.seen, |last| last.seq + 1);
        self.cursor.has_read(seen);
        let notes = events.into_iter().filter_map(|entry| match entry.event {
            Event::Noted { note, .. } => Some(Said::Note { seq: entry.seq, note }),
            _ => None,
        });
        let mut said: Vec<Said> = notes.collect();
        if matches!(info.status, Status::Completed | Status::Failed) {
            self.last_words(&mut said).await;
        }
        Ok(Heard { said, seen, info: Some(info) })
    }

    /// The end was seen in the store before who made it could tell. With it comes what is not recorded.
    async fn last_words(&mut self, said: &mut Vec<Said>) {
        if let Some(live) = self.tasks.core.live(&self.id) {
            // It leaves at once, unless it ended elsewhere and has not noticed yet.
            let _ = tokio::time::timeout(SOON, live.left()).await;
        }
        if let News::Said(more) = self.watch.feed.hear(&mut self.cursor) {
            let more = more.into_iter().filter(|said| matches!(said, Said::Progress(_)));
            said.extend(more);
        }
    }
}
