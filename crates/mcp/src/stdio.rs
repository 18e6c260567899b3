//! One client over a pair of byte streams, a message a line: standard input and output.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, PoisonError},
};

use serde::Deserialize;
use steadfast_core::Principal;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::mpsc,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    client::Client,
    front::{Front, Meta, Request},
    http::hear,
    method::{self, Opening, initialize},
    outlet::{Outlet, Said},
    session::{Session, random_id},
    wire::{
        BadMessage, Id, Message, Received, Revision, RpcError, code, error_response, parse,
        response,
    },
};

/// Serves one client until its input ends or the server shuts down. Responses that are still owed
/// then are not waited for.
pub(crate) async fn serve(
    front: Arc<Front>,
    principal: Principal,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let (outlet, messages) = Outlet::new();
    let writer = tokio::spawn(write(messages, output));
    let connection = Arc::new(Connection {
        front,
        principal,
        outlet,
        session: Mutex::new(None),
        at_work: Mutex::new(HashMap::new()),
        tasks: TaskTracker::new(),
    });
    let read = connection.read(input).await;
    // The client is gone, and with it whoever waited.
    connection.abandon();
    connection.tasks.close();
    drop(connection);
    writer.abort();
    read
}

async fn write(mut messages: mpsc::Receiver<Said>, mut output: impl AsyncWrite + Unpin) {
    while let Some(said) = messages.recv().await {
        // There is one stream, and no other to take it up again.
        let Some(message) = said.message else { continue };
        let line = [message.as_bytes(), b"\n"].concat();
        if output.write_all(&line).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
}

struct Connection {
    front: Arc<Front>,
    principal: Principal,
    outlet: Outlet,
    /// From `initialize` on.
    session: Mutex<Option<Arc<Session>>>,
    /// Requests of 2026-07-28; those before are with their session.
    at_work: Mutex<HashMap<Id, CancellationToken>>,
    tasks: TaskTracker,
}

impl Connection {
    fn session(&self) -> Option<Arc<Session>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn at_work(&self) -> std::sync::MutexGuard<'_, HashMap<Id, CancellationToken>> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn abandon(&self) {
        for cancel in self.at_work().values() {
            cancel.cancel();
        }
    }

    async fn read(self: &Arc<Self>, input: impl AsyncRead + Unpin) -> io::Result<()> {
        let mut input = BufReader::new(input);
        let mut line = Vec::new();
        loop {
            line.clear();
            let limit = self.front.settings.max_body;
            let read = tokio::select! {
                read = read_line(&mut input, &mut line, limit) => read?,
                () = self.front.draining.cancelled() => return Ok(()),
            };
            match read {
                Line::End => return Ok(()),
                Line::TooLong => {
                    let message = format!("a message is larger than {limit} bytes");
                    let error = RpcError::new(code::INVALID_REQUEST, message);
                    self.outlet.send(error_response(None, &error)).await;
                }
                Line::Whole if line.iter().all(u8::is_ascii_whitespace) => {}
                Line::Whole => self.take(&line).await,
            }
        }
    }

    async fn take(self: &Arc<Self>, line: &[u8]) {
        match parse(line) {
            Err(bad) => self.refuse(bad).await,
            Ok(Received::One(message)) => self.take_one(message).await,
            Ok(Received::Batch(messages)) => {
                let revision = self.session().map(|session| session.client.revision);
                if revision != Some(Revision::V2025_03_26) || messages.is_empty() {
                    let reason = "this revision has no batches, or the batch is empty";
                    return self.refuse(BadMessage::NotRpc(None, reason)).await;
                }
                // On one channel it is the same to answer each as soon as it is done.
                for message in messages {
                    match message {
                        Ok(message) => self.take_one(message).await,
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

    async fn take_one(self: &Arc<Self>, message: Message<'_>) {
        match message {
            Message::Request { id, method, params } => {
                let params = params.map_or("{}", |params| params.get());
                if let Err(error) = self.request(&id, &method, params).await {
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
                    hear(&self.front, &session, message).await;
                }
            }
        }
    }

    async fn request(
        self: &Arc<Self>,
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
            let principal = self.principal.clone();
            let client = Client { principal, revision, capabilities, info: read.info };
            return self.work(id, method, params, client, None, read.meta);
        }
        if method == "initialize" {
            let client = Opening::read(params)?.client(self.principal.clone());
            let session = Arc::new(Session::new(random_id(), client));
            session.open_stream(self.outlet.clone());
            let reply = initialize(&self.front, &session);
            self.front.sessions.adopt(&session);
            *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session.clone());
            self.outlet.send(response(id, &reply)).await;
            let asking = self.front.clone().ask_on_stream(session, self.outlet.clone());
            self.tasks.spawn(asking);
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
        self.work(id, method, params, session.client.clone(), Some(session), read.meta)
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
        let in_flight = session.as_ref().map(|session| session.begin(id)).transpose()?;
        let cancel = in_flight.as_ref().map(|one| one.cancel.clone()).unwrap_or_default();
        if session.is_none() {
            let mut at_work = self.at_work();
            if at_work.contains_key(id) {
                return Err(RpcError::invalid_request("a request with this id is still at work"));
            }
            at_work.insert(id.clone(), cancel.clone());
        }
        let (id, method, params) = (id.clone(), method.to_owned(), params.to_owned());
        let connection = self.clone();
        self.tasks.spawn(async move {
            let _in_flight = in_flight;
            let request = Request {
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
        });
        Ok(())
    }
}

enum Line {
    Whole,
    TooLong,
    End,
}

/// Reads a line without its end, of which no more than `limit` bytes are kept.
async fn read_line(
    input: &mut (impl AsyncBufReadExt + Unpin),
    line: &mut Vec<u8>,
    limit: usize,
) -> io::Result<Line> {
    let mut long = false;
    loop {
        let chunk = input.fill_buf().await?;
        if chunk.is_empty() {
            return Ok(if line.is_empty() && !long { Line::End } else { Line::Whole });
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(chunk.len());
        if line.len() + taken > limit {
            (long, *line) = (true, Vec::new());
        } else if !long {
            line.extend_from_slice(&chunk[..taken]);
        }
        input.consume(end.map_or(taken, |end| end + 1));
        if end.is_some() {
            return Ok(if long { Line::TooLong } else { Line::Whole });
        }
    }
}
