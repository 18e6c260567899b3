//! One client on one channel, over which everything goes both ways: standard streams, or the stream and
//! the posts of 2024-11-05.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use serde::Deserialize;
use steadfast_core::Principal;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Identity,
    client::Client,
    front::{Answered, Front, Holds, Meta, Request, Starting},
    http::hear,
    method::{self, Opening, initialize},
    outlet::Outlet,
    session::Session,
    wire::{
        BadMessage, Id, Message, Received, Revision, RpcError, code, error_response, parse,
        response,
    },
};

pub(crate) struct Connection {
    pub(crate) front: Arc<Front>,
    pub(crate) principal: Principal,
    pub(crate) outlet: Outlet,
    /// From `initialize` on.
    session: Mutex<Option<Arc<Session>>>,
    /// Requests of 2026-07-28; those before are with their session.
    at_work: Mutex<HashMap<Id, CancellationToken>>,
    tasks: TaskTracker,
    /// Fires when the client is gone.
    gone: CancellationToken,
}

impl Connection {
    pub(crate) fn new(front: Arc<Front>, principal: Principal, outlet: Outlet) -> Arc<Connection> {
        Arc::new(Connection {
            front,
            principal,
            outlet,
            session: Mutex::new(None),
            at_work: Mutex::new(HashMap::new()),
            tasks: TaskTracker::new(),
            gone: CancellationToken::new(),
        })
    }

    fn session(&self) -> Option<Arc<Session>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn at_work(&self) -> std::sync::MutexGuard<'_, HashMap<Id, CancellationToken>> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client is gone, and with it whoever waited: what is at work is dropped, and nothing more is
    /// said of it. Returns when all have noticed.
    pub(crate) async fn abandon(&self) {
        self.gone.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        if let Some(session) = self.session()
            && let Err(error) = self.front.sessions.end(&session.id).await
        {
            tracing::warn!(%error, "a session could not be ended; it will be over by itself");
        }
    }

    /// Takes what the client says.
    pub(crate) async fn take(self: &Arc<Self>, caller: &Identity, line: &[u8]) {
        match parse(line) {
            Err(bad) => self.refuse(bad).await,
            Ok(Received::One(message)) => self.take_one(caller, message).await,
            Ok(Received::Batch(messages)) => {
                let revision = self.session().map(|session| session.client.revision);
                if revision != Some(Revision::V2025_03_26) || messages.is_empty() {
                    let reason = "this revision has no batches, or the batch is empty";
                    return self.refuse(BadMessage::NotRpc(None, reason)).await;
                }
                // On one channel it is the same to answer each as soon as it is done.
                for message in messages {
                    match message {
                        Ok(message) => self.take_one(caller, message).await,
                        Err(bad) => self.refuse(bad).await,
                    }
                }
            }
        }
    }

    async fn refuse(&self, bad: BadMessage) {
        let (id, error) = match bad {
            BadMessage::NotJson(reason) => {
                (None, RpcError::new(code::PARSE, format!("this is not JSON: {reason}")))
            }
            BadMessage::NotRpc(id, reason) => (id, RpcError::new(code::INVALID_REQUEST, reason)),
        };
        self.outlet.send(error_response(id.as_ref(), &error)).await;
    }

