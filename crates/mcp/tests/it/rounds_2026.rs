//! Calls of 2026-07-28 by clients without tasks that are asked something: input by multi round-trip.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steadfast_engine::{Error, Status};
use steadfast_mcp::{Auth, Context, Server, Settings, Tool};

use crate::{
    site::{Site, able, taskless},
    tools::{Count, server},
};

async fn site() -> Site {
    Site::start(server(&Count::default())).await
}

fn call(tool: &str, arguments: Value) -> Value {
    json!({ "name": tool, "arguments": arguments })
}

fn again(mut call: Value, before: &Value, responses: Value) -> Value {
    call["requestState"] = before["requestState"].clone();
    call["inputResponses"] = responses;
    call
}

fn yes() -> Value {
    json!({ "approval": { "action": "accept", "content": { "approved": true } } })
}

#[tokio::test]
async fn a_question_is_the_answer_and_the_call_is_made_again_with_the_reply() {
    let count = Count::default();
    let site = Site::start(server(&count)).await;
    let first = call("approve", json!({ "item": "lamp" }));
    let asks = site.result(&taskless(), "tools/call", first.clone()).await;
    assert_eq!(asks["resultType"], "input_required");
    assert!(asks.get("ttlMs").is_none() && asks.get("content").is_none());
    let request = &asks["inputRequests"]["approval"];
    assert_eq!(request["method"], "elicitation/create");
    let second = again(first, &asks, yes());
    let done = site.result(&taskless(), "tools/call", second.clone()).await;
    assert_eq!(
        (&done["resultType"], &done["content"][0]["text"]),
        (&json!("complete"), &json!("approved: true"))
    );
    // A repeat gets the same answer, and nothing runs twice.
    let repeated = site.result(&taskless(), "tools/call", second).await;
    assert_eq!(repeated["content"], done["content"]);
    assert_eq!(count.get(), 1);
}

