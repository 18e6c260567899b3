//! Code of an author's that is committed together with a turn, in one transaction of the store.
//!
//! It is the one thing that a store runs and does not only keep. There are two ways to do it, and which
//! one is the store's business:
//!
//! * **Before the commit**, on a transaction that stays open: [`Work::prepare`] runs the code, and the
//!   turn's commit ends the transaction. For a database with connections to spare.
//! * **In the commit**: what [`Work::prepare`] makes is run by the store when it is its turn to write.
//!   For a store with one writer.
//!
//! A store of one kind can't run work for another: [`Store::kind`] tells.

use std::any::Any;

use steadfast_core::OpId;

use crate::{BoxFuture, Error, Store};

/// Something that only one kind of store knows what to do with.
pub type Parcel = Box<dyn Any + Send>;

/// What is committed together with a turn.
pub struct Join {
    /// The operation that it belongs to: if it comes to nothing the turn is refused as
    /// [`Guard`](crate::Refusal::Guard) of it.
    pub op: OpId,
    /// What [`Work::prepare`] made.
    pub parcel: Parcel,
}

/// Why code failed, whatever it says itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overruled {
    /// Its time was over.
    TimedOut(String),
    /// The database did not take what it did.
    Failed(String),
    /// It did what it may not, and will each time.
    Broken(String),
}

/// Who decides what the code of an author's came to.
pub trait Judge<T>: Send {
    /// Runs the code, here and now, and says which event is to be appended to the history; `None` if it
    /// failed, so that all it did is to be rolled back. A panic is a failure.
    fn run(&mut self, code: Box<dyn FnOnce() -> T + '_>) -> Option<Vec<u8>>;

    /// It failed, whatever it said.
    fn overrule(&mut self, why: Overruled);
}

/// How far [`Work::prepare`] came.
pub enum Prepared {
    /// To be committed by [`Store::turn_with`].
    Ready(Parcel),
    /// It failed, and the judge knows why. What it did was rolled back.
    Rejected,
    /// It was rolled back because somebody else was in the way: the same again may succeed.
    Overtaken(String),
    /// The store failed. Nothing was written.
    Failed(Error),
    /// The store is of another kind; this says of which, and what to do.
    Unsupported(String),
}

/// Code of an author's, for one kind of store. It may be run more than once, each time after the time
/// before was rolled back; what counts is the last time.
pub trait Work: Send {
    /// What it returns.
    type Output;

    /// Gets as far as is possible before the commit.
    fn prepare<'w>(
        &'w mut self,
        store: &'w dyn Store,
        judge: Box<dyn Judge<Self::Output>>,
    ) -> BoxFuture<'w, Prepared>;
}
