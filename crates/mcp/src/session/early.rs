//! Requests of a session that were taken back before they came.

use std::time::{Duration, Instant};

use super::Session;

impl Session {
    /// Notes one more of them, each of which counts for this long. False if there are too many.
    pub(crate) fn may_cancel_early(&self, life: Duration, most: usize) -> bool {
        let mut state = self.state();
        while state.early.front().is_some_and(|at| at.elapsed() >= life) {
            state.early.pop_front();
        }
        let may = state.early.len() < most;
        if may {
            state.early.push_back(Instant::now());
        }
        may
    }
}
