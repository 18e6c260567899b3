//! Calls of 2026-07-28 by clients without tasks: answers, what is said on the way, headers.

use std::{sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use steadfast_core::{Event, Json, Note};
use steadfast_engine::{Engine, Order};
use steadfast_mcp::{CallResult, Context, NoInput, Server, Settings, Tool};
use steadfast_store::Disk;

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

#[tokio::test]
async fn discover_tells_versions_capabilities_and_how_long_they_hold() {
    let site = site().await;
    let found = site.result(&json!({}), "server/discover", json!({})).await;
    assert_eq!(found["supportedVersions"][0], "2026-07-28");
    assert_eq!(found["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"], json!({}));
    assert_eq!(found["capabilities"]["tools"]["listChanged"], true);
    assert_eq!(found["instructions"], "Call them.");
    let info = &found["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(*info, json!({ "name": "test", "version": "1.2.3" }));
    assert!(found["ttlMs"].is_u64() && found["cacheScope"].is_string());
}

#[tokio::test]
async fn listings_come_in_pages_in_a_fixed_order_and_say_how_long_they_hold() {
    let settings = Settings { page_size: 4, ..Settings::default() };
    let site = Site::start(server(&Count::default()).settings(settings)).await;
    let (mut names, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
        let page = site.result(&json!({}), "tools/list", params).await;
        assert!(page["ttlMs"].is_u64() && page["cacheScope"].is_string());
        let tools = page["tools"].as_array().unwrap();
        assert!(tools.len() <= 4);
        names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        match page.get("nextCursor") {
            Some(next) => cursor = next.clone(),
            None => break,
        }
    }
    assert_eq!(names[..3], ["approve", "hang", "two_questions"]);
    let whole = Site::start(server(&Count::default())).await;
    let all = whole.result(&json!({}), "tools/list", json!({})).await;
    let all: Vec<&str> =
        all["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(names, all);
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        let (_, error) = site.error(&json!({}), method, json!({ "cursor": "nonsense" })).await;
        assert_eq!(error["code"], -32602, "{method}");
    }
}

#[tokio::test]
async fn a_tool_is_listed_with_its_schemas_and_without_what_other_revisions_have() {
    let site = site().await;
    let listed = site.result(&json!({}), "tools/list", json!({})).await;
    let find = |name: &str| {
        listed["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap()
    };
    let approve = find("approve");
    assert_eq!(
        (&approve["title"], &approve["description"]),
        (&json!("Approve"), &json!("Approves an order."))
    );
    assert_eq!(approve["inputSchema"]["required"], json!(["item"]));
    assert_eq!(approve["inputSchema"]["properties"]["count"]["default"], 1);
    assert!(approve.get("execution").is_none());
    assert_eq!(find("add")["outputSchema"]["properties"]["total"]["type"], "integer");
    assert_eq!(find("list")["outputSchema"]["type"], "array");
    assert_eq!(find("hang")["inputSchema"]["additionalProperties"], false);
}

#[tokio::test]
async fn every_kind_of_result() {
    let site = site().await;
    let none = json!({});
    let sum = site.result(&none, "tools/call", call("add", json!({ "a": 1, "b": 2 }))).await;
    assert_eq!(sum["structuredContent"], json!({ "total": 3 }));
    assert_eq!(sum["content"][0]["text"], r#"{"total":3}"#);
    assert!(sum.get("isError").is_none());
    let list = site.result(&none, "tools/call", call("list", json!({}))).await;
    assert_eq!(list["structuredContent"], json!([1, 2]));
    let mixed = site.result(&none, "tools/call", call("mixed", json!({}))).await;
    assert_eq!(
        mixed["content"][1],
        json!({ "type": "image", "data": "AQI=", "mimeType": "image/png" })
    );
    for (tool, text) in [("plain_fail", "out of ink"), ("fails", "out of paper")] {
        let failed = site.result(&none, "tools/call", call(tool, json!({}))).await;
        assert_eq!(
            (&failed["isError"], &failed["content"][0]["text"]),
            (&json!(true), &json!(text))
        );
    }
}

#[tokio::test]
async fn what_goes_wrong_with_the_call_itself_is_a_protocol_error() {
    let site = site().await;
    let none = json!({});
    let (_, error) = site.error(&none, "tools/call", call("nobody", json!({}))).await;
    assert_eq!(error["code"], -32602);
    let (_, error) = site.error(&none, "tools/call", json!({ "name": 7 })).await;
    assert_eq!(error["code"], -32602);
    let (_, error) = site.error(&none, "tools/call", call("breaks", json!({}))).await;
    assert_eq!(error, json!({ "code": -31999, "message": "the protocol is broken" }));
    for tool in ["panics", "plain_panic"] {
        let (_, error) = site.error(&none, "tools/call", call(tool, json!({}))).await;
        assert_eq!(error["code"], -32603);
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    let (status, error) = site.error(&none, "no/such", json!({})).await;
    assert_eq!((status, &error["code"]), (404, &json!(-32601)));
    for removed in ["ping", "logging/setLevel", "resources/subscribe", "initialize"] {
        let (status, error) = site.error(&none, removed, json!({})).await;
        assert_eq!((status, &error["code"]), (404, &json!(-32601)), "{removed}");
    }
}

#[tokio::test]
async fn an_input_that_does_not_fit_is_an_error_for_the_model_and_nothing_runs() {
    let count = Count::default();
    let site = Site::start(server(&count)).await;
    for capabilities in [able(), taskless()] {
        for wrong in [
            json!({}),
            json!({ "item": 7 }),
            json!({ "item": "x", "count": 0 }),
            json!([]),
            json!("x"),
        ] {
            let result = site.result(&capabilities, "tools/call", call("approve", wrong)).await;
            assert_eq!(
                (&result["resultType"], &result["isError"]),
                (&json!("complete"), &json!(true))
            );
        }
    }
    assert_eq!(count.get(), 0);
}

#[derive(Deserialize, JsonSchema)]
struct Number {
    number: u32,
}

#[tokio::test]
async fn a_copy_of_a_tool_cannot_be_offered_with_another_output_schema() {
    let tool = Tool::plain("tool", |_: NoInput| async { Ok(CallResult::default()) });
    let start = |kind: &str| {
        let tool = tool.clone().output_schema(json!({ "type": kind }));
        Server::new("test").tool(tool).start(Engine::builder(Arc::new(Disk::new().open())))
    };
    assert!(start("object").is_ok());
    assert!(start("object").is_ok());
    let refused = start("string").err().unwrap().to_string();
    assert!(refused.contains("another output schema"), "{refused}");
}

#[tokio::test]
async fn a_result_that_breaks_the_tools_own_output_schema_is_an_error() {
    let schema = json!({ "type": "object", "properties": { "n": { "maximum": 9 } } });
    let result = |n: u32| {
        let structured_content = Json::of(&json!({ "n": n })).ok();
        Ok(CallResult { structured_content, ..CallResult::text("counted") })
    };
    let plain = Tool::plain("plain", move |Number { number }| async move { result(number) });
    let durable =
        Tool::new("durable", move |_: Context, Number { number }| async move { result(number) });
    let none = Tool::plain("none", |_: NoInput| async { Ok(CallResult::text("nothing")) });
    let server = Server::new("test")
        .tool(plain.output_schema(schema.clone()))
        .tool(durable.output_schema(schema.clone()))
        .tool(none.output_schema(schema));
    let site = Site::start(server).await;
    for (tool, n, fits) in
        [("plain", 9, true), ("plain", 10, false), ("durable", 9, true), ("durable", 10, false)]
    {
        let call = call(tool, json!({ "number": n }));
        let reply = site.result(&taskless(), "tools/call", call).await;
        assert_eq!(reply["isError"].is_null(), fits, "{reply}");
        assert_eq!(reply["structuredContent"]["n"] == n, fits, "{reply}");
    }
    let reply = site.result(&taskless(), "tools/call", call("none", json!({}))).await;
    let text = reply["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("no structured content"), "{text}");
}

#[tokio::test]
async fn progress_and_log_come_before_the_answer_if_they_were_asked_for() {
    let site = site().await;
    let mut params = call("talks", json!({}));
    params["_meta"] = json!({ "progressToken": "p", "io.modelcontextprotocol/logLevel": "info" });
    let mut events = site.modern(&json!({}), "tools/call", params).await.events();
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(event);
    }
    let last = seen.pop().unwrap();
    assert_eq!(last["result"]["content"][0]["text"], "said");
    let said: Vec<(&Value, &Value)> =
        seen.iter().map(|event| (&event["method"], &event["params"])).collect();
    let progress = json!("notifications/progress");
    let message = json!("notifications/message");
    assert_eq!(
        said[0],
        (&progress, &json!({ "progressToken": "p", "progress": 1, "total": 3, "message": "one" }))
    );
    assert_eq!(
        said[1],
        (&message, &json!({ "level": "warning", "logger": "talks", "data": "loud" }))
    );
    assert_eq!(
        said[2],
        (
            &progress,
            &json!({ "progressToken": "p", "progress": 3, "total": 3, "message": "three" })
        )
    );
    assert_eq!(said.len(), 3);
}

/// The revision has no resumption: an id would promise it.
#[tokio::test]
async fn no_event_has_an_id() {
    let site = site().await;
    let mut params = call("talks", json!({}));
    params["_meta"] = json!({ "progressToken": "p", "io.modelcontextprotocol/logLevel": "info" });
    let mut events = site.modern(&json!({}), "tools/call", params).await.events();
    let mut seen = 0;
    while let Some(event) = events.raw().await {
        assert!(!event.lines().any(|line| line.starts_with("id:")), "{event}");
        seen += 1;
    }
    assert_eq!(seen, 4);
}

/// There is no way to come back for what was missed.
#[tokio::test]
async fn progress_of_a_call_that_cannot_be_taken_up_is_not_stored() {
    let site = site().await;
    let mut params = call("talks", json!({}));
    params["_meta"] = json!({ "progressToken": "p" });
    site.modern(&json!({}), "tools/call", params).await.events();
    let tasks = site.running.engine().operator();
    let list = tasks.list(steadfast_engine::ListTasks::default()).await.unwrap();
    let [task] = &list.tasks[..] else { panic!("{list:?}") };
    tasks.wait(&task.id).await.unwrap();
    let history = tasks.history(&task.id, Order::OldestFirst, None, 100).await.unwrap();
    let notes = history.entries.iter().filter_map(|entry| match &entry.event {
        Event::Noted { note, .. } => Some(note),
        _ => None,
    });
    let notes: Vec<&Note> = notes.collect();
    assert!(matches!(notes[..], [Note::Log { .. }, Note::Log { .. }]), "{notes:?}");
    let shown = tasks.get(&task.id).await.unwrap().progress.unwrap();
    assert_eq!(shown.text.as_deref(), Some("three"));
}

#[tokio::test]
async fn nothing_is_said_that_was_not_asked_for() {
    let site = site().await;
    let reply = site.modern(&json!({}), "tools/call", call("talks", json!({}))).await;
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.json().await["result"]["content"][0]["text"], "said");
    let mut params = call("talks", json!({}));
    params["_meta"] = json!({ "io.modelcontextprotocol/logLevel": "shout" });
    let (status, error) = site.error(&json!({}), "tools/call", params).await;
    assert_eq!((status, &error["code"]), (400, &json!(-32602)));
}

#[tokio::test]
async fn a_client_that_goes_away_has_cancelled_its_call() {
    let count = Count::default();
    let site = Site::start(server(&count)).await;
    let capabilities = taskless();
    let connected = site.modern(&capabilities, "tools/call", call("hang", json!({})));
    tokio::time::timeout(Duration::from_millis(300), connected).await.err().expect("it hangs");
    let operator = site.running.engine().operator();
    let cancelled = async {
        loop {
            let counts = operator.counts().await.unwrap();
            if counts.get(&steadfast_engine::Status::Cancelled) == Some(&1) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), cancelled).await.expect("cancelled");
    assert_eq!(count.get(), 1);
}

#[tokio::test]
async fn a_slow_answer_becomes_a_stream() {
    let settings = Settings {
        stream_after: Duration::from_millis(20),
        keep_alive: Duration::from_millis(10),
        ..Settings::default()
    };
    let gate = Arc::new(tokio::sync::Notify::new());
    let waits = gate.clone();
    let slow = Tool::plain("slow", move |_: NoInput| {
        let gate = waits.clone();
        async move {
            gate.notified().await;
            Ok("done")
        }
    });
    let site = Site::start(server(&Count::default()).settings(settings).tool(slow)).await;
    let reply = site.modern(&json!({}), "tools/call", call("slow", json!({}))).await;
    assert_eq!(reply.header("x-accel-buffering"), Some("no"));
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    let mut events = reply.events();
    let first = events.raw().await.unwrap();
    assert!(first.starts_with(':'), "signs of life first: {first}");
    gate.notify_one();
    assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], "done");
}

#[tokio::test]
async fn required_fields_and_headers_are_required() {
    let site = site().await;
    let meta = |version: &str| {
        json!({
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        })
    };
    let body = |params: Value| {
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string()
    };
    let version = ("MCP-Protocol-Version", "2026-07-28");
    let (method, name) = (("Mcp-Method", "tools/call"), ("Mcp-Name", "list"));
    let full = json!({ "name": "list", "_meta": meta("2026-07-28") });
    let mut incapable = full.clone();
    incapable["_meta"]
        .as_object_mut()
        .unwrap()
        .remove("io.modelcontextprotocol/clientCapabilities");
    let cases = [
        (vec![version, name], full.clone(), -32020),
        (vec![version, method], full.clone(), -32020),
        (vec![method, name], full.clone(), -32020),
        (vec![version, ("Mcp-Method", "tools/list"), name], full.clone(), -32020),
        (vec![version, method, ("Mcp-Name", "add")], full.clone(), -32020),
        (vec![("MCP-Protocol-Version", "2025-11-25"), method, name], full.clone(), -32020),
        (vec![version, method, name], json!({ "name": "list" }), -32602),
        (vec![version, method, name], incapable, -32602),
        (
            vec![("MCP-Protocol-Version", "1900-01-01"), method, name],
            json!({ "name": "list", "_meta": meta("1900-01-01") }),
            -32022,
        ),
    ];
    for (mut headers, params, code) in cases {
        headers.extend([crate::site::JSON, crate::site::ACCEPT]);
        let reply = crate::http::send(site.address, "POST", &headers, &body(params)).await;
        assert_eq!(reply.status, 400, "{headers:?}");
        let error = reply.json().await["error"].clone();
        assert_eq!(error["code"], code, "{headers:?} gave {error}");
        if code == -32022 {
            assert_eq!(error["data"]["requested"], "1900-01-01");
            assert_eq!(error["data"]["supported"][0], "2026-07-28");
        }
    }
    let encoded = ("Mcp-Name", "=?base64?bGlzdA==?=");
    let headers = [version, method, encoded, crate::site::JSON, crate::site::ACCEPT];
    let reply = crate::http::send(site.address, "POST", &headers, &body(full)).await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn prompts_resources_and_completion() {
    let site = site().await;
    let none = json!({});
    let prompts = site.result(&none, "prompts/list", json!({})).await;
    assert_eq!(prompts["prompts"][0]["arguments"], json!([{ "name": "name", "required": true }]));
    let greeting = json!({ "name": "greet", "arguments": { "name": "Ada" } });
    let prompt = site.result(&none, "prompts/get", greeting).await;
    assert_eq!(
        prompt["messages"][0],
        json!({ "role": "user", "content": { "type": "text", "text": "Greet Ada." } })
    );
    for wrong in [
        json!({ "name": "nobody" }),
        json!({ "name": "greet" }),
        json!({ "name": "greet", "arguments": { "name": 7 } }),
    ] {
        assert_eq!(site.error(&none, "prompts/get", wrong).await.1["code"], -32602);
    }
    let text = site.result(&none, "resources/read", json!({ "uri": "test://text" })).await;
    assert_eq!(
        text["contents"],
        json!([{ "uri": "test://text", "mimeType": "text/plain", "text": "hello" }])
    );
    assert_eq!((&text["ttlMs"], &text["cacheScope"]), (&json!(0), &json!("private")));
    let bytes = site.result(&none, "resources/read", json!({ "uri": "test://bytes" })).await;
    assert_eq!(bytes["contents"][0]["blob"], "AP8=");
    let item = site.result(&none, "resources/read", json!({ "uri": "test://item/a%20b" })).await;
    assert_eq!(item["contents"][0]["text"], "test://item/a%20b is a b");
    let (_, error) = site.error(&none, "resources/read", json!({ "uri": "test://nowhere" })).await;
    assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(-32602), &json!("test://nowhere")));
    let (_, error) = site.error(&none, "resources/read", json!({ "uri": "test://item/bad" })).await;
    assert_eq!((&error["code"], &error["message"]), (&json!(-32603), &json!("no such item")));
    let templates = site.result(&none, "resources/templates/list", json!({})).await;
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "test://item/{id}");
    let complete = |argument: &str, value: &str| json!({ "ref": { "type": "ref/prompt", "name": "greet" }, "argument": { "name": argument, "value": value } });
    let found = site.result(&none, "completion/complete", complete("name", "ad")).await;
    assert_eq!(
        found["completion"],
        json!({ "values": ["ada", "adam"], "total": 2, "hasMore": false })
    );
    let found = site.result(&none, "completion/complete", complete("other", "")).await;
    assert_eq!(found["completion"]["values"], json!([]));
    let unknown = json!({ "ref": { "type": "ref/prompt", "name": "nobody" }, "argument": { "name": "x", "value": "" } });
    assert_eq!(site.error(&none, "completion/complete", unknown).await.1["code"], -32602);
}

