//! A client in memory, for virtual time.

use std::fmt;

use serde_json::{Value, json};
use steadfast_client::{Answer, Revision};
use steadfast_engine::Principal;
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

use crate::{TestServer, cut::Cut, drive::ANONYMOUS, wait::soon};

/// A client of a [`TestServer`] over a pipe in memory, as over standard streams. It has no clock, so it is
/// at home in virtual time.
///
/// As with standard streams there is no way back: when the server is killed the pipe breaks, and what was
/// called over it and not handed out as a task is cancelled when the server is up again.
///
/// ```
/// use std::time::Duration;
/// use serde_json::json;
/// use steadfast::{prelude::*, testing::{TestServer, client::Revision}};
///
/// /// Waits for a week.
/// #[tool]
/// async fn patience(ctx: Context) -> Result<String> {
///     ctx.sleep(Duration::from_secs(7 * 24 * 3600)).await;
///     Ok("a week later".into())
/// }
///
/// # fn main() {
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
/// # runtime.unwrap().block_on(async {
/// let mut server = TestServer::in_virtual_time(|| Server::new("slow").tool(patience));
/// server.up().await;
/// let mut pipe = server.pipe(Revision::V2025_11_25).await;
/// let result = pipe.call("patience", json!({})).await;
/// assert_eq!(result["content"][0]["text"], "a week later");
/// # }) }
/// ```
pub struct Pipe {
    revision: Revision,
    from: Lines<BufReader<Cut<ReadHalf<DuplexStream>>>>,
    to: Cut<WriteHalf<DuplexStream>>,
    ids: u64,
    heard: Vec<Value>,
    answer: Box<dyn FnMut(&Value) -> Answer + Send>,
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipe").field("revision", &self.revision).finish_non_exhaustive()
    }
}

impl TestServer {
    /// Connects a client over a pipe in memory. It is the same principal as clients without a token.
    ///
    /// # Panics
    /// If it can't.
    pub async fn pipe(&self, revision: Revision) -> Pipe {
        let life = self.life();
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (from, to) = tokio::io::split(theirs);
        let (from, to) = (life.line.served(from), life.line.served(to));
        let running = life.running.clone();
        let caller = Principal::new(ANONYMOUS);
        let caller = caller.unwrap_or_else(|error| panic!("no principal: {error}"));
        life.spawn(async move { drop(running.serve_io(caller, from, to).await) });
        let (from, to) = tokio::io::split(ours);
        let mut pipe = Pipe {
            revision,
            from: BufReader::new(life.line.client(from)).lines(),
            to: life.line.client(to),
            ids: 0,
            heard: Vec::new(),
            answer: Box::new(|_| Answer::Cancel),
        };
        pipe.greet().await;
        pipe
    }
}

impl Pipe {
    /// Answers questions (`elicitation/create`), by their parameters. Without it they are dismissed.
    #[must_use]
    pub fn on_question(mut self, answer: impl FnMut(&Value) -> Answer + Send + 'static) -> Pipe {
        self.answer = Box::new(answer);
        self
    }

    async fn greet(&mut self) {
        if self.revision.is_stateless() {
            return;
        }
        let params = json!({
            "protocolVersion": self.revision.name(),
            "clientInfo": info(),
            "capabilities": { "elicitation": {} },
        });
        if let Err(error) = self.request("initialize", params).await {
            panic!("the pipe can't be opened: {error}");
        }
        self.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    }

    /// Calls a tool, and waits for its result.
    ///
    /// # Panics
    /// If the answer is an error, or the pipe breaks.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let mut params = json!({ "name": tool, "arguments": arguments });
        loop {
            let answered = self.request("tools/call", params.clone()).await;
            let result = answered.unwrap_or_else(|error| panic!("{tool} can't be called: {error}"));
            if result["resultType"] != "input_required" {
                return result;
            }
            // 2026-07-28 asks in place of the result, and is called again with the answers.
            params["inputResponses"] = json!({});
            for (key, request) in result["inputRequests"].as_object().into_iter().flatten() {
                params["inputResponses"][key] = value((self.answer)(&request["params"]));
            }
            params["requestState"] = result["requestState"].clone();
        }
    }

    /// Sends a request, and waits for its result or error. Questions that come meanwhile are answered,
    /// notifications are kept.
    ///
    /// # Panics
    /// If the pipe breaks, or nothing comes in 30 seconds or a virtual year.
    pub async fn request(&mut self, method: &str, mut params: Value) -> Result<Value, Value> {
        self.ids += 1;
        let id = self.ids;
        if self.revision.is_stateless() {
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = json!(self.revision.name());
            meta["io.modelcontextprotocol/clientInfo"] = info();
            meta["io.modelcontextprotocol/clientCapabilities"] =
                json!({ "elicitation": { "form": {} } });
        }
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        loop {
            let mut message = self.next(method).await;
            if message.get("method").is_none() {
                if message["id"] != id {
                    continue;
                }
                return match message.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(message["result"].take()),
                };
            }
            match message.get("id") {
                Some(id) => {
                    let mut reply = json!({ "jsonrpc": "2.0", "id": id });
                    if message["method"] == "elicitation/create" {
                        reply["result"] = value((self.answer)(&message["params"]));
                    } else {
                        reply["error"] = json!({ "code": -32601, "message": "not offered" });
                    }
                    self.say(&reply).await;
                }
                None => self.heard.push(message),
            }
        }
    }

    /// The notifications so far.
    #[must_use]
    pub fn heard(&self) -> &[Value] {
        &self.heard
    }

    async fn next(&mut self, method: &str) -> Value {
        let what = format!("an answer to {method}");
        let line = match soon(what, self.from.next_line()).await {
            Ok(Some(line)) => line,
            _ => panic!("the pipe broke before {method} was answered"),
        };
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line} is no JSON: {error}"))
    }

    async fn say(&mut self, message: &Value) {
        let line = format!("{message}\n");
        if let Err(error) = self.to.write_all(line.as_bytes()).await {
            panic!("the pipe is broken: {error}");
        }
    }
}

fn info() -> Value {
    json!({ "name": "pipe", "version": env!("CARGO_PKG_VERSION") })
}

fn value(answer: Answer) -> Value {
    match answer {
        Answer::Accept(Value::Null) => json!({ "action": "accept" }),
        Answer::Accept(content) => json!({ "action": "accept", "content": content }),
        Answer::Decline => json!({ "action": "decline" }),
        Answer::Cancel => json!({ "action": "cancel" }),
    }
}
