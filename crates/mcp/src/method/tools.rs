//! `tools/list` and `tools/call`.

use std::{panic::AssertUnwindSafe, sync::Arc};

use serde::Deserialize;
use serde_json::{Map, Value};
use steadfast_core::Json;

use super::{Reply, call::Call, params};
use crate::{
    catalog::{Body, TaskSupport, ToolEntry, check_with, page},
    front::{Front, Request},
    wire::{CallResult, Revision, RpcError, code},
};

/// A cursor, if the client is in the middle of a listing.
#[derive(Deserialize)]
pub(super) struct Paged {
    #[serde(default)]
    pub(super) cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallParams {
    name: String,
    #[serde(default)]
    arguments: Option<Json>,
    #[serde(default)]
    task: Option<TaskParams>,
    #[serde(default)]
    input_responses: Option<Map<String, Value>>,
    #[serde(default)]
    request_state: Option<String>,
}

#[derive(Deserialize)]
struct TaskParams {
    /// Milliseconds, possibly with a fraction.
    #[serde(default)]
    ttl: Option<f64>,
}

impl Front {
    pub(super) fn list_tools(&self, request: &Request<'_>) -> Reply {
        let Paged { cursor } = params(request)?;
        let offer = self.catalog.offer();
        let (tools, next) = page(&offer.tools, cursor.as_deref(), self.settings.page_size)?;
        let shown: Vec<String> =
            tools.iter().map(|tool| tool.render(request.client.revision)).collect();
        self.listing(request, "tools", &shown, next)
    }

    /// A page of a listing.
    pub(super) fn listing(
        &self,
        request: &Request<'_>,
        name: &str,
        shown: &[String],
        next: Option<String>,
    ) -> Reply {
        let result = self
            .result(&request.client)
            .raw(name, &format!("[{}]", shown.join(",")))
            .maybe("nextCursor", next);
        let result = self.cache_hints(&request.client, result, self.settings.cache_life);
        Ok(self.close(&request.client, result))
    }

    pub(super) async fn call_tool(self: &Arc<Self>, request: &Request<'_>) -> Reply {
        let call: CallParams = params(request)?;
        let offer = self.catalog.offer();
        let entry = offer.tools.get(&call.name).ok_or_else(|| {
            let name: String = call.name.chars().take(128).collect();
            RpcError::invalid_params(format!("unknown tool: {name}"))
        })?;
        // Who has not offered tasks ignores what is said of them.
        let asked = call.task.is_some() && self.offers_tasks();
        let as_task = as_task(entry, request, asked)?;
        let arguments = call.arguments.unwrap_or_else(no_arguments);
        let refused = refused(entry, &arguments);
        match (&entry.tool.body, refused) {
            (_, Some(reason)) if !(as_task && call.task.is_some()) => {
                self.tool_result(request, entry, &CallResult::error(reason))
            }
            // Only a task can be waited for twice.
            (Body::Front(_) | Body::Plain(_), _) if request.again => Err(twice()),
            (Body::Front(which), _) => {
                request.begins_none().await;
                let result = Box::pin(self.companion(request, *which, &arguments)).await?;
                self.tool_result(request, entry, &result)
            }
            (Body::Plain(run), _) => {
                request.begins_none().await;
                let ran = unwind(run(arguments));
                let result = tokio::select! {
                    result = ran => result,
                    () = request.cancel.cancelled() => return Err(cancelled()),
                };
                match result {
                    Some(Ok(result)) => self.tool_result(request, entry, &result),
                    Some(Err(error)) => match crate::context::as_protocol_error(&error) {
                        Some(error) => Err(error),
                        None => {
                            self.tool_result(request, entry, &CallResult::error(error.to_string()))
                        }
                    },
                    None => Err(RpcError::internal()),
                }
            }
            (Body::Durable(_), refused) => {
                let ttl = call.task.as_ref().and_then(|task| task.ttl);
                let durable = Call {
                    front: self,
                    request,
                    engine_name: &entry.tool.name,
                    entry: Some(entry),
                    arguments,
                    refused,
                    input_responses: call.input_responses.unwrap_or_default(),
                    request_state: call.request_state,
                };
                match as_task {
                    // It is short, and takes much room for that.
                    true => Box::pin(durable.handed_out(ttl)).await,
                    false => durable.blocking().await,
                }
            }
        }
    }

    /// The result of a tool that ran.
    fn tool_result(&self, request: &Request<'_>, entry: &ToolEntry, result: &CallResult) -> Reply {
        let client = &request.client;
        let shows = entry.shows_structure(client.revision);
        let object = self
            .result(client)
            .put("content", &result.content)
            .maybe("structuredContent", result.structured_content.as_ref().filter(|_| shows))
            .maybe("isError", result.is_error.then_some(true));
        Ok(self.close_with(client, object, result.meta.clone()))
    }
}

/// Another request of the same id is at work, and it can't be joined.
pub(super) fn twice() -> RpcError {
    RpcError::taken("a request with this id is still at work")
}

pub(super) fn cancelled() -> RpcError {
    RpcError::new(code::INTERNAL, "the request was cancelled")
}

/// Whether the call becomes a task that the client follows, as its revision has it.
fn as_task(entry: &ToolEntry, request: &Request<'_>, asked: bool) -> Result<bool, RpcError> {
    let support = entry.tool.support;
    match request.client.revision {
        Revision::V2026_07_28 => match (support, request.client.follows_tasks()) {
            (TaskSupport::Forbidden, _) => Ok(false),
            (_, true) => Ok(true),
            (TaskSupport::Optional, false) => Ok(false),
            (TaskSupport::Required, false) => Err(RpcError::missing_tasks()),
        },
        Revision::V2025_11_25 => match (support, asked) {
            (TaskSupport::Forbidden, true) => Err(RpcError::new(
                code::METHOD_NOT_FOUND,
                format!("the tool {:?} can't be called as a task", entry.tool.name),
            )),
            (TaskSupport::Required, false) => Err(RpcError::new(
                code::METHOD_NOT_FOUND,
                format!("the tool {:?} can only be called as a task", entry.tool.name),
            )),
            (_, asked) => Ok(asked),
        },
        // There were no tasks, so what is said of them is ignored.
        _ if support == TaskSupport::Required => Err(RpcError::new(
            code::METHOD_NOT_FOUND,
            format!("the tool {:?} needs a client that knows tasks", entry.tool.name),
        )),
        _ => Ok(false),
    }
}

pub(super) fn no_arguments() -> Json {
    Json::of(&Map::new()).unwrap_or_else(|_| Json::null())
}

/// Why the arguments don't fit, if they don't.
fn refused(entry: &ToolEntry, arguments: &Json) -> Option<String> {
    let value: Value = match arguments.read() {
        Ok(value) => value,
        Err(error) => return Some(format!("the arguments can't be read: {error}")),
    };
    check_with(&entry.validator, &value)
        .err()
        .map(|reason| format!("the arguments do not fit the tool's input schema: {reason}"))
}

/// Runs a future to its end, or to its panic.
pub(super) async fn unwind<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = Box::pin(future);
    std::future::poll_fn(move |cx| {
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
        match polled {
            Ok(std::task::Poll::Pending) => std::task::Poll::Pending,
            Ok(std::task::Poll::Ready(value)) => std::task::Poll::Ready(Some(value)),
            Err(_) => {
                tracing::error!("a tool panicked");
                std::task::Poll::Ready(None)
            }
        }
    })
    .await
}
