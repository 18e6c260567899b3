//! A server on a free port, and clients of both generations.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use serde_json::{Value, json};
use steadfast_engine::{Builder, Engine};
use steadfast_mcp::{Running, Server};
use steadfast_store::Disk;

use crate::http::{Response, send};

pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) running: Running,
}

pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";
pub(crate) const JSON: (&str, &str) = ("Content-Type", "application/json");
pub(crate) const ACCEPT: (&str, &str) = ("Accept", "application/json, text/event-stream");

/// A client that can be asked everything and knows tasks.
pub(crate) fn able() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} }, "sampling": {}, "roots": {}, "extensions": { TASKS: {} } })
}

/// The same without tasks.
pub(crate) fn taskless() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} }, "sampling": {}, "roots": {} })
}

impl Site {
    pub(crate) async fn start(server: Server) -> Site {
        Site::on(server, &Disk::new()).await
    }

    /// On a store that may have tasks from before.
    pub(crate) async fn on(server: Server, disk: &Disk) -> Site {
        Site::of(server, Engine::builder(Arc::new(disk.open()))).await
    }

    /// With an engine.
    pub(crate) async fn of(server: Server, engine: Builder) -> Site {
        let running = server.start(engine).unwrap();
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = running.clone();
        tokio::spawn(async move { serving.serve(listener, std::future::pending()).await });
        Site { address, running }
    }

    /// A request of 2026-07-28, with the headers that belong to it.
    pub(crate) async fn modern(
        &self,
        capabilities: &Value,
        method: &str,
        params: Value,
    ) -> Response {
        self.modern_with(capabilities, method, params, &[]).await
    }

