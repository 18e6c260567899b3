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
pub(crate) struct Outlet {
    to: mpsc::Sender<Said>,
    /// The client can come back after what it had last.
    numbered: bool,
}

impl Outlet {
    /// An outlet, and what comes out of it.
    pub(crate) fn new() -> (Outlet, mpsc::Receiver<Said>) {
        let (sender, receiver) = mpsc::channel(32);
        (Outlet { to: sender, numbered: true }, receiver)
    }

    /// The same stream for messages that it can't be taken up again after.
    pub(crate) fn unnumbered(self) -> Outlet {
        Outlet { numbered: false, ..self }
    }

    /// Sends a message, when the client has taken those before it. False if nobody is there.
    pub(crate) async fn send(&self, message: String) -> bool {
        self.to.send(Said { point: None, message: Some(message) }).await.is_ok()
    }

    /// The same, after which the stream can be taken up again, if it can be at all.
    pub(crate) async fn send_at(&self, point: String, message: String) -> bool {
        let point = self.numbered.then_some(point);
        self.to.send(Said { point, message: Some(message) }).await.is_ok()
    }

    /// Says that the stream can be taken up again from here on.
    pub(crate) async fn begin(&self, point: String) -> bool {
        let point = self.numbered.then_some(point);
        self.to.send(Said { point, message: None }).await.is_ok()
    }

    /// Whether both are ends of the same stream.
    pub(crate) fn is(&self, other: &Outlet) -> bool {
        self.to.same_channel(&other.to)
    }

    /// Ends when nobody is there any more.
    pub(crate) async fn closed(&self) {
        self.to.closed().await;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.to.is_closed()
    }
}
