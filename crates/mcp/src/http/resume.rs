//! Streams that can be taken up again when their connection breaks, up to 2025-11-25.

use std::sync::Arc;

use axum::{http::StatusCode, response::Response};

use super::{
    refusal,
    stream::{Events, Then, Work, respond},
};
use crate::{
    front::{Front, Holds},
    method::{LostCall, Point},
    outlet::Outlet,
    session::Session,
    wire::{Id, Revision},
};

/// Makes a stream of a session one that can be taken up again, from this point on.
pub(super) fn resumable(
    front: &Arc<Front>,
    session: &Arc<Session>,
    events: Events,
    begin: &str,
    on: Outlet,
) -> Events {
    // Clients of earlier revisions fail on an event without a message.
    if session.client.revision < Revision::V2025_11_25 {
        return events;
    }
    let Some((task, _)) = Point::read(begin) else { return events };
    let replaced = session.open_call(task.as_str(), on);
    // Says that this stream is over, however it ends.
    let over = replaced.clone().drop_guard();
    let life = front.settings.stream_life;
    events.begin(begin).until(Box::pin(async move {
        let _over = over;
        match life {
            Some(life) => drop(tokio::time::timeout(life, replaced.cancelled()).await),
            None => replaced.cancelled().await,
        }
    }))
}

/// What is to be done when the answer of a call has been sent: the id that its task holds is free again.
pub(super) fn sent(front: &Arc<Front>, holds: &Holds) -> Then {
    let (front, holds) = (front.clone(), holds.clone());
    Box::new(move || {
        if let Some(task) = holds.get() {
            front.sent.add(task.clone());
        }
    })
}

/// Goes on after the event that the client had last, on the stream that it came on and no other.
pub(super) async fn take_up(front: &Arc<Front>, session: Arc<Session>, event: &str) -> Response {
    let Some(lost) = LostCall::find(front, &session, event).await else {
        return refusal(StatusCode::BAD_REQUEST, "there is no stream with such an event");
    };
    let (outlet, messages) = Outlet::new();
    let asked = lost.asked.iter().map(|key| (key.as_str(), lost.point.has_asked(key)));
    session.keep_asked(lost.task.as_str(), asked, &outlet);
    let on = outlet.clone();
    // Who takes it up may be a new process, and those count their requests from 0 again. So it keeps its
    // session in use, but not its id.
    session.take_up(&lost.request, lost.task.as_str());
    let in_flight = session.begin(&Id::Text(lost.task.as_str().into()), None).ok();
    let holds = if lost.keyed { Holds::default() } else { Arc::new(lost.task.clone().into()) };
    let sent = sent(front, &holds);
    let work: Work = Box::pin(async move {
        let cancel = in_flight.as_ref().map(|one| one.cancel.clone()).unwrap_or_default();
        lost.follow(outlet, cancel).await
    });
    let events = Events::of_request(None, messages, work, front.settings.keep_alive).then(sent);
    respond(resumable(front, &session, events, event, on))
}
