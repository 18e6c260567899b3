//! The handler's end: a handler that panics answers all the same.

use std::{
    borrow::Cow,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
};

use rmcp::{
    ErrorData, RoleServer, Service,
    model::ProtocolVersion,
    service::{NotificationContext, RequestContext, ServiceRole},
};

/// rmcp runs each request in a task of its own and sends no answer if that panics, so that its caller
/// would wait for ever.
pub(crate) struct Guard<S>(pub(crate) S);

impl<S: Service<RoleServer>> Service<RoleServer> for Guard<S> {
    async fn handle_request(
        &self,
        request: <RoleServer as ServiceRole>::PeerReq,
        context: RequestContext<RoleServer>,
    ) -> Result<<RoleServer as ServiceRole>::Resp, ErrorData> {
        let mut handling = pin!(async { self.0.handle_request(request, context).await });
        std::future::poll_fn(|cx| {
            catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(cx))).unwrap_or_else(|_| {
                tracing::error!("an rmcp handler panicked");
                // Its text is for the operator, and the panic hook has written it.
                let error = ErrorData::internal_error("the handler failed unexpectedly", None);
                Poll::Ready(Err(error))
            })
        })
        .await
    }

    async fn handle_notification(
        &self,
        notification: <RoleServer as ServiceRole>::PeerNot,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.handle_notification(notification, context).await
    }

    fn get_info(&self) -> <RoleServer as ServiceRole>::Info {
        self.0.get_info()
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.0.supported_protocol_versions()
    }
}
