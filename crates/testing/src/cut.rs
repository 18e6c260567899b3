//! Pipes that break when their server dies.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::wait::until;

/// All pipes of one life of a server.
#[derive(Clone, Default)]
pub(crate) struct Line {
    cut: CancellationToken,
    open: Arc<AtomicUsize>,
}

impl Line {
    /// The server's end of one.
    pub(crate) fn served<S>(&self, stream: S) -> Cut<S> {
        self.open.fetch_add(1, Ordering::AcqRel);
        Cut { _open: Some(Open(self.open.clone())), ..self.client(stream) }
    }

    /// The client's end of one.
    pub(crate) fn client<S>(&self, stream: S) -> Cut<S> {
        Cut { stream, cut: Box::pin(self.cut.clone().cancelled_owned()), _open: None }
    }

    /// Breaks all, and waits until what served them was dropped.
    pub(crate) async fn cut(self) {
        self.cut.cancel();
        let none = || self.open.load(Ordering::Acquire) == 0;
        until("what serves the pipes of a dead server to end", none).await;
    }
}

struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A stream, or half of one.
pub(crate) struct Cut<S> {
    stream: S,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    _open: Option<Open>,
}

impl<S> Cut<S> {
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.cut.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionReset.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Cut<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Cut<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