#[tokio::test]
async fn a_listener_hears_what_it_asked_for_and_nothing_else_until_the_server_says_goodbye() {
    let site = site().await;
    let wanted = json!({ "toolsListChanged": true, "resourceSubscriptions": ["test://text", "test://nowhere"], "promptsListChanged": false });
    let params = json!({ "notifications": wanted });
    let mut events = site.modern(&json!({}), "subscriptions/listen", params).await.events();
    let acknowledged = events.next().await.unwrap();
    assert_eq!(
        acknowledged["params"]["notifications"],
        json!({ "toolsListChanged": true, "resourceSubscriptions": ["test://text"] })
    );
    site.running.remove_prompt("greet");
    site.running.resource_updated("test://bytes");
    site.running.add_tool(Tool::plain("new", |_: NoInput| async { Ok("new") })).unwrap();
    site.running.resource_updated("test://text");
    let changed = events.next().await.unwrap();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
    let updated = events.next().await.unwrap();
    assert_eq!(
        (&updated["method"], &updated["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!("test://text"))
    );
    assert_eq!(
        site.result(&json!({}), "tools/call", call("new", json!({}))).await["content"][0]["text"],
        "new"
    );
    site.running.drain();
    let cancelled = events.next().await.unwrap();
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], 7);
    let goodbye = events.next().await.unwrap();
    assert_eq!((&goodbye["id"], &goodbye["result"]["resultType"]), (&json!(7), &json!("complete")));
    assert_eq!(goodbye["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn durable_tools_come_and_go_while_the_server_runs() {
    let site = site().await;
    site.running
        .add_tool(Tool::new("late", |_: steadfast_mcp::Context, _: NoInput| async { Ok("late") }))
        .unwrap();
    let task = site.task("late", json!({})).await;
    let done = site.until(&task, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "late");
    assert!(site.running.remove_tool("late"));
    let (_, error) = site.error(&able(), "tools/call", call("late", json!({}))).await;
    assert_eq!(error["code"], -32602);
    assert_eq!(site.get(&task).await["status"], "completed");
    let twice = site.running.add_tool(Tool::plain("add", |_: NoInput| async { Ok(()) }));
    assert!(twice.unwrap_err().to_string().contains("add"));
}
