//! Clients of a session that take their calls back.

use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use super::{
    Client,
    session::{Seen, Session},
};
use crate::{book::Tool, world::now};

pub(super) async fn run(client: Client, version: &'static str) {
    let mut session = Session::open(client, version).await;
    while !session.client.world.is_calm() {
        let tools = [Tool::Book, Tool::Once, Tool::Prompt, Tool::Resource];
        let (number, tool) = session.client.begin(&tools, false);
        session.call_and_cancel(number, tool).await;
        session.client.pause().await;
    }
}

impl Session {
    async fn call_and_cancel(&mut self, number: u64, tool: Tool) {
        let id = self.client.next_id();
        self.client.note(number, format!("sends {id}"));
        let body = self.body(id, number, tool);
        match self.send("POST", &[], &body).await {
            Ok(mut response) if response.status == 200 => {
                let patience = Duration::from_millis(self.client.dice.below(900));
                let mut seen = Seen::default();
                let read = self.read(number, id, &mut response, &mut seen);
                if let Ok(Ok(true)) = timeout(patience, read).await {
                    return;
                }
            }
            // It may still be on its way, and come after what is said of it now.
            Ok(_) | Err(_) => self.client.note(number, "is lost"),
        }
        match self.client.world.has_mutant("deaf") {
            true => self.client.note(number, "is not heard"),
            false => {
                // Twice, with time between: so it is heard of on a stream that is open, and once that
                // is closed.
                self.take_back(number, id).await;
                self.client.pause().await;
                self.take_back(number, id).await;
            }
        }
        self.client.world.book.change(number, |call| call.closed = Some(now()));
    }

    /// Says that a request is taken back, until the server has it.
    async fn take_back(&mut self, number: u64, id: u64) {
        let said = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
                           "params": { "requestId": id } });
        loop {
            match self.send("POST", &[], &said.to_string()).await {
                Ok(heard) if heard.status == 202 => break,
                Ok(heard) if heard.status == 503 => {}
                Ok(heard) => {
                    return self.client.wrong(number, format!("a cancel got {}", heard.status));
                }
                Err(_) => {}
            }
            self.client.pause().await;
        }
        self.client.note(number, "is taken back");
    }
}
