//! The Tasks extension of 2026-07-28, sentence by sentence as far as it binds a server.

use serde_json::{Value, json};
use steadfast_store::Disk;

use crate::{
    site::{Site, TASKS, able, taskless},
    tools::{Count, server},
};

async fn site() -> Site {
    Site::start(server(&Count::default())).await
}

pub(crate) fn lamp() -> Value {
    json!({ "item": "lamp" })
}

pub(crate) fn accept(content: Value) -> Value {
    json!({ "action": "accept", "content": content })
}

#[tokio::test]
async fn must_not_return_a_task_to_a_client_without_the_extension_on_this_request() {
    let site = site().await;
    // An earlier declaration means nothing.
    site.task("hang", json!({})).await;
    let params = json!({ "name": "add_durably", "arguments": { "a": 1, "b": 2 } });
    let result = site.result(&taskless(), "tools/call", params).await;
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["structuredContent"], json!({ "total": 3 }));
    assert_eq!(result.get("taskId"), None);
}

#[tokio::test]
async fn must_answer_32021_where_only_a_task_will_do_and_create_nothing() {
    let site = site().await;
    let (status, error) =
        site.error(&taskless(), "tools/call", json!({ "name": "required" })).await;
    assert_eq!((status, &error["code"]), (400, &json!(-32021)));
    assert_eq!(error["data"]["requiredCapabilities"]["extensions"][TASKS], json!({}));
    let counts = site.running.engine().operator().counts().await.unwrap();
    assert!(counts.is_empty(), "{counts:?}");
}

#[tokio::test]
async fn must_set_result_type_task_on_a_new_task_and_complete_on_all_else() {
    let site = site().await;
    let task = site.task("hang", json!({})).await;
    for (name, kind) in [("status", "working"), ("resultType", "task")] {
        assert_eq!(task[name], kind);
    }
    assert_eq!(site.get(&task).await["resultType"], "complete");
    // These are empty but for it.
    assert_eq!(site.update(&task, json!({})).await, json!({ "resultType": "complete" }));
    let params = json!({ "taskId": task["taskId"] });
    let cancelled = site.result(&able(), "tasks/cancel", params).await;
    assert_eq!(cancelled, json!({ "resultType": "complete" }));
    // Also on the result within a task that has completed.
    let params = json!({ "a": 1, "b": 2 });
    let task = site.task("add_durably", params).await;
    assert_eq!(site.until(&task, "completed").await["result"]["resultType"], "complete");
}

