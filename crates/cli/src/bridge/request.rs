//! A request of the client: sent, followed over breaks, answered.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde_json::{Value, json};
use steadfast_client::{
    Error, IDEMPOTENCY_KEY, is_repeatable,
    wire::{
        Exchange, Kind, Message, Outgoing,
        headers::{self, Param},
        kind,
    },
};
use tokio::task::AbortHandle;

use super::{Bridge, Way, lock};

/// The code of our own errors: the protocol leaves it to us.
const UNREACHABLE: i64 = -32000;

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// A request that is at work.
pub(super) struct InFlight {
    work: AbortHandle,
    /// The client has taken it back: nothing more is written for it.
    cancelled: Arc<AtomicBool>,
    stateless: bool,
    /// It has an idempotency key.
    keyed: bool,
}

/// The version that a request of 2026-07-28 or later names.
fn version(message: &Value) -> Option<&str> {
    message["params"]["_meta"][VERSION].as_str()
}

impl Bridge {
    /// Begins a request, beside those that are at work.
    pub(super) fn begin(self: Arc<Self>, line: String, message: Value) {
        let (key, stateless) = (message["id"].to_string(), version(&message).is_some());
        let keyed = !message["params"]["_meta"][IDEMPOTENCY_KEY].is_null();
        let way = self.on_the_way();
        // It is entered before it can be over.
        let mut in_flight = lock(&self.in_flight);
        let work = tokio::spawn(self.clone().request(line, message, way));
        let work = work.abort_handle();
        let cancelled = Arc::default();
        in_flight.insert(key, InFlight { work, cancelled, stateless, keyed });
    }

    /// Takes a request back. Where there are no sessions, to close its stream is to say so; work that has
    /// an idempotency key goes on then, since only the request is cancelled by that.
    pub(super) fn cancel(&self, line: String, id: &Value) {
        let key = id.to_string();
        let mut in_flight = lock(&self.in_flight);
        match in_flight.get(&key) {
            Some(one) if one.stateless => {
                if one.keyed {
                    eprintln!(
                        "steadfast: request {key} is taken back; its work goes on under its key"
                    );
                }
                one.work.abort();
                in_flight.remove(&key);
            }
            Some(one) => {
                one.cancelled.store(true, Ordering::SeqCst);
                drop(in_flight);
                self.queue(line);
            }
            None => {
                drop(in_flight);
                self.queue(line);
            }
        }
    }

    /// The server has been told: nothing is waited for.
    pub(super) fn has_cancelled(&self, line: &str) {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        if message["method"] == "notifications/cancelled" {
            let key = message["params"]["requestId"].to_string();
            if let Some(one) = lock(&self.in_flight).remove(&key) {
                one.work.abort();
            }
        }
    }

    /// Sees a request through.
    pub(super) async fn request(self: Arc<Self>, line: String, message: Value, way: Way) {
        let id = &message["id"];
        let ended = self.see_through(&line, &message, way).await;
        let is_cancelled = self.is_cancelled(id);
        lock(&self.in_flight).remove(&id.to_string());
        if let (Err(error), false) = (ended, is_cancelled) {
            self.fail(id, UNREACHABLE, &error.to_string());
        }
    }

    fn is_cancelled(&self, id: &Value) -> bool {
        let in_flight = lock(&self.in_flight);
        in_flight.get(&id.to_string()).is_some_and(|one| one.cancelled.load(Ordering::SeqCst))
    }

    /// Several requests at once, as only 2025-03-26 has it.
    pub(super) async fn batch(self: Arc<Self>, line: String, messages: Value) {
        let way = self.on_the_way();
        if let Err(error) = self.see_through(&line, &Value::Null, way).await {
            let of_requests = |one: &&Value| !one["id"].is_null() && one["method"].is_string();
            for message in messages.as_array().into_iter().flatten().filter(of_requests) {
                self.fail(&message["id"], UNREACHABLE, &error.to_string());
            }
        }
    }

