//! Child tasks.

use std::{
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
};

use serde::{Serialize, de::DeserializeOwned};
use steadfast_core::{Call, ChildSpec, Json, TaskId};

use super::{Context, op::Op, outcome};
use crate::{Result, limits};

/// A child task that is about to be started.
#[must_use = "a child is not started unless it is awaited or detached"]
pub struct Child<O> {
    ctx: Context,
    tool: String,
    input: Result<Json>,
    id: Option<TaskId>,
    output: PhantomData<fn() -> O>,
}

impl Context {
    /// Starts a task of another tool for the same owner and waits for its result. If this task is
    /// cancelled, or no longer waits for it, the child is cancelled.
    pub fn child<O: DeserializeOwned + Send + 'static>(
        &self,
        tool: impl Into<String>,
        input: &(impl Serialize + ?Sized),
    ) -> Child<O> {
        Child {
            ctx: self.clone(),
            tool: tool.into(),
            input: self.payload("the child's input", input),
            id: None,
            output: PhantomData,
        }
    }
}

impl<O> Child<O> {
    /// Its id, instead of a derived one.
    pub fn id(mut self, id: TaskId) -> Self {
        self.id = Some(id);
        self
    }

    /// Starts it, and leaves it to itself: it goes on when this task ends. It is ready at once and does
    /// not wait for its commit, so an [id](Child::id) that is taken is not an error here, as it is for a
    /// child that is awaited: nothing is started then.
    pub async fn detach(self) -> Result<TaskId> {
        let (ctx, call) = self.call(true)?;
        outcome(Op::new(&ctx.shared, call).result().await)
    }

    fn call(self, detached: bool) -> Result<(Context, Call)> {
        limits::name("the name of the child's tool", &self.tool)?;
        let spec = ChildSpec { tool: self.tool, input: self.input?, id: self.id, detached };
        Ok((self.ctx, Call::Child(spec)))
    }
}

impl<O: DeserializeOwned + Send + 'static> IntoFuture for Child<O> {
    type Output = Result<O>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<O>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        match self.call(false) {
            Err(error) => Box::pin(std::future::ready(Err(error))),
            Ok((ctx, call)) => {
                let op = Op::new(&ctx.shared, call);
                Box::pin(async move { outcome(op.result().await) })
            }
        }
    }
}
