//! What all requests have in common: the offer, the engine, the sessions.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};
use steadfast_core::{Principal, TaskId};
use steadfast_engine::{Engine, Tasks};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    ask::Listener,
    catalog::Catalog,
    client::Client,
    freed::Freed,
    limiter::{Counted, Rate},
    notices::Notices,
    outlet::Outlet,
    pulse::Pulse,
    secret::Keys,
    session::{Session, Sessions},
    settings::Settings,
    wire::{Id, Object, Revision, meta},
};

/// Who the server is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Implementation {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) title: Option<String>,
    pub(crate) website: Option<String>,
    pub(crate) icons: Vec<crate::Icon>,
    pub(crate) instructions: Option<String>,
}

impl Implementation {
    /// As a client of this revision reads it.
    pub(crate) fn render(&self, revision: Revision) -> Value {
        let mut info = json!({ "name": self.name, "version": self.version });
        if let Some(fields) = info.as_object_mut() {
            if let (Some(title), true) = (&self.title, revision >= Revision::V2025_06_18) {
                fields.insert("title".into(), json!(title));
            }
            if revision >= Revision::V2025_11_25 {
                if let Some(website) = &self.website {
                    fields.insert("websiteUrl".into(), json!(website));
                }
                if !self.icons.is_empty() {
                    fields.insert("icons".into(), json!(self.icons));
                }
            }
        }
        info
    }
}

/// The front.
pub(crate) struct Front {
    pub(crate) identity: Implementation,
    pub(crate) settings: Settings,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) notices: Notices,
    pub(crate) engine: Engine,
    /// What credentials of callers are encrypted with.
    pub(crate) keys: Keys,
    pub(crate) sessions: Sessions,
    /// How often each principal asks for its tasks.
    pub(crate) polls: Rate,
    /// How many tasks each principal has open.
    pub(crate) counted: Counted,
    /// A place for each request at work.
    pub(crate) places: Semaphore,
    /// Whoever calls without a name is this one principal, if that is allowed at all.
    pub(crate) anonymous: Principal,
    /// No more requests: streams end, and what is at work is finished.
    pub(crate) draining: CancellationToken,
    pub(crate) background: TaskTracker,
    /// Calls whose requests' ids are free again.
    pub(crate) freed: Freed,
    /// Whether this process has stood still.
    pub(crate) pulse: Arc<Pulse>,
    /// Who wants to know how far clients are with what they are asked.
    pub(crate) listener: Listener,
    /// What goes into `_meta` of every result of 2026-07-28.
    signature: String,
}

impl Front {
    pub(crate) fn new(
        identity: Implementation,
        settings: Settings,
        catalog: Arc<Catalog>,
        engine: Engine,
        keys: Keys,
        anonymous: Principal,
        listener: Listener,
    ) -> Arc<Front> {
        let signature =
            json!({ meta::SERVER_INFO: identity.render(Revision::V2026_07_28) }).to_string();
        Arc::new(Front {
            sessions: Sessions::new(
                engine.clone(),
                catalog.clone(),
                settings.max_sessions,
                settings.session_idle,
            ),
            notices: Notices::new(engine.clone()),
            places: Semaphore::new(settings.max_requests),
            polls: Rate::new(settings.max_polls_per_second),
            counted: Counted::default(),
            identity,
            settings,
            catalog,
            engine,
            keys,
            anonymous,
            draining: CancellationToken::new(),
            background: TaskTracker::new(),
            freed: Freed::default(),
            pulse: Pulse::start(),
            listener,
            signature,
        })
    }

    /// A client's tasks.
    pub(crate) fn tasks(&self, client: &Client) -> Tasks {
        self.engine.tasks(client.principal.clone())
    }

    /// Begins a result: for 2026-07-28 it says of what type it is.
    pub(crate) fn result(&self, client: &Client) -> Object {
        match client.revision.is_stateless() {
            true => Object::new().put("resultType", "complete"),
            false => Object::new(),
        }
    }

    /// Ends a result: for 2026-07-28 it says who we are.
    pub(crate) fn close(&self, client: &Client, object: Object) -> String {
        match client.revision.is_stateless() {
            true => object.raw("_meta", &self.signature).close(),
            false => object.close(),
        }
    }

    /// The same, with more in `_meta`.
    pub(crate) fn close_with(
        &self,
        client: &Client,
        object: Object,
        mut more: Map<String, Value>,
    ) -> String {
        if more.is_empty() {
            return self.close(client, object);
        }
        if client.revision.is_stateless() {
            let info = self.identity.render(client.revision);
            more.insert(meta::SERVER_INFO.into(), info);
        }
        object.put("_meta", &more).close()
    }

    /// For how long a client may keep a listing, as the wire has it.
    pub(crate) fn cache_hints(&self, client: &Client, object: Object, life: Duration) -> Object {
        match client.revision.is_stateless() {
            true => object.put("ttlMs", &millis(life)).put("cacheScope", "private"),
            false => object,
        }
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A request, and all that is known of it.
pub(crate) struct Request<'a> {
    pub(crate) id: &'a Id,
    pub(crate) method: &'a str,
    /// The text of an object.
    pub(crate) params: &'a str,
    pub(crate) client: Client,
    /// Up to 2025-11-25.
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) meta: Meta,
    pub(crate) outlet: Outlet,
    /// Fires when the client has taken the request back.
    pub(crate) cancel: CancellationToken,
    /// Fires when the request is over, and its answer on the way.
    pub(crate) answered: Answered,
    /// Held while its task is started.
    pub(crate) starting: Starting,
    /// Since when it may have been on its way to us.
    pub(crate) asked: Instant,
    /// The task that holds its id until its answer was sent, if one does.
    pub(crate) holds: Holds,
    /// Another with its id, of the same session and otherwise equal, is at work already.
    pub(crate) again: bool,
}

/// Of all requests of one id that are at work in a session. True if it is certain that they begin no task.
pub(crate) type Starting = Arc<tokio::sync::Mutex<bool>>;

impl Request<'_> {
    /// What it asks for is no task, so that it is nowhere but here.
    pub(crate) async fn begins_none(&self) {
        *self.starting.lock().await = true;
    }
}

/// A task that is known by the id of the request that started it, once there is an answer: who sends that
/// says so then.
pub(crate) type Holds = Arc<OnceLock<TaskId>>;

/// Fires when it is dropped.
#[derive(Default)]
pub(crate) struct Answered(pub(crate) CancellationToken);

impl Drop for Answered {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// What the `_meta` of a request says, but for who the client is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meta {
    pub(crate) progress_token: Option<Value>,
    pub(crate) log_level: Option<usize>,
    pub(crate) trace: Option<String>,
    /// What makes it the same request as another.
    pub(crate) key: Option<String>,
}

/// The levels of log lines, least first.
pub(crate) const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

pub(crate) fn level(name: &str) -> Option<usize> {
    LEVELS.iter().position(|level| *level == name)
}
