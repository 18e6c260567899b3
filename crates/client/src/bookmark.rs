//! Where a running call stands.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a running call stands: all that is needed to take it up elsewhere.
#[derive(Clone, Debug, Default)]
pub struct Bookmark(Arc<Mutex<Place>>);

#[derive(Debug, Default)]
struct Place {
    event: Option<String>,
    task: Option<String>,
    request: Option<u64>,
}

impl Bookmark {
    fn place(&self) -> MutexGuard<'_, Place> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last event of its stream, for [`Client::resume`](crate::Client::resume).
    #[must_use]
    pub fn last_event_id(&self) -> Option<String> {
        self.place().event.clone()
    }

    /// Its task, for [`Client::task`](crate::Client::task).
    #[must_use]
    pub fn task_id(&self) -> Option<String> {
        self.place().task.clone()
    }

    /// The id of its request, as `notifications/cancelled` names it.
    #[must_use]
    pub fn request_id(&self) -> Option<u64> {
        self.place().request
    }

    pub(crate) fn set_event(&self, event: Option<&str>) {
        if let Some(event) = event {
            self.place().event = Some(event.to_owned());
        }
    }

    pub(crate) fn set_task(&self, task: &str) {
        self.place().task = Some(task.to_owned());
    }

    pub(crate) fn set_request(&self, request: u64) {
        self.place().request = Some(request);
    }
}