#[tokio::test]
async fn a_task_has_the_fields_of_its_schema() {
    let site = site().await;
    let task = site.task("hang", json!({})).await;
    for seen in [task.clone(), site.get(&task).await] {
        assert!(seen["taskId"].is_string());
        for time in ["createdAt", "lastUpdatedAt"] {
            let time = seen[time].as_str().unwrap();
            assert!(time.len() == 24 && time.ends_with('Z') && time.contains('T'), "{time}");
        }
        assert!(seen.get("ttlMs").is_some_and(|ttl| ttl.is_null() || ttl.is_u64()), "{seen}");
        assert!(seen["pollIntervalMs"].as_u64().unwrap() > 0);
        assert!(seen.get("ttl").is_none() && seen.get("task").is_none());
        assert_eq!(seen["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "test");
    }
}

#[tokio::test]
async fn must_not_reply_before_the_task_is_durably_created() {
    let (disk, count) = (Disk::new(), Count::default());
    let site = Site::on(server(&count), &disk).await;
    let task = site.task("approve", lamp()).await;
    // Another process sees only what was committed.
    let other = Site::on(server(&count), &disk).await;
    assert_eq!(other.get(&task).await["taskId"], task["taskId"]);
}

#[tokio::test]
async fn get_shows_working_then_all_outstanding_requests_then_the_result() {
    let site = site().await;
    let task = site.task("two_questions", json!({})).await;
    let asks = site.until(&task, "input_required").await;
    let requests = asks["inputRequests"].as_object().unwrap();
    assert_eq!(requests.keys().collect::<Vec<_>>(), ["first", "last"]);
    assert_eq!(requests["first"]["method"], "elicitation/create");
    assert_eq!(requests["first"]["params"]["message"], "First name?");
    assert_eq!(requests["first"]["params"]["mode"], "form");
    let schema = &requests["first"]["params"]["requestedSchema"];
    assert_eq!(schema["properties"]["name"], json!({ "type": "string" }));
    site.update(&task, json!({ "first": accept(json!({ "name": "Ada" })), "last": accept(json!({ "name": "L." })) })).await;
    let done = site.until(&task, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "Ada L.");
    assert!(done.get("inputRequests").is_none() && done.get("error").is_none());
}

#[tokio::test]
async fn a_partial_set_of_responses_leaves_the_rest_open() {
    let site = site().await;
    let task = site.task("two_questions", json!({})).await;
    site.until(&task, "input_required").await;
    site.update(&task, json!({ "last": accept(json!({ "name": "L." })) })).await;
    let asks = site.get(&task).await;
    assert_eq!(asks["status"], "input_required");
    assert_eq!(asks["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["first"]);
    site.update(&task, json!({ "first": { "action": "decline" } })).await;
    let done = site.until(&task, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "nobody L.");
}

#[tokio::test]
async fn responses_to_unknown_and_answered_keys_are_ignored() {
    let site = site().await;
    let task = site.task("two_questions", json!({})).await;
    site.until(&task, "input_required").await;
    let ada = accept(json!({ "name": "Ada" }));
    let reply = site.update(&task, json!({ "never": ada, "first": ada })).await;
    assert_eq!(reply.as_object().unwrap().keys().collect::<Vec<_>>(), ["resultType"]);
    site.update(&task, json!({ "first": accept(json!({ "name": "Eve" })) })).await;
    site.update(&task, json!({ "last": accept(json!({ "name": "L." })) })).await;
    let done = site.until(&task, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "Ada L.");
    site.update(&task, json!({ "first": ada })).await;
}

#[tokio::test]
async fn malformed_responses_are_invalid_params() {
    let site = site().await;
    let task = site.task("two_questions", json!({})).await;
    for params in [
        json!({ "taskId": task["taskId"] }),
        json!({ "taskId": task["taskId"], "inputResponses": [] }),
        json!({ "taskId": 7, "inputResponses": {} }),
    ] {
        let (_, error) = site.error(&able(), "tasks/update", params).await;
        assert_eq!(error["code"], -32602, "{error}");
    }
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_acknowledged_and_asked_for_again_under_a_new_key() {
    let site = site().await;
    let task = site.task("approve", lamp()).await;
    let mut keys = vec!["approval".to_owned()];
    for wrong in [json!({ "approved": "yes" }), json!({}), json!({ "approved": 1 })] {
        site.until(&task, "input_required").await;
        site.update(&task, json!({ keys.last().unwrap(): accept(wrong) })).await;
        let asks = loop {
            let asks = site.until(&task, "input_required").await;
            if asks["inputRequests"].get(keys.last().unwrap()).is_none() {
                break asks;
            }
        };
        let (key, request) = asks["inputRequests"].as_object().unwrap().iter().next().unwrap();
        assert!(!keys.contains(key), "{key} was used before");
        assert!(
            request["params"]["message"].as_str().unwrap().contains("did not fit"),
            "{request}"
        );
        keys.push(key.clone());
    }
    site.update(&task, json!({ keys.last().unwrap(): accept(json!({ "approved": true })) })).await;
    let done = site.until(&task, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "approved: true");
}

#[tokio::test]
async fn after_three_more_tries_the_author_gets_a_typed_error() {
    let site = site().await;
    let task = site.task("approve", lamp()).await;
    for _ in 0..4 {
        let asks = site.until(&task, "input_required").await;
        let key = asks["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        site.update(&task, json!({ &key: { "nonsense": true } })).await;
        // Until the question that was answered is gone.
        while site.get(&task).await["inputRequests"].get(&key).is_some() {}
    }
    let done = site.until(&task, "completed").await;
    assert_eq!(done["result"]["isError"], true);
    let text = done["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("no answer fitted"), "{text}");
}

#[tokio::test]
async fn a_tool_error_is_completed_with_is_error_and_never_failed() {
    let site = site().await;
    let task = site.task("fails", json!({})).await;
    let done = site.until(&task, "completed").await;
    assert_eq!(done["result"]["isError"], true);
    assert_eq!(done["result"]["content"][0]["text"], "out of paper");
}

#[tokio::test]
async fn a_json_rpc_error_is_failed_with_the_error_and_a_message() {
    let site = site().await;
    let task = site.task("breaks", json!({})).await;
    let done = site.until(&task, "failed").await;
    assert_eq!(done["error"], json!({ "code": -31999, "message": "the protocol is broken" }));
    assert_eq!(done["statusMessage"], "the protocol is broken");
    assert!(done.get("result").is_none());
}

#[tokio::test]
async fn a_panic_is_failed_without_its_text() {
    let site = site().await;
    let task = site.task("panics", json!({})).await;
    let done = site.until(&task, "failed").await;
    assert_eq!(done["error"]["code"], -32603);
    assert!(!done.to_string().contains("secret"), "{done}");
}

#[tokio::test]
async fn cancel_is_acknowledged_and_again_when_it_is_over() {
    let site = site().await;
    let task = site.task("hang", json!({})).await;
    let params = json!({ "taskId": task["taskId"] });
    for _ in 0..2 {
        let reply = site.result(&able(), "tasks/cancel", params.clone()).await;
        assert_eq!(reply.as_object().unwrap().keys().collect::<Vec<_>>(), ["resultType"]);
        let seen = site.until(&task, "cancelled").await;
        assert!(seen.get("result").is_none() && seen.get("error").is_none());
    }
    let over = site.task("add_durably", json!({ "a": 1, "b": 1 })).await;
    site.until(&over, "completed").await;
    site.result(&able(), "tasks/cancel", json!({ "taskId": over["taskId"] })).await;
    assert_eq!(site.get(&over).await["status"], "completed");
}

#[tokio::test]
async fn an_unknown_task_is_invalid_params() {
    let site = site().await;
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        for id in ["nobody", "", "two words", &"x".repeat(500)] {
            let params = json!({ "taskId": id, "inputResponses": {} });
            let (_, error) = site.error(&able(), method, params).await;
            assert_eq!(error["code"], -32602, "{method} {id}");
        }
    }
}

#[tokio::test]
async fn a_client_without_the_extension_gets_32021_for_every_method_of_tasks() {
    let site = site().await;
    let task = site.task("hang", json!({})).await;
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        let params = json!({ "taskId": task["taskId"], "inputResponses": {} });
        let (status, error) = site.error(&taskless(), method, params).await;
        assert_eq!((status, &error["code"]), (400, &json!(-32021)), "{method}");
    }
    let params = json!({ "notifications": { "taskIds": [task["taskId"]] } });
    let (_, error) = site.error(&taskless(), "subscriptions/listen", params).await;
    assert_eq!(error["code"], -32021);
    assert_eq!(error["data"]["requiredCapabilities"]["extensions"][TASKS], json!({}));
}

#[tokio::test]
async fn there_is_no_list_and_no_result_any_more() {
    let site = site().await;
    for method in ["tasks/list", "tasks/result"] {
        let (status, error) = site.error(&able(), method, json!({ "taskId": "x" })).await;
        assert_eq!((status, &error["code"]), (404, &json!(-32601)));
    }
}

#[tokio::test]
async fn questions_before_the_task_is_handed_out_are_asked_in_place_of_it() {
    let site = site().await;
    let call = json!({ "name": "asks_first", "arguments": {} });
    let first = site.result(&able(), "tools/call", call.clone()).await;
    assert_eq!(first["resultType"], "input_required");
    assert_eq!(first["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["who"]);
    let mut again = call;
    again["inputResponses"] = json!({ "who": accept(json!({ "name": "Ada" })) });
    again["requestState"] = first["requestState"].clone();
    let task = site.result(&able(), "tools/call", again.clone()).await;
    assert_eq!(task["resultType"], "task");
    let said = &task["_meta"]["io.modelcontextprotocol/model-immediate-response"];
    assert_eq!(*said, "Working for Ada.");
    // A repeat is the same task.
    assert_eq!(site.result(&able(), "tools/call", again).await["taskId"], task["taskId"]);
    site.until(&task, "input_required").await;
    site.update(&task, json!({ "go_on": accept(json!({ "approved": true })) })).await;
    let done = site.until(&task, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "Ada true");
}

#[tokio::test]
async fn a_listener_gets_the_acknowledgement_the_present_state_and_each_change_whole() {
    let site = site().await;
    let task = site.task("approve", lamp()).await;
    let asks = site.until(&task, "input_required").await;
    let ids = json!([task["taskId"], "somebody-else's"]);
    let params = json!({ "notifications": { "taskIds": ids } });
    let mut events = site.modern(&able(), "subscriptions/listen", params).await.events();
    let acknowledged = events.next().await.unwrap();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["notifications"], json!({ "taskIds": [task["taskId"]] }));
    let now = events.next().await.unwrap();
    assert_eq!(now["method"], "notifications/tasks");
    assert_eq!(now["params"]["inputRequests"], asks["inputRequests"]);
    assert_eq!(now["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
    site.update(&task, json!({ "approval": accept(json!({ "approved": true })) })).await;
    let last = loop {
        let event = events.next().await.unwrap();
        assert_eq!(event["method"], "notifications/tasks", "nothing else belongs here");
        if event["params"]["status"] == "completed" {
            break event;
        }
    };
    // Identical to what get would say.
    let mut same = site.get(&task).await;
    let mut told = last["params"].clone();
    for value in [&mut same, &mut told] {
        value.as_object_mut().unwrap().retain(|name, _| name != "_meta" && name != "resultType");
    }
    assert_eq!(told, same);
}

#[tokio::test]
async fn a_listener_of_a_task_hears_no_progress_and_no_log() {
    let site = site().await;
    let task = site.task("hang", json!({})).await;
    let params = json!({ "notifications": { "taskIds": [task["taskId"]] }, "_meta": { "progressToken": 1, "io.modelcontextprotocol/logLevel": "debug" } });
    let mut events = site.modern(&able(), "subscriptions/listen", params).await.events();
    events.next().await.unwrap();
    site.result(&able(), "tasks/cancel", json!({ "taskId": task["taskId"] })).await;
    loop {
        let event = events.next().await.unwrap();
        assert_eq!(event["method"], "notifications/tasks");
        if event["params"]["status"] == "cancelled" {
            break;
        }
    }
}

#[tokio::test]
async fn ids_cannot_be_guessed() {
    let site = site().await;
    let one = site.task("hang", json!({})).await;
    let two = site.task("hang", json!({})).await;
    let random = |task: &Value| {
        let id = task["taskId"].as_str().unwrap().to_owned();
        let bits = id.rsplit('-').next().unwrap().to_owned();
        assert!(bits.len() == 32 && bits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        bits
    };
    assert_ne!(random(&one), random(&two));
}

#[tokio::test]
async fn a_wrong_mcp_name_is_refused_and_a_missing_one_is_not() {
    let site = site().await;
    let task = site.task("hang", json!({})).await;
    let id = task["taskId"].as_str().unwrap();
    let params = json!({ "taskId": id });
    let fine = site.modern_with(&able(), "tasks/get", params.clone(), &[("Mcp-Name", id)]).await;
    assert_eq!(fine.status, 200);
    let wrong = site.modern_with(&able(), "tasks/get", params, &[("Mcp-Name", "other")]).await;
    assert_eq!(wrong.status, 400);
    assert_eq!(wrong.json().await["error"]["code"], -32020);
}

#[tokio::test]
async fn what_the_client_cannot_be_asked_is_not_sent_to_it() {
    let site = site().await;
    let task = site.task("approve", lamp()).await;
    site.until(&task, "input_required").await;
    let mute = json!({ "extensions": { TASKS: {} } });
    let seen = site.result(&mute, "tasks/get", json!({ "taskId": task["taskId"] })).await;
    assert!(seen.get("inputRequests").is_none(), "{seen}");
    assert_eq!(seen["status"], "working");
}

#[tokio::test]
async fn a_task_goes_on_in_another_process_and_no_step_runs_again() {
    let (disk, count) = (Disk::new(), Count::default());
    let task = {
        let site = Site::on(server(&count), &disk).await;
        let task = site.task("approve", lamp()).await;
        site.until(&task, "input_required").await;
        site.running.shutdown(std::time::Duration::from_secs(1)).await;
        task
    };
    let site = Site::on(server(&count), &disk).await;
    assert_eq!(site.get(&task).await["status"], "input_required");
    site.update(&task, json!({ "approval": accept(json!({ "approved": true })) })).await;
    let done = site.until(&task, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "approved: true");
    assert_eq!(count.get(), 1);
}
