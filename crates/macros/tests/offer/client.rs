//! A client of 2026-07-28 that speaks to a server in the same process, a line a message.

use std::sync::Arc;

use serde_json::{Value, json};
use steadfast::prelude::*;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    sync::Mutex,
};

/// What the server says, and where it listens.
type Streams = (Lines<BufReader<ReadHalf<DuplexStream>>>, WriteHalf<DuplexStream>);

pub(crate) struct Client {
    /// Who it is, for looking at its tasks.
    pub(crate) principal: Principal,
    pub(crate) server: Arc<Running>,
    lines: Mutex<Streams>,
}

impl Client {
    /// Starts a server on a store in memory.
    pub(crate) fn of(server: Server) -> Client {
        let server = server.start(Engine::builder(steadfast::memory())).expect("a fit server");
        let (server, principal) = (Arc::new(server), Principal::new("ada").expect("a name"));
        let (near, far) = tokio::io::duplex(1 << 20);
        let (input, output) = tokio::io::split(far);
        let (running, owner) = (server.clone(), principal.clone());
        tokio::spawn(async move { running.serve_io(owner, input, output).await });
        let (input, output) = tokio::io::split(near);
        let lines = Mutex::new((BufReader::new(input).lines(), output));
        Client { principal, server, lines }
    }

    /// The whole response.
    pub(crate) async fn send(&self, method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let (lines, output) = &mut *self.lines.lock().await;
        output.write_all(format!("{request}\n").as_bytes()).await.expect("a server that listens");
        loop {
            let line = lines.next_line().await.expect("a server that answers").expect("a line");
            let message: Value = serde_json::from_str(&line).expect("JSON");
            if message.get("id").is_some_and(|id| id == 1) && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// The result.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Value {
        let mut response = self.send(method, params).await;
        assert!(response.get("result").is_some(), "{response}");
        response["result"].take()
    }
}

/// The one of this name in a listing.
pub(crate) fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let all = list.as_array().expect("a list");
    all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name} in {list}"))
}
