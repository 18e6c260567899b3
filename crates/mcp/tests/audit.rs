//! What the log says of who did what to which task. A log is of a whole process, so this test has one of
//! its own.
#![allow(clippy::unwrap_used)] // In a test a panic is the report.

use std::{
    fmt::Write,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use steadfast_engine::{Engine, Principal};
use steadfast_mcp::{Context, NoInput, Server, Tool};
use steadfast_store::Disk;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// Keeps what is said for the audit.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "steadfast::audit"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(format!("{} ", event.metadata().level()));
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// A request of 2026-07-28, and what comes back.
async fn ask(peer: &mut BufReader<DuplexStream>, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":
            { "extensions": { "io.modelcontextprotocol/tasks": {} } },
    });
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    peer.write_all(format!("{request}\n").as_bytes()).await.unwrap();
    let mut line = String::new();
    peer.read_line(&mut line).await.unwrap();
    serde_json::from_str(&line).unwrap()
}

#[tokio::test]
async fn creation_completion_and_retrieval_should_be_logged_with_who_it_was() {
    let log = Log::default();
    tracing::subscriber::set_global_default(log.clone()).unwrap();
    let running = Server::new("test")
        .tool(Tool::new("quick", |_: Context, _: NoInput| async { Ok("done") }))
        .tool(Tool::new("hang", |ctx: Context, _: NoInput| async move {
            ctx.event::<String>("never").await
        }))
        .start(Engine::builder(Arc::new(Disk::new().open())))
        .unwrap();
    let (near, far) = tokio::io::duplex(1 << 16);
    let (input, output) = tokio::io::split(far);
    let server = running.clone();
    let ada = Principal::new("ada").unwrap();
    tokio::spawn(async move { server.serve_io(ada, input, output).await });
    let mut peer = BufReader::new(near);

    let quick = ask(&mut peer, "tools/call", json!({ "name": "quick" })).await;
    let quick = quick["result"]["taskId"].as_str().unwrap().to_owned();
    while ask(&mut peer, "tasks/get", json!({ "taskId": quick })).await["result"]["status"]
        != "completed"
    {}
    let hang = ask(&mut peer, "tools/call", json!({ "name": "hang" })).await;
    let hang = hang["result"]["taskId"].as_str().unwrap().to_owned();
    ask(&mut peer, "tasks/cancel", json!({ "taskId": hang })).await;
    ask(&mut peer, "tasks/get", json!({ "taskId": "guess" })).await;

    let lines = log.0.lock().unwrap();
    for (level, what, task) in [
        ("INFO", "task created", quick.as_str()),
        ("INFO", "task ended", quick.as_str()),
        ("DEBUG", "task retrieved", quick.as_str()),
        ("INFO", "task steered", hang.as_str()),
        ("INFO", "no such task", "guess"),
    ] {
        let parts = [what, task, "principal=ada"];
        let found = lines.iter().find(|line| parts.iter().all(|part| line.contains(part)));
        assert!(found.is_some_and(|line| line.starts_with(level)), "{what} {task}: {lines:#?}");
    }
}