    async fn take_one(self: &Arc<Self>, caller: &Identity, message: Message<'_>) {
        match message {
            Message::Request { id, method, params } => {
                let params = params.map_or("{}", |params| params.get());
                if let Err(error) = self.request(caller, &id, &method, params).await {
                    self.outlet.send(error_response(Some(&id), &error)).await;
                }
            }
            Message::Notification { method, params } if method == "notifications/cancelled" => {
                #[derive(Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Cancelled {
                    request_id: Id,
                }
                let params = params.map_or("{}", |params| params.get());
                if let Ok(Cancelled { request_id }) = serde_json::from_str(params) {
                    if let Some(cancel) = self.at_work().get(&request_id) {
                        cancel.cancel();
                    }
                    if let Some(session) = self.session() {
                        session.cancel(&request_id);
                    }
                }
            }
            message => {
                if let Some(session) = self.session() {
                    // There is no way to say that it was not taken, but for the log.
                    let _taken =
                        hear(&self.front, &session, message, self.front.pulse.asked()).await;
                }
            }
        }
    }

    async fn request(
        self: &Arc<Self>,
        caller: &Identity,
        id: &Id,
        method: &str,
        params: &str,
    ) -> Result<(), RpcError> {
        let read = method::read_meta(params)?;
        if let Some(version) = &read.version {
            let revision = method::stateless_revision(version)?;
            let capabilities = read.capabilities.ok_or_else(|| {
                RpcError::invalid_params("_meta has no io.modelcontextprotocol/clientCapabilities")
            })?;
            let client = Client::new(caller.clone(), revision, capabilities, read.info);
            return self.work(id, method, params, client, None, read.meta);
        }
        if method == "initialize" {
            let client = Opening::read(params)?.client(caller.clone()).within_limits()?;
            let session = Arc::new(Session::of_connection(client));
            session.open_stream(self.outlet.clone(), None);
            let reply = initialize(&self.front, &session);
            self.front.sessions.adopt(&session).await.map_err(|error| {
                tracing::error!(%error, "a session could not be begun");
                RpcError::internal()
            })?;
            *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session.clone());
            self.outlet.send(response(id, &reply)).await;
            let telling = self.front.clone().tell_of_notices(session.clone(), self.outlet.clone());
            let asking = self.front.clone().ask_on_stream(session, self.outlet.clone());
            let gone = self.gone.clone();
            self.tasks.spawn(async move {
                gone.run_until_cancelled(async { tokio::join!(telling, asking) }).await
            });
            return Ok(());
        }
        if method == "server/discover" {
            return Err(RpcError::invalid_params(
                "_meta has no io.modelcontextprotocol/protocolVersion",
            ));
        }
        let session = self.session().ok_or_else(|| {
            RpcError::invalid_request(
                "begin with initialize, or send the _meta of 2026-07-28 with every request",
            )
        })?;
        let client = session.client.for_request(caller.clone());
        self.work(id, method, params, client, Some(session), read.meta)
    }

    /// Answers a request, beside others.
    fn work(
        self: &Arc<Self>,
        id: &Id,
        method: &str,
        params: &str,
        client: Client,
        session: Option<Arc<Session>>,
        meta: Meta,
    ) -> Result<(), RpcError> {
        let in_flight = session.as_ref().map(|session| session.begin(id, None)).transpose()?;
        let cancel = in_flight.as_ref().map(|one| one.cancel.clone()).unwrap_or_default();
        if session.is_none() {
            let mut at_work = self.at_work();
            if at_work.contains_key(id) {
                return Err(RpcError::taken("a request with this id is still at work"));
            }
            at_work.insert(id.clone(), cancel.clone());
        }
        let (id, method, params) = (id.clone(), method.to_owned(), params.to_owned());
        let connection = self.clone();
        let gone = self.gone.clone();
        let asked = self.front.pulse.asked();
        let answering = async move {
            let _in_flight = in_flight;
            let request = Request {
                answered: Answered::default(),
                starting: Starting::default(),
                asked,
                holds: Holds::default(),
                again: false,
                id: &id,
                method: &method,
                params: &params,
                client,
                session,
                meta,
                outlet: connection.outlet.clone(),
                cancel,
            };
            let answered = connection.front.answer(&request).await;
            let cancelled = request.cancel.is_cancelled();
            connection.at_work().remove(&id);
            if cancelled {
                return;
            }
            let message = match answered {
                Ok(result) => response(&id, &result),
                Err(error) => error_response(Some(&id), &error),
            };
            connection.outlet.send(message).await;
        };
        self.tasks.spawn(async move { gone.run_until_cancelled(answering).await });
        Ok(())
    }
}
