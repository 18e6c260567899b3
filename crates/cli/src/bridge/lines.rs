//! Lines from the client, and to it.

use std::{
    io::{BufRead, Write},
    sync::{Mutex, mpsc as std_mpsc},
    thread::JoinHandle,
};

use tokio::sync::mpsc;

/// The lines of standard input, until it ends.
pub(super) fn read() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if !line.trim().is_empty() && sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Standard output: lines of the protocol, and nothing else.
pub(super) struct Out(Mutex<Option<(std_mpsc::Sender<String>, JoinHandle<()>)>>);

impl Out {
    pub(super) fn start() -> Out {
        let (sender, lines) = std_mpsc::channel::<String>();
        let writer = std::thread::spawn(move || {
            let mut out = std::io::stdout().lock();
            for line in lines {
                if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
                    // Nobody listens any more.
                    std::process::exit(0);
                }
            }
        });
        Out(Mutex::new(Some((sender, writer))))
    }

    /// Writes a message. Line breaks in JSON are never part of a text, so a space will do.
    pub(super) fn line(&self, message: &str) {
        let line = message.replace(['\r', '\n'], " ");
        if let Some((sender, _)) = super::lock(&self.0).as_ref() {
            let _ = sender.send(line);
        }
    }

    /// Writes what is left, and no more.
    pub(super) fn close(&self) {
        let open = super::lock(&self.0).take();
        if let Some((sender, writer)) = open {
            drop(sender);
            let _ = writer.join();
        }
    }
}
