//! The connection to a handler, and what can be asked of it. Answers are JSON as on the wire.

use std::{any::Any, collections::BTreeMap, sync::Arc};

use rmcp::{
    Peer, RoleClient, RoleServer, Service, ServiceError,
    model::{
        ArgumentInfo, CallToolRequestParams, CallToolResponse, CompleteRequestParams,
        CompletionContext, ErrorCode, GetPromptRequestParams, GetPromptResponse, JsonObject,
        ReadResourceRequestParams, ReadResourceResponse, Reference, ServerCapabilities,
        SubscribeRequestParams,
    },
    serve_client, serve_server,
    service::ClientCacheConfig,
};
use serde::Serialize;
use serde_json::Value;
use steadfast_engine::{Error, Result};
use steadfast_mcp::protocol_error;

use crate::{
    asked::{Asked, News},
    guard::Guard,
    pair::pair,
};

/// A connection to a handler. The handler is dropped with it.
pub(crate) struct Link {
    peer: Peer<RoleClient>,
    news: Arc<News>,
    /// The tasks at both ends, which end when this is dropped.
    _ends: [Box<dyn Any + Send + Sync>; 2],
}

impl Link {
    pub(crate) async fn open<S: Service<RoleServer>>(handler: S) -> Result<Link, crate::Error> {
        let (ours, theirs) = pair();
        let news = Arc::new(News::default());
        let asked = Asked { news: news.clone() };
        let (client, server) =
            tokio::join!(serve_client(asked, ours), serve_server(Guard(handler), theirs));
        let start = |error: &dyn std::fmt::Display| crate::Error::Start(error.to_string());
        // The server knows best why it did not start.
        let server = server.map_err(|error| start(&error))?;
        let client = client.map_err(|error| start(&error))?;
        let peer = client.peer().clone();
        // One connection serves many principals, and the handler is near: nothing is gained by
        // remembering what it said.
        peer.set_response_cache_config(ClientCacheConfig::disabled()).await;
        Ok(Link { peer, news, _ends: [Box::new(client), Box::new(server)] })
    }

    pub(crate) fn news(&self) -> Arc<News> {
        self.news.clone()
    }

    /// What the handler says that it can do.
    pub(crate) fn capabilities(&self) -> ServerCapabilities {
        self.peer.peer_info().map(|info| info.capabilities.clone()).unwrap_or_default()
    }

    pub(crate) fn instructions(&self) -> Option<String> {
        self.peer.peer_info().and_then(|info| info.instructions.clone())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// Calls a tool. If the future is dropped, the call is cancelled.
    pub(crate) async fn call(&self, tool: &str, arguments: JsonObject) -> Result<Value> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        match self.peer.call_tool_once(params).await.map_err(failed)? {
            CallToolResponse::Complete(result) => json(&result),
            _ => Err(asks()),
        }
    }

    pub(crate) async fn prompt(&self, name: &str, arguments: JsonObject) -> Result<Value> {
        let params = GetPromptRequestParams::new(name).with_arguments(arguments);
        match self.peer.get_prompt_once(params).await.map_err(failed)? {
            GetPromptResponse::Complete(result) => json(&result),
            _ => Err(asks()),
        }
    }

    pub(crate) async fn read(&self, uri: String) -> Result<Value> {
        let params = ReadResourceRequestParams::new(uri);
        match self.peer.read_resource_once(params).await.map_err(failed)? {
            ReadResourceResponse::Complete(result) => json(&result),
            _ => Err(asks()),
        }
    }

    pub(crate) async fn complete(
        &self,
        of: Reference,
        argument: String,
        value: String,
        given: BTreeMap<String, String>,
    ) -> Result<Vec<String>> {
        let argument = ArgumentInfo::new(argument, value);
        let context = CompletionContext::with_arguments(given.into_iter().collect());
        let params = CompleteRequestParams::new(of, argument).with_context(context);
        Ok(self.peer.complete(params).await.map_err(failed)?.completion.values)
    }

