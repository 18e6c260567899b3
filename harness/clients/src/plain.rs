//! Calls without tasks, over a kill of the server.
#![allow(deprecated)] // Log lines, of which 2025-11-25 knows nothing bad.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        CallToolRequestParams, CallToolResponse, ClientConfig, ElicitRequestParams, ElicitResult,
        ElicitationAction, LoggingMessageNotificationParam, ProgressNotificationParam,
        ProtocolVersion,
    },
    service::{
        ClientLifecycleMode, ClientServiceExt, NotificationContext, RequestContext, RunningService,
    },
    transport::StreamableHttpClientTransport,
};
use serde_json::{Value, json};
use tokio::{
    sync::Semaphore,
    task::{JoinHandle, spawn_blocking},
};

use crate::{NOTE, Result, same};

/// Two calls of 2025-11-25. The client takes up their streams by itself.
pub(crate) async fn stays(url: &str) -> Result<()> {
    let user = Arc::new(User::new("2025-11-25"));
    let client = connect(url, &user, ClientLifecycleMode::Initialize).await?;
    // The last is more than a float can hold.
    let numbers = json!([1, 1.5, 9_007_199_254_740_993_u64]);
    let dozed = call(&client, "doze", json!({ "item": "stays" }));
    user.heard.until(1).await;
    let carried = call(&client, "carry", json!({ "item": "stays", "numbers": numbers }));
    user.asked.until(1).await;
    same(&user.heard.all(), &words(&["dozing", "packed", "log: packed"]))?;

    println!("{}", json!({ "asked": true }));
    spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    user.ready.add_permits(1);
    same(&dozed.await??["content"][0]["text"], &json!("stays has slept."))?;
    let parcel = json!({ "item": "stays", "numbers": numbers, "note": NOTE });
    same(&carried.await??["structuredContent"], &parcel)?;
    let heard = words(&["dozing", "packed", "log: packed", "sent", "log: sent"]);
    same(&user.heard.all(), &heard)?;
    same(&user.asked.all(), &words(&["Send stays?"]))
}

/// A call of 2026-07-28, which is not answered. It fails, and does not wait for ever.
pub(crate) async fn lost(url: &str) -> Result<()> {
    let user = Arc::new(User::new("2026-07-28"));
    let modern =
        ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let client = connect(url, &user, modern).await?;
    match call(&client, "hold", json!({ "item": "lost" })).await? {
        Ok(answer) => Err(format!("it was answered: {answer}").into()),
        Err(_) => Ok(()),
    }
}

type Client = RunningService<RoleClient, Arc<User>>;

async fn connect(url: &str, user: &Arc<User>, mode: ClientLifecycleMode) -> Result<Client> {
    let transport = StreamableHttpClientTransport::from_uri(url);
    Ok(user.clone().serve_with_lifecycle(transport, mode).await?)
}

type Answered = std::result::Result<Value, String>;

fn call(client: &Client, tool: &'static str, arguments: Value) -> JoinHandle<Answered> {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    let params = CallToolRequestParams::new(tool).with_arguments(arguments);
    let peer = client.peer().clone();
    tokio::spawn(async move {
        match peer.call_tool_once(params).await {
            Ok(CallToolResponse::Complete(result)) => {
                serde_json::to_value(result).map_err(|error| error.to_string())
            }
            Ok(other) => Err(format!("not a result: {other:?}")),
            Err(error) => Err(error.to_string()),
        }
    })
}

/// Hears what the server says, and answers when it is told to.
struct User {
    version: &'static str,
    heard: Words,
    asked: Words,
    ready: Semaphore,
}

impl User {
    fn new(version: &'static str) -> User {
        let (heard, asked) = Default::default();
        User { version, heard, asked, ready: Semaphore::new(0) }
    }
}

impl ClientHandler for User {
    #[allow(clippy::expect_used)] // It is written here.
    fn get_info(&self) -> ClientConfig {
        let config = json!({
            "protocolVersion": self.version,
            "clientInfo": { "name": "rmcp-client", "version": "3.8" },
            "capabilities": { "elicitation": { "form": {} } },
        });
        serde_json::from_value(config).expect("a client's words about itself")
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> std::result::Result<ElicitResult, ErrorData> {
        match request {
            ElicitRequestParams::FormElicitationParams { message, .. } => self.asked.add(message),
            other => self.asked.add(format!("{other:?}")),
        }
        let _ready = self.ready.acquire().await;
        let content = json!({ "approve": true, "note": NOTE });
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.heard.add(params.message.unwrap_or_default());
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.heard.add(format!("log: {}", params.data.as_str().unwrap_or_default()));
    }
}

#[derive(Default)]
struct Words(Mutex<Vec<String>>);

impl Words {
    fn add(&self, word: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(word);
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn until(&self, count: usize) {
        while self.all().len() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|&word| word.to_owned()).collect()
}
