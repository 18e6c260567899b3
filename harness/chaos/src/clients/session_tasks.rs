//! Tasks of 2025-11-25: made, looked at, and asked for their result.

use serde_json::{Value, json};

use super::{Client, is_away, session::Session};
use crate::book::Tool;

pub(super) async fn run(client: Client, version: &'static str) {
    let mut session = Session::open(client, version).await;
    while !session.client.world.is_calm() {
        let keyed = session.client.dice.chance(60);
        // One that is made and lost would ask for ever.
        let tools: &[Tool] = match keyed {
            true => &[Tool::Work, Tool::Book, Tool::Ask, Tool::Once],
            false => &[Tool::Work, Tool::Book, Tool::Once],
        };
        let (number, tool) = session.client.begin(tools, keyed);
        if let Some(task) = session.make(number, tool, keyed).await {
            session.client.world.book.change(number, |call| call.survives = true);
            session.see_through(number, &task).await;
        }
        session.client.pause().await;
    }
}

impl Session {
    /// Makes a task. Nothing if it is not known what became of it.
    async fn make(&mut self, number: u64, tool: Tool, keyed: bool) -> Option<String> {
        loop {
            let mut params = json!({ "name": tool.name(), "arguments": { "number": number },
                                     "task": { "ttl": 3_600_000 } });
            if keyed {
                let key = json!({ "dev.steadfast/idempotency-key": number.to_string() });
                params["_meta"] = key;
            }
            if let Some(made) = self.once(number, "tools/call", params).await {
                let task = made["result"]["task"]["taskId"].as_str().map(str::to_owned);
                if task.is_none() {
                    self.client.wrong(number, format!("it made no task: {made}"));
                }
                return task;
            }
            if !keyed {
                return None;
            }
            self.client.world.book.change(number, |call| call.repeats += 1);
            self.client.pause().await;
        }
    }

    /// Looks at it until it is over or asks, or not at all; and then waits for its result.
    async fn see_through(&mut self, number: u64, task: &str) {
        let named = json!({ "taskId": task });
        while self.client.dice.chance(80) {
            let got = self.once(number, "tasks/get", named.clone()).await;
            self.client.pause().await;
            let Some(got) = got else { continue };
            match got["result"]["status"].as_str() {
                Some("working") => {}
                Some("input_required" | "completed") => break,
                other => return self.client.wrong(number, format!("its task is {other:?}: {got}")),
            }
        }
        loop {
            if let Some(result) = self.once(number, "tasks/result", named.clone()).await {
                return self.client.take(number, &result);
            }
            self.client.world.book.change(number, |call| call.repeats += 1);
            self.client.pause().await;
        }
    }

    /// One try of a request.
    async fn once(&mut self, number: u64, method: &str, params: Value) -> Option<Value> {
        let id = self.client.next_id();
        self.client.note(number, format!("sends {method} {id}"));
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let mut response = match self.send("POST", &[], &body.to_string()).await {
            Ok(response) if response.status != 503 => response,
            Ok(_) => return None,
            Err(broken) => {
                self.client.note(number, format!("broken: {broken}"));
                return None;
            }
        };
        loop {
            let message = match response.next().await {
                Ok(event) => event?.message,
                Err(broken) => {
                    self.client.note(number, format!("broken: {broken}"));
                    return None;
                }
            };
            let Some(message) = message else { continue };
            if message["method"] == "elicitation/create" {
                self.client.note(number, format!("is asked {}", message["id"]));
                self.answer(number, &message).await;
            } else if message["id"] == id {
                return Some(message).filter(|message| !is_away(message));
            }
        }
    }
}
