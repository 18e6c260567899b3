//! The client of rmcp, doing what `contract.mjs` describes: `rmcp-client PHASE TARGET [TASK]`. It knows
//! tasks of 2026-07-28 only.
#![allow(clippy::print_stdout)] // The runner reads it.

mod plain;

use std::{collections::BTreeMap, time::Duration};

use rmcp::{
    RoleClient,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, ClientConfig, DetailedTask,
        GetTaskParams, InputRequest, ProtocolVersion, TaskPayload, TaskStatus, UpdateTaskParams,
    },
    service::{ClientLifecycleMode, ClientServiceExt, RunningService},
    transport::{StreamableHttpClientTransport, TokioChildProcess},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const NOTE: &str = "by the back door";

#[derive(Deserialize)]
struct Target {
    url: Option<String>,
    #[serde(default)]
    command: Vec<String>,
}

// On one thread, what the server says is heard in its order.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    // Built with the whole workspace, its reqwest has TLS, and no provider of its own for it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [phase, target, task @ ..] = &words[..] else { return Err("PHASE TARGET [TASK]".into()) };
    let target: Target = serde_json::from_str(target)?;
    match (phase.as_str(), &target.url) {
        ("stays", Some(url)) => return plain::stays(url).await,
        ("lost", Some(url)) => return plain::lost(url).await,
        _ => {}
    }
    let client = Client::connect(&target).await?;
    match (phase.as_str(), task) {
        ("whole", []) => client.whole().await?,
        ("begin", []) => client.begin().await?,
        ("finish", [task]) => client.approve(task, "killed").await?,
        _ => return Err(format!("what is {phase}?").into()),
    }
    client.0.cancel().await?;
    Ok(())
}

struct Client(RunningService<RoleClient, ClientConfig>);

impl Client {
    async fn connect(target: &Target) -> Result<Client> {
        let config: ClientConfig = serde_json::from_value(json!({
            "protocolVersion": "2026-07-28",
            "clientInfo": { "name": "rmcp-client", "version": "3.8" },
            "capabilities": {
                "elicitation": { "form": {} },
                "extensions": { "io.modelcontextprotocol/tasks": {} },
            },
        }))?;
        let modern = ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        };
        Ok(Client(match (&target.url, &target.command[..]) {
            (Some(url), _) => {
                let transport = StreamableHttpClientTransport::from_uri(url.as_str());
                config.serve_with_lifecycle(transport, modern).await?
            }
            (None, [program, args @ ..]) => {
                let mut command = Command::new(program);
                command.args(args);
                config.serve_with_lifecycle(TokioChildProcess::new(command)?, modern).await?
            }
            (None, []) => return Err("neither url nor command".into()),
        }))
    }

    async fn whole(&self) -> Result<()> {
        match self.call("plain", json!({ "name": "Ada" })).await? {
            CallToolResponse::Complete(result) => {
                same(&serde_json::to_value(result)?["content"][0]["text"], &json!("Hello, Ada!"))?;
            }
            other => return Err(format!("not a result: {other:?}").into()),
        }
        let quick = self.start("quick", json!({ "item": "whole" })).await?;
        same(&self.result(&quick).await?["content"][0]["text"], &json!("whole is done."))?;

        let order = self.start("order", json!({ "item": "whole" })).await?;
        self.approve(&order, "whole").await?;

        let fails = self.start("fails", json!({ "item": "whole" })).await?;
        let failed = self.result(&fails).await?;
        same(&failed["isError"], &json!(true))?;
        same(&failed["content"][0]["text"], &json!("whole can't be done."))?;

        let slow = self.start("slow", json!({})).await?;
        same(&self.get(&slow).await?.status(), &TaskStatus::Working)?;
        self.0.cancel_task(CancelTaskParams::new(&slow)).await?;
        same(&self.get(&slow).await?.status(), &TaskStatus::Cancelled)
    }

    /// Begins an order, and stays until it is killed.
    async fn begin(&self) -> Result<()> {
        let order = self.start("order", json!({ "item": "killed" })).await?;
        self.past_working(&order).await?;
        println!("{}", json!({ "task": order }));
        std::future::pending().await
    }

    async fn call(&self, tool: &'static str, arguments: Value) -> Result<CallToolResponse> {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        Ok(self.0.call_tool_once(params).await?)
    }

    async fn start(&self, tool: &'static str, arguments: Value) -> Result<String> {
        match self.call(tool, arguments).await? {
            CallToolResponse::Task(created) => Ok(created.task.task_id),
            other => Err(format!("not a task: {other:?}").into()),
        }
    }

    async fn get(&self, task: &str) -> Result<DetailedTask> {
        Ok(self.0.get_task(GetTaskParams::new(task)).await?.task)
    }

    /// The runner has a limit for the whole process.
    async fn past_working(&self, task: &str) -> Result<DetailedTask> {
        loop {
            let seen = self.get(task).await?;
            if seen.status() != TaskStatus::Working {
                return Ok(seen);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn result(&self, task: &str) -> Result<Value> {
        match self.past_working(task).await?.payload {
            TaskPayload::Completed { result } => Ok(Value::Object(result)),
            other => Err(format!("not completed: {other:?}").into()),
        }
    }

    /// Answers the question of an order, and sees it through.
    async fn approve(&self, order: &str, item: &str) -> Result<()> {
        let asks = self.past_working(order).await?.payload;
        let TaskPayload::InputRequired { input_requests } = asks else {
            return Err(format!("no question: {asks:?}").into());
        };
        let mut responses = BTreeMap::new();
        for (key, request) in input_requests {
            let InputRequest::Elicitation(request) = request else {
                return Err(format!("not a form: {request:?}").into());
            };
            let message = serde_json::to_value(&request.params)?["message"].clone();
            same(&message, &json!(format!("Ship {item}?")))?;
            let content = json!({ "approve": true, "note": NOTE });
            responses.insert(key, json!({ "action": "accept", "content": content }));
        }
        same(&responses.len(), &1)?;
        self.0.update_task(UpdateTaskParams::new(order, responses)).await?;
        let receipt = json!({ "item": item, "shipped": true, "note": NOTE });
        same(&self.result(order).await?["structuredContent"], &receipt)
    }
}

fn same<T: PartialEq + std::fmt::Debug>(found: &T, wanted: &T) -> Result<()> {
    match found == wanted {
        true => Ok(()),
        false => Err(format!("{found:?} in place of {wanted:?}").into()),
    }
}
