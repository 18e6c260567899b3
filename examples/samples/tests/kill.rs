//! The samples as a user tries them: the server is killed while it waits for approval, started again,
//! and gets its answer. What was done before the question is not done again.

#![allow(clippy::unwrap_used)]

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// A server process, and what it has said.
struct Server {
    child: Child,
    url: String,
    said: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(store: &Path) -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_samples"))
            .args(["--listen", "127.0.0.1:0", "--store"])
            .arg(store)
            .env("SAMPLES_PACE_MS", "20")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let url =
            lines.find_map(|line| Some(line.split_once(" listens on ")?.1.to_owned())).unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let keep = said.clone();
        std::thread::spawn(move || lines.for_each(|line| keep.lock().unwrap().push(line)));
        Server { child, url, said }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn count(&self, what: &str) -> usize {
        self.said.lock().unwrap().iter().filter(|line| line.contains(what)).count()
    }

    fn request(&self, method: &str, name: &str, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {
                "elicitation": { "form": {} },
                "extensions": { "io.modelcontextprotocol/tasks": {} },
            },
        });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut response = ureq::post(&self.url)
            .header("Accept", "application/json, text/event-stream")
            .header("MCP-Protocol-Version", "2026-07-28")
            .header("Mcp-Method", method)
            .header("Mcp-Name", name)
            .send_json(&body)
            .unwrap();
        let reply: Value = response.body_mut().read_json().unwrap();
        reply.get("result").cloned().unwrap_or_else(|| panic!("no result: {reply}"))
    }

    fn until(&self, task: &str, status: &str) -> Value {
        let begun = Instant::now();
        loop {
            let seen = self.request("tasks/get", task, json!({ "taskId": task }));
            if seen["status"] == status {
                return seen;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "not {status}: {seen}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls a tool, kills the server when it asks, starts it again and answers.
fn through_a_kill(
    tool: &str,
    arguments: Value,
    key: &str,
    answer: Value,
) -> (Value, Server, Server) {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("tasks.db");
    let mut before = Server::start(&store);
    let params = json!({ "name": tool, "arguments": arguments });
    let created = before.request("tools/call", tool, params);
    let task = created["taskId"].as_str().unwrap().to_owned();
    before.until(&task, "input_required");
    before.kill();
    let after = Server::start(&store);
    let asks = after.until(&task, "input_required");
    assert!(asks["inputRequests"].get(key).is_some(), "{asks}");
    let params = json!({ "taskId": task, "inputResponses": { key: { "action": "accept", "content": answer } } });
    after.request("tasks/update", &task, params);
    let done = after.until(&task, "completed");
    (done["result"].clone(), before, after)
}

#[test]
fn a_purchase_order_is_approved_after_the_server_was_killed() {
    let order = json!({ "item": "desk lamp", "amount": 1200, "count": 2 });
    let (result, before, after) =
        through_a_kill("purchase_order", order, "approval", json!({ "approved": true }));
    assert_eq!(result["content"][0]["text"], "2 x desk lamp on their way.");
    for step in ["validating", "reserving"] {
        assert_eq!((before.count(step), after.count(step)), (1, 0), "{step}");
    }
    for (step, times) in [("charging", 1), ("packing", 2)] {
        assert_eq!((before.count(step), after.count(step)), (0, times), "{step}");
    }
}

#[test]
fn a_rejected_order_gives_back_what_it_had_reserved() {
    let order = json!({ "item": "desk lamp", "amount": 1200 });
    let answer = json!({ "approved": false, "comment": "Too bright." });
    let (result, _, after) = through_a_kill("purchase_order", order, "approval", answer);
    assert_eq!(result["isError"], true);
    assert_eq!(result["content"][0]["text"], "The order was rejected. Too bright.");
    let begun = Instant::now();
    while after.count("releasing desk lamp") == 0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "not released");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(after.count("charging"), 0);
}

#[test]
fn an_analysis_goes_on_after_the_server_was_killed_or_stops_if_it_is_told_to() {
    let about = json!({ "subject": "rust" });
    let go = json!({ "proceed": true, "depth": "quick" });
    let (result, before, after) =
        through_a_kill("analysis_with_approval", about.clone(), "decision", go);
    assert_eq!(result["structuredContent"]["complete"], true);
    assert_eq!(result["structuredContent"]["findings"].as_array().unwrap().len(), 3);
    assert_eq!((before.count("collecting"), after.count("collecting")), (1, 0));
    assert_eq!(after.count("analysing"), 2);
    let stop = json!({ "proceed": false });
    let (result, _, after) = through_a_kill("analysis_with_approval", about, "decision", stop);
    assert_eq!(result["structuredContent"]["complete"], false);
    assert_eq!(after.count("analysing"), 0);
}
