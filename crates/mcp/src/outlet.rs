//! Where messages go that belong to a request and come before its response.

use tokio::sync::mpsc;

/// One end of a stream of messages to a client.
#[derive(Clone, Debug)]
pub(crate) struct Outlet(mpsc::Sender<String>);

impl Outlet {
    /// An outlet, and the messages that come out of it.
    pub(crate) fn new() -> (Outlet, mpsc::Receiver<String>) {
        let (sender, receiver) = mpsc::channel(32);
        (Outlet(sender), receiver)
    }

    /// Sends a message, when the client has taken those before it. False if nobody is there.
    pub(crate) async fn send(&self, message: String) -> bool {
        self.0.send(message).await.is_ok()
    }

    /// The same without a wait. False as well if the client has fallen behind.
    pub(crate) fn try_send(&self, message: String) -> bool {
        self.0.try_send(message).is_ok()
    }

    /// Ends when nobody is there any more.
    pub(crate) async fn closed(&self) {
        self.0.closed().await;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}
