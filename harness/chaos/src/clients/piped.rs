//! Clients that start a server of their own on the same store, and whose calls end with it.

use std::{process::Stdio, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
    time::{Instant, timeout_at},
};

use super::Client;
use crate::book::Tool;

struct Piped {
    child: Child,
    to: Option<ChildStdin>,
    from: Lines<BufReader<ChildStdout>>,
    life: u32,
}

pub(super) async fn run(mut client: Client, version: &'static str) {
    while !client.world.is_calm() {
        let Some(mut server) = Piped::start(&client, version).await else {
            client.world.wrong("a server over standard streams did not start".into());
            return;
        };
        // How long it lives from now on, and how it ends.
        let end = Instant::now() + Duration::from_millis(500 + client.dice.below(3_500));
        let killed = client.dice.chance(60);
        loop {
            let (number, tool) = client.begin(&[Tool::Book, Tool::Once], false);
            client.note(number, format!("calls life {}", server.life));
            match timeout_at(end, server.call(&mut client, version, number, tool)).await {
                Ok(Some(answer)) => client.take(number, &answer),
                Ok(None) => {
                    client.wrong(number, "its server has gone by itself");
                    break;
                }
                Err(_) => {
                    let how = if killed { "its server is killed" } else { "hangs up" };
                    client.note(number, how);
                    break;
                }
            }
            if client.world.is_calm() {
                break;
            }
            client.pause().await;
        }
        client.world.lives_of.end(server.life);
        if killed {
            let _ = server.child.kill().await;
        } else {
            drop(server.to.take());
            let gone = tokio::time::timeout(Duration::from_secs(15), server.child.wait()).await;
            if gone.is_err() {
                let what = format!("life {} stays though its client has hung up", server.life);
                client.world.wrong(what);
            }
        }
    }
}

impl Piped {
    async fn start(client: &Client, version: &str) -> Option<Piped> {
        let (life, mut command) = client.world.command(None);
        let log = client.world.log(life);
        let mut child = command
            .arg("--stdio")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(log).ok()?)
            .spawn()
            .ok()?;
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take()?).lines();
        let mut server = Piped { child, to, from, life };
        if version != "2026-07-28" {
            let info = json!({ "name": "chaos", "version": "1" });
            let params =
                json!({ "protocolVersion": version, "clientInfo": info, "capabilities": {} });
            let open =
                json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
            server.say(&open).await?;
            server.from.next_line().await.ok()??;
        }
        Some(server)
    }

    async fn say(&mut self, message: &Value) -> Option<()> {
        self.to.as_mut()?.write_all(format!("{message}\n").as_bytes()).await.ok()
    }

    /// The answer, unless the server is gone.
    async fn call(
        &mut self,
        client: &mut Client,
        version: &str,
        number: u64,
        tool: Tool,
    ) -> Option<Value> {
        let id = client.next_id();
        let mut meta = json!({ "progressToken": id });
        if version == "2026-07-28" {
            meta["io.modelcontextprotocol/protocolVersion"] = json!(version);
            meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        let params = json!({ "name": tool.name(), "arguments": { "number": number },
                             "_meta": meta });
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        self.say(&call).await?;
        loop {
            let line = self.from.next_line().await.ok()??;
            let message: Value = serde_json::from_str(&line).ok()?;
            if message["id"] == id {
                return Some(message);
            }
            client.hear_progress(number, &message);
        }
    }
}
