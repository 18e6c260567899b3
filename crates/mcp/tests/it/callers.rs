//! What authenticated a request: claims and credentials, in its call and after a restart.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use steadfast_engine::{
    ActivityContext, Error, Principal, RerunFrom, Result, Retry, Status, TaskId, TaskInfo,
};
use steadfast_mcp::{
    Auth, Context, CredentialKey, Identity, NoInput, OfCall, Server, Settings, Tool, Unfit,
};
use steadfast_store::{Disk, Store};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::{
    http::{send, send_to},
    site::{ACCEPT, JSON, Legacy, Site, able, taskless},
};

fn key(byte: u8) -> CredentialKey {
    CredentialKey::new([byte; 32])
}

fn ada() -> Principal {
    Principal::new("ada").unwrap()
}

fn identity(name: &str, role: &str) -> Option<Identity> {
    let identity = Identity::new(Principal::new(name).ok()?).claim("role", role);
    Some(identity.credential("bank", format!("bank-{name}-{role}")))
}

/// Tokens are `name:role`.
fn auth() -> Auth {
    Auth::hook(|bearer| async move {
        let (name, role) = bearer.token().split_once(':')?;
        identity(name, role)
    })
}

fn role(claims: &serde_json::Map<String, Value>) -> String {
    claims["role"].as_str().unwrap().to_owned()
}

/// What a call has. A tool that is not a test would never return a credential.
async fn seen(ctx: &Context) -> Result<String> {
    let role = role(&ctx.caller().claims);
    let bank = || async { Ok::<_, Error>(ctx.credential("bank")?.expose().to_owned()) };
    Ok(format!("{role} {}", ctx.step("bank", bank).await?))
}

async fn now(ctx: Context, _: NoInput) -> Result<String> {
    seen(&ctx).await
}

async fn later(ctx: Context, _: NoInput) -> Result<String> {
    ctx.event::<String>("go").await?;
    seen(&ctx).await
}

/// Tries until there is a key.
async fn patiently(ctx: Context, _: NoInput) -> Result<String> {
    ctx.event::<String>("go").await?;
    let bank = || async { Ok::<_, Error>(ctx.credential("bank")?.expose().to_owned()) };
    let often = Retry::forever().first_delay(Duration::from_millis(5)).factor(1.0);
    ctx.step("bank", bank).retry(often).await
}

async fn activity_sees(ctx: ActivityContext, _: NoInput) -> Result<String> {
    let caller = OfCall::caller(&ctx).await?;
    Ok(format!("{} {}", role(&caller.claims), OfCall::credential(&ctx, "bank").await?.expose()))
}

fn server() -> Server {
    Server::new("test")
        .auth(auth())
        .tool(Tool::new("now", now))
        .tool(Tool::new("later", later))
        .tool(Tool::new("patiently", patiently))
}

fn bearer(token: &str) -> (&'static str, String) {
    ("Authorization", format!("Bearer {token}"))
}

/// Calls a tool as 2026-07-28 has it.
async fn call(site: &Site, token: &str, capabilities: &Value, tool: &str) -> Value {
    let (name, value) = bearer(token);
    let params = json!({ "name": tool, "arguments": {} });
    let called = site.modern_with(capabilities, "tools/call", params, &[(name, &value)]).await;
    called.last().await["result"].clone()
}

async fn start(site: &Site, tool: &str) -> TaskId {
    let task = call(site, "ada:clerk", &able(), tool).await;
    TaskId::new(task["taskId"].as_str().unwrap()).unwrap()
}

async fn go(site: &Site, id: &TaskId) {
    let event = steadfast_engine::Event::new("go", &"go");
    site.running.engine().tasks(ada()).signal(id, event).await.unwrap();
}

async fn end(site: &Site, id: &TaskId) -> TaskInfo {
    let ended = site.running.engine().tasks(ada()).wait(id).await;
    ended.unwrap()
}

