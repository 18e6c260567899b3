//! An in-memory connection of a client and a server of rmcp.
//!
//! Messages go over as they are, not as text: nothing is lost on the way, and a result can't be taken
//! for one of another kind.

use std::io;

use rmcp::{
    RoleClient, RoleServer,
    service::{RxJsonRpcMessage, ServiceRole, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// One end of a connection. It ends when either of its ends is dropped.
pub(crate) struct End<R: ServiceRole> {
    /// Unbounded, so that messages leave in the order in which `send` was called: rmcp polls the futures
    /// of several messages at once, and a request must not be overtaken by its cancellation. What waits
    /// here is what callers wait for, who are bounded elsewhere.
    out: Option<UnboundedSender<TxJsonRpcMessage<R>>>,
    from: UnboundedReceiver<RxJsonRpcMessage<R>>,
}

pub(crate) fn pair() -> (End<RoleClient>, End<RoleServer>) {
    let (to_server, from_client) = unbounded_channel();
    let (to_client, from_server) = unbounded_channel();
    let client = End { out: Some(to_server), from: from_server };
    let server = End { out: Some(to_client), from: from_client };
    (client, server)
}

impl<R: ServiceRole> Transport<R> for End<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<R>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let sent = self.out.as_ref().is_some_and(|out| out.send(message).is_ok());
        let ended = || io::Error::new(io::ErrorKind::BrokenPipe, "the other end is gone");
        std::future::ready(if sent { Ok(()) } else { Err(ended()) })
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<R>> {
        self.from.recv().await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.out = None;
        self.from.close();
        Ok(())
    }
}