    async fn see_through(
        self: &Arc<Self>,
        line: &str,
        message: &Value,
        way: Way,
    ) -> Result<(), Error> {
        let mut way = Some(way);
        let (mut renewed, mut looked) = (false, false);
        loop {
            let generation = self.generation();
            let outgoing = self.outgoing(line, message);
            let in_session = outgoing.in_session;
            let mut exchange = Exchange::new(self.link.clone(), outgoing, self.patience);
            match exchange.opened().await {
                Err(Error::Status { status: 404, .. }) if in_session && !renewed => {
                    renewed = true;
                    self.renew(generation).await?;
                    continue;
                }
                opened => opened?,
            }
            if let Some(text) = exchange.at_once()
                && wants_headers(text)
                && message["method"] == "tools/call"
                && !looked
            {
                looked = true;
                self.look_for_headers(message).await?;
                continue;
            }
            let answered_at_once = exchange.at_once().is_some();
            if !answered_at_once {
                way = None;
            }
            while let Some(text) = exchange.next().await? {
                if kind(&text) == Some(Kind::Response) && version(message).is_none() {
                    self.granted(message);
                }
                if message["method"] == "initialize" {
                    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
                    self.opened(line, exchange.session(), &answer);
                }
                // That a subscription was begun anew is none of the client's business.
                let again = exchange.connections() > 1
                    && message["method"] == "subscriptions/listen"
                    && text.contains("\"notifications/subscriptions/acknowledged\"");
                let taken_back =
                    kind(&text) == Some(Kind::Response) && self.is_cancelled(&message["id"]);
                if !again && !taken_back {
                    self.out.line(&text);
                }
            }
            drop(way);
            return Ok(());
        }
    }

    fn outgoing(&self, line: &str, message: &Value) -> Outgoing {
        let method = message["method"].as_str().unwrap_or_default();
        let params = &message["params"];
        let headers = match version(message) {
            Some(version) => {
                let marked = lock(&self.marked);
                let tool = params["name"].as_str().filter(|_| method == "tools/call");
                let marked = tool.and_then(|tool| marked.get(tool)).map_or(&[][..], |all| all);
                headers::stateless(version, method, params, marked)
            }
            None if method == "initialize" => Vec::new(),
            None => self.session_headers(),
        };
        Outgoing {
            headers,
            message: Message::fixed(line.to_owned()),
            in_session: version(message).is_none() && method != "initialize",
            repeatable: is_repeatable(method) || !params["_meta"][IDEMPOTENCY_KEY].is_null(),
        }
    }

    /// Asks which parameters of tools go out as headers as well, in the name of this request.
    async fn look_for_headers(self: &Arc<Self>, message: &Value) -> Result<(), Error> {
        let mut cursor = Value::Null;
        loop {
            let mut params = json!({ "_meta": message["params"]["_meta"] });
            if !cursor.is_null() {
                params["cursor"] = cursor;
            }
            let ask = json!({ "jsonrpc": "2.0", "id": "headers", "method": "tools/list",
                              "params": params });
            let outgoing = self.outgoing(&ask.to_string(), &ask);
            let mut exchange = Exchange::new(self.link.clone(), outgoing, self.patience);
            let mut page = Value::Null;
            while let Some(text) = exchange.next().await? {
                page = serde_json::from_str(&text).unwrap_or_default();
            }
            let mut marked = lock(&self.marked);
            for tool in page["result"]["tools"].as_array().into_iter().flatten() {
                if let Some(name) = tool["name"].as_str() {
                    marked.insert(name.to_owned(), Param::find(&tool["inputSchema"]));
                }
            }
            drop(marked);
            cursor = page["result"]["nextCursor"].take();
            if cursor.is_null() {
                return Ok(());
            }
        }
    }
}

fn wants_headers(text: &str) -> bool {
    let answer: Value = serde_json::from_str(text).unwrap_or_default();
    answer["error"]["code"] == headers::MISMATCH
}