    pub(crate) async fn modern_with(
        &self,
        capabilities: &Value,
        method: &str,
        mut params: Value,
        more: &[(&str, &str)],
    ) -> Response {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
        params["_meta"]["io.modelcontextprotocol/clientInfo"] =
            json!({ "name": "test", "version": "1" });
        let name = params.get("name").or_else(|| params.get("uri")).cloned();
        let name = name.as_ref().and_then(Value::as_str);
        let mut headers =
            vec![JSON, ACCEPT, ("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)];
        headers.extend(name.map(|name| ("Mcp-Name", name)));
        headers.extend(more);
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        send(self.address, "POST", &headers, &body.to_string()).await
    }

    /// The result of such a request.
    pub(crate) async fn result(&self, capabilities: &Value, method: &str, params: Value) -> Value {
        let reply = self.modern(capabilities, method, params).await.last().await;
        reply.get("result").cloned().unwrap_or_else(|| panic!("no result: {reply}"))
    }

    /// The error of such a request: HTTP status and error.
    pub(crate) async fn error(
        &self,
        capabilities: &Value,
        method: &str,
        params: Value,
    ) -> (u16, Value) {
        let response = self.modern(capabilities, method, params).await;
        let status = response.status;
        let reply = response.last().await;
        (status, reply.get("error").cloned().unwrap_or_else(|| panic!("no error: {reply}")))
    }

    /// Calls a tool as a client with tasks, and gives its task.
    pub(crate) async fn task(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let task = self.result(&able(), "tools/call", params).await;
        assert_eq!(task["resultType"], "task", "{task}");
        task
    }

    pub(crate) async fn get(&self, task: &Value) -> Value {
        self.result(&able(), "tasks/get", json!({ "taskId": task["taskId"] })).await
    }

    /// Waits until a task has this status.
    pub(crate) async fn until(&self, task: &Value, status: &str) -> Value {
        let seen = async {
            loop {
                let seen = self.get(task).await;
                if seen["status"] == status {
                    return seen;
                }
                assert!(
                    !["completed", "failed", "cancelled"]
                        .contains(&seen["status"].as_str().unwrap()),
                    "{seen}"
                );
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), seen).await.expect("the status in time")
    }

    pub(crate) async fn update(&self, task: &Value, responses: Value) -> Value {
        let params = json!({ "taskId": task["taskId"], "inputResponses": responses });
        self.result(&able(), "tasks/update", params).await
    }
}

impl Site {
    /// Tells a task of an event.
    pub(crate) async fn signal(&self, task: &Value, event: &str) {
        let nobody = steadfast_engine::Principal::new("anonymous").unwrap();
        let id = steadfast_engine::TaskId::new(task["taskId"].as_str().unwrap()).unwrap();
        let event = steadfast_engine::Event::new(event, &"go");
        self.running.engine().tasks(nobody).signal(&id, event).await.unwrap();
    }
}

/// A client up to 2025-11-25, from `initialize` on.
pub(crate) struct Legacy {
    address: SocketAddr,
    pub(crate) session: String,
    pub(crate) version: &'static str,
    pub(crate) opening: Value,
    authorization: Option<String>,
}

impl Legacy {
    pub(crate) async fn open(site: &Site, version: &'static str, capabilities: Value) -> Legacy {
        Legacy::open_as(site, version, capabilities, None).await
    }

    /// The same with a bearer token.
    pub(crate) async fn open_as(
        site: &Site,
        version: &'static str,
        capabilities: Value,
        token: Option<&str>,
    ) -> Legacy {
        let authorization = token.map(|token| format!("Bearer {token}"));
        let params = json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": { "name": "test", "version": "1" } });
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let mut headers = vec![JSON, ACCEPT];
        headers.extend(authorization.as_ref().map(|value| ("Authorization", value.as_str())));
        let response = send(site.address, "POST", &headers, &body.to_string()).await;
        assert_eq!(response.status, 200);
        let session = response.header("mcp-session-id").unwrap().to_owned();
        let opening = response.json().await["result"].clone();
        let legacy = Legacy { address: site.address, session, version, opening, authorization };
        legacy.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        legacy
    }

    /// The same client at another server.
    pub(crate) fn at(self, site: &Site) -> Legacy {
        Legacy { address: site.address, ..self }
    }

    /// One that says it has this session.
    pub(crate) fn of(&self, session: String) -> Legacy {
        let (opening, authorization) = (self.opening.clone(), self.authorization.clone());
        Legacy { session, opening, authorization, ..*self }
    }

    fn headers(&self) -> Vec<(&str, &str)> {
        let mut headers = vec![JSON, ACCEPT, ("Mcp-Session-Id", self.session.as_str())];
        headers.extend(self.authorization.as_ref().map(|value| ("Authorization", value.as_str())));
        if self.version >= "2025-06-18" {
            headers.push(("MCP-Protocol-Version", self.version));
        }
        headers
    }

    pub(crate) async fn post(&self, body: &Value) -> Response {
        send(self.address, "POST", &self.headers(), &body.to_string()).await
    }

    /// A notification or a response.
    pub(crate) async fn say(&self, body: &Value) {
        assert_eq!(self.post(body).await.status, 202);
    }

    pub(crate) async fn request(&self, id: u64, method: &str, params: Value) -> Response {
        self.post(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await
    }

    pub(crate) async fn result(&self, id: u64, method: &str, params: Value) -> Value {
        let reply = self.request(id, method, params).await.last().await;
        reply.get("result").cloned().unwrap_or_else(|| panic!("no result: {reply}"))
    }

    pub(crate) async fn error(&self, id: u64, method: &str, params: Value) -> Value {
        let reply = self.request(id, method, params).await.last().await;
        reply.get("error").cloned().unwrap_or_else(|| panic!("no error: {reply}"))
    }

    /// The stream for what belongs to no request.
    pub(crate) async fn listen(&self) -> Response {
        let headers = [("Accept", "text/event-stream"), ("Mcp-Session-Id", self.session.as_str())];
        send(self.address, "GET", &headers, "").await
    }

    pub(crate) async fn end(&self) -> u16 {
        send(self.address, "DELETE", &[("Mcp-Session-Id", self.session.as_str())], "").await.status
    }

    /// Waits until a task has this status.
    pub(crate) async fn until(&self, task: &str, status: &str) -> Value {
        let seen = async {
            loop {
                let seen = self.result(900, "tasks/get", json!({ "taskId": task })).await;
                if seen["status"] == status {
                    return seen;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), seen).await.expect("the status in time")
    }
}
