//! Waiting for several durable operations.
//!
//! Plain and deterministic: operations get their numbers when they are handed over, everything is
//! polled in order, and at most one thing becomes ready in one poll, because results are delivered
//! one by one. Other combinators work too, as long as they make no random choices
//! (`tokio::select!` needs `biased;`).
//!
//! The futures are boxed, and these types named by the futures alone, so that the compiler can see
//! that a task is `Send` even when closures borrow from it.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll},
};

type Boxed<F> = Pin<Box<F>>;

/// One of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first.
    Left(A),
    /// The second.
    Right(B),
}

/// A future, and its result once there is one.
struct Slot<F: Future> {
    future: Option<Pin<Box<F>>>,
    result: Option<F::Output>,
}

// A result is moved out whole, never pinned.
impl<F: Future> Unpin for Slot<F> {}

impl<F: Future> Slot<F> {
    fn new(future: F) -> Slot<F> {
        Slot { future: Some(Box::pin(future)), result: None }
    }

    /// Whether it has a result. The future is dropped as soon as it has one.
    fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(future) = &mut self.future
            && let Poll::Ready(value) = future.as_mut().poll(cx)
        {
            self.result = Some(value);
            self.future = None;
        }
        self.future.is_none()
    }
}

/// See [`join`].
#[must_use = "nothing happens unless it is awaited"]
pub struct Join<A: Future, B: Future>(Slot<A>, Slot<B>);

/// Waits for both.
pub fn join<A: IntoFuture, B: IntoFuture>(a: A, b: B) -> Join<A::IntoFuture, B::IntoFuture> {
    Join(Slot::new(a.into_future()), Slot::new(b.into_future()))
}

impl<A: Future, B: Future> Future for Join<A, B> {
    type Output = (A::Output, B::Output);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (left, right) = (self.0.poll(cx), self.1.poll(cx));
        if left
            && right
            && let (Some(a), Some(b)) = (self.0.result.take(), self.1.result.take())
        {
            return Poll::Ready((a, b));
        }
        Poll::Pending
    }
}

/// See [`join_all`].
#[must_use = "nothing happens unless it is awaited"]
pub struct JoinAll<F: Future>(Vec<Slot<F>>);

/// Waits for all, and returns their results in the order in which they were given.
pub fn join_all<F: IntoFuture>(futures: impl IntoIterator<Item = F>) -> JoinAll<F::IntoFuture> {
    JoinAll(futures.into_iter().map(|future| Slot::new(future.into_future())).collect())
}

impl<F: Future> Future for JoinAll<F> {
    type Output = Vec<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let open = self.0.iter_mut().filter_map(|slot| (!slot.poll(cx)).then_some(())).count();
        if open > 0 {
            return Poll::Pending;
        }
        Poll::Ready(self.0.iter_mut().filter_map(|slot| slot.result.take()).collect())
    }
}

/// See [`race`].
#[must_use = "nothing happens unless it is awaited"]
pub struct Race<A: Future, B: Future>(Option<(Boxed<A>, Boxed<B>)>);

/// Waits for the first of two; the other is dropped, which cancels it.
pub fn race<A: IntoFuture, B: IntoFuture>(a: A, b: B) -> Race<A::IntoFuture, B::IntoFuture> {
    Race(Some((Box::pin(a.into_future()), Box::pin(b.into_future()))))
}

impl<A: Future, B: Future> Future for Race<A, B> {
    type Output = Either<A::Output, B::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some((a, b)) = &mut self.0 else { return Poll::Pending };
        let won = match a.as_mut().poll(cx) {
            Poll::Ready(value) => Either::Left(value),
            Poll::Pending => match b.as_mut().poll(cx) {
                Poll::Ready(value) => Either::Right(value),
                Poll::Pending => return Poll::Pending,
            },
        };
        // The loser goes now, not whenever this future is dropped: its end is part of the order.
        self.0 = None;
        Poll::Ready(won)
    }
}

/// See [`race_all`].
#[must_use = "nothing happens unless it is awaited"]
pub struct RaceAll<F: Future>(Vec<Pin<Box<F>>>);

/// Waits for the first of several and says which it was; the others are dropped, which cancels
/// them. Waits for ever if there are none.
pub fn race_all<F: IntoFuture>(futures: impl IntoIterator<Item = F>) -> RaceAll<F::IntoFuture> {
    RaceAll(futures.into_iter().map(|future| Box::pin(future.into_future())).collect())
}

impl<F: Future> Future for RaceAll<F> {
    type Output = (usize, F::Output);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        for index in 0..self.0.len() {
            if let Poll::Ready(value) = self.0[index].as_mut().poll(cx) {
                self.0.clear();
                return Poll::Ready((index, value));
            }
        }
        Poll::Pending
    }
}
