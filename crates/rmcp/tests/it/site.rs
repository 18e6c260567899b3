//! A server on a free port, and requests of both generations.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use serde_json::{Value, json};
use steadfast_engine::Engine;
use steadfast_mcp::{Running, Server};
use steadfast_store::{Disk, Memory};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    net::TcpStream,
};

pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) running: Running,
    store: Arc<Memory>,
}

const META: &str = "io.modelcontextprotocol/";

impl Site {
    pub(crate) async fn start(server: Server) -> Site {
        Site::on(server, &Disk::new()).await
    }

    /// On a store that may have tasks from before.
    pub(crate) async fn on(server: Server, disk: &Disk) -> Site {
        let store = Arc::new(disk.open());
        let running = server.start(Engine::builder(store.clone())).unwrap();
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = running.clone();
        tokio::spawn(async move { serving.serve(listener, std::future::pending()).await });
        Site { address, running, store }
    }

    /// Dies: nothing it still does reaches the disk.
    pub(crate) fn kill(self) {
        self.store.kill();
    }

    /// Sends a request of 2026-07-28 of a client that knows tasks, or does not.
    pub(crate) async fn send(&self, tasks: bool, method: &str, mut params: Value) -> Answer {
        let extensions = match tasks {
            true => json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }),
            false => json!({}),
        };
        params["_meta"][format!("{META}protocolVersion")] = json!("2026-07-28");
        params["_meta"][format!("{META}clientCapabilities")] = extensions;
        params["_meta"][format!("{META}clientInfo")] = json!({ "name": "test", "version": "1" });
        let mut headers = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n");
        if let Some(name) = params.get("name").or_else(|| params.get("uri")).and_then(Value::as_str)
        {
            headers += &format!("Mcp-Name: {name}\r\n");
        }
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        send(self.address, "POST", &headers, &body.to_string()).await
    }

    /// The response to a request of 2026-07-28, by a client that knows no tasks.
    pub(crate) async fn modern(&self, method: &str, params: Value) -> Value {
        self.send(false, method, params).await.response().await
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.modern("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// Calls a tool as a client with tasks, and gives its task.
    pub(crate) async fn task(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let reply = self.send(true, "tools/call", params).await.response().await;
        assert_eq!(reply["result"]["resultType"], "task", "{reply}");
        reply["result"].clone()
    }

    /// Waits until a task has ended.
    pub(crate) async fn end(&self, task: &Value) -> Value {
        let ended = async {
            loop {
                let params = json!({ "taskId": task["taskId"] });
                let seen = self.send(true, "tasks/get", params).await.response().await;
                if seen["result"]["status"] != "working" {
                    return seen["result"].clone();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), ended).await.expect("an end in time")
    }

    /// What is listed, by name or URI.
    pub(crate) async fn listed(&self, method: &str, field: &str) -> Vec<Value> {
        let reply = self.modern(method, json!({})).await;
        reply["result"][field].as_array().unwrap_or_else(|| panic!("{reply}")).clone()
    }

    pub(crate) async fn legacy(&self) -> Legacy {
        let client = json!({ "name": "test", "version": "1" });
        let params =
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let answer = send(self.address, "POST", "", &body.to_string()).await;
        let legacy = Legacy { address: self.address, session: answer.session.clone().unwrap() };
        legacy.say("notifications/initialized", json!({})).await;
        legacy
    }
}

/// A client of 2025-11-25.
pub(crate) struct Legacy {
    address: SocketAddr,
    session: String,
}

impl Legacy {
    fn headers(&self) -> String {
        format!("MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {}\r\n", self.session)
    }

    pub(crate) async fn request(&self, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        send(self.address, "POST", &self.headers(), &body.to_string()).await.response().await
    }

    pub(crate) async fn say(&self, method: &str, params: Value) {
        let body = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        send(self.address, "POST", &self.headers(), &body.to_string()).await;
    }

    /// The stream for what belongs to no request.
    pub(crate) async fn listen(&self) -> Answer {
        send(self.address, "GET", &self.headers(), "").await
    }
}

/// The body of a response, as it comes. In HTTP/1.0 it ends with the connection.
pub(crate) struct Answer {
    session: Option<String>,
    lines: Lines<BufReader<TcpStream>>,
}

impl Answer {
    /// The next message, whether the body is one or a stream of events.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        while let Some(line) = self.lines.next_line().await.unwrap() {
            let text = line.strip_prefix("data: ").unwrap_or(&line);
            if text.starts_with('{') {
                return Some(serde_json::from_str(text).unwrap());
            }
        }
        None
    }

    pub(crate) async fn response(mut self) -> Value {
        let mut last = Value::Null;
        while let Some(message) = self.next().await {
            last = message;
        }
        last
    }
}

async fn send(to: SocketAddr, method: &str, headers: &str, body: &str) -> Answer {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let head = format!(
        "{method} /mcp HTTP/1.0\r\nHost: {to}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut session = None;
    while let Some(line) = lines.next_line().await.unwrap().filter(|line| !line.is_empty()) {
        if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case("mcp-session-id")
        {
            session = Some(value.to_owned());
        }
    }
    Answer { session, lines }
}
