//! `steadfast connect`: MCP over standard input and output on one side, over HTTP on the other.

mod lines;
mod request;
mod said;
mod session;
mod settings;
mod stream;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use clap::Args;
use serde_json::{Value, json};
use steadfast_client::wire::{Kind, Link, headers::Param, kind};
use tokio::sync::{mpsc, watch};

use crate::{Result, target::Access};
use lines::Out;
use request::InFlight;
use session::Session;

/// Speak MCP over standard input and output, and pass everything on to a server over HTTP.
///
/// Which revision is spoken is up to the client. When the server is killed and started again, streams
/// of sessions are taken up where they broke, and requests wait. When the client leaves, the work of
/// sessions goes on.
#[derive(Args)]
pub(crate) struct Connect {
    /// The server, such as http://127.0.0.1:8787/mcp
    url: String,

    #[command(flatten)]
    access: Access,
}

/// How long requests may take to reach the server when the client has left.
const FAREWELL: Duration = Duration::from_secs(5);

/// Between a client and its server.
struct Bridge {
    link: Link,
    patience: Duration,
    out: Out,
    session: Mutex<Session>,
    /// Held while a session is begun anew.
    renewing: tokio::sync::Mutex<()>,
    in_flight: Mutex<HashMap<String, InFlight>>,
    /// What goes out without asking, in its order.
    said: mpsc::UnboundedSender<String>,
    /// How much was taken from the client and has not reached the server.
    on_the_way: watch::Sender<usize>,
    /// Parameters of tools that go out as headers, as far as they are known.
    marked: Mutex<HashMap<String, Vec<Param>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connect {
    pub(crate) async fn run(self) -> Result<u8> {
        let mut link = Link::new(&self.url)?;
        if let Some(token) = self.access.token()? {
            link = link.bearer(&token)?;
        }
        let (said, to_say) = mpsc::unbounded_channel();
        let bridge = Arc::new(Bridge {
            link,
            patience: self.access.patience(),
            out: Out::start(),
            session: Mutex::default(),
            renewing: tokio::sync::Mutex::default(),
            in_flight: Mutex::default(),
            said,
            on_the_way: watch::Sender::new(0),
            marked: Mutex::default(),
        });
        tokio::spawn(bridge.clone().say_all(to_say));
        let mut lines = lines::read();
        while let Some(line) = lines.recv().await {
            bridge.clone().take(line).await;
        }
        // Nobody reads on, but what was asked for is to be done.
        let mut on_the_way = bridge.on_the_way.subscribe();
        let _ = tokio::time::timeout(FAREWELL, on_the_way.wait_for(|count| *count == 0)).await;
        bridge.out.close();
        Ok(0)
    }
}

impl Bridge {
    /// Takes a line from the client.
    async fn take(self: Arc<Self>, line: String) {
        let message: Value = match serde_json::from_str(&line) {
            Ok(message) => message,
            Err(error) => return self.fail(&Value::Null, -32700, &format!("not JSON: {error}")),
        };
        match (kind(&line), message["method"].as_str()) {
            // What comes next needs its session.
            (Some(Kind::Request), Some("initialize")) => {
                let way = self.on_the_way();
                self.request(line, message, way).await;
            }
            (Some(Kind::Request), _) => self.begin(line, message),
            (Some(Kind::Batch), _) => drop(tokio::spawn(self.clone().batch(line, message))),
            (Some(Kind::Notification), Some("notifications/initialized")) => {
                // Likewise.
                self.say(&line).await;
                self.open_stream();
            }
            (Some(Kind::Notification), Some("notifications/cancelled")) => {
                self.cancel(line, &message["params"]["requestId"]);
            }
            (Some(Kind::Notification | Kind::Response | Kind::Refusal), _) => self.queue(line),
            (None, _) => self.fail(&message["id"], -32600, "this is no message of JSON-RPC"),
        }
    }

    /// Answers for the server.
    fn fail(&self, id: &Value, code: i64, message: &str) {
        let error = json!({ "code": code, "message": message });
        self.out.line(&json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string());
    }

    /// Something is on its way to the server, until this is dropped.
    fn on_the_way(&self) -> Way {
        self.on_the_way.send_modify(|count| *count += 1);
        Way(self.on_the_way.clone())
    }
}

/// See [`Bridge::on_the_way`].
struct Way(watch::Sender<usize>);

impl Drop for Way {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}
