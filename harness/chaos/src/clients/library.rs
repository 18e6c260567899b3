//! Our own client, which comes back by itself.

use std::time::Duration;

use serde_json::json;
use steadfast_client::{Answer, Client as Library, Revision};

use super::Client;
use crate::book::{Tool, reply};

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
        let mut call = library
            .call(tool.name(), json!({ "number": number }))
            // What it may send twice has a key.
            .idempotency_key(number.to_string())
            .on_question(move |_| async move { Answer::Accept(json!({ "value": reply(number) })) });
        if client.dice.chance(40) {
            client.note(number, "calls as a task");
            call = call.as_task();
        } else if revision == Revision::V2025_11_25 {
            let world = client.world.clone();
            call = call.on_progress(move |progress| world.book.progress(number, progress.done));
        }
        match tokio::time::timeout(Duration::from_secs(60), call.into_future()).await {
            Ok(Ok(result)) if !result.is_error => {
                client.world.book.answered(number, &result.text());
            }
            Ok(Ok(result)) => client.wrong(number, format!("the answer is {}", result.raw)),
            Ok(Err(error)) => client.wrong(number, format!("the library says: {error}")),
            Err(_) => client.wrong(number, "the library waits for a minute"),
        }
        client.pause().await;
    }
}
