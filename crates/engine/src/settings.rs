//! What can be set, with its defaults and limits.

use std::{collections::BTreeSet, time::Duration};

use steadfast_core::{Limits, Ttl};

/// Settings of an engine. Every limit is enforced with an error that names it. Those on names and
/// texts can't be set; they are in [`limits`](crate::limits).
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bounds on one task: events in its history (50,000), open questions (64), steps in flight
    /// (64).
    pub task: Limits,
    /// The largest input, result, event, question, answer, value or data of an error, in bytes of JSON
    /// (1 MiB).
    pub max_payload: usize,
    /// Tasks in memory at once (1,000); others queue, and owners take turns. With 0 this process runs none:
    /// they are for others that share the store.
    pub max_running: usize,
    /// Activities that this process runs at once (64); with 0 none.
    pub max_activities: usize,
    /// The tools and activities that this process takes up work of, of those that it has (all). Work of
    /// others is left to other processes. A name that nothing is registered under is never taken up; a
    /// server refuses to start with one.
    pub only: Option<BTreeSet<String>>,
    /// How long a task with nothing but waits stays in memory (0.25 s).
    pub park_after: Duration,
    /// What a task says goes to the store at once, by itself if need be; but no sooner after the last time
    /// than this, and then together (20 ms).
    pub note_delay: Duration,
    /// How long a task is kept after it ends (seven days).
    pub retention: Ttl,
    /// No tool and no caller can have a task kept longer than this (ten years).
    pub max_retention: Ttl,
    /// How often expired tasks are removed (a minute).
    pub sweep_every: Duration,
    /// How often dead processes are looked for (a second).
    pub look_for_dead_every: Duration,
    /// Process deaths without progress after which a task is set aside (5).
    pub poison_deaths: u32,
    /// How long a cancelled activity may go on before it is dropped (5 s).
    pub cancel_grace: Duration,
    /// Events kept for a task that is not there yet are removed after this (seven days).
    pub early_signals: Duration,
    /// How long notices are kept for those who come back (a day; a front sets it to fit its sessions).
    pub notice_life: Duration,
    /// Notices that are kept at most (10,000).
    pub max_notices: usize,
    /// Runs everything that a crash may run again twice, and fails tasks in which the second time was
    /// not like the first (off): see [`Builder::validate_effects`](crate::Builder::validate_effects).
    pub validate_effects: bool,
}

impl Settings {
    /// Whether this process takes up work of this name.
    pub(crate) fn takes(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(name))
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            task: Limits::default(),
            max_payload: 1 << 20,
            max_running: 1_000,
            max_activities: 64,
            only: None,
            park_after: Duration::from_millis(250),
            note_delay: Duration::from_millis(20),
            retention: Ttl::days(7),
            max_retention: Ttl::days(3650),
            sweep_every: Duration::from_secs(60),
            look_for_dead_every: Duration::from_secs(1),
            poison_deaths: 5,
            cancel_grace: Duration::from_secs(5),
            early_signals: Duration::from_secs(7 * 24 * 3600),
            notice_life: Duration::from_secs(86_400),
            max_notices: 10_000,
            validate_effects: false,
        }
    }
}
