//! Our own client, which comes back by itself.

use std::time::Duration;

use serde_json::json;
use steadfast_client::{Answer, Client as Library, Revision};

use super::Client;
use crate::book::{Kind, Tool, reply};

pub(super) async fn run(mut client: Client, version: &'static str) {
    let revision = match version {
        "2026-07-28" => Revision::V2026_07_28,
        _ => Revision::V2025_11_25,
    };
    let url = format!("http://{}/mcp", client.world.proxy);
    let library = match Library::connect(&url).revision(revision).await {
        Ok(library) => library,
        Err(error) => return client.world.wrong(format!("the library can't connect: {error}")),
    };
    while !client.world.is_calm() {
        let tools = [Tool::Work, Tool::Book, Tool::Ask, Tool::Once];
        let (number, tool) = client.begin(&tools, true);
        let as_task = client.dice.chance(40);
        while call_once(&client, &library, as_task, number, tool).await {
            client.note(number, "is told to try again");
            client.world.book.begin_stream(number);
            client.pause().await;
        }
        client.pause().await;
    }
}

/// Calls, and says whether it is to be called again: a server that can't reach its store just now says so,
/// on a stream that has begun.
async fn call_once(
    client: &Client,
    library: &Library,
    as_task: bool,
    number: u64,
    tool: Tool,
) -> bool {
    let mut call = library
        .call(tool.name(), json!({ "number": number }))
        // What it may send twice has a key.
        .idempotency_key(number.to_string())
        .on_question(move |_| async move { Answer::Accept(json!({ "value": reply(number) })) });
    if as_task {
        client.note(number, "calls as a task");
        call = call.as_task();
    } else if client.kind == Kind::Library("2025-11-25") {
        let world = client.world.clone();
        call = call.on_progress(move |progress| world.book.progress(number, progress.done));
    }
    match tokio::time::timeout(Duration::from_secs(60), call.into_future()).await {
        Ok(Ok(result)) if !result.is_error => {
            client.world.book.answered(number, &result.text());
        }
        Ok(Ok(result)) => client.wrong(number, format!("the answer is {}", result.raw)),
        Ok(Err(error)) if error.to_string().contains("; try again") => return true,
        Ok(Err(error)) => client.wrong(number, format!("the library says: {error}")),
        Err(_) => client.wrong(number, "the library waits for a minute"),
    }
    false
}