fn text(info: &TaskInfo) -> String {
    let output: Value = info.output.as_ref().unwrap().read().unwrap();
    output["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn claims_and_credentials_are_there_after_a_restart_also_under_a_new_first_key() {
    let disk = Disk::new();
    let one = Site::on(server().credential_key(key(1)), &disk).await;
    let id = start(&one, "later").await;
    one.running.shutdown(Duration::from_secs(1)).await;
    let two = Site::on(server().credential_key(key(2)).credential_key(key(1)), &disk).await;
    go(&two, &id).await;
    assert_eq!(text(&end(&two, &id).await), "clerk bank-ada-clerk");
    // Run again it is the same call still.
    let again = two.running.engine().tasks(ada()).rerun(&id, RerunFrom::Start).await.unwrap().id;
    go(&two, &again).await;
    assert_eq!(text(&end(&two, &again).await), "clerk bank-ada-clerk");
}

#[tokio::test]
async fn with_another_key_the_tool_gets_an_error_that_says_what_to_do() {
    let disk = Disk::new();
    let one = Site::on(server().credential_key(key(1)), &disk).await;
    let (fails, patient) = (start(&one, "later").await, start(&one, "patiently").await);
    one.running.shutdown(Duration::from_secs(1)).await;
    let two = Site::on(server().credential_key(key(2)), &disk).await;
    for id in [&fails, &patient] {
        go(&two, id).await;
    }
    let failure = end(&two, &fails).await.failure.unwrap();
    assert_eq!(failure.code.as_deref(), Some("credential_key"));
    assert!(failure.message.contains("--credential-key-file"), "{failure}");
    let tasks = two.running.engine().tasks(ada());
    tasks.wait_for(&patient, |info| info.status == Status::Retrying).await.unwrap();
    two.running.shutdown(Duration::from_secs(1)).await;
    let three = Site::on(server().credential_key(key(1)), &disk).await;
    assert_eq!(text(&end(&three, &patient).await), "bank-ada-clerk");
}

#[tokio::test]
async fn a_call_has_those_of_its_own_request_and_a_session_those_it_began_with() {
    let disk = Disk::new();
    let site = Site::on(server().credential_key(key(1)), &disk).await;
    for version in ["2025-11-25", "2025-03-26"] {
        let clerk = Legacy::open_as(&site, version, json!({}), Some("ada:clerk")).await;
        let other = Legacy::open_as(&site, version, json!({}), Some("ada:manager")).await;
        let manager = other.of(clerk.session.clone());
        for (n, client, role) in [(1, &clerk, "clerk"), (2, &manager, "manager")] {
            let result = client.result(n, "tools/call", json!({ "name": "now" })).await;
            assert_eq!(result["content"][0]["text"], format!("{role} bank-ada-{role}"));
        }
        let stored = disk.open().session(clerk.session.clone(), site.running.engine().now()).await;
        let body = String::from_utf8(stored.unwrap().unwrap().body).unwrap();
        assert!(body.contains(r#""role":"clerk""#) && !body.contains("bank-"), "{body}");
    }
    let manager = Legacy::open_as(&site, "2025-03-26", json!({}), Some("ada:manager")).await;
    let one =
        json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": { "name": "now" } });
    let batch = manager.post(&json!([one])).await.json().await;
    assert_eq!(batch[0]["result"]["content"][0]["text"], "manager bank-ada-manager", "{batch}");
    let result = call(&site, "ada:boss", &taskless(), "now").await;
    assert_eq!(result["content"][0]["text"], "boss bank-ada-boss");
}

#[tokio::test]
async fn so_has_one_of_2024_and_one_over_byte_streams() {
    let settings = Settings { sse: true, ..Settings::default() };
    let site = Site::start(server().settings(settings).credential_key(key(1))).await;
    let (name, value) = bearer("ada:clerk");
    let mut events = send_to(site.address, "GET", "/sse", &[(name, &value)], "").await.events();
    let path = events.raw().await.unwrap();
    let path = path.strip_prefix("event: endpoint\ndata: ").unwrap().to_owned();
    let params = json!({ "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": { "name": "old", "version": "1" } });
    for (token, method, params, says) in [
        ("ada:clerk", "initialize", params, Value::Null),
        ("ada:manager", "tools/call", json!({ "name": "now" }), json!("manager bank-ada-manager")),
    ] {
        let (name, value) = bearer(token);
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let headers = [JSON, (name, value.as_str())];
        let message = message.to_string();
        events.talk().client_says(&message);
        assert_eq!(send_to(site.address, "POST", &path, &headers, &message).await.status, 202);
        assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], says);
    }

    let (near, far) = tokio::io::duplex(1 << 16);
    let (input, output) = tokio::io::split(far);
    let running = site.running.clone();
    let caller = identity("ada", "piped").unwrap();
    tokio::spawn(async move { running.serve_io(caller, input, output).await });
    let mut near = BufReader::new(near);
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                       "io.modelcontextprotocol/clientCapabilities": {} });
    let params = json!({ "name": "now", "arguments": {}, "_meta": meta });
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    near.write_all(format!("{request}\n").as_bytes()).await.unwrap();
    let mut line = String::new();
    near.read_line(&mut line).await.unwrap();
    assert!(line.contains("piped bank-ada-piped"), "{line}");
}

