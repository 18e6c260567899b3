//! The example as a user tries it: the server is killed while it waits for a confirmation. What the call was
//! authenticated with is there afterwards, and no secret was ever written where it could be read.

#![allow(clippy::unwrap_used)]

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};
use serde_json::{Value, json};

const ADA: &str = "token-of-ada-7d1c5a90";
const BOB: &str = "token-of-bob-2f8e4b61";
const EVE: &str = "token-of-eve-9a3b0c77";
const BANK: [&str; 3] =
    ["bank-key-e1a7f0d2c4-of-ada", "bank-key-58b3c6d9e0-of-bob", "bank-key-0f9e8d7c6b-of-eve"];

/// What is left over of the servers that were killed.
struct Site {
    dir: tempfile::TempDir,
    /// What they wrote to their logs, and what clients heard.
    said: Arc<Mutex<String>>,
    running: Option<Running>,
}

struct Running {
    child: Child,
    url: String,
    /// Reads its log.
    reader: std::thread::JoinHandle<()>,
}

impl Site {
    fn new() -> Site {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("store")).unwrap();
        Site { dir, said: Arc::default(), running: None }
    }

    /// The file is for its owner only, or it would be refused.
    fn keys(&self, keys: &[&str]) {
        let file = self.dir.path().join("keys");
        fs::write(&file, keys.join("\n")).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        }
    }

    fn start(&mut self) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_authenticated"))
            .args(["--listen", "127.0.0.1:0", "--log", "trace", "--store"])
            .arg(self.dir.path().join("store/tasks.db"))
            .arg("--credential-key-file")
            .arg(self.dir.path().join("keys"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        // Before that it says how to try it, tokens included.
        let url = lines.find_map(|line| Some(line.split_once(" listens on ")?.1.to_owned()));
        let said = self.said.clone();
        let read = move || lines.for_each(|line| *said.lock().unwrap() += &line);
        let reader = std::thread::spawn(read);
        self.running = Some(Running { child, url: url.unwrap(), reader });
    }

    fn kill(&mut self) {
        let Running { mut child, reader, .. } = self.running.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        reader.join().unwrap();
    }

    /// A response, whatever its status.
    fn post(&self, token: &str, headers: &[(&str, &str)], body: &Value) -> (u16, Value) {
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let mut request = agent
            .post(&self.running.as_ref().unwrap().url)
            .header("Accept", "application/json, text/event-stream")
            .header("Authorization", format!("Bearer {token}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut response = request.send_json(body).unwrap();
        let text = response.body_mut().read_to_string().unwrap();
        *self.said.lock().unwrap() += &text;
        (response.status().as_u16(), serde_json::from_str(&text).unwrap())
    }

    fn request(&self, token: &str, method: &str, name: &str, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {
                "elicitation": { "form": {} },
                "extensions": { "io.modelcontextprotocol/tasks": {} },
            },
        });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let headers =
            [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method), ("Mcp-Name", name)];
        self.post(token, &headers, &body).1
    }

    /// Calls the tool, and gives the task.
    fn pay(&self, token: &str, invoice: &str) -> String {
        let arguments = json!({ "invoice": invoice, "amount": 40 });
        let params = json!({ "name": "pay_invoice", "arguments": arguments });
        let reply = self.request(token, "tools/call", "pay_invoice", params);
        reply["result"]["taskId"].as_str().unwrap_or_else(|| panic!("no task: {reply}")).to_owned()
    }

    fn until(&self, token: &str, task: &str, status: &str) -> Value {
        let begun = Instant::now();
        loop {
            let reply = self.request(token, "tasks/get", task, json!({ "taskId": task }));
            if reply["result"]["status"] == status {
                return reply["result"].clone();
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "not {status}: {reply}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn confirm(&self, token: &str, task: &str) -> Value {
        let answer = json!({ "action": "accept", "content": { "confirmed": true } });
        let params = json!({ "taskId": task, "inputResponses": { "confirmation": answer } });
        self.request(token, "tasks/update", task, params)
    }

    /// All bytes of the store, whatever files it has.
    fn stored(&self) -> Vec<u8> {
        fn files(dir: &Path) -> Vec<PathBuf> {
            let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
            entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
        }
        let found = files(&self.dir.path().join("store"));
        assert!(found.iter().any(|file| file.ends_with("tasks.db-wal")), "{found:?}");
        // Sockets can't be read.
        found.iter().filter_map(|file| fs::read(file).ok()).flatten().collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if self.running.is_some() {
            self.kill();
        }
    }
}

fn text(task: &Value) -> &str {
    task["result"]["content"][0]["text"].as_str().unwrap()
}

/// Whether it is there as it is, or in one of the usual codes.
fn holds(bytes: &[u8], secret: &str) -> bool {
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    // What stands before it shifts base64; what is at the ends depends on what is beside it.
    let coded = (0..3).map(|shift| {
        let coded = BASE64_STANDARD_NO_PAD.encode(format!("{}{secret}", "x".repeat(shift)));
        coded[4..coded.len() - 4].to_owned()
    });
    let finds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    finds(secret) || finds(&hex) || coded.collect::<Vec<_>>().iter().any(|text| finds(text))
}

#[test]
fn claims_and_credential_outlive_a_kill_and_no_secret_is_left_anywhere() {
    let (old, new) = ("07".repeat(32), "08".repeat(32));
    let mut site = Site::new();
    site.keys(&[&old]);
    site.start();
    let info = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
    let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    assert_eq!(site.post(ADA, &[], &initialize).0, 200);
    let (status, _) = site.post("token-of-nobody-00000000", &[], &initialize);
    assert_eq!(status, 401);

    let (ada, bob, eve) = (site.pay(ADA, "R-17"), site.pay(BOB, "R-18"), site.pay(EVE, "R-19"));
    let refused = site.until(EVE, &eve, "completed");
    assert_eq!(
        (&refused["result"]["isError"], text(&refused)),
        (&json!(true), "Only payers may pay invoices.")
    );
    site.until(ADA, &ada, "input_required");
    site.until(BOB, &bob, "input_required");
    site.kill();
    // While it is away its key is changed: the new one first, the old one for what is under way.
    site.keys(&[&new, &old]);
    site.start();

    let named = json!({ "taskId": ada });
    for method in ["tasks/get", "tasks/cancel"] {
        let reply = site.request(BOB, method, &ada, named.clone());
        assert_eq!(reply["error"]["message"], "task not found", "{method}");
    }
    assert_eq!(site.confirm(BOB, &ada)["error"]["message"], "task not found");
    site.until(ADA, &ada, "input_required");
    for (token, task, says) in [
        (ADA, &ada, "Paid invoice R-17 over $40 from Ada's account."),
        (BOB, &bob, "Paid invoice R-18 over $40 from Bob's account."),
    ] {
        site.confirm(token, task);
        assert_eq!(text(&site.until(token, task, "completed")), says);
    }
    // Killed again, so that the log of the database is as it was.
    site.kill();

    let (stored, said) = (site.stored(), site.said.lock().unwrap().clone());
    for clear in ["\"roles\":[\"payer\",\"reader\"]", "Pay invoice R-17", "2025-11-25"] {
        assert!(holds(&stored, clear), "it would be seen: {clear}");
    }
    for clear in ["task created", "task retrieved", "Only payers"] {
        assert!(holds(said.as_bytes(), clear), "it would be seen: {clear}");
    }
    for secret in [ADA, BOB, EVE].into_iter().chain(BANK).chain([&*old, &*new]) {
        assert!(!holds(&stored, secret), "in the store: {secret}");
        assert!(!holds(said.as_bytes(), secret), "in the log or in a reply: {secret}");
    }
}

/// A step that needs it fails with what the operator has to do, and with nothing else.
#[test]
fn without_its_key_a_payment_fails_and_says_why() {
    let mut site = Site::new();
    site.keys(&[&"07".repeat(32)]);
    site.start();
    let task = site.pay(ADA, "R-17");
    site.until(ADA, &task, "input_required");
    site.kill();
    site.keys(&[&"08".repeat(32)]);
    site.start();
    site.confirm(ADA, &task);
    let failed = site.until(ADA, &task, "completed");
    assert_eq!(failed["result"]["isError"], true);
    assert!(text(&failed).contains("--credential-key-file"), "{failed}");
}
