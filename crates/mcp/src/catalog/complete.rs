//! Completion of arguments.

use std::{
    collections::{BTreeMap, HashMap},
    future::Future,
    sync::Arc,
};

use steadfast_engine::Result;

use super::BoxFuture;

/// An argument that is being typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completing {
    /// What is there so far.
    pub value: String,
    /// The arguments that were given before.
    pub arguments: BTreeMap<String, String>,
}

type CompleteFn = Arc<dyn Fn(Completing) -> BoxFuture<Result<Vec<String>>> + Send + Sync>;

/// The completions of a prompt or a template, by argument.
#[derive(Clone, Default)]
pub(crate) struct CompleteFns(HashMap<String, CompleteFn>);

impl CompleteFns {
    pub(crate) fn add<F, Fut>(&mut self, argument: impl Into<String>, complete: F)
    where
        F: Fn(Completing) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<String>>> + Send + 'static,
    {
        let complete: CompleteFn = Arc::new(move |completing| Box::pin(complete(completing)));
        self.0.insert(argument.into(), complete);
    }

    pub(crate) fn get(&self, argument: &str) -> Option<CompleteFn> {
        self.0.get(argument).cloned()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
