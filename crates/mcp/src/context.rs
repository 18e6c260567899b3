//! What a durable tool's code can do.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use steadfast_engine::Error;

use crate::{
    Secret,
    client::{CallRecord, Caller},
    secret::Keys,
    wire::RpcError,
};

/// The mark of a task that has been handed to its client, with what the model is to read meanwhile.
pub(crate) const HANDED_OUT: &str = "mcp.handed_out";

/// What a durable tool can do: all that the engine's [`Context`](steadfast_engine::Context) can, and
/// what needs a client.
#[derive(Clone, Debug)]
pub struct Context {
    pub(crate) engine: steadfast_engine::Context,
    pub(crate) call: Arc<CallRecord>,
    /// Whether this run of the code has come to where the task is handed out.
    handed_out: Arc<AtomicBool>,
}

impl Deref for Context {
    type Target = steadfast_engine::Context;

    fn deref(&self) -> &Self::Target {
        &self.engine
    }
}

impl Context {
    pub(crate) fn new(engine: steadfast_engine::Context) -> Context {
        let call = engine.call().and_then(|call| call.read().ok());
        // Started from Rust: there is no client that could be asked.
        let call: CallRecord = call.unwrap_or_default();
        Context { engine, call: Arc::new(call), handed_out: Arc::default() }
    }

    /// How long a question waits whose author set no deadline. A task that was handed out waits as long
    /// as it takes.
    pub(crate) fn answer_within(&self) -> Option<Duration> {
        let handed_out = self.handed_out.load(Ordering::Relaxed);
        self.call.answer_within_ms.filter(|_| !handed_out).map(Duration::from_millis)
    }

    /// Who called, and with what.
    #[must_use]
    pub fn caller(&self) -> Caller {
        self.call.caller(self.engine.owner())
    }

    /// The secret of this name that came with the call: see
    /// [`Identity::credential`](crate::Identity::credential). Children have those of their parent.
    ///
    /// Get it in the step that uses it. If this process lacks the key that it was encrypted with, the
    /// error has the code `credential_key` and can be retried: a step with a [`Retry`](steadfast_engine::Retry) goes
    /// on when the server was started again with the key.
    ///
    /// ```
    /// # use steadfast_mcp::{Context, Secret};
    /// # use steadfast_engine::Result;
    /// # async fn open_issue(_: &Secret) -> Result<u64> { Ok(7) }
    /// # async fn tool(ctx: Context) -> Result<u64> {
    /// let open = || async { open_issue(&ctx.credential("github")?).await };
    /// let issue = ctx.step("open an issue", open).await?;
    /// # Ok(issue)
    /// # }
    /// ```
    pub fn credential(&self, name: &str) -> steadfast_engine::Result<Secret> {
        let keys = self.engine.attached::<Keys>().unwrap_or_default();
        self.call.credential(&keys, self.engine.owner(), self.engine.origin(), name)
    }

    /// Tells those who watch it that the content of a resource has changed: once, with the next commit, and
    /// not again in a replay.
    pub fn resource_updated(&self, uri: impl Into<String>) -> steadfast_engine::Result<()> {
        self.engine.notice(&crate::catalog::Change::Resource(uri.into()))
    }

    /// Hands the task out to the client, for a tool that
    /// [decides so itself](crate::Tool::hands_itself_out): until then the client's call waits, and
    /// questions are asked in place of its answer. Nothing happens the second time, or for a client
    /// that knows no tasks.
    pub fn hand_out(&self) {
        self.handed_out.store(true, Ordering::Relaxed);
        // A mark of this size is never refused.
        let _ = self.engine.mark(HANDED_OUT, &serde_json::Value::Null);
    }

    /// The same, with something for the model to read while the task goes on.
    pub fn immediate_response(&self, text: impl Into<String>) -> steadfast_engine::Result<()> {
        self.handed_out.store(true, Ordering::Relaxed);
        self.engine.mark(HANDED_OUT, &text.into())
    }
}

/// The code of an error that goes out as a JSON-RPC error, and not as a result that the model reads.
const PROTOCOL: &str = "jsonrpc:";

/// An error of the protocol: unlike any other error of a tool it goes to the client as a JSON-RPC
/// error, which most clients don't show to the model.
///
/// Codes from -32000 to -32099 are for the protocol itself; take others.
pub fn protocol_error(code: i64, message: impl std::fmt::Display) -> Error {
    Error::new(message).code(format!("{PROTOCOL}{code}")).permanent()
}

/// Such an error as it goes to the client, if it is one.
pub(crate) fn as_protocol_error(error: &Error) -> Option<RpcError> {
    let code = protocol_code(error.code_name())?;
    let rpc = RpcError::new(code, error.to_string());
    Some(match &error.failure().data {
        Some(data) => rpc.data(data),
        None => rpc,
    })
}

/// The code of such an error.
pub(crate) fn protocol_code(code: Option<&str>) -> Option<i64> {
    code?.strip_prefix(PROTOCOL)?.parse().ok()
}
