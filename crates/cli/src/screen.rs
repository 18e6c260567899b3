//! What a person sees while a call runs: on standard error, so that standard output is the result alone.

use std::{
    io::{IsTerminal, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use steadfast_client::{Log, Progress, Status, TaskState};

/// Standard error, with at most one line that is written over and over.
#[derive(Clone)]
pub(crate) struct Screen(Arc<Mutex<State>>);

struct State {
    is_terminal: bool,
    /// There is a line that the next one replaces.
    bar: bool,
    /// What was said last of a task, which is looked at again and again.
    status: String,
    quiet: bool,
}

impl Screen {
    pub(crate) fn new(quiet: bool) -> Screen {
        let is_terminal = std::io::stderr().is_terminal();
        Screen(Arc::new(Mutex::new(State {
            is_terminal,
            bar: false,
            status: String::new(),
            quiet,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn progress(&self, progress: &Progress) {
        self.state().passing(&line(progress));
    }

    pub(crate) fn log(&self, log: &Log) {
        let text = match &log.data {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let mut state = self.state();
        if !state.quiet {
            state.line(&format!("{}: {text}", log.level));
        }
    }

    pub(crate) fn status(&self, task: &TaskState) {
        let mut state = self.state();
        // All else shows by itself: a question is asked, and the end has a result.
        if task.status != Status::Working {
            return;
        }
        let now = match &task.message {
            Some(message) => format!("working: {message}"),
            None => "working".to_owned(),
        };
        if now != state.status {
            state.passing(&now);
            state.status = now;
        }
    }

    /// A line that stays.
    pub(crate) fn line(&self, text: &str) {
        self.state().line(text);
    }

    /// Makes room for something else on standard error.
    pub(crate) fn clear(&self) {
        self.state().clear();
    }
}

impl State {
    /// A line that the next one replaces, if it is a person who reads.
    fn passing(&mut self, text: &str) {
        if self.quiet {
            return;
        }
        if !self.is_terminal {
            return self.line(text);
        }
        // So that it stays one line on a narrow terminal as well.
        let text: String = text.chars().filter(|c| !c.is_control()).take(78).collect();
        let mut out = std::io::stderr().lock();
        let _ = write!(out, "\r{text}\x1b[K");
        let _ = out.flush();
        self.bar = true;
    }

    fn line(&mut self, text: &str) {
        self.clear();
        eprintln!("{}", printable(text));
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.bar) {
            let mut out = std::io::stderr().lock();
            let _ = write!(out, "\r\x1b[K");
            let _ = out.flush();
        }
    }
}

/// Without what would steer a terminal: it comes from a server.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

fn line(progress: &Progress) -> String {
    const WIDTH: usize = 20;
    let message = progress.message.as_deref().unwrap_or_default();
    let line = match progress.total.filter(|total| *total > 0.0) {
        Some(total) => {
            let part = (progress.done / total).clamp(0.0, 1.0);
            let full = (part * WIDTH as f64).round() as usize;
            let bar = format!("{}{}", "#".repeat(full), ".".repeat(WIDTH - full));
            format!("[{bar}] {}/{total} {message}", progress.done)
        }
        None => format!("{} {message}", progress.done),
    };
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_a_bar_if_it_is_known_of_how_much() {
        let progress = |done, total, message: Option<&str>| {
            line(&Progress { done, total, message: message.map(str::to_owned) })
        };
        assert_eq!(progress(1.0, Some(4.0), Some("one")), "[#####...............] 1/4 one");
        assert_eq!(progress(9.0, Some(4.0), None), "[####################] 9/4");
        assert_eq!(progress(2.5, None, Some("so far")), "2.5 so far");
        assert_eq!(progress(1.0, Some(0.0), None), "1");
    }

    #[test]
    fn what_a_server_says_can_not_steer_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\r\nc\u{9b}d"), "a[2Jb\ncd");
    }
}
