//! What an activity, or an undo function, can know of the call that its task came of.

use std::future::Future;

use steadfast_engine::{ActivityContext, Result};

use crate::{Caller, Secret, client::CallRecord, secret::Keys};

/// Who called, for functions that are no tools: in scope with the prelude.
pub trait OfCall {
    /// As [`Context::caller`](crate::Context::caller).
    fn caller(&self) -> impl Future<Output = Result<Caller>> + Send;

    /// As [`Context::credential`](crate::Context::credential). A process that has no server, and so no
    /// keys, can't decrypt it.
    fn credential(&self, name: &str) -> impl Future<Output = Result<Secret>> + Send;
}

impl OfCall for ActivityContext {
    async fn caller(&self) -> Result<Caller> {
        let task = self.task().await?;
        Ok(record(task.call.as_ref()).caller(task.owner.as_ref()))
    }

    async fn credential(&self, name: &str) -> Result<Secret> {
        let keys = self.attached::<Keys>().unwrap_or_default();
        let task = self.task().await?;
        record(task.call.as_ref()).credential(&keys, task.owner.as_ref(), &task.origin, name)
    }
}

/// Nothing is known of a call from Rust.
fn record(call: Option<&steadfast_core::Json>) -> CallRecord {
    call.and_then(|call| call.read().ok()).unwrap_or_default()
}
