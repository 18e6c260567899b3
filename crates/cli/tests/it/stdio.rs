//! A client that only knows stdio, on the near side of the bridge.

use serde_json::{Value, json};

use crate::{
    process::Program,
    server::{Server, until},
};

/// A client of stdio.
pub(crate) struct Client {
    pub(crate) program: Program,
    /// What the `_meta` of each request has.
    meta: Value,
}

impl Client {
    pub(crate) fn start(server: &Server, more: &[&str]) -> Client {
        let program = Program::start(&[&["connect", server.url().as_str()], more].concat());
        Client { program, meta: Value::Null }
    }

    /// One of a revision with sessions.
    pub(crate) fn legacy(server: &Server, revision: &str) -> Client {
        let mut client = Client::start(server, &[]);
        client.initialize(revision);
        client
    }

    pub(crate) fn initialize(&mut self, revision: &str) {
        let info = json!({ "name": "stdio", "version": "1" });
        let params = json!({ "protocolVersion": revision, "clientInfo": info,
                             "capabilities": { "elicitation": {} } });
        self.request(&json!(0), "initialize", params);
        assert_eq!(self.answer(&json!(0))["result"]["protocolVersion"], revision);
        self.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    /// One of 2026-07-28.
    pub(crate) fn modern(server: &Server, more: &[&str], tasks: bool) -> Client {
        let mut client = Client::start(server, more);
        let mut can = json!({ "elicitation": { "form": {} } });
        if tasks {
            can["extensions"] = json!({ "io.modelcontextprotocol/tasks": {} });
        }
        client.meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "stdio", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": can,
        });
        client
    }

    /// From now on requests have this idempotency key.
    pub(crate) fn key(&mut self, key: &str) {
        self.meta["dev.steadfast/idempotency-key"] = json!(key);
    }

    pub(crate) fn say(&mut self, message: &Value) {
        self.program.line(&message.to_string());
    }

    pub(crate) fn request(&mut self, id: &Value, method: &str, mut params: Value) {
        if !self.meta.is_null() {
            params["_meta"] = self.meta.clone();
        }
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
    }

    pub(crate) fn call(&mut self, id: &Value, tool: &str, arguments: Value) {
        self.request(id, "tools/call", json!({ "name": tool, "arguments": arguments }));
    }

    /// All that came: each line is a message, or this fails.
    pub(crate) fn heard(&self) -> Vec<Value> {
        let whole = |line: &String| serde_json::from_str(line).ok();
        let mut lines = self.program.lines();
        let last = lines.pop();
        let mut heard: Vec<Value> =
            lines.iter().map(|line| serde_json::from_str(line).expect(line)).collect();
        // The last may still be on its way.
        heard.extend(last.as_ref().and_then(whole));
        heard
    }

    pub(crate) fn find(&self, what: impl Fn(&Value) -> bool) -> Value {
        let mut found = None;
        until("a message comes", || {
            found = self.heard().into_iter().find(|message| what(message));
            found.is_some()
        });
        found.unwrap()
    }

    /// The response to a request.
    pub(crate) fn answer(&self, id: &Value) -> Value {
        self.find(|message| message["id"] == *id && message.get("method").is_none())
    }

    pub(crate) fn text(&self, id: &Value) -> String {
        let answer = self.answer(id);
        answer["result"]["content"][0]["text"].as_str().unwrap_or(&answer.to_string()).to_owned()
    }
}
