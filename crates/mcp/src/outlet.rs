//! Where messages go that belong to a request and come before its response.

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

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
    /// Fires when another stream has taken its place, if one can.
    replaced: Option<CancellationToken>,
    /// The client can come back after what it had last.
    numbered: bool,
}

impl Outlet {
    /// An outlet, and what comes out of it.
    pub(crate) fn new() -> (Outlet, mpsc::Receiver<Said>) {
        let (sender, receiver) = mpsc::channel(32);
        (Outlet { to: sender, replaced: None, numbered: true }, receiver)
    }

    /// One in whose place another can come.
    pub(crate) fn replaceable() -> (Outlet, mpsc::Receiver<Said>) {
        let (outlet, receiver) = Outlet::new();
        (Outlet { replaced: Some(CancellationToken::new()), ..outlet }, receiver)
    }

    /// Another stream has taken its place: it counts as closed from now on, even if it is not. A connection
    /// that nobody is at may look open for long.
    pub(crate) fn replace(&self) {
        if let Some(replaced) = &self.replaced {
            replaced.cancel();
        }
    }

    async fn put(&self, said: Said) -> bool {
        let Some(replaced) = &self.replaced else { return self.to.send(said).await.is_ok() };
        tokio::select! {
            biased;
            () = replaced.cancelled() => false,
            sent = self.to.send(said) => sent.is_ok(),
        }
    }

    /// The same stream for messages that it can't be taken up again after.
    pub(crate) fn unnumbered(self) -> Outlet {
        Outlet { numbered: false, ..self }
    }

    /// Sends a message, when the client has taken those before it. False if nobody is there.
    pub(crate) async fn send(&self, message: String) -> bool {
        self.put(Said { point: None, message: Some(message) }).await
    }

    /// The same, after which the stream can be taken up again, if it can be at all.
    pub(crate) async fn send_at(&self, point: String, message: String) -> bool {
        let point = self.numbered.then_some(point);
        self.put(Said { point, message: Some(message) }).await
    }

    /// Says that the stream can be taken up again from here on.
    pub(crate) async fn begin(&self, point: String) -> bool {
        let point = self.numbered.then_some(point);
        self.put(Said { point, message: None }).await
    }

    /// Whether both are ends of the same stream.
    pub(crate) fn is(&self, other: &Outlet) -> bool {
        self.to.same_channel(&other.to)
    }

    /// Ends when nobody is there any more.
    pub(crate) async fn closed(&self) {
        match &self.replaced {
            None => self.to.closed().await,
            Some(replaced) => tokio::select! {
                () = replaced.cancelled() => {}
                () = self.to.closed() => {}
            },
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.to.is_closed() || self.replaced.as_ref().is_some_and(CancellationToken::is_cancelled)
    }
}