#[tokio::test]
async fn children_activities_and_undo_functions_have_those_of_the_call() {
    let undone = Arc::new(Mutex::new(Vec::new()));
    let all = async |ctx: Context, _: NoInput| {
        let child: Value = ctx.child("now", &json!({})).await?;
        let activity: String = ctx.activity("sees", &json!({})).await?;
        ctx.step("reserve", || async { Ok::<_, Error>(()) }).undo("undo", &json!({})).await?;
        Err::<String, _>(Error::new(format!("{} {activity}", child["content"][0]["text"])))
    };
    let seen = undone.clone();
    let undo = move |ctx: ActivityContext, input: NoInput| {
        let seen = seen.clone();
        async move {
            let line = activity_sees(ctx, input).await?;
            seen.lock().unwrap().push(line);
            Ok(())
        }
    };
    let server = server()
        .credential_key(key(1))
        .tool(Tool::new("all", all))
        .activity("sees", activity_sees)
        .activity("undo", undo);
    let site = Site::start(server).await;
    let id = start(&site, "all").await;
    let failure = end(&site, &id).await.failure.unwrap();
    assert_eq!(failure.message, "\"clerk bank-ada-clerk\" clerk bank-ada-clerk");
    let tasks = site.running.engine().tasks(ada());
    let done =
        |info: &TaskInfo| matches!(info.compensation, Some(steadfast_engine::Compensation::Done));
    tasks.wait_for(&id, done).await.unwrap();
    assert_eq!(*undone.lock().unwrap(), ["clerk bank-ada-clerk"]);
}

#[tokio::test]
async fn without_a_key_whoever_has_credentials_is_refused() {
    let site = Site::start(server()).await;
    let (name, value) = bearer("ada:clerk");
    let params = json!({ "name": "now", "arguments": {} });
    let refused = site.modern_with(&able(), "tools/call", params, &[(name, &value)]).await;
    assert_eq!(refused.status, 500);
    let said = refused.json().await.to_string();
    assert!(said.contains("--credential-key-file") && !said.contains("bank-"), "{said}");
    assert!(site.running.engine().operator().counts().await.unwrap().is_empty());

    let engine = || steadfast_engine::Engine::builder(Arc::new(Disk::new().open()));
    let declared = || Server::new("test").auth(auth().attaches_credentials());
    assert_eq!(declared().start(engine()).err(), Some(Unfit::NoCredentialKey));
    assert!(declared().credential_key(key(1)).start(engine()).is_ok());
}

#[tokio::test]
async fn claims_that_are_too_large_are_refused() {
    let auth = Auth::hook(|bearer| async move {
        let size: usize = bearer.token().parse().ok()?;
        Some(Identity::new(ada()).claim("groups", "x".repeat(size)))
    });
    let site = Site::start(Server::new("test").auth(auth)).await;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
    for (size, status) in [("16000", 200), ("17000", 403), ("nobody", 401)] {
        let (name, value) = bearer(size);
        let headers = [JSON, ACCEPT, (name, value.as_str())];
        let response = send(site.address, "POST", &headers, ping).await;
        assert_eq!(response.status, status, "{size}");
        if status == 403 {
            let said = response.text().await;
            assert!(said.contains("16384"), "{said}");
        }
    }
}
