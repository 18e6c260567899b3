//! Following the task of a call that a client waits for.

use std::{collections::BTreeSet, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use steadfast_core::{Event, Note, Progress, TaskId};
use steadfast_engine::{CallError, Follow, Heard, OpenQuestion, Order, Said, TaskInfo, Tasks};
use steadfast_store as store;

use super::{
    call::{Call, asks},
    rounds::apply,
    task_error,
};
use crate::{
    front::{LEVELS, level},
    repeat::digest,
    session::Session,
    wire::{Id, Object, RpcError, notification},
};

/// How far the stream of a call has come. With the task it is all that is needed to take the stream up
/// again, in any process: what comes after it is in the task's history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Point {
    /// Events of the task's history that are behind it.
    pub(crate) heard: u64,
    /// Messages that were sent.
    pub(crate) sent: u64,
    /// The questions among them that are still open, each by a digest of its key: who goes on from here
    /// has them.
    pub(crate) asked: BTreeSet<u64>,
    /// Whose stream it is, if it is not of the request that the task was made by: of that the task's record
    /// knows.
    pub(crate) of: Option<Attached>,
}

/// A request that found its task by an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attached {
    /// A digest of its session, which alone can take up the stream.
    session: u64,
    pub(crate) request: Id,
    pub(crate) progress_token: Option<Value>,
}

impl Attached {
    pub(super) fn new(session: &Session, request: &Id, progress_token: Option<&Value>) -> Attached {
        let session = digest(&session.id);
        Attached { session, request: request.clone(), progress_token: progress_token.cloned() }
    }

    pub(super) fn is_of(&self, session: &Session) -> bool {
        self.session == digest(&session.id)
    }

    /// As part of an id: the ids of requests can be any text.
    fn name(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        text.bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    fn read(name: &str) -> Option<Attached> {
        let digits = name.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).ok());
        let bytes = digits.map(|two| u8::from_str_radix(two?, 16).ok());
        serde_json::from_slice(&bytes.collect::<Option<Vec<u8>>>()?).ok()
    }
}

impl Point {
    /// As the id of an event.
    pub(crate) fn name(&self, task: &TaskId) -> String {
        let mut name = format!("{task}.{}.{}.", self.heard, self.sent);
        for (n, digest) in self.asked.iter().enumerate() {
            name += if n > 0 { "-" } else { "" };
            name += &format!("{digest:x}");
        }
        if let Some(of) = &self.of {
            name += &format!("~{}", of.name());
        }
        name
    }

    /// Reads such an id.
    pub(crate) fn read(name: &str) -> Option<(TaskId, Point)> {
        let (name, of) = match name.split_once('~') {
            Some((name, of)) => (name, Some(Attached::read(of)?)),
            None => (name, None),
        };
        let (rest, asked) = name.rsplit_once('.')?;
        let (rest, sent) = rest.rsplit_once('.')?;
        let (task, heard) = rest.rsplit_once('.')?;
        let digests = asked.split('-').filter(|digest| !digest.is_empty());
        let asked = digests.map(|digest| u64::from_str_radix(digest, 16)).collect::<Result<_, _>>();
        let (heard, sent) = (heard.parse().ok()?, sent.parse().ok()?);
        let point = Point { heard, sent, asked: asked.ok()?, of };
        Some((TaskId::new(task).ok()?, point))
    }

    /// Whether a question of this key was asked before it.
    pub(crate) fn has_asked(&self, key: &str) -> bool {
        self.asked.contains(&digest(key))
    }

    /// A question is asked while these are open.
    pub(super) fn ask(&mut self, key: &str, open: &[OpenQuestion]) {
        let open: BTreeSet<u64> = open.iter().map(|question| digest(&question.key)).collect();
        self.asked.retain(|asked| open.contains(asked));
        self.asked.insert(digest(key));
    }
}

