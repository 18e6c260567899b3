//! Tools that come to rest wherever a task can, in the first life, and go on in the second.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use steadfast_engine::{
    ActivityContext, Attempt, Builder, Context, Error, Result, Retry, Scope, Settings, Tool,
};

/// What happened outside, and in which life the process is.
#[derive(Clone, Default)]
pub(crate) struct Notes {
    pub(crate) seen: Arc<Mutex<BTreeMap<String, u32>>>,
    pub(crate) tokens: Arc<Mutex<Vec<String>>>,
    pub(crate) second_life: bool,
}

impl Notes {
    pub(crate) fn add(&self, what: &str) {
        *self.seen.lock().unwrap().entry(what.to_owned()).or_insert(0) += 1;
    }

    pub(crate) fn count(&self, what: &str) -> u32 {
        self.seen.lock().unwrap().get(what).copied().unwrap_or(0)
    }

    pub(crate) fn all(&self) -> BTreeMap<String, u32> {
        self.seen.lock().unwrap().clone()
    }

    /// Never ends in the first life.
    async fn hang(&self) {
        if !self.second_life {
            std::future::pending::<()>().await;
        }
    }

    async fn step(&self, ctx: &Context, name: &str) -> Result<()> {
        ctx.step(name, || async {
            self.add(name);
            Ok::<_, Error>(())
        })
        .await
    }

    /// A step that is cut off in the first life.
    async fn cut(&self, ctx: &Context, name: &str) -> Result<()> {
        ctx.step(name, || async {
            self.add(name);
            self.hang().await;
            Ok::<_, Error>(())
        })
        .await
    }
}

/// How long tasks wait that wait for a time. All must have come to rest before it is over.
pub(crate) const PAUSE: Duration = Duration::from_secs(3);

async fn run(ctx: Context, notes: Notes, kind: String) -> Result<String> {
    let name = |part: &str| format!("{kind} {part}");
    notes.step(&ctx, &name("first")).await?;
    match kind.as_str() {
        "running" => notes.cut(&ctx, "running cut").await?,
        "timer" => ctx.sleep(PAUSE).await,
        "asks" => {
            let reply = ctx.ask::<u32>("?").key("number").await?;
            notes.add(&format!("asks got {:?}", reply.accepted()));
        }
        "retrying" => {
            let retry = Retry::exponential().first_delay(PAUSE);
            let step = ctx.step("retrying step", |attempt: Attempt| {
                let notes = notes.clone();
                async move {
                    notes.add(&format!("retrying attempt {}", attempt.number()));
                    match attempt.number() {
                        1 => Err(Error::new("not yet")),
                        _ => Ok(()),
                    }
                }
            });
            step.retry(retry).await?;
        }
        "suspended" | "event" => {
            let sum = ctx.event::<u64>("go").await? + ctx.event::<u64>("go").await?;
            notes.add(&format!("{kind} got {sum}"));
        }
        "stuck" if !notes.second_life => tokio::time::sleep(Duration::from_millis(5)).await,
        "parent" => {
            let child: String = ctx.child("child", &()).await?;
            notes.add(&format!("parent got {child}"));
        }
        "held activity" | "queued activity" | "outside activity" => {
            let got: String = ctx.activity(kind.as_str(), &()).await?;
            notes.add(&format!("{kind} gave {got}"));
        }
        "due activity" => {
            let retry = Retry::exponential().first_delay(PAUSE);
            ctx.activity::<()>("due activity", &()).retry(retry).await?;
        }
        "undone" | "bound" => {
            let booked = ctx.step("book", || async {
                notes.add(&format!("{kind} booked"));
                Ok::<_, Error>(())
            });
            booked.undo("undo", &kind).await?;
            notes.cut(&ctx, &name("cut")).await?;
        }
        "failed" => return Err(Error::new("on purpose")),
        "counts" => {
            let count = |n: Option<u32>| n.unwrap_or(0) + 1;
            ctx.state(Scope::Global).update("n", count).await?;
            ctx.state(Scope::Session).update("n", count).await?;
        }
        _ => {}
    }
    notes.step(&ctx, &name("last")).await?;
    Ok(kind)
}

/// The tools of a life.
pub(crate) fn tools(builder: Builder, notes: &Notes) -> Builder {
    let all = || notes.clone();
    let (one, two, three, four, five, six) = (all(), all(), all(), all(), all(), all());
    let builder = builder
        .settings(Settings {
            park_after: Duration::from_millis(30),
            look_for_dead_every: Duration::from_millis(100),
            ..Settings::default()
        })
        .tool(Tool::new("work", move |ctx: Context, kind: String| run(ctx, one.clone(), kind)))
        .tool(Tool::new("child", move |ctx: Context, (): ()| {
            let notes = two.clone();
            async move {
                notes.step(&ctx, "child first").await?;
                ctx.sleep(PAUSE).await;
                notes.step(&ctx, "child last").await?;
                Ok("a child".to_owned())
            }
        }))
        .activity("held activity", move |_: ActivityContext, (): ()| {
            let notes = three.clone();
            async move {
                notes.add("held activity began");
                notes.hang().await;
                Ok("held".to_owned())
            }
        })
        .activity("outside activity", move |activity: ActivityContext, (): ()| {
            four.tokens.lock().unwrap().push(activity.token().to_owned());
            activity.complete_later();
            async { Ok(()) }
        })
        .activity("due activity", move |activity: ActivityContext, (): ()| {
            let notes = five.clone();
            async move {
                notes.add(&format!("due activity attempt {}", activity.attempt()));
                match activity.attempt() {
                    1 => Err(Error::new("not yet")),
                    _ => Ok(()),
                }
            }
        })
        .activity("undo", move |_: ActivityContext, what: String| {
            let notes = six.clone();
            async move {
                notes.add(&format!("{what} undo began"));
                notes.hang().await;
                notes.add(&format!("{what} undo done"));
                Ok(())
            }
        });
    match notes.second_life {
        false => builder,
        // Nobody has it in the first life.
        true => builder.activity("queued activity", |_: ActivityContext, (): ()| async {
            Ok("queued".to_owned())
        }),
    }
}
