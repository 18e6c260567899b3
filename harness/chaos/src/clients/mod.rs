//! The clients: fifty, of all kinds.

mod cancels;
mod library;
mod listens;
mod piped;
mod session;
mod session_tasks;
mod stateless;

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use steadfast_crash::Rng;
use tokio::{task::JoinSet, time::sleep};

use crate::{
    book::{Kind, Tool, reply},
    world::World,
};

/// How many there are of each kind.
const ROSTER: [(Kind, u64); 18] = [
    (Kind::Resumes("2025-11-25"), 4),
    (Kind::Resumes("2025-06-18"), 3),
    (Kind::Resumes("2025-03-26"), 3),
    (Kind::Repeats("2025-11-25"), 2),
    (Kind::Repeats("2025-06-18"), 2),
    (Kind::Keyed("2025-11-25"), 3),
    (Kind::Keyed("2026-07-28"), 4),
    (Kind::Library("2025-11-25"), 2),
    (Kind::Library("2026-07-28"), 2),
    (Kind::Plain, 5),
    (Kind::Rounds, 5),
    (Kind::Tasks("2025-11-25"), 3),
    (Kind::Tasks("2026-07-28"), 3),
    (Kind::Piped("2025-11-25"), 2),
    (Kind::Piped("2026-07-28"), 2),
    (Kind::Cancels("2025-11-25"), 2),
    (Kind::Cancels("2025-03-26"), 1),
    (Kind::Listens("2025-11-25"), 2),
];

/// How many calls a client may make.
const NUMBERS: u64 = 1_000_000;

/// What each client has.
struct Client {
    world: Arc<World>,
    kind: Kind,
    dice: Rng,
    /// The number of its next call, which no other client's has.
    number: u64,
    /// The id of its next request.
    id: u64,
}

/// Lets all of them loose. They end when they have seen their last call through.
pub(crate) fn start(world: &Arc<World>) -> JoinSet<()> {
    let mut all = JoinSet::new();
    let kinds = ROSTER.iter().flat_map(|(kind, count)| (0..*count).map(|_| *kind));
    for (index, kind) in kinds.enumerate() {
        let index = index as u64 + 1;
        let dice = Rng::of(world.seed, index);
        let number = index * NUMBERS;
        let client = Client { world: world.clone(), kind, dice, number, id: 1 };
        match kind {
            Kind::Resumes(version) | Kind::Repeats(version) => {
                all.spawn(session::run(client, version));
            }
            Kind::Keyed("2026-07-28") | Kind::Plain | Kind::Rounds | Kind::Tasks("2026-07-28") => {
                all.spawn(stateless::run(client));
            }
            Kind::Keyed(version) => {
                all.spawn(session::run(client, version));
            }
            Kind::Library(version) => {
                all.spawn(library::run(client, version));
            }
            Kind::Tasks(version) => {
                all.spawn(session_tasks::run(client, version));
            }
            Kind::Cancels(version) => {
                all.spawn(cancels::run(client, version));
            }
            Kind::Listens(version) => {
                all.spawn(listens::run(client, version));
            }
            Kind::Piped(version) => {
                all.spawn(piped::run(client, version));
            }
        };
    }
    all
}

impl Client {
    /// Begins a call of one of these tools.
    fn begin(&mut self, tools: &[Tool], survives: bool) -> (u64, Tool) {
        self.number += 1;
        let tool = tools[self.dice.below(tools.len() as u64) as usize];
        self.world.book.begin(self.number, self.kind, tool, survives);
        (self.number, tool)
    }

    fn next_id(&mut self) -> u64 {
        self.id += 1;
        self.id
    }

    fn note(&self, number: u64, what: impl Into<String>) {
        self.world.book.note(number, what);
    }

    fn wrong(&self, number: u64, what: impl Into<String>) {
        self.world.book.wrong(number, what);
    }

    /// Between two calls, or before something is tried again.
    async fn pause(&mut self) {
        sleep(Duration::from_millis(20 + self.dice.below(180))).await;
    }

    /// Takes a response to a call; what it says is judged later.
    fn take(&self, number: u64, message: &Value) {
        match text(message) {
            Some(text) => self.world.book.answered(number, text),
            // A server that is told to stop may still say what becomes of a call that ends with it.
            None if is_cancelled(message) => {
                self.note(number, format!("refused: {message}"));
                self.world.book.change(number, |call| call.refused = true);
            }
            None => self.wrong(number, format!("the answer is {message}")),
        }
    }

    fn hear_progress(&self, number: u64, message: &Value) {
        if message["method"] == "notifications/progress" {
            let progress = message["params"]["progress"].as_f64();
            self.world.book.progress(number, progress.unwrap_or(f64::NAN));
        }
    }
}

/// The request of a call: its method, what it is about, and its parameters.
fn request(number: u64, tool: Tool) -> (&'static str, String, Value) {
    let (name, text) = (tool.name(), number.to_string());
    match tool {
        Tool::Prompt => {
            let params = json!({ "name": name, "arguments": { "number": text } });
            ("prompts/get", name.into(), params)
        }
        Tool::Resource => {
            let uri = format!("chaos://reports/{number}");
            ("resources/read", uri.clone(), json!({ "uri": uri }))
        }
        Tool::Tell => {
            let arguments = json!({ "number": number, "board": board(number) });
            ("tools/call", name.into(), json!({ "name": name, "arguments": arguments }))
        }
        _ => {
            let params = json!({ "name": name, "arguments": { "number": number } });
            ("tools/call", name.into(), params)
        }
    }
}

/// The board of the client that makes the call of this number.
fn board(number: u64) -> String {
    (number / NUMBERS).to_string()
}

/// What a call returned, if all went well.
fn text(message: &Value) -> Option<&str> {
    let result = &message["result"];
    let blocks = [&result["content"][0], &result["messages"][0]["content"], &result["contents"][0]];
    let text = blocks.into_iter().find_map(|block| block["text"].as_str());
    text.filter(|_| result["isError"] != true)
}

/// The call was cancelled, because its process goes.
fn is_cancelled(message: &Value) -> bool {
    let why = message["error"]["message"].as_str();
    why.is_some_and(|why| why.starts_with("cancelled: "))
}

/// The server could do nothing just now, on a stream that had begun: the same as a status 503.
fn is_away(message: &Value) -> bool {
    let why = message["error"]["message"].as_str();
    why.is_some_and(|why| why.ends_with("; try again"))
}

/// What the user says when the call of this number asks.
fn accept(number: u64) -> Value {
    json!({ "action": "accept", "content": { "value": reply(number) } })
}