impl Call<'_> {
    /// Until the task has ended, or asks something that the client answers by calling again. What it
    /// says meanwhile goes to the client, and so do its questions if they go out live. With how far it
    /// came.
    pub(super) async fn follow(
        &self,
        tasks: &Tasks,
        id: &TaskId,
        mut point: Point,
        from_start: Option<Follow>,
    ) -> Result<(TaskInfo, Point), RpcError> {
        let mut given = self.input_responses.clone();
        let least = match &self.request.session {
            Some(session) => Some(session.log_level().unwrap_or(1)),
            None => self.request.meta.log_level,
        };
        let listens = least.is_some() || self.request.meta.progress_token.is_some();
        if !listens && self.request.session.is_none() {
            return Box::pin(self.wait(tasks, id, point, given)).await;
        }
        let mut patience = Patience::new(self);
        let progress = match &self.request.meta.progress_token {
            Some(_) => loop {
                match Rising::up_to(tasks, id, point.heard).await {
                    Ok(rising) => break rising,
                    Err(error) => patience.bear(error).await?,
                }
            },
            None => Rising::default(),
        };
        let mut voice = Voice { call: self, least, progress };
        let mut follow = match from_start {
            Some(follow) => follow,
            None => loop {
                match tasks.follow(id, point.heard).await {
                    Ok(follow) => break follow,
                    Err(error) => patience.bear(error).await?,
                }
            },
        };
        loop {
            let heard = match follow.next().await {
                Ok(heard) => heard,
                Err(error) => {
                    patience.bear(error).await?;
                    continue;
                }
            };
            patience = Patience::new(self);
            // What is done once takes no room while nothing happens: many are followed, and few talk.
            let hear = self.hear(heard, &mut voice, tasks, id, &mut point, &mut given);
            if let Some(info) = Box::pin(hear).await? {
                return Ok((info, point));
            }
        }
    }

    /// Until the task has ended or asks something, for a client that hears nothing meanwhile.
    async fn wait(
        &self,
        tasks: &Tasks,
        id: &TaskId,
        mut point: Point,
        mut given: Map<String, Value>,
    ) -> Result<(TaskInfo, Point), RpcError> {
        let done = |info: &TaskInfo| {
            let asks = asks(info, &self.request.client);
            info.status.is_terminal() || asks || self.waits_for_tool(info)
        };
        loop {
            let info = tasks.wait_for(id, done).await.map_err(task_error)?;
            if info.status.is_terminal() {
                return Ok((info, point));
            }
            if !apply(tasks, &info, &mut given).await? {
                point.heard = self.events(tasks, id).await?;
                return Ok((info, point));
            }
        }
    }

    /// Passes on what a task has said. The task, if there is no more to wait for.
    async fn hear(
        &self,
        heard: Heard,
        voice: &mut Voice<'_>,
        tasks: &Tasks,
        id: &TaskId,
        point: &mut Point,
        given: &mut Map<String, Value>,
    ) -> Result<Option<TaskInfo>, RpcError> {
        for said in &heard.said {
            match said {
                Said::Progress(progress) => voice.pass(progress).await,
                Said::Note { seq, note } => {
                    point.heard = seq + 1;
                    voice.say(note, id, point).await;
                }
            }
        }
        point.heard = heard.seen;
        let Some(info) = heard.info else { return Ok(None) };
        let goes_on = !info.status.is_terminal() && self.heed(tasks, &info, point, given).await?;
        Ok((!goes_on).then_some(info))
    }

    /// Sees to what a task asks now: it is asked live, or answered with what came with the call. False
    /// if the client has to call again first, or to answer by way of a tool.
    async fn heed(
        &self,
        tasks: &Tasks,
        info: &TaskInfo,
        point: &mut Point,
        given: &mut Map<String, Value>,
    ) -> Result<bool, RpcError> {
        let (front, on) = (self.front, &self.request.outlet);
        if self.waits_for_tool(info) {
            return Ok(false);
        }
        match &self.request.session {
            Some(session) => {
                // What the client has answered may have come to another process.
                if !info.questions.is_empty()
                    && matches!(front.sessions.check(session).await, Ok(true))
                {
                    front.follow_again(session);
                }
                front.send_questions(session, info, on, None, Some(point)).await;
                Ok(true)
            }
            None if !asks(info, &self.request.client) => Ok(true),
            None => apply(tasks, info, given).await,
        }
    }
}

/// With a store that can't be read while somebody waits for a call. That goes on, so that it would be wrong
/// to tell a client that it failed which is going to rely on that; one that can't come back makes it anew.
struct Patience<'a> {
    call: &'a Call<'a>,
    wait: Duration,
}

impl<'a> Patience<'a> {
    fn new(call: &'a Call<'a>) -> Patience<'a> {
        Patience { call, wait: Duration::from_millis(50) }
    }

    /// Returns when the same is to be tried again, if it is.
    async fn bear(&mut self, error: CallError) -> Result<(), RpcError> {
        let passes = matches!(
            error,
            CallError::Store(store::Error::Unavailable(_) | store::Error::Unknown(_))
        );
        let front = self.call.front;
        if !passes || !self.call.can_return() || front.draining.is_cancelled() {
            return Err(task_error(error));
        }
        tracing::warn!(%error, "a call can't be followed; trying again");
        tokio::time::sleep(self.wait).await;
        self.wait = (self.wait * 2).min(Duration::from_secs(5));
        Ok(())
    }
}

