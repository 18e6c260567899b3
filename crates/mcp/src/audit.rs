//! Who did what to which task, for the log: under the target `steadfast::audit`, what changes something at
//! the level info, what only looks at debug.

use crate::client::Client;

const TARGET: &str = "steadfast::audit";

/// A client has started a task.
pub(crate) fn created(client: &Client, task: &dyn std::fmt::Display, tool: &str) {
    tracing::info!(target: TARGET, principal = %client.principal, %task, tool, "task created");
}

/// A client has looked at a task.
pub(crate) fn retrieved(client: &Client, task: &str, method: &str) {
    tracing::debug!(target: TARGET, principal = %client.principal, task, method, "task retrieved");
}

/// A client has answered a task, or cancelled it.
pub(crate) fn steered(client: &Client, task: &str, method: &str) {
    tracing::info!(target: TARGET, principal = %client.principal, task, method, "task steered");
}

/// A client has named a task that is not there, or not its own: many of these are somebody who guesses.
pub(crate) fn not_found(client: &Client, task: &str, method: &str) {
    // It is whatever the client sent.
    let task: String = task.chars().take(128).collect();
    tracing::info!(target: TARGET, principal = %client.principal, task, method, "no such task");
}
