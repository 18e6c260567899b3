//! Tasks in every state, for databases of each version of the tables that are kept.
//!
//! [`make`] brings a store there and leaves it as a process does that dies; [`finish`] is whatever comes
//! later, and must find everything as it was left. What is in `kept/` was made by `make` as it was then.
//! So the tools here only ever get more: one that a kept task belongs to stays as it is.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use schemars::JsonSchema;
use serde::Deserialize;
use steadfast_engine::{
    Action, ActivityContext, Answer, Builder, CallError, Compensation, Context, Engine, Error,
    Event, Json, ListTasks, Principal, Result, Retry, Scope, Settings, Simulated, Status, TaskId,
    TaskInfo, Tasks, Timestamp, Tool,
};
use steadfast_store::{SessionRow, Store};

use crate::Ledger;

/// When all of it was made, whenever that was: a task that has ended is kept for a week.
const BEGUN: Timestamp = Timestamp(1_800_000_000_000);
/// How much later it is taken up.
const LATER: Duration = Duration::from_secs(3600);

type Outcome<T> = std::result::Result<T, CallError>;

#[derive(Debug, Deserialize, JsonSchema)]
struct Approval {
    approved: bool,
}

/// Whether this is the life in which nothing gets to its end, and where effects are noted.
#[derive(Clone)]
struct Stage {
    ledger: Ledger,
    making: bool,
}

impl Stage {
    fn effect(&self, ctx: &Context, step: &str) -> Result<String> {
        self.ledger.effect(ctx.task_id().as_str(), step);
        Ok(step.to_owned())
    }

    /// Never goes on in the first life.
    async fn gate(&self) {
        if self.making {
            std::future::pending::<()>().await;
        }
    }

