//! Where messages go that belong to a request and come before its response.

use tokio::sync::mpsc;

/// Something on its way to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// A stream that breaks after it can be taken up again from here.
    pub(crate) point: Option<String>,
    /// Nothing, if it only says where the stream begins.
    pub(crate) message: Option<String>,
}

/// One end of a stream of messages to a client.
#[derive(Clone, Debug)]
pub(crate) struct Outlet(mpsc::Sender<Said>);

impl Outlet {
    /// An outlet, and what comes out of it.
    pub(crate) fn new() -> (Outlet, mpsc::Receiver<Said>) {
        let (sender, receiver) = mpsc::channel(32);
        (Outlet(sender), receiver)
    }

    /// Sends a message, when the client has taken those before it. False if nobody is there.
    pub(crate) async fn send(&self, message: String) -> bool {
        self.0.send(Said { point: None, message: Some(message) }).await.is_ok()
    }

    /// The same, for a stream that can be taken up again after it.
    pub(crate) async fn send_at(&self, point: String, message: String) -> bool {
        self.0.send(Said { point: Some(point), message: Some(message) }).await.is_ok()
    }

    /// Says that the stream can be taken up again from here on.
    pub(crate) async fn begin(&self, point: String) -> bool {
        self.0.send(Said { point: Some(point), message: None }).await.is_ok()
    }

    /// Whether both are ends of the same stream.
    pub(crate) fn is(&self, other: &Outlet) -> bool {
        self.0.same_channel(&other.0)
    }

    /// Ends when nobody is there any more.
    pub(crate) async fn closed(&self) {
        self.0.closed().await;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}
