//! Turns that are committed together with what an author's code did.

use std::sync::Arc;

use steadfast_core::{OpId, Turn};
use steadfast_store::{self as store, Error, Join, Refusal, Store, Turned};

use super::{Flight, Runner, turn::UNAVAILABLE};
use crate::context::{Came, Joint, Verdict};

/// Sends such a turn to the store. Its event is what the work leads to.
pub(super) async fn commit(
    store: Arc<dyn Store>,
    turn: store::Turn,
    flight: Flight,
    op: OpId,
    joint: Option<Joint>,
) -> Flight {
    let Some(Joint { parcel, verdict }) = joint else {
        // Can't be: it goes only together with its operation. Rather do it again than hang.
        return Flight { result: Err(Refusal::Guard(op).into()), ..flight };
    };
    let turn = store::Turn { events: Vec::new(), ..turn };
    let result = store.turn_with(turn, Join { op, parcel }).await;
    Flight { verdict: Some(verdict), result, ..flight }
}

impl Runner {
    /// Such a turn is back: puts what was recorded where the code will hear of it.
    pub(super) async fn judged(
        &mut self,
        turn: &mut Turn,
        verdict: &Verdict,
        result: Result<Turned, Error>,
    ) -> Result<Turned, Error> {
        match (result, turn.joint()) {
            (Ok(turned), _) => match verdict.take() {
                Came::Done(record) => {
                    turn.set_joint(record);
                    self.keep_for_rehearsal(turn);
                    Ok(turned)
                }
                // Can't be. What was recorded is in the store.
                _ => Err(Error::Unknown("what a transaction came to was not heard".into())),
            },
            // What it did is rolled back, so that the same turn can't be sent again.
            (Err(Error::Unavailable(reason)), Some(op)) => {
                tracing::warn!(task = %self.shared.id, reason, "a transaction was not taken; again soon");
                verdict.set(Came::Delayed);
                tokio::time::sleep(UNAVAILABLE).await;
                Err(Refusal::Guard(op).into())
            }
            (result, _) => result,
        }
    }
}
