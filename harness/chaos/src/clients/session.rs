//! Clients of the revisions with sessions, whose calls outlive connections.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Client, accept, is_away, request};
use crate::{
    book::{Kind, Tool},
    wire::{self, Broken, Response},
    world::Watch,
};

pub(super) struct Session {
    pub(super) client: Client,
    pub(super) version: &'static str,
    pub(super) id: String,
}

pub(super) async fn run(client: Client, version: &'static str) {
    let mut session = Session::open(client, version).await;
    // There were no questions in the first of them.
    let tools: &[Tool] = match version {
        "2025-03-26" => &[Tool::Work, Tool::Book, Tool::Once, Tool::Prompt, Tool::Resource],
        _ => &[Tool::Work, Tool::Book, Tool::Ask, Tool::Once, Tool::Prompt, Tool::Resource],
    };
    while !session.client.world.is_calm() {
        let (number, tool) = session.client.begin(tools, true);
        session.call(number, tool).await;
        session.client.pause().await;
    }
}

impl Session {
    pub(super) async fn open(mut client: Client, version: &'static str) -> Session {
        let can = if version == "2025-03-26" { json!({}) } else { json!({ "elicitation": {} }) };
        let info = json!({ "name": "chaos", "version": "1" });
        let params = json!({ "protocolVersion": version, "clientInfo": info, "capabilities": can });
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        loop {
            let opened = wire::send(client.world.proxy, "POST", &[], &body.to_string()).await;
            let id = opened.ok().and_then(|opened| opened.header("mcp-session-id").map(Into::into));
            if let Some(id) = id {
                return Session { client, version, id };
            }
            client.pause().await;
        }
    }

    pub(super) async fn send(
        &self,
        method: &str,
        more: &[(&str, &str)],
        body: &str,
    ) -> Result<Response, Broken> {
        self.send_from(method, more, body, |_| {}).await
    }

    async fn send_from(
        &self,
        method: &str,
        more: &[(&str, &str)],
        body: &str,
        from: impl FnOnce(u16),
    ) -> Result<Response, Broken> {
        let mut headers =
            vec![("Mcp-Session-Id", self.id.as_str()), ("MCP-Protocol-Version", self.version)];
        headers.extend(more);
        wire::send_from(self.client.world.proxy, method, &headers, body, from).await
    }

    /// Says what the user says, until the server has it.
    pub(super) async fn answer(&mut self, number: u64, asked: &Value) {
        if self.client.world.has_mutant("dropped") && number.is_multiple_of(4) {
            return self.client.note(number, "is told that its answer was taken, and it was not");
        }
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": accept(number) });
        loop {
            match self.send("POST", &[], &answer.to_string()).await {
                Ok(heard) if heard.status == 202 => break,
                Ok(heard) if heard.status == 503 => {}
                Ok(heard) => {
                    return self.client.wrong(number, format!("an answer got {}", heard.status));
                }
                Err(_) => {}
            }
            self.client.pause().await;
        }
        self.client.note(number, "told what the user says");
    }

    /// What a call is sent as.
    pub(super) fn body(&self, id: u64, number: u64, tool: Tool) -> String {
        let (method, _, mut params) = request(number, tool);
        if matches!(self.client.kind, Kind::Cancels(_)) && tool == Tool::Book {
            // So long that one which goes on is seen.
            params["arguments"]["slow"] = json!(true);
        }
        params["_meta"] = json!({ "progressToken": id });
        if self.client.kind.has_key() {
            params["_meta"]["dev.steadfast/idempotency-key"] = json!(number.to_string());
        }
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
    }

    pub(super) async fn call(&mut self, number: u64, tool: Tool) {
        let id = self.client.next_id();
        let body = self.body(id, number, tool);
        let mut seen = Seen::default();
        for times in 0.. {
            let last = seen.last.clone().filter(|_| matches!(self.client.kind, Kind::Resumes(_)));
            self.client.world.book.change(number, |call| match &last {
                Some(_) => call.resumes += 1,
                None => call.repeats += u64::from(times > 0),
            });
            let sent = match &last {
                Some(last) => {
                    // One that forgets what it has heard.
                    let forgets = self.client.world.has_mutant("forgets");
                    let from = seen.first.as_ref().filter(|_| forgets).unwrap_or(last);
                    self.client.note(number, format!("takes up {from}"));
                    self.send("GET", &[("Last-Event-ID", from)], "").await
                }
                None => {
                    self.client.note(number, format!("sends {id}"));
                    if !self.client.kind.has_key() {
                        // It may run again, if its answer was lost behind the server.
                        self.client.world.book.begin_stream(number);
                    }
                    let world = &self.client.world;
                    let watch = |port| world.watch(port, Watch::Comes(number));
                    self.send_from("POST", &[], &body, watch).await
                }
            };
            let read = match sent {
                Ok(mut response) => self.read(number, id, &mut response, &mut seen).await,
                Err(broken) => Err(broken),
            };
            match read {
                Ok(true) => return,
                Ok(false) => self.client.note(number, "the stream ended"),
                Err(broken) => self.client.note(number, format!("broken: {broken}")),
            }
            self.client.pause().await;
        }
    }

    /// Whether there was an answer.
    pub(super) async fn read(
        &mut self,
        number: u64,
        id: u64,
        response: &mut Response,
        seen: &mut Seen,
    ) -> Result<bool, Broken> {
        match response.status {
            200 => {}
            503 => return Err("503".into()),
            status => {
                self.client.wrong(number, format!("it got {status}: {}", response.text().await?));
                return Ok(true);
            }
        }
        let mut answered = false;
        loop {
            let event = match response.next().await {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(answered),
                // What is behind the answer is of no interest, if it is not another.
                Err(_) if answered => return Ok(true),
                Err(broken) => return Err(broken),
            };
            if let Some(at) = event.id {
                let says = event.message.is_some();
                let twice = says && !seen.said.insert(at.clone());
                if twice && matches!(self.client.kind, Kind::Resumes(_)) {
                    self.client.wrong(number, format!("the event {at} came twice"));
                }
                seen.first.get_or_insert_with(|| at.clone());
                seen.last = Some(at);
            }
            let Some(message) = event.message else { continue };
            if message["method"] == "elicitation/create" {
                self.client.note(number, format!("is asked {}", message["id"]));
                self.answer(number, &message).await;
            } else if message["id"] == id && is_away(&message) {
                return Err(message.to_string());
            } else if message["id"] == id {
                if answered {
                    self.client.wrong(number, "two answers on one stream");
                }
                answered = true;
                self.client.take(number, &message);
            } else {
                self.client.hear_progress(number, &message);
            }
        }
    }
}

/// What of its stream a client has.
#[derive(Default)]
pub(super) struct Seen {
    first: Option<String>,
    last: Option<String>,
    /// The events that said something.
    said: BTreeSet<String>,
}
