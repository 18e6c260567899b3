//! Clients that watch a resource, and hear on their session's own stream of each change once.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{Client, board, session::Session};
use crate::{
    book::Tool,
    wire::{self, Broken},
    world::World,
};

pub(super) async fn run(client: Client, version: &'static str) {
    let board = board(client.number);
    let mut session = Session::open(client, version).await;
    session.subscribe(&board).await;
    let ear = Arc::new(Ear {
        world: session.client.world.clone(),
        session: session.id.clone(),
        version,
        heard: Mutex::default(),
    });
    let listening = tokio::spawn(ear.clone().listen());
    // What is said before it has anything to go on from is not for it.
    while ear.heard().last.is_none() {
        sleep(Duration::from_millis(20)).await;
    }
    let mut told = 0;
    while !session.client.world.is_calm() {
        let (number, tool) = session.client.begin(&[Tool::Tell], true);
        session.call(number, tool).await;
        told += 1;
        session.client.pause().await;
    }
    let (begun, patience) = (Instant::now(), session.client.world.patience() / 2);
    while ear.heard().changes.len() < told && begun.elapsed() < patience {
        sleep(Duration::from_millis(50)).await;
    }
    listening.abort();
    let heard = ear.heard().changes.len();
    if heard != told {
        let what = format!("the client of board {board} made {told} changes, and heard of {heard}");
        session.client.world.wrong(what);
    }
}

impl Session {
    /// Watches a board, as soon as the server has heard of it.
    async fn subscribe(&mut self, board: &str) {
        let params = json!({ "uri": format!("chaos://boards/{board}") });
        loop {
            let id = self.client.next_id();
            let body = json!({ "jsonrpc": "2.0", "id": id, "method": "resources/subscribe",
                               "params": params });
            if let Ok(mut response) = self.send("POST", &[], &body.to_string()).await
                && let Ok(Some(event)) = response.next().await
                && event.message.is_some_and(|message| message["result"].is_object())
            {
                return;
            }
            self.client.pause().await;
        }
    }
}

/// Who listens to the stream of a session.
struct Ear {
    world: Arc<World>,
    session: String,
    version: &'static str,
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    /// The last event.
    last: Option<String>,
    /// Those that told of a change.
    changes: BTreeSet<String>,
}

impl Ear {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the stream up whenever it breaks.
    async fn listen(self: Arc<Self>) {
        loop {
            // It broke, or is silent; that it always does is seen by what is missing.
            let _ = self.listen_once().await;
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn listen_once(&self) -> Result<(), Broken> {
        let last = self.heard().last.clone();
        let mut headers =
            vec![("Mcp-Session-Id", self.session.as_str()), ("MCP-Protocol-Version", self.version)];
        headers.extend(last.as_deref().map(|last| ("Last-Event-ID", last)));
        let mut stream = wire::send(self.world.proxy, "GET", &headers, "").await?;
        match stream.status {
            200 => {}
            503 => return Err("503".into()),
            status => self.world.wrong(format!("who listens from {last:?} gets {status}")),
        }
        while let Some(event) = stream.next().await? {
            let message = event.message.unwrap_or_default();
            let mut heard = self.heard();
            if message["method"] == "notifications/resources/updated" {
                let id = event.id.clone().unwrap_or_default();
                if !heard.changes.insert(id.clone()) {
                    self.world.wrong(format!("the event {id} of a session's stream came twice"));
                }
            }
            heard.last = event.id.or(heard.last.take());
        }
        Ok(())
    }
}
