//! Catching panics with their place.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Once,
    task::Poll,
};

use steadfast_core::{Failure, FailureKind, Outcome};

use crate::limits::clip;

thread_local! {
    static WATCHING: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The payload of a panic does not say where it happened; only the hook is told. Ours notes it for
/// panics that we catch, and leaves all others to the hook that was there before.
fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if WATCHING.get() {
                let place = info.location().map(ToString::to_string);
                PLACE.with_borrow_mut(|slot| *slot = place);
            } else {
                previous(info);
            }
        }));
    });
}

/// Runs code of an author's; a panic becomes a failure. The caller learns that it panicked, and
/// only the operator what it said and where.
pub(crate) fn guard<T>(what: &str, run: impl FnOnce() -> T) -> Result<T, Failure> {
    install_hook();
    let outer = WATCHING.replace(true);
    // Whatever the code was doing is thrown away together with its future.
    let result = catch_unwind(AssertUnwindSafe(run));
    WATCHING.set(outer);
    result.map_err(|payload| {
        let place = PLACE.take().unwrap_or_else(|| "an unknown place".into());
        let detail = clip(format!("panicked at {place}: {}", text(payload.as_ref())));
        Failure {
            detail: Some(detail),
            ..Failure::new(FailureKind::Panicked, format!("{what} panicked")).permanently()
        }
    })
}

/// The same for a future.
pub(crate) async fn caught<T>(what: &str, future: impl Future<Output = T>) -> Result<T, Failure> {
    let mut future = pin!(future);
    poll_fn(|cx| match guard(what, || future.as_mut().poll(cx)) {
        Ok(polled) => polled.map(Ok),
        Err(failure) => Poll::Ready(Err(failure)),
    })
    .await
}

/// The same for one whose failures are recorded.
pub(crate) async fn guarded(what: &str, future: impl Future<Output = Outcome>) -> Outcome {
    caught(what, future).await.unwrap_or_else(Err)
}

fn text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no text)")
}
