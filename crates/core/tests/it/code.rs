//! A task's code: durable futures over a machine, without an async runtime.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use steadfast_core::{Call, Json, Kind, Machine, OpId, OpPoll, Outcome, StepGrant, Timestamp};

/// A boxed future of this thread.
pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// What a closure that was started is to come to.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    Step(Outcome),
    Read(Option<Json>),
    Proposed(Option<Json>, u64),
    Checked(Option<Option<Json>>),
    /// A step whose end is committed with what it did.
    Joins,
}

/// Where closures run: told of each start, and asked for the end.
pub(crate) trait Place {
    /// An operation asks for leave for the first time.
    fn created(&self, id: OpId, kind: Kind);
    /// A closure starts. `Some` means that it ends within the same poll.
    fn start(&self, id: OpId, call: &Call, grant: StepGrant) -> Option<Ended>;
    /// The code has read a result.
    fn read(&self, id: OpId, kind: Kind, outcome: &Outcome);
}

/// What the code and its driver share.
pub(crate) struct Shared {
    pub(crate) machine: RefCell<Machine>,
    pub(crate) place: Rc<dyn Place>,
    /// Ends of closures that the driver has decided on.
    pub(crate) ends: RefCell<BTreeMap<OpId, Ended>>,
    pub(crate) wall: Cell<Timestamp>,
    /// All that the code asked for and saw.
    pub(crate) trace: RefCell<Vec<String>>,
}

impl Shared {
    pub(crate) fn new(machine: Machine, place: Rc<dyn Place>, wall: Timestamp) -> Rc<Shared> {
        Rc::new(Shared {
            machine: RefCell::new(machine),
            place,
            ends: RefCell::default(),
            wall: Cell::new(wall),
            trace: RefCell::default(),
        })
    }

    pub(crate) fn say(&self, line: String) {
        self.trace.borrow_mut().push(line);
    }

    pub(crate) fn call(self: &Rc<Shared>, call: Call) -> Op {
        let id = self.machine.borrow_mut().create(call.clone());
        self.say(format!("{id} {} {:?}", call.kind(), call.name()));
        self.place.created(id, call.kind());
        Op { shared: Rc::clone(self), id, call, done: false }
    }
}

/// One durable operation, as the code awaits it.
pub(crate) struct Op {
    shared: Rc<Shared>,
    pub(crate) id: OpId,
    call: Call,
    done: bool,
}

impl Op {
    fn end(&self, ended: Ended) {
        let (id, wall) = (self.id, self.shared.wall.get());
        let mut machine = self.shared.machine.borrow_mut();
        match ended {
            Ended::Step(outcome) => machine.step_ended(id, outcome, wall),
            Ended::Read(value) => machine.state_read(id, value, wall),
            Ended::Proposed(value, expect) => machine.state_proposed(id, value, expect, wall),
            Ended::Checked(met) => machine.condition_checked(id, met, wall),
            Ended::Joins => machine.step_joins(id, wall),
        }
    }
}

impl Future for Op {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Outcome> {
        if let Some(ended) = self.shared.ends.borrow_mut().remove(&self.id) {
            self.end(ended);
        }
        let polled = self.shared.machine.borrow_mut().poll(self.id);
        match polled {
            OpPoll::Ready(outcome) => {
                self.done = true;
                let now = self.shared.machine.borrow().now();
                self.shared.say(format!("{} = {outcome:?} at {now:?}", self.id));
                self.shared.place.read(self.id, self.call.kind(), &outcome);
                Poll::Ready(outcome)
            }
            OpPoll::Pending => Poll::Pending,
            OpPoll::Run(grant) => {
                if let Some(ended) = self.shared.place.start(self.id, &self.call, grant) {
                    self.end(ended);
                }
                Poll::Pending
            }
        }
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        if !self.done {
            self.shared.machine.borrow_mut().drop_op(self.id);
        }
    }
}

/// Waits for all, in order; every branch that is not done is polled each time.
pub(crate) struct Join<'a, T>(pub(crate) Vec<(Option<Boxed<'a, T>>, Option<T>)>);

pub(crate) fn join<'a, T>(branches: Vec<Boxed<'a, T>>) -> Join<'a, T> {
    Join(branches.into_iter().map(|branch| (Some(branch), None)).collect())
}

impl<T: Unpin> Future for Join<'_, T> {
    type Output = Vec<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Vec<T>> {
        for (branch, value) in &mut self.0 {
            if let Some(Poll::Ready(ready)) = branch.as_mut().map(|b| b.as_mut().poll(cx)) {
                (*branch, *value) = (None, Some(ready));
            }
        }
        if self.0.iter().any(|(branch, _)| branch.is_some()) {
            return Poll::Pending;
        }
        Poll::Ready(self.0.iter_mut().filter_map(|(_, value)| value.take()).collect())
    }
}

/// Waits for the first; the others are dropped.
pub(crate) struct Select<'a, T>(pub(crate) Vec<Boxed<'a, T>>);

impl<T> Future for Select<'_, T> {
    type Output = (usize, T);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<(usize, T)> {
        for index in 0..self.0.len() {
            if let Poll::Ready(value) = self.0[index].as_mut().poll(cx) {
                self.0.clear();
                return Poll::Ready((index, value));
            }
        }
        Poll::Pending
    }
}

/// Polls once, with a waker that does nothing.
pub(crate) fn poll_once<T>(future: &mut Boxed<'_, T>) -> Poll<T> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}
