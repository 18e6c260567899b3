//! The client that the handler sees: what it can't do, and what it remembers of what it is told.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use rmcp::{
    ErrorData, RoleClient, Service,
    model::{
        ClientCapabilities, ClientConfig, ClientResult, ErrorCode, Implementation, ProtocolVersion,
        ServerNotification, ServerRequest,
    },
    service::{NotificationContext, RequestContext},
};
use tokio::sync::Notify;

/// What the handler said has changed, and nobody has looked at yet.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
    /// Whose content.
    pub(crate) updated: BTreeSet<String>,
}

/// Changes are kept until somebody takes them, so that none is lost before the server runs.
#[derive(Default)]
pub(crate) struct News {
    changes: Mutex<Changes>,
    some: Notify,
}

impl News {
    fn note(&self, note: impl FnOnce(&mut Changes)) {
        note(&mut self.changes.lock().unwrap_or_else(PoisonError::into_inner));
        self.some.notify_one();
    }

    /// Waits until there may be some, and takes them.
    pub(crate) async fn take(&self) -> Changes {
        self.some.notified().await;
        std::mem::take(&mut *self.changes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The client's end of the connection.
pub(crate) struct Asked {
    pub(crate) news: Arc<News>,
}

impl Service<RoleClient> for Asked {
    async fn handle_request(
        &self,
        request: ServerRequest,
        _: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        let what = match request {
            ServerRequest::PingRequest(_) => return Ok(ClientResult::empty(())),
            ServerRequest::CreateMessageRequest(_) => "sampling",
            ServerRequest::ListRootsRequest(_) => "roots",
            ServerRequest::ElicitRequest(_) => "elicitation",
            _ => "this request",
        };
        let message = format!(
            "{what} is not supported: a handler behind steadfast-rmcp can't ask its client; make it a \
             durable tool of Steadfast to ask"
        );
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
    }

    async fn handle_notification(
        &self,
        notification: ServerNotification,
        _: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        match notification {
            ServerNotification::ToolListChangedNotification(_) => {
                self.news.note(|changes| changes.tools = true);
            }
            ServerNotification::PromptListChangedNotification(_) => {
                self.news.note(|changes| changes.prompts = true);
            }
            ServerNotification::ResourceListChangedNotification(_) => {
                self.news.note(|changes| changes.resources = true);
            }
            ServerNotification::ResourceUpdatedNotification(updated) => {
                self.news.note(|changes| {
                    changes.updated.insert(updated.params.uri);
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        let me = Implementation::new("steadfast-rmcp", env!("CARGO_PKG_VERSION"));
        // The last revision in which a server tells of changes, and asks, without being asked to.
        ClientConfig::new(ClientCapabilities::default(), me)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}