#[tokio::test]
async fn without_the_reply_it_is_asked_for_again() {
    let site = site().await;
    let first = call("two_questions", json!({}));
    let asks = site.result(&taskless(), "tools/call", first.clone()).await;
    assert_eq!(asks["inputRequests"].as_object().unwrap().len(), 2);
    let name = |name: &str| json!({ "action": "accept", "content": { "name": name } });
    let half = again(first.clone(), &asks, json!({ "first": name("Ada"), "unknown": 7 }));
    let rest = site.result(&taskless(), "tools/call", half).await;
    assert_eq!(rest["resultType"], "input_required");
    assert_eq!(rest["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["last"]);
    let done = again(first, &rest, json!({ "last": name("L.") }));
    let done = site.result(&taskless(), "tools/call", done).await;
    assert_eq!(done["content"][0]["text"], "Ada L.");
}

#[tokio::test]
async fn a_state_holds_for_its_own_call_only() {
    let tokens = ["ada", "bob"].map(|name| {
        (format!("{name}-0123456789abcdef"), steadfast_engine::Principal::new(name).unwrap())
    });
    let site = Site::start(server(&Count::default()).auth(Auth::tokens(tokens))).await;
    let (ada, bob) = ("Bearer ada-0123456789abcdef", "Bearer bob-0123456789abcdef");
    let ask = async |who: &str, params: Value| {
        site.modern_with(&taskless(), "tools/call", params, &[("Authorization", who)])
            .await
            .last()
            .await
    };
    let first = call("approve", json!({ "item": "lamp" }));
    let asks = ask(ada, first.clone()).await["result"].clone();
    let good = again(first, &asks, yes());
    let mut wrong = Vec::new();
    wrong.push((bob, good.clone()));
    let mut arguments = good.clone();
    arguments["arguments"]["item"] = json!("desk");
    wrong.push((ada, arguments));
    let mut tool = good.clone();
    tool["name"] = json!("hang");
    tool["arguments"] = json!({});
    wrong.push((ada, tool));
    for state in ["", "r1.", "r1.nobody", "nonsense"] {
        let mut tampered = good.clone();
        tampered["requestState"] = json!(state);
        wrong.push((ada, tampered));
    }
    let mut tampered = good.clone();
    tampered["requestState"] = json!(format!("{}0", asks["requestState"].as_str().unwrap()));
    wrong.push((ada, tampered));
    for (who, params) in wrong {
        let reply = ask(who, params.clone()).await;
        assert_eq!(reply["error"]["code"], -32602, "{params} gave {reply}");
    }
    assert_eq!(ask(ada, good).await["result"]["content"][0]["text"], "approved: true");
}

#[tokio::test]
async fn a_state_expires_and_its_task_waits_no_longer_for_an_answer() {
    let life = Duration::from_millis(200);
    let settings = Settings { request_state_life: life, ..Settings::default() };
    let site = Site::start(server(&Count::default()).settings(settings)).await;
    let first = call("approve", json!({ "item": "lamp" }));
    let asks = site.result(&taskless(), "tools/call", first.clone()).await;
    let operator = site.running.engine().operator();
    while operator.counts().await.unwrap() != [(Status::Failed, 1)].into() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(life + Duration::from_millis(5)).await;
    let late = again(first, &asks, yes());
    let (_, error) = site.error(&taskless(), "tools/call", late).await;
    assert_eq!(error["code"], -32602);
}

#[tokio::test]
async fn a_question_of_a_task_that_was_handed_out_waits_longer_than_a_state_lives() {
    let life = Duration::from_millis(200);
    let settings = Settings { request_state_life: life, ..Settings::default() };
    let site = Site::start(server(&Count::default()).settings(settings)).await;
    let first = json!({ "name": "asks_first", "arguments": {} });
    let asks = site.result(&able(), "tools/call", first.clone()).await;
    let who = json!({ "who": { "action": "accept", "content": { "name": "Ada" } } });
    let task = site.result(&able(), "tools/call", again(first, &asks, who)).await;
    assert_eq!(task["resultType"], "task");
    site.until(&task, "input_required").await;
    tokio::time::sleep(2 * life).await;
    assert_eq!(site.get(&task).await["status"], "input_required");
}

#[tokio::test]
async fn a_call_in_rounds_goes_on_when_its_task_begins_anew() {
    let tool = Tool::new("anew", |ctx: Context, mut all: Numbers| async move {
        ctx.log("info", "asking");
        ctx.step("work", || async { Ok::<_, Error>(()) }).await?;
        let more = ctx.ask::<Number>("Another?").key(format!("n{}", all.numbers.len())).await?;
        match more.accepted() {
            Some(more) => {
                all.numbers.push(more.number);
                ctx.continue_as_new(&all)
            }
            None => Ok(format!("{:?}", all.numbers)),
        }
    });
    let site = Site::start(Server::new("test").tool(tool)).await;
    let first = call("anew", json!({ "numbers": [] }));
    let mut reply = site.result(&taskless(), "tools/call", first.clone()).await;
    for n in 0..3 {
        let answer = json!({ "action": "accept", "content": { "number": n } });
        let answers = json!({ format!("n{n}"): answer });
        reply = site.result(&taskless(), "tools/call", again(first.clone(), &reply, answers)).await;
        assert_eq!(reply["resultType"], "input_required", "{reply}");
    }
    let answers = json!({ "n3": { "action": "decline" } });
    let done = site.result(&taskless(), "tools/call", again(first, &reply, answers)).await;
    assert_eq!(done["content"][0]["text"], "[0, 1, 2]");
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Numbers {
    numbers: Vec<u32>,
}

#[derive(Deserialize, JsonSchema)]
struct Number {
    number: u32,
}

#[tokio::test]
async fn a_prompt_can_ask_as_well() {
    let site = site().await;
    let first = json!({ "name": "ask" });
    let asks = site.result(&taskless(), "prompts/get", first.clone()).await;
    assert_eq!(asks["resultType"], "input_required");
    let reply = json!({ "who": { "action": "accept", "content": { "name": "Ada" } } });
    let done = site.result(&taskless(), "prompts/get", again(first, &asks, reply)).await;
    assert_eq!(done["resultType"], "complete");
    assert_eq!(done["messages"][0]["content"]["text"], "Ada");
}
