//! Tasks of several kinds, made for checking: their effects go to the ledger.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steadfast_engine::{
    ActivityContext, Attempt, Builder, Context, Error, Result, Retry, Scope, Settings, Tool, join,
};

use crate::{Ledger, Rng};

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Three steps, one of them retried, one at most once.
    Chain,
    /// Asks a question; its result is the answer.
    Ask,
    /// Waits for three events; its result is their sum.
    Events,
    /// Adds one to a shared counter.
    Counter,
    /// Has two children.
    Family,
    /// Has an activity.
    Activity,
    /// Sleeps, so that it parks.
    Sleepy,
    /// Fails and is undone.
    Saga,
}

/// What is to be done with task number `i`.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What it does.
    pub kind: Kind,
    /// It is cancelled after so many milliseconds.
    pub cancel_after: Option<u64>,
}

impl Plan {
    /// The plan of a task, fixed by the seed.
    #[must_use]
    pub fn of(seed: u64, i: u64) -> Plan {
        let mut rng = Rng::of(seed, i + 1000);
        let kinds = [
            Kind::Chain,
            Kind::Ask,
            Kind::Events,
            Kind::Counter,
            Kind::Family,
            Kind::Activity,
            Kind::Sleepy,
            Kind::Saga,
        ];
        let kind = kinds[rng.below(8) as usize];
        let cancels = matches!(kind, Kind::Ask | Kind::Sleepy | Kind::Events | Kind::Family);
        let cancel_after = (cancels && rng.chance(25)).then(|| rng.below(60));
        Plan { kind, cancel_after }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Number {
    number: u64,
}

struct Scene {
    ctx: Context,
    ledger: Ledger,
}

impl Scene {
    fn effect(&self, step: &str) {
        self.ledger.effect(self.ctx.task_id().as_str(), step);
    }

    async fn step(&self, name: &str) -> Result<()> {
        self.ctx
            .step(name, || async {
                self.effect(name);
                Ok::<_, Error>(())
            })
            .await
    }

    async fn chain(&self) -> Result<String> {
        self.step("s1").await?;
        let retry = Retry::exponential().first_delay(Duration::from_millis(5));
        self.ctx
            .step("s2", |attempt: Attempt| async move {
                if attempt.number() == 1 {
                    return Err(Error::new("not yet"));
                }
                self.effect("s2");
                Ok(())
            })
            .retry(retry)
            .await?;
        let once = self.ctx.step("once", || async {
            self.effect("once");
            Ok::<_, Error>(())
        });
        let cut_off = match once.at_most_once().await {
            Ok(()) => false,
            Err(error) if error.is_unfinished() => true,
            Err(error) => return Err(error),
        };
        self.step("s3").await?;
        Ok(if cut_off { "cut off" } else { "done" }.into())
    }

    async fn ask(&self) -> Result<String> {
        self.step("s1").await?;
        let reply = self.ctx.ask::<Number>("Which number?").key("number").await?;
        self.step("s2").await?;
        let number = reply.accepted().map(|answer| answer.number);
        Ok(number.map_or_else(|| "none".into(), |n| n.to_string()))
    }

    async fn events(&self) -> Result<String> {
        let mut sum = 0;
        for round in 1..=3 {
            sum += self.ctx.event::<u64>("tick").await?;
            self.step(&format!("s{round}")).await?;
        }
        Ok(sum.to_string())
    }

    async fn counter(&self) -> Result<String> {
        self.step("s1").await?;
        let shared = self.ctx.state(Scope::Global);
        let count = shared.update("count", |count: Option<u64>| count.unwrap_or(0) + 1).await?;
        self.step("s2").await?;
        Ok(count.to_string())
    }

    async fn family(&self) -> Result<String> {
        self.step("s1").await?;
        let child = || self.ctx.child::<String>("child", &());
        let (one, two) = join(child(), child()).await;
        self.step("s2").await?;
        Ok(format!("{} {}", one?, two?))
    }

    async fn activity(&self) -> Result<String> {
        self.step("s1").await?;
        let retry = Retry::exponential().first_delay(Duration::from_millis(5));
        let task = self.ctx.task_id().to_string();
        let got: String = self.ctx.activity("activity", &task).retry(retry).await?;
        self.step("s3").await?;
        Ok(got)
    }

    async fn sleepy(&self) -> Result<String> {
        for round in 1..=3 {
            self.step(&format!("s{round}")).await?;
            let nap = 5 + self.ctx.random() % 60;
            self.ctx.sleep(Duration::from_millis(nap)).await;
        }
        Ok("rested".into())
    }

    async fn saga(&self) -> Result<String> {
        let task = self.ctx.task_id().to_string();
        for name in ["s1", "s2"] {
            let step = self.ctx.step(name, || async {
                self.effect(name);
                Ok::<_, Error>(())
            });
            step.undo("undo", &(task.clone(), name)).await?;
        }
        Err(Error::new("on purpose"))
    }
}

async fn run(ctx: Context, ledger: Ledger, kind: Kind) -> Result<String> {
    let scene = Scene { ctx, ledger };
    match kind {
        Kind::Chain => scene.chain().await,
        Kind::Ask => scene.ask().await,
        Kind::Events => scene.events().await,
        Kind::Counter => scene.counter().await,
        Kind::Family => scene.family().await,
        Kind::Activity => scene.activity().await,
        Kind::Sleepy => scene.sleepy().await,
        Kind::Saga => scene.saga().await,
    }
}

/// Registers the tools.
pub fn tools(builder: Builder, ledger: &Ledger) -> Builder {
    let (one, two, three, four) = (ledger.clone(), ledger.clone(), ledger.clone(), ledger.clone());
    builder
        .settings(Settings {
            park_after: Duration::from_millis(30),
            look_for_dead_every: Duration::from_millis(50),
            // Here processes die for no fault of a task's, and many in a row before one gets far;
            // that a task is set aside after five such deaths is right, and tested elsewhere.
            poison_deaths: u32::MAX,
            ..Settings::default()
        })
        .tool(Tool::new("work", move |ctx: Context, kind: Kind| run(ctx, one.clone(), kind)))
        .tool(Tool::new("child", move |ctx: Context, (): ()| {
            let scene = Scene { ctx, ledger: two.clone() };
            async move {
                scene.step("s1").await?;
                Ok("child".to_owned())
            }
        }))
        .activity("activity", move |ctx: ActivityContext, task: String| {
            let ledger = three.clone();
            async move {
                if ctx.attempt() == 1 {
                    return Err(Error::new("not yet"));
                }
                ledger.effect(&task, "s2");
                Ok("active".to_owned())
            }
        })
        .activity("undo", move |_: ActivityContext, (task, step): (String, String)| {
            let ledger = four.clone();
            async move {
                ledger.effect(&task, &format!("undo {step}"));
                Ok(())
            }
        })
}
