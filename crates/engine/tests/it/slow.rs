//! A store whose answers a test holds back, loses or denies.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use steadfast_store::{Around, BoxFuture, Changes, Desk, Error, Memory, Result, Store};
use tokio::sync::SetOnce;

use crate::support::within;

/// The gates that are put up, by the names of the calls that they are for, in their order.
#[derive(Clone, Default)]
pub(crate) struct Gates(Arc<Mutex<HashMap<&'static str, Vec<Waiting>>>>);

struct Waiting {
    /// How many calls pass before it closes.
    skip: usize,
    steps: Arc<Steps>,
}

/// A gate that one call comes to. If it is dropped the call never happens.
#[must_use = "a gate that is dropped lets its call fail"]
pub(crate) struct Gate(Arc<Steps>);

#[derive(Default)]
struct Steps {
    came: SetOnce<()>,
    /// Whether the call reaches the store.
    write: SetOnce<bool>,
    answer: SetOnce<Answer>,
}

#[derive(Clone, Copy)]
enum Answer {
    Given,
    Lost,
    Denied,
}

impl Gates {
    /// Holds the next call of this name. A turn that lets go of its task is called `park`.
    pub(crate) fn hold(&self, call: &'static str) -> Gate {
        self.hold_after(0, call)
    }

    /// Holds the call of this name that comes after so many others.
    pub(crate) fn hold_after(&self, skip: usize, call: &'static str) -> Gate {
        let steps = Arc::<Steps>::default();
        let mut gates = self.0.lock().unwrap();
        gates.entry(call).or_default().push(Waiting { skip, steps: steps.clone() });
        Gate(steps)
    }

    fn next(&self, call: &str) -> Option<Arc<Steps>> {
        let mut gates = self.0.lock().unwrap();
        let next = gates.get_mut(call)?;
        let first = next.first_mut()?;
        if first.skip > 0 {
            first.skip -= 1;
            return None;
        }
        Some(next.remove(0).steps)
    }
}

impl Gate {
    /// Waits until the call is there.
    pub(crate) async fn came(&self) {
        within(self.0.came.wait()).await;
    }

    pub(crate) fn has_come(&self) -> bool {
        self.0.came.get().is_some()
    }

    fn decide(&self, write: bool, answer: Answer) {
        drop(self.0.write.set(write));
        drop(self.0.answer.set(answer));
    }

    /// It happens; the answer is still held back.
    pub(crate) fn write(&self) {
        drop(self.0.write.set(true));
    }

    /// It happens, and is answered.
    pub(crate) fn pass(&self) {
        self.decide(true, Answer::Given);
    }

    /// It happens, and nobody hears of it.
    pub(crate) fn lose(&self) {
        self.decide(true, Answer::Lost);
    }

    /// It does not happen, and nobody can say so.
    pub(crate) fn vanish(&self) {
        self.decide(false, Answer::Lost);
    }

    /// It does not happen, and may be tried again.
    pub(crate) fn fail(&self) {
        self.decide(false, Answer::Denied);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.fail();
    }
}

/// A store in memory behind gates.
pub(crate) struct Slow {
    pub(crate) inner: Arc<Memory>,
    pub(crate) gates: Gates,
}

impl Around for Slow {
    fn inner(&self) -> Result<Arc<dyn Store>> {
        Ok(self.inner.clone())
    }

    fn desk(&self) -> Desk {
        Store::desk(&*self.inner)
    }

    fn changed(&self) -> Arc<Changes> {
        Store::changed(&*self.inner)
    }

    async fn around<T: Send + 'static>(
        &self,
        call: &'static str,
        done: BoxFuture<'static, Result<T>>,
    ) -> Result<T> {
        let Some(gate) = self.gates.next(call) else { return done.await };
        drop(gate.came.set(()));
        let done = if *gate.write.wait().await { Some(done.await) } else { None };
        match (gate.answer.wait().await, done) {
            (Answer::Given, Some(done)) => done,
            (Answer::Denied, None) => Err(Error::Unavailable("denied on purpose".into())),
            _ => Err(Error::Unknown("lost on purpose".into())),
        }
    }
}
