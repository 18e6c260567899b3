//! What clients saw of each call.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// What a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Takes streams up again by the last event's id; before the first, it makes the request again.
    Resumes(&'static str),
    /// Makes the request again, with the same id.
    Repeats(&'static str),
    /// The same with an idempotency key.
    Keyed(&'static str),
    /// Of 2026-07-28, without anything to come back with.
    Plain,
    /// Of 2026-07-28, and comes back with `requestState` once it has it.
    Rounds,
    /// Our own client, with a key.
    Library(&'static str),
    /// Makes tasks and asks for them.
    Tasks(&'static str),
    /// Over standard streams.
    Piped(&'static str),
    /// Of a session, and takes its calls back in the middle.
    Cancels(&'static str),
    /// Of a session, whose own stream it listens to for what its calls, which have keys, have changed.
    Listens(&'static str),
}

impl Kind {
    /// Its requests have an idempotency key.
    pub(crate) fn has_key(self) -> bool {
        matches!(self, Kind::Keyed(_) | Kind::Listens(_))
    }

    pub(crate) fn name(self) -> String {
        match self {
            Kind::Resumes(version) => format!("{version} resumes"),
            Kind::Repeats(version) => format!("{version} repeats"),
            Kind::Keyed(version) => format!("{version} key"),
            Kind::Plain => "2026-07-28 plain".into(),
            Kind::Rounds => "2026-07-28 rounds".into(),
            Kind::Library(version) => format!("{version} library"),
            Kind::Tasks(version) => format!("{version} tasks"),
            Kind::Piped(version) => format!("{version} stdio"),
            Kind::Cancels(version) => format!("{version} cancels"),
            Kind::Listens(version) => format!("{version} listens"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Work,
    Book,
    Ask,
    Once,
    /// Changes a resource that its client watches.
    Tell,
    /// No tool, but a prompt.
    Prompt,
    /// Nor this: a resource.
    Resource,
}

impl Tool {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Tool::Work => "work",
            Tool::Book => "book",
            Tool::Ask => "ask",
            Tool::Once => "once",
            Tool::Tell => "tell",
            Tool::Prompt => "interview",
            Tool::Resource => "report",
        }
    }

    pub(crate) fn steps(self) -> &'static [&'static str] {
        match self {
            Tool::Work | Tool::Book => &["a", "b", "c"],
            Tool::Ask | Tool::Tell | Tool::Prompt | Tool::Resource => &["a", "b"],
            Tool::Once => &["a", "once", "b"],
        }
    }

    /// Whether this is the right answer to the call of this number.
    pub(crate) fn is_right(self, number: u64, text: &str) -> bool {
        let details: &[String] = match self {
            Tool::Work | Tool::Book | Tool::Tell | Tool::Prompt | Tool::Resource => {
                &["done".into()]
            }
            Tool::Ask => &[reply(number).to_string()],
            Tool::Once => &["sure".into(), "unsure".into()],
        };
        details.iter().any(|detail| text == format!("{} {number} {detail}", self.name()))
    }
}

/// What the call of this number is answered when it asks.
pub(crate) fn reply(number: u64) -> u64 {
    number % 997 + 1
}

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) kind: Kind,
    pub(crate) tool: Tool,
    /// What the client saw and did, with the time in milliseconds.
    pub(crate) story: Vec<(u128, String)>,
    pub(crate) answers: Vec<String>,
    /// Its client was told that it was cancelled.
    pub(crate) refused: bool,
    /// When the server could know that its connection was closed, if that is the end of it.
    pub(crate) closed: Option<i64>,
    /// The process that had it.
    pub(crate) life: Option<u32>,
    /// Its client can come back for it: it must be answered.
    pub(crate) survives: bool,
    /// Streams taken up again.
    pub(crate) resumes: u64,
    /// Requests made again.
    pub(crate) repeats: u64,
    /// When requests of its came to a process, if that is what matters.
    pub(crate) came: Vec<i64>,
    /// The last progress heard.
    progress: f64,
    /// What is wrong with it.
    pub(crate) wrong: Vec<String>,
}

pub(crate) struct Book {
    begun: Instant,
    calls: Mutex<BTreeMap<u64, Call>>,
}

impl Default for Book {
    fn default() -> Book {
        Book { begun: Instant::now(), calls: Mutex::default() }
    }
}

impl Book {
    pub(crate) fn calls(&self) -> MutexGuard<'_, BTreeMap<u64, Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, number: u64, kind: Kind, tool: Tool, survives: bool) {
        let call = Call {
            kind,
            tool,
            story: Vec::new(),
            answers: Vec::new(),
            refused: false,
            closed: None,
            life: None,
            survives,
            resumes: 0,
            repeats: 0,
            came: Vec::new(),
            progress: f64::NEG_INFINITY,
            wrong: Vec::new(),
        };
        self.calls().insert(number, call);
    }

    pub(crate) fn change(&self, number: u64, change: impl FnOnce(&mut Call)) {
        if let Some(call) = self.calls().get_mut(&number) {
            change(call);
        }
    }

    pub(crate) fn note(&self, number: u64, what: impl Into<String>) {
        let at = self.begun.elapsed().as_millis();
        self.change(number, |call| call.story.push((at, what.into())));
    }

    /// Notes something that must not be.
    pub(crate) fn wrong(&self, number: u64, what: impl Into<String>) {
        let what = what.into();
        self.note(number, format!("WRONG: {what}"));
        self.change(number, |call| call.wrong.push(what));
    }

    pub(crate) fn answered(&self, number: u64, text: &str) {
        self.note(number, format!("answered: {text}"));
        self.change(number, |call| call.answers.push(text.to_owned()));
    }

    /// From here on progress begins anew.
    pub(crate) fn begin_stream(&self, number: u64) {
        self.change(number, |call| call.progress = f64::NEG_INFINITY);
    }

    /// Progress rises over all streams of a call.
    pub(crate) fn progress(&self, number: u64, progress: f64) {
        self.note(number, format!("progress {progress}"));
        let mut before = f64::NEG_INFINITY;
        self.change(number, |call| before = std::mem::replace(&mut call.progress, progress));
        if progress <= before {
            self.wrong(number, format!("progress {progress} after {before}"));
        }
    }
}
