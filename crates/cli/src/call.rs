//! `steadfast call` and `steadfast resume`.

use std::sync::Arc;

use clap::Args;
use serde_json::Value;
use steadfast_client::{Bookmark, Client};

use crate::{
    Result,
    arguments::{Argument, object},
    ask::Answering,
    screen::Screen,
    see,
    target::Target,
};

/// Call a tool.
#[derive(Args)]
pub(crate) struct Call {
    #[command(flatten)]
    target: Target,

    /// The tool
    tool: String,

    /// An argument: name=value, or name:=JSON. May repeat
    #[arg(long = "arg", value_name = "NAME=VALUE")]
    arguments: Vec<Argument>,

    /// All arguments as a JSON object
    #[arg(long, value_name = "OBJECT")]
    json: Option<String>,

    /// Let the server make a task of it, and follow that [default in 2026-07-28]
    #[arg(long, conflicts_with = "plain")]
    as_task: bool,

    /// Wait for the result on the stream of the call [default before 2026-07-28]
    #[arg(long)]
    plain: bool,

    /// Make the call only once, however often it is made with this key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,

    #[command(flatten)]
    answering: Answering,

    #[command(flatten)]
    limits: Limits,
}

/// How much is waited for and said.
#[derive(Args, Clone)]
pub(crate) struct Limits {
    /// Leave when it takes longer than this many seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<u64>,

    /// Say nothing of progress and logs
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl Call {
    pub(crate) async fn run(self) -> Result<u8> {
        let screen = Screen::new(self.limits.quiet);
        let client = self.target.connect().await?;
        let schema = match self.arguments.is_empty() {
            true => Value::Null,
            false => schema(&client, &self.tool).await?,
        };
        let arguments = object(self.json.as_deref(), &self.arguments, &schema)?;
        let mut call = client.call(&self.tool, arguments);
        if self.as_task || client.revision().is_stateless() && !self.plain {
            call = call.as_task();
        }
        if let Some(key) = &self.key {
            call = call.idempotency_key(key);
        }
        let bookmark = call.bookmark();
        let (progress, log, status) = (screen.clone(), screen.clone(), screen.clone());
        let (asked, answering) = (screen.clone(), Arc::new(self.answering));
        call = call
            .on_progress(move |said| progress.progress(&said))
            .on_log(move |said| log.log(&said))
            .on_status(move |seen| status.status(&seen))
            .on_question(move |question| answering.clone().answer(question, asked.clone()));
        let back = || way_back(&self.target, &client, &bookmark, self.key.as_deref());
        see::through(call.into_future(), self.limits.timeout, &screen, back).await
    }
}

async fn schema(client: &Client, tool: &str) -> Result<Value> {
    let tools = client.list_tools().await?;
    let found = tools.into_iter().find(|one| one["name"] == tool);
    let mut found = found.ok_or_else(|| format!("the server has no tool {tool:?}"))?;
    Ok(found["inputSchema"].take())
}

/// How to go on with a call that was left.
fn way_back(
    target: &Target,
    client: &Client,
    bookmark: &Bookmark,
    key: Option<&str>,
) -> Option<String> {
    let words = target.words();
    let command = match (bookmark.task_id(), client.session_id(), bookmark.last_event_id()) {
        (Some(task), _, _) => format!("steadfast task {words} result {task}"),
        (None, Some(session), Some(event)) => {
            format!("steadfast resume {words} --session {session} --event {event}")
        }
        _ => return key.map(|key| format!("make it again with the same --key {key}")),
    };
    Some(format!("it goes on at the server, and can be taken up with:\n  {command}"))
}

/// Take up a call whose stream broke, or whose caller left.
#[derive(Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    target: Target,

    /// The session that the call was made in
    #[arg(long, value_name = "ID")]
    session: String,

    /// The last event of its stream
    #[arg(long, value_name = "ID")]
    event: String,

    #[command(flatten)]
    answering: Answering,

    #[command(flatten)]
    limits: Limits,
}

impl Resume {
    pub(crate) async fn run(self) -> Result<u8> {
        let screen = Screen::new(self.limits.quiet);
        let client = self.target.reconnect(&self.session).await?;
        let (progress, log) = (screen.clone(), screen.clone());
        let (asked, answering) = (screen.clone(), Arc::new(self.answering));
        let resume = client
            .resume(&self.event)
            .on_progress(move |said| progress.progress(&said))
            .on_log(move |said| log.log(&said))
            .on_question(move |question| answering.clone().answer(question, asked.clone()));
        let bookmark = resume.bookmark();
        let back = || way_back(&self.target, &client, &bookmark, None);
        see::through(resume.into_future(), self.limits.timeout, &screen, back).await
    }
}
