//! The order of records in a file, which lets them be taken as they come.

use super::{Kind, Record};

/// Looks at records one after the other.
#[derive(Debug, Default)]
pub(super) struct Order {
    last: Option<Kind>,
    task: i64,
    /// The task of the last event, and the number of the next.
    event: (i64, i64),
}

impl Order {
    /// Whether a record may come next.
    pub(super) fn next(&mut self, record: &Record) -> Result<(), String> {
        let kind = record.kind();
        if self.last == Some(Kind::Counters) {
            return Err("there is something behind the counters".into());
        }
        if let Some(last) = self.last.replace(kind)
            && last > kind
        {
            return Err(format!("a {} comes after a {}", kind.name(), last.name()));
        }
        match record {
            Record::Task(task) => {
                let before = std::mem::replace(&mut self.task, task.key);
                if task.key <= before {
                    return Err(format!("task {} comes after task {before}", task.key));
                }
            }
            Record::Event(event) => {
                let (task, next) = self.event;
                let expected = if event.task == task { next } else { 0 };
                if event.task < task || event.seq != expected {
                    let (of, seq) = (event.task, event.seq);
                    let found =
                        format!("event {seq} of task {of} where event {expected} should be");
                    return Err(format!("a history is not whole: there is {found}"));
                }
                self.event = (event.task, event.seq + 1);
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether there may be no more.
    pub(super) fn end(&self) -> Result<(), String> {
        match self.last {
            Some(Kind::Counters) => Ok(()),
            _ => Err("the counters are missing".into()),
        }
    }
}