    /// Asks to be told when the content of a resource changes.
    pub(crate) async fn subscribe(&self, uri: &str) -> Result<()> {
        // The newer way of rmcp is for the newer revision.
        #[allow(deprecated)]
        self.peer.subscribe(SubscribeRequestParams::new(uri)).await.map_err(failed)
    }

    pub(crate) async fn tools(&self) -> Result<Vec<Value>, crate::Error> {
        listed("tools", self.peer.list_all_tools().await)
    }

    pub(crate) async fn prompts(&self) -> Result<Vec<Value>, crate::Error> {
        listed("prompts", self.peer.list_all_prompts().await)
    }

    pub(crate) async fn resources(&self) -> Result<Vec<Value>, crate::Error> {
        listed("resources", self.peer.list_all_resources().await)
    }

    pub(crate) async fn templates(&self) -> Result<Vec<Value>, crate::Error> {
        listed("templates of resources", self.peer.list_all_resource_templates().await)
    }
}

fn listed<T: Serialize>(
    kind: &'static str,
    found: Result<Vec<T>, ServiceError>,
) -> Result<Vec<Value>, crate::Error> {
    let wrong = |reason: String| crate::Error::Listing { kind, reason };
    let found = match found {
        // Resources, say, without templates.
        Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
            return Ok(Vec::new());
        }
        found => found.map_err(|error| wrong(failed(error).to_string()))?,
    };
    found.iter().map(|one| serde_json::to_value(one).map_err(|e| wrong(e.to_string()))).collect()
}

fn json(result: &impl Serialize) -> Result<Value> {
    serde_json::to_value(result)
        .map_err(|error| internal(format!("the handler's result can't be written: {error}")))
}

fn internal(message: impl std::fmt::Display) -> Error {
    protocol_error(ErrorCode::INTERNAL_ERROR.0.into(), message)
}

fn asks() -> Error {
    internal(
        "the handler asks its client for input, or makes a task of its own, which steadfast-rmcp can't \
         pass on",
    )
}

/// An error of the handler's goes to the client as it is. All others mean that there is none any more.
fn failed(error: ServiceError) -> Error {
    match error {
        ServiceError::McpError(error) => {
            let failed = protocol_error(error.code.0.into(), error.message);
            match error.data {
                Some(data) => failed.data(&data),
                None => failed,
            }
        }
        ServiceError::TransportClosed
        | ServiceError::TransportSend(_)
        | ServiceError::Cancelled { .. } => internal(
            "the rmcp handler has stopped, and with it its connection; whether this call took effect \
             is not known",
        ),
        other => internal(format!("the rmcp handler's answer is not one: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rmcp::{
        ErrorData, RoleServer, ServerHandler,
        model::{CallToolRequestParams, CallToolResponse, ServerConfig},
        service::RequestContext,
    };
    use tokio::sync::Notify;

    use super::*;

    #[derive(Clone, Default)]
    struct Hangs {
        called: Arc<Notify>,
    }

    impl ServerHandler for Hangs {
        fn get_info(&self) -> ServerConfig {
            ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
        }

        async fn call_tool(
            &self,
            _: CallToolRequestParams,
            _: RequestContext<RoleServer>,
        ) -> Result<CallToolResponse, ErrorData> {
            self.called.notify_one();
            std::future::pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn calls_fail_when_the_handler_has_stopped() {
        let handler = Hangs::default();
        let mut link = Link::open(handler.clone()).await.unwrap();
        let peer = link.peer.clone();
        let params = CallToolRequestParams::new("hang");
        let hanging = tokio::spawn(async move { peer.call_tool_once(params).await });
        handler.called.notified().await;
        // The handler's end goes, in the middle of a call.
        link._ends[1] = Box::new(());
        let error = failed(hanging.await.unwrap().unwrap_err()).to_string();
        assert!(error.contains("has stopped"), "{error}");
        let error = link.call("hang", JsonObject::new()).await.unwrap_err().to_string();
        assert!(error.contains("has stopped"), "{error}");
        assert!(link.is_over());
        assert!(link.tools().await.unwrap_err().to_string().contains("has stopped"));
    }
}