/// Tells a client what a task says on its way.
struct Voice<'a> {
    call: &'a Call<'a>,
    least: Option<usize>,
    progress: Rising,
}

/// Progress on its way to a client: the protocol wants it to rise.
pub(super) struct Rising(f64);

impl Default for Rising {
    fn default() -> Rising {
        Rising(f64::NEG_INFINITY)
    }
}

impl Rising {
    /// How far a task has come by this event of its history.
    pub(super) async fn up_to(tasks: &Tasks, id: &TaskId, heard: u64) -> Result<Rising, CallError> {
        let (mut rising, mut seen, mut after) = (Rising::default(), 0, None);
        while seen < heard {
            let page = tasks.history(id, Order::OldestFirst, after.as_deref(), 1_000).await?;
            for entry in page.entries.iter().filter(|entry| entry.seq < heard) {
                if let Event::Noted { note: Note::Progress(progress), .. } = &entry.event {
                    rising.0 = rising.0.max(progress.done);
                }
            }
            seen = page.entries.last().map_or(heard, |last| last.seq + 1);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(rising)
    }

    /// The parameters of a notification, unless it is no more than before.
    pub(super) fn params(&mut self, token: &Value, progress: &Progress) -> Option<Object> {
        if progress.done <= self.0 {
            return None;
        }
        self.0 = progress.done;
        let params = Object::new()
            .put("progressToken", token)
            .put("progress", &number(progress.done))
            .maybe("total", progress.total.map(number))
            .maybe("message", progress.text.as_ref());
        Some(params)
    }
}

impl Voice<'_> {
    fn progress(&mut self, progress: &Progress) -> Option<String> {
        let token = self.call.request.meta.progress_token.as_ref()?;
        let params = self.progress.params(token, progress)?;
        Some(notification("notifications/progress", Some(&params.close())))
    }

    /// Progress that is not recorded: who misses it can't come back for it.
    async fn pass(&mut self, progress: &Progress) {
        if let Some(message) = self.progress(progress) {
            self.call.request.outlet.send(message).await;
        }
    }

    async fn say(&mut self, note: &Note, task: &TaskId, point: &mut Point) {
        let message = match note {
            Note::Progress(progress) => match self.progress(progress) {
                Some(message) => message,
                None => return,
            },
            Note::Log { level: name, text } => {
                let severity = level(name).unwrap_or(1);
                if self.least.is_none_or(|least| severity < least) {
                    return;
                }
                let params = Object::new()
                    .put("level", LEVELS[severity])
                    .put("logger", self.call.engine_name)
                    .put("data", text);
                notification("notifications/message", Some(&params.close()))
            }
            Note::Status(_) | Note::Mark { .. } | Note::Notice(_) => return,
        };
        point.sent += 1;
        self.call.request.outlet.send_at(point.name(task), message).await;
    }
}

/// Whole numbers are written as such.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 { json!(value as i64) } else { json!(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_read_as_it_was_written_and_not_otherwise() {
        let task = TaskId::new("0123456789abcdef0123456789abcdef").unwrap();
        let mut point = Point { heard: 12, sent: 3, ..Point::default() };
        assert_eq!(Point::read(&point.name(&task)), Some((task.clone(), point.clone())));
        let question = |key: &str| OpenQuestion {
            key: key.into(),
            message: String::new(),
            schema: steadfast_core::Json::null(),
            data: None,
            deadline: None,
        };
        point.ask("a", &[question("a"), question("b")]);
        point.ask("b", &[question("a"), question("b")]);
        assert_eq!(Point::read(&point.name(&task)), Some((task, point.clone())));
        assert!(point.has_asked("a") && point.has_asked("b") && !point.has_asked("c"));
        let of = Attached {
            session: u64::MAX,
            request: Id::Text("a~b.é \"".into()),
            progress_token: Some(json!(7)),
        };
        let attached = Point { of: Some(of), ..point.clone() };
        let task = TaskId::new("0123456789abcdef0123456789abcdef").unwrap();
        assert!(attached.name(&task).is_ascii());
        assert_eq!(Point::read(&attached.name(&task)), Some((task, attached)));
        point.ask("c", &[question("b"), question("c")]);
        assert!(!point.has_asked("a") && point.has_asked("b") && point.has_asked("c"));
        for bad in [
            "",
            "1",
            "1.2",
            "a.b.c",
            "abc.1",
            "abc.-1.2.",
            "abc.1.2",
            "abc.1.2.x",
            "abc.1.2.~",
            "abc.1.2.~7b",
        ] {
            assert_eq!(Point::read(bad), None, "{bad}");
        }
    }
}