    /// One step that is recorded, and then the part that the task is there for.
    async fn run(self, ctx: Context, part: String) -> Result<String> {
        let first = ctx.step("first", || async { self.effect(&ctx, "first") });
        first.undo("undo", &ctx.task_id().to_string()).await?;
        let said = match part.as_str() {
            "running" => {
                let step = ctx.step("second", || async {
                    self.gate().await;
                    self.effect(&ctx, "second")
                });
                step.await?
            }
            "sleeping" => {
                ctx.sleep(LATER / 2).await;
                "rested".into()
            }
            "asking" => {
                let answer = ctx.ask::<Approval>("Go on?").key("approval").await?;
                answer.accepted().is_some_and(|answer| answer.approved).to_string()
            }
            "retrying" => {
                let step = ctx.step("second", || async {
                    match self.making {
                        true => Err(Error::new("not yet")),
                        false => self.effect(&ctx, "second"),
                    }
                });
                step.retry(Retry::exponential().first_delay(LATER / 2)).await?
            }
            "stuck" => {
                if self.making {
                    // Nothing that is recorded wakes it: a mistake of its author's.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                "mended".into()
            }
            "parent" => ctx.child("kept-child", &()).await?,
            "working" => ctx.activity("kept-activity", &()).await?,
            "watching" => {
                let shared = ctx.state(Scope::Global);
                let is_open = |open: Option<&bool>| open.is_some_and(|open| *open);
                let open = shared.wait_until("kept-door", is_open).await?;
                open.is_some().to_string()
            }
            "opening" => {
                ctx.state(Scope::Global).set("kept-door", &true).await?;
                "opened".into()
            }
            "failing" => return Err(Error::new("on purpose")),
            // Waits for an event, and is suspended or cancelled meanwhile, or not.
            _ => ctx.event("go").await?,
        };
        ctx.step("last", || async { self.effect(&ctx, "last") }).await?;
        Ok(said)
    }
}

fn tools(builder: Builder, ledger: &Ledger, making: bool) -> Builder {
    let stage = Stage { ledger: ledger.clone(), making };
    let (one, two, three) = (stage.clone(), stage.clone(), stage);
    let epoch = if making { BEGUN } else { BEGUN.plus(LATER) };
    builder
        .world(Simulated::new(epoch, u64::from(making)))
        .settings(Settings {
            park_after: Duration::from_millis(30),
            look_for_dead_every: Duration::from_millis(50),
            ..Settings::default()
        })
        .tool(Tool::new("kept", move |ctx: Context, part: String| one.clone().run(ctx, part)))
        .tool(Tool::new("kept-child", |ctx: Context, (): ()| async move {
            ctx.event::<String>("go").await
        }))
        .activity("kept-activity", move |_: ActivityContext, (): ()| {
            let stage = two.clone();
            async move {
                stage.gate().await;
                Ok("worked".to_owned())
            }
        })
        .activity("undo", move |_: ActivityContext, task: String| {
            let stage = three.clone();
            async move {
                stage.gate().await;
                stage.ledger.effect(&task, "undo first");
                Ok(())
            }
        })
}

fn ada() -> Principal {
    Principal::new("ada").expect("it is well-formed")
}

fn id(name: &str) -> TaskId {
    TaskId::new(name).expect("it is well-formed")
}

/// The parts, with the state in which each is left.
const PARTS: [(&str, Status); 13] = [
    ("queued", Status::Queued),
    ("running", Status::Running),
    ("sleeping", Status::Waiting),
    ("waiting", Status::Waiting),
    ("asking", Status::InputRequired),
    ("retrying", Status::Retrying),
    ("suspended", Status::Suspended),
    ("stuck", Status::Stuck),
    ("parent", Status::Waiting),
    ("working", Status::Waiting),
    ("watching", Status::Waiting),
    ("completed", Status::Completed),
    ("cancelled", Status::Cancelled),
];

/// Brings a store to where every state is in it. Whoever holds it is then to die.
pub async fn make(store: Arc<dyn Store>, ledger: &Ledger) -> Outcome<Engine> {
    let engine = tools(Engine::builder(store.clone()), ledger, true).start();
    let tasks = engine.tasks(ada());
    for (part, _) in PARTS {
        let mut start = tasks.start("kept", part).id(id(part)).tag("part", part);
        if part == "queued" {
            start = start.delay(LATER / 2);
        }
        if part == "waiting" {
            start = start.idempotency_key("once");
        }
        start.await?;
    }
    tasks.start("kept", "failing").id(id("failing")).await?;
    for suspended in ["suspended", "cancelled"] {
        tasks.wait_for(&id(suspended), |info| info.status == Status::Waiting).await?;
    }
    tasks.suspend(&id("suspended"), Some("for a while".into())).await?;
    tasks.cancel(&id("cancelled"), Some("not wanted".into())).await?;
    tasks.signal(&id("completed"), Event::new("go", "gone")).await?;
    // One that came, and one for a task that is not there yet.
    tasks.signal(&id("suspended"), Event::new("go", "at last")).await?;
    tasks.signal(&id("early"), Event::new("go", "before").even_before_start()).await?;
    for (part, status) in PARTS {
        tasks.wait_for(&id(part), |info| info.status == status).await?;
    }
    tasks.wait_for(&id("failing"), |info| info.status == Status::Failed).await?;
    let expires = BEGUN.plus(Duration::from_secs(86_400));
    let session = SessionRow { id: "kept".into(), expires, body: b"session".to_vec() };
    store.begin_session(session, 10).await.map_err(CallError::Store)?;
    engine.post("changed").await?;
    Ok(engine)
}

/// Waits until a part is over, and what is left to do after it.
async fn over(tasks: &Tasks, name: &str) -> Outcome<TaskInfo> {
    let done = |info: &TaskInfo| {
        let undone = info.status == Status::Completed
            || matches!(info.compensation, Some(Compensation::Done));
        info.status.is_terminal() && undone
    };
    tasks.wait_for(&id(name), done).await
}

/// Takes up what was left, lets everything finish, and says what is not as it should be. The effects of
/// this life go to the ledger.
pub async fn finish(store: Arc<dyn Store>, ledger: &Ledger) -> Outcome<Vec<String>> {
    let mut wrong = Vec::new();
    let now = BEGUN.plus(LATER);
    let session = store.session("kept".into(), now).await.map_err(CallError::Store)?;
    if session.map(|session| session.body) != Some(b"session".to_vec()) {
        wrong.push("the session is another, or gone".to_owned());
    }
    let posted = store.posted(0, 10).await.map_err(CallError::Store)?;
    if (posted.last, posted.notices.len()) != (1, 1) {
        wrong.push(format!("the notices are {posted:?}"));
    }
    let engine = tools(Engine::builder(store), ledger, false).start();
    let tasks = engine.tasks(ada());
    let again = tasks.start("kept", "waiting").idempotency_key("once").await?;
    if again.id != id("waiting") {
        wrong.push(format!("a key was forgotten: {}", again.id));
    }
    tasks.start("kept", "early").id(id("early")).await?;
    for part in ["queued", "waiting"] {
        tasks.signal(&id(part), Event::new("go", part)).await?;
    }
    let children = ListTasks { parent: Some(id("parent")), ..ListTasks::default() };
    for child in tasks.list(children).await?.tasks {
        tasks.signal(&child.id, Event::new("go", "grown")).await?;
    }
    let content = Json::of(&serde_json::json!({ "approved": true })).ok();
    let yes = Answer { action: Action::Accept, content };
    tasks.answer(&id("asking"), "approval", yes).await?;
    for part in ["suspended", "stuck"] {
        tasks.resume(&id(part)).await?;
    }
    tasks.start("kept", "opening").id(id("opening")).await?;
    let outputs = BTreeMap::from([
        ("queued", "queued"),
        ("running", "second"),
        ("sleeping", "rested"),
        ("waiting", "waiting"),
        ("asking", "true"),
        ("retrying", "second"),
        ("suspended", "at last"),
        ("stuck", "mended"),
        ("parent", "grown"),
        ("working", "worked"),
        ("watching", "true"),
        ("completed", "gone"),
        ("early", "before"),
        ("opening", "opened"),
    ]);
    for (part, expected) in &outputs {
        let info = over(&tasks, part).await?;
        let output = info.output.as_ref().and_then(|output| output.read::<String>().ok());
        if info.status != Status::Completed || output.as_deref() != Some(expected) {
            wrong.push(format!("{part} ended as {} with {output:?}", info.status));
        }
    }
    for (part, status) in [("cancelled", Status::Cancelled), ("failing", Status::Failed)] {
        let info = over(&tasks, part).await?;
        if info.status != status {
            wrong.push(format!("{part} ended as {}", info.status));
        }
    }
    engine.shutdown(Duration::from_secs(5)).await;
    wrong.extend(effects(ledger));
    Ok(wrong)
}

/// What was recorded does not happen again, and what was not does.
fn effects(ledger: &Ledger) -> Vec<String> {
    let mut expected = BTreeSet::new();
    for (part, _) in PARTS {
        if !["completed", "cancelled"].contains(&part) {
            expected.insert((part.to_owned(), "last".to_owned()));
        }
    }
    for part in ["queued", "early", "opening"] {
        expected.insert((part.into(), "first".into()));
    }
    for part in ["running", "retrying"] {
        expected.insert((part.into(), "second".into()));
    }
    for part in ["early", "opening"] {
        expected.insert((part.into(), "last".into()));
    }
    for part in ["cancelled", "failing"] {
        expected.insert((part.into(), "undo first".into()));
    }
    let mut found = Vec::new();
    for entry in ledger.entries() {
        found.push((entry.task, entry.detail));
    }
    found.sort();
    let expected: Vec<(String, String)> = expected.into_iter().collect();
    match found == expected {
        true => Vec::new(),
        false => vec![format!("effects were {found:?}, and should be {expected:?}")],
    }
}
