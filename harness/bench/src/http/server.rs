//! A server in a process of its own, and what is sent to it.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    Result,
    child::resident_mb,
    load::{Connection, Same, post},
};

/// A server in a process of its own.
pub(crate) struct Server {
    /// None if it is in this one.
    child: Option<Child>,
    pub(super) address: SocketAddr,
    pub(super) path: &'static str,
}

impl Server {
    /// Starts a program that prints `http://ADDRESS/...` as its first line.
    pub(crate) fn start(program: &Path, arguments: &[&str]) -> Result<Server> {
        let mut child = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let output = child.stdout.take().ok_or("no output")?;
        BufReader::new(output).read_line(&mut line)?;
        let address = line
            .trim()
            .strip_prefix("http://")
            .and_then(|rest| rest.split('/').next())
            .and_then(|address| address.parse().ok());
        let address = address.ok_or_else(|| format!("the server said {line:?}"))?;
        Ok(Server { child: Some(child), address, path: "/mcp" })
    }

    /// One that listens already, in this process.
    pub(crate) fn at(address: SocketAddr) -> Server {
        Server { child: None, address, path: "/mcp" }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.as_ref().map_or_else(std::process::id, Child::id)
    }

    pub(crate) fn ours(store: &str, count: u64) -> Result<Server> {
        let program = std::env::current_exe()?;
        let count = count.to_string();
        Server::start(&program, &["child", "http", "--store", store, "--count", &count])
    }

    /// Its resident memory.
    pub(crate) fn resident_mb(&self) -> Result<f64> {
        resident_mb(&self.id().to_string())
    }

    /// Microseconds of a processor that it has used.
    pub(super) fn cpu_us(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id()))?;
        // The second field is a name in brackets that may have blanks in it.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: f64 =
            fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
        // A tick is 10 ms on every Linux.
        Ok(ticks * 10_000.0)
    }

    pub(crate) async fn connect(&self) -> Result<Connection> {
        Connection::open(self.address).await
    }

    /// A request of 2026-07-28.
    pub(crate) fn modern(
        &self,
        method: &str,
        name: &str,
        mut params: Value,
        tasks: bool,
    ) -> Vec<u8> {
        let extensions = match tasks {
            true => json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }),
            false => json!({}),
        };
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": extensions,
        });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let headers =
            [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method), ("Mcp-Name", name)];
        post(self.address, self.path, &headers, &body.to_string())
    }

    pub(super) fn plain(&self) -> Vec<u8> {
        self.modern("tools/call", "add", call("add", json!({ "a": 1, "b": 2 })), false)
    }

    pub(super) fn three(&self) -> Vec<u8> {
        self.modern("tools/call", "three", call("three", json!({ "n": 1 })), true)
    }

    /// Connections that call the trivial tool as clients of 2026-07-28.
    pub(super) async fn modern_workers(&self, count: usize) -> Result<Vec<Same>> {
        let mut workers = Vec::new();
        for _ in 0..count {
            workers.push(Same { connection: self.connect().await?, request: self.plain() });
        }
        Ok(workers)
    }

    /// The same as clients of 2025-11-25, each with a session.
    pub(super) async fn legacy_workers(&self, count: usize) -> Result<Vec<Same>> {
        let mut workers = Vec::new();
        for _ in 0..count {
            let mut connection = self.connect().await?;
            let session = self.session(&mut connection).await?;
            let request = session.call(1, "add", json!({ "a": 1, "b": 2 }));
            workers.push(Same { connection, request });
        }
        Ok(workers)
    }

    /// Begins a session of 2025-11-25.
    pub(crate) async fn session(&self, connection: &mut Connection) -> Result<Session> {
        let info = json!({ "name": "bench", "version": "1" });
        let params =
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        let opening =
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let opened =
            connection.ask(&post(self.address, self.path, &[], &opening.to_string())).await?;
        let id = opened.header("mcp-session-id").ok_or("no session")?.to_owned();
        let session = Session { id, address: self.address, path: self.path };
        let begun = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        connection.ask(&session.post(&begun)).await?;
        Ok(session)
    }

    /// Checks once that the tool does what it should.
    pub(super) async fn check(&self, workers: &mut [Same]) -> Result<()> {
        let worker = workers.first_mut().ok_or("no worker")?;
        let reply = worker.connection.ask(&worker.request).await?.json()?;
        let text = reply["result"]["content"][0]["text"].as_str();
        match text.is_some_and(|text| text.contains('3')) {
            true => Ok(()),
            false => Err(format!("the tool answered {reply}").into()),
        }
    }
}

/// A session of 2025-11-25.
pub(crate) struct Session {
    id: String,
    address: SocketAddr,
    path: &'static str,
}

impl Session {
    fn headers(&self) -> [(&str, &str); 2] {
        [("Mcp-Session-Id", &self.id), ("MCP-Protocol-Version", "2025-11-25")]
    }

    fn post(&self, body: &Value) -> Vec<u8> {
        post(self.address, self.path, &self.headers(), &body.to_string())
    }

    /// A request of any method.
    pub(crate) fn request(&self, id: u64, method: &str, params: Value) -> Vec<u8> {
        self.post(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
    }

    pub(crate) fn call(&self, id: u64, tool: &str, arguments: Value) -> Vec<u8> {
        self.request(id, "tools/call", call(tool, arguments))
    }

    /// A call whose progress is reported.
    pub(crate) fn watched_call(&self, id: u64, tool: &str, arguments: Value) -> Vec<u8> {
        let mut params = call(tool, arguments);
        params["_meta"] = json!({ "progressToken": id });
        self.request(id, "tools/call", params)
    }

    /// The session's own stream.
    pub(crate) fn stream(&self) -> Vec<u8> {
        let [(session, id), (version, date)] = self.headers();
        format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\n{session}: {id}\r\n\
             {version}: {date}\r\n\r\n",
            self.path, self.address
        )
        .into_bytes()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be dead already.
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn call(tool: &str, arguments: Value) -> Value {
    json!({ "name": tool, "arguments": arguments })
}
