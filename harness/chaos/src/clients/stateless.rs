//! Clients of 2026-07-28.

use serde_json::{Map, Value, json};

use super::{Client, accept, is_away, request};
use crate::{
    book::{Kind, Tool},
    wire,
    world::Watch,
};

const VERSION: &str = "2026-07-28";

pub(super) async fn run(mut client: Client) {
    let survives = matches!(client.kind, Kind::Keyed(_));
    while !client.world.is_calm() {
        let tools: &[Tool] = match client.kind {
            // What is called so must be able to take back what it did.
            Kind::Plain => &[Tool::Book, Tool::Once],
            Kind::Rounds => &[Tool::Ask],
            // What is no tool makes no task.
            Kind::Tasks(_) => &[Tool::Work, Tool::Book, Tool::Ask, Tool::Once],
            _ => &[Tool::Work, Tool::Book, Tool::Ask, Tool::Once, Tool::Prompt, Tool::Resource],
        };
        // A task that is made and lost would ask for ever.
        let keyed = survives || matches!(client.kind, Kind::Tasks(_));
        let (number, tool) = client.begin(tools, keyed);
        client.call(number, tool, keyed).await;
        client.pause().await;
    }
}

impl Client {
    async fn call(&mut self, number: u64, tool: Tool, keyed: bool) {
        let mut more = Map::new();
        loop {
            let (method, name, mut params) = request(number, tool);
            // Not where it must survive: five deaths in one step, and a task is held back as poison.
            if self.kind == Kind::Plain && tool == Tool::Book && !number.is_multiple_of(3) {
                params["arguments"]["slow"] = json!(true);
            }
            for (name, value) in &more {
                params[name] = value.clone();
            }
            // One that goes on without its client, which nobody has asked for.
            let unbound = self.world.has_mutant("unbound") && self.kind == Kind::Plain;
            let key = (keyed || unbound).then(|| number.to_string());
            let Some(message) = self.once(number, method, &name, params, key).await else {
                // Without a way back it is lost; what is made anew is another call.
                if !keyed && more.is_empty() {
                    return self.note(number, "is lost");
                }
                self.world.book.change(number, |call| call.repeats += 1);
                self.pause().await;
                continue;
            };
            let result = &message["result"];
            match result["resultType"].as_str() {
                Some("input_required") => {
                    self.note(number, "is asked");
                    self.world.book.change(number, |call| call.survives = true);
                    let asked = result["inputRequests"].as_object().cloned().unwrap_or_default();
                    more.insert("inputResponses".into(), answers(number, &asked));
                    more.insert("requestState".into(), result["requestState"].clone());
                }
                Some("task") => {
                    let task = result["taskId"].as_str().unwrap_or_default().to_owned();
                    return self.see_through(number, &task).await;
                }
                _ => return self.take(number, &message),
            }
        }
    }

    /// Looks at a task until it is over, and answers what it asks.
    async fn see_through(&mut self, number: u64, task: &str) {
        loop {
            let named = json!({ "taskId": task });
            let got = self.once(number, "tasks/get", task, named.clone(), None).await;
            self.pause().await;
            let Some(got) = got else { continue };
            let state = &got["result"];
            match state["status"].as_str() {
                Some("working") => {}
                Some("completed") => {
                    return self.take(number, &json!({ "result": state["result"] }));
                }
                Some("input_required") => {
                    self.note(number, "is asked");
                    let asked = state["inputRequests"].as_object().cloned().unwrap_or_default();
                    let mut update = named;
                    update["inputResponses"] = answers(number, &asked);
                    self.once(number, "tasks/update", task, update, None).await;
                }
                other => return self.wrong(number, format!("its task is {other:?}: {got}")),
            }
        }
    }

    /// One try of a request.
    async fn once(
        &mut self,
        number: u64,
        method: &str,
        name: &str,
        mut params: Value,
        key: Option<String>,
    ) -> Option<Value> {
        let id = self.next_id();
        let mut can = json!({ "elicitation": { "form": {} } });
        if matches!(self.kind, Kind::Tasks(_)) {
            can["extensions"] = json!({ "io.modelcontextprotocol/tasks": {} });
        }
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientCapabilities": can,
        });
        if self.dice.chance(70) {
            params["_meta"]["progressToken"] = json!(id);
        }
        if let Some(key) = key {
            params["_meta"]["dev.steadfast/idempotency-key"] = json!(key);
        }
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let headers =
            [("MCP-Protocol-Version", VERSION), ("Mcp-Method", method), ("Mcp-Name", name)];
        self.note(number, format!("sends {method} {id}"));
        // Each request is a stream of its own.
        self.world.book.begin_stream(number);
        let read = async {
            let body = body.to_string();
            let watch = |port| {
                if self.kind == Kind::Plain {
                    self.world.watch(port, Watch::Ends(number));
                }
            };
            let mut response =
                wire::send_from(self.world.proxy, "POST", &headers, &body, watch).await?;
            if response.status == 503 {
                return Err("503".into());
            }
            let mut answer = None;
            loop {
                let event = match response.next().await {
                    Ok(Some(event)) => event,
                    Ok(None) => return Ok(answer),
                    Err(_) if answer.is_some() => return Ok(answer),
                    Err(broken) => return Err(broken),
                };
                let Some(message) = event.message else { continue };
                if message["id"] == id && is_away(&message) {
                    return Err(message.to_string());
                }
                if message["id"] != id {
                    self.hear_progress(number, &message);
                } else if answer.replace(message).is_some() {
                    self.wrong(number, "two answers on one stream");
                }
            }
        };
        match read.await {
            Ok(answer) => answer,
            Err(broken) => {
                let broken: wire::Broken = broken;
                self.note(number, format!("broken: {broken}"));
                None
            }
        }
    }
}

fn answers(number: u64, asked: &Map<String, Value>) -> Value {
    asked.keys().map(|key| (key.clone(), accept(number))).collect::<Map<_, _>>().into()
}
