//! Durable key-value state.

use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};
use steadfast_core::{Call, Json, Scope};
use steadfast_store::StateRow;

use super::{
    Context, Shared,
    op::{Next, Op},
    outcome,
};
use crate::{
    Error, Result, limits,
    registry::{payload, read},
};

/// Durable state of one [`Scope`].
#[derive(Clone, Debug)]
pub struct State {
    ctx: Context,
    scope: Scope,
}

impl State {
    pub(super) fn new(ctx: Context, scope: Scope) -> State {
        State { ctx, scope }
    }

    /// Reads a value.
    pub async fn get<T: DeserializeOwned>(&self, key: impl Into<String>) -> Result<Option<T>> {
        let key = self.checked(key)?;
        let shared = &self.ctx.shared;
        let mut op = Op::new(shared, Call::StateGet { scope: self.scope, key: key.clone() });
        loop {
            match op.next().await {
                Next::Ready(recorded) => return outcome(recorded),
                Next::Run(_) => {
                    let row = fetch(shared, self.scope, &key).await;
                    let now = shared.now();
                    match value(&row) {
                        Ok(value) => shared.machine().state_read(op.id, value, now),
                        Err(error) => {
                            shared.machine().state_failed(op.id, error.into_failure(), now)
                        }
                    }
                }
            }
        }
    }

    /// Writes a value, whatever was there.
    pub async fn set<T: Serialize + ?Sized>(
        &self,
        key: impl Into<String>,
        value: &T,
    ) -> Result<()> {
        let key = self.checked(key)?;
        let value = Some(self.ctx.payload("the value", value)?);
        self.write(key, value).await
    }

    /// Removes a value.
    pub async fn remove(&self, key: impl Into<String>) -> Result<()> {
        self.write(self.checked(key)?, None).await
    }

    /// The key, if it can be one, and if there is such a scope.
    fn checked(&self, key: impl Into<String>) -> Result<String> {
        let key = key.into();
        limits::name("the key of the state", &key)?;
        match self.scope == Scope::Session && self.ctx.shared.session.is_none() {
            true => Err(Error::new(
                "the task was started in no session, so that there is no state of one: clients since \
                 2026-07-28 have none; use the state of the principal",
            )
            .code("no_session")
            .permanent()),
            false => Ok(key),
        }
    }

    async fn write(&self, key: String, value: Option<Json>) -> Result<()> {
        let call = Call::StateSet { scope: self.scope, key, value };
        outcome(Op::new(&self.ctx.shared, call).result().await)
    }

    /// Reads a value, changes it and writes it, without losing what another task wrote meanwhile:
    /// the closure runs again on the newer value then, so it must do nothing else.
    pub async fn update<T, F>(&self, key: impl Into<String>, mut change: F) -> Result<T>
    where
        T: Serialize + DeserializeOwned,
        F: FnMut(Option<T>) -> T,
    {
        let key = self.checked(key)?;
        let shared = &self.ctx.shared;
        let most = self.ctx.max_payload();
        let mut op = Op::new(shared, Call::StateUpdate { scope: self.scope, key: key.clone() });
        loop {
            match op.next().await {
                Next::Ready(recorded) => return outcome(recorded),
                Next::Run(_) => {
                    let row = fetch(shared, self.scope, &key).await;
                    let new = typed(&row).and_then(|old| payload("the value", &change(old), most));
                    let now = shared.now();
                    let mut machine = shared.machine();
                    match new {
                        Ok(new) => machine.state_proposed(op.id, Some(new), row.version, now),
                        Err(error) => machine.state_failed(op.id, error.into_failure(), now),
                    }
                }
            }
        }
    }

    /// Waits until a value meets a condition, and returns it. A waiting task takes no memory.
    pub async fn wait_until<T, F>(
        &self,
        key: impl Into<String>,
        mut condition: F,
    ) -> Result<Option<T>>
    where
        T: DeserializeOwned,
        F: FnMut(Option<&T>) -> bool,
    {
        let key = self.checked(key)?;
        let shared = &self.ctx.shared;
        let mut op = Op::new(shared, Call::StateWait { scope: self.scope, key: key.clone() });
        loop {
            match op.next().await {
                Next::Ready(recorded) => return outcome(recorded),
                Next::Run(_) => {
                    let row = fetch(shared, self.scope, &key).await;
                    let met = typed(&row).and_then(|typed: Option<T>| {
                        Ok(if condition(typed.as_ref()) { Some(value(&row)?) } else { None })
                    });
                    let now = shared.now();
                    let mut machine = shared.machine();
                    match met {
                        Ok(met) => machine.condition_checked(op.id, met, now),
                        Err(error) => machine.state_failed(op.id, error.into_failure(), now),
                    }
                }
            }
        }
    }
}

fn value(row: &StateRow) -> Result<Option<Json>> {
    let Some(bytes) = &row.value else { return Ok(None) };
    Ok(Some(Json::parse(String::from_utf8(bytes.clone())?)?))
}

fn typed<T: DeserializeOwned>(row: &StateRow) -> Result<Option<T>> {
    value(row)?.as_ref().map(read).transpose()
}

/// Reads from the store, for as long as it takes it to be available.
async fn fetch(shared: &Shared, scope: Scope, key: &str) -> StateRow {
    let scope = shared.scope(scope);
    let mut pause = Duration::from_millis(10);
    loop {
        match shared.core.store.state(scope.clone(), key.to_owned()).await {
            Ok(row) => return row,
            Err(error) => {
                tracing::warn!(task = %shared.id, %error, "can't read state; trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
        }
    }
}
