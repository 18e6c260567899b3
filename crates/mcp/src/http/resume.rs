//! Streams that can be taken up again when their connection breaks, up to 2025-11-25.

use std::sync::Arc;

use axum::{http::StatusCode, response::Response};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    busy, refusal,
    stream::{Events, Then, Work, respond},
};
use crate::{
    front::{Front, Holds},
    method::{LostCall, Point},
    outlet::Outlet,
    session::Session,
    wire::{Id, Revision},
};

/// The place of a client that waits for a call: whoever takes up the call, or makes the same request again,
/// takes it over.
pub(super) struct Resumable {
    session: Arc<Session>,
    /// From where it can be taken up again.
    begin: String,
    replaced: CancellationToken,
    /// Says that it is over, however it ends.
    over: DropGuard,
}

impl Resumable {
    /// Takes the place of who waited before.
    pub(super) fn open(session: &Arc<Session>, begin: String, on: Outlet) -> Option<Resumable> {
        let (task, _) = Point::read(&begin)?;
        let replaced = session.open_call(task.as_str(), on);
        let over = replaced.clone().drop_guard();
        Some(Resumable { session: session.clone(), begin, replaced, over })
    }

    /// Ends when somebody else has taken its place.
    pub(super) async fn replaced(&self) {
        self.replaced.cancelled().await;
    }

    /// Makes of its stream one that ends then.
    pub(super) fn stream(self, front: &Front, events: Events) -> Events {
        let Resumable { session, begin, replaced, over } = self;
        // Clients of earlier revisions fail on an event without a message, and don't come back.
        let sent_away = session.client.revision >= Revision::V2025_11_25;
        let life = front.settings.stream_life.filter(|_| sent_away);
        let events = if sent_away { events.begin(&begin) } else { events };
        events.until(Box::pin(async move {
            let _over = over;
            match life {
                Some(life) => drop(tokio::time::timeout(life, replaced.cancelled()).await),
                None => replaced.cancelled().await,
            }
        }))
    }
}

/// What is to be done when the answer of a call has been sent: the id that its task holds is free again.
pub(super) fn sent(front: &Arc<Front>, holds: &Holds) -> Then {
    let (front, holds) = (front.clone(), holds.clone());
    Box::new(move || {
        if let Some(task) = holds.get() {
            front.freed.sent(task.clone());
        }
    })
}

/// Goes on after the event that the client had last, on the stream that it came on and no other.
pub(super) async fn take_up(front: &Arc<Front>, session: Arc<Session>, event: &str) -> Response {
    let lost = match LostCall::find(front, &session, event).await {
        Ok(Some(lost)) => lost,
        Ok(None) => {
            return refusal(StatusCode::BAD_REQUEST, "there is no stream with such an event");
        }
        Err(error) => {
            // Whoever is told that there is no such stream does not come back.
            tracing::error!(%error, "the stream of a call can't be taken up");
            return busy("the store is not available; try again");
        }
    };
    let (outlet, messages) = Outlet::new();
    let asked = lost.asked.iter().map(|key| (key.as_str(), lost.point.has_asked(key)));
    session.keep_asked(lost.task.as_str(), asked, &outlet);
    let place = Resumable::open(&session, event.to_owned(), outlet.clone());
    // Who takes it up may be a new process, and those count their requests from 0 again. So it keeps its
    // session in use, but not its id.
    session.take_up(&lost.request, lost.task.as_str());
    if lost.attached {
        session.attach(&lost.request, &lost.task);
    }
    let in_flight = session.begin(&Id::Text(lost.task.as_str().into()), None).ok();
    let holds = Holds::default();
    let sent = sent(front, &holds);
    let work: Work = Box::pin(async move {
        let cancel = in_flight.as_ref().map(|one| one.cancel.clone()).unwrap_or_default();
        lost.follow(outlet, holds, cancel).await
    });
    let events = Events::of_request(None, messages, work, front.settings.keep_alive).then(sent);
    respond(match place {
        Some(place) => place.stream(front, events),
        None => events,
    })
}
