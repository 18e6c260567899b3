//! The server that is being developed, as a process.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, SystemTime},
};

use tokio::process::{Child, Command};

use super::Dev;
use crate::Result;

pub(super) struct Server {
    arguments: Vec<String>,
    grace: Duration,
    child: Option<Child>,
    /// What runs, or ran last.
    program: Option<(PathBuf, Option<SystemTime>)>,
}

impl Server {
    pub(super) fn new(dev: &Dev) -> Server {
        let (arguments, grace) = (dev.arguments.clone(), dev.grace());
        Server { arguments, grace, child: None, program: None }
    }

    pub(super) fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// Runs a program in place of the one that runs, unless it is the same.
    pub(super) async fn run(&mut self, program: &Path) -> Result<()> {
        let changed = std::fs::metadata(program).and_then(|about| about.modified()).ok();
        let now = Some((program.to_owned(), changed));
        if self.is_running() && self.program == now {
            return Ok(());
        }
        self.stop().await;
        let child = Command::new(program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| format!("{} can't be run: {error}", program.display()))?;
        eprintln!("steadfast: {} runs", program.display());
        (self.child, self.program) = (Some(child), now);
        Ok(())
    }

    /// Ends when a change is to be waited for no longer: never, but it says when the server ends by
    /// itself.
    pub(super) async fn watch_over(&mut self) {
        if let Some(child) = &mut self.child {
            let ended = child.wait().await;
            let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
            eprintln!("steadfast: the server has ended ({how}); waiting for a change");
            self.child = None;
        }
        std::future::pending().await
    }

    /// Asks it to stop, and kills it if it does not in time: what it was at is in its store.
    pub(super) async fn stop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        ask_to_stop(&child);
        if tokio::time::timeout(self.grace, child.wait()).await.is_err() {
            eprintln!("steadfast: the server does not stop; it is killed");
            let _ = child.kill().await;
        }
    }
}

#[cfg(unix)]
fn ask_to_stop(child: &Child) {
    let pid = child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(pid) = pid {
        // It may have ended by itself.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

/// There is no such request elsewhere.
#[cfg(not(unix))]
fn ask_to_stop(_: &Child) {}
