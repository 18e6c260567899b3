//! What the client says without asking: notifications, and answers to questions.

use std::sync::Arc;

use serde_json::Value;
use steadfast_client::{
    Error,
    wire::{Attempt, Headers, Message, attempt, headers},
};
use tokio::sync::mpsc;

use super::Bridge;

impl Bridge {
    /// Passes something on, after all that was said before.
    pub(super) fn queue(&self, line: String) {
        self.on_the_way.send_modify(|count| *count += 1);
        let _ = self.said.send(line);
    }

    pub(super) async fn say_all(self: Arc<Self>, mut lines: mpsc::UnboundedReceiver<String>) {
        while let Some(line) = lines.recv().await {
            self.say(&line).await;
            self.has_cancelled(&line);
            self.on_the_way.send_modify(|count| *count = count.saturating_sub(1));
        }
    }

    /// Passes something on. That it came to nothing is for the log: nobody waits for an answer.
    pub(super) async fn say(&self, line: &str) {
        let headers = match self.has_session() {
            true => self.session_headers(),
            false => stateless(line),
        };
        let message = Message::fixed(line.to_owned());
        let what = Attempt::Post { headers, message, repeatable: true };
        let failed = match attempt(&self.link, &what, self.patience).await {
            Ok(answer) if answer.status < 300 => return,
            Ok(answer) => Error::Status { status: answer.status, message: "it was refused".into() },
            Err(error) => error,
        };
        eprintln!("steadfast: something the client said was not passed on: {failed}");
    }
}

/// The headers of what belongs to no session.
fn stateless(line: &str) -> Headers {
    let message: Value = serde_json::from_str(line).unwrap_or_default();
    let method = message["method"].as_str().unwrap_or_default();
    headers::stateless("2026-07-28", method, &message["params"], &[])
}
