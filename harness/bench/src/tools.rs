//! The tools that are measured.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use schemars::JsonSchema;
use serde::Deserialize;
use steadfast_engine::{Builder, Context, Engine, Error, Principal, Settings, Tool};
use steadfast_mcp::Server;

use crate::{Result, load::nanos};

#[derive(Deserialize, JsonSchema)]
struct Approval {
    #[allow(dead_code)] // Read by whoever answers.
    approved: bool,
}

/// What tools report to the measurement outside the engine.
#[derive(Clone, Default)]
pub(crate) struct Probe {
    pub(crate) entered: Arc<AtomicU64>,
    pub(crate) marks: Arc<Mutex<Vec<Instant>>>,
}

impl Probe {
    fn mark(&self) {
        self.marks.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(Instant::now());
    }

    pub(crate) fn marks(&self) -> Vec<Instant> {
        self.marks.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

async fn three(ctx: Context, n: u64) -> steadfast_engine::Result<u64> {
    let a = ctx.step("one", || async { Ok::<_, Error>(n + 1) }).await?;
    let b = ctx.step("two", || async { Ok::<_, Error>(a + 1) }).await?;
    ctx.step("three", || async { Ok::<_, Error>(b + 1) }).await
}

async fn approve(ctx: Context, _: u64) -> steadfast_engine::Result<bool> {
    let reply = ctx.ask::<Approval>("Go on?").await?;
    Ok(reply.accepted().is_some())
}

/// Says when it went on after its answer.
async fn nanos_of_answer(ctx: Context, _: u64) -> steadfast_engine::Result<u64> {
    ctx.ask::<Approval>("Go on?").await?;
    ctx.step("now", || async { Ok::<_, Error>(nanos()) }).await
}

/// Many steps, then a wait. Marks the start, every thousandth step when it runs, and the wait.
async fn long(ctx: Context, probe: Probe, steps: u64) -> steadfast_engine::Result<u64> {
    probe.mark();
    let mut sum = 0;
    for n in 0..steps {
        let probe = &probe;
        sum += ctx
            .step("step", || async move {
                if n % 1_000 == 0 {
                    probe.mark();
                }
                Ok::<_, Error>(n)
            })
            .await?;
    }
    probe.mark();
    ctx.event::<()>("go").await?;
    Ok(sum)
}

async fn hang(ctx: Context, probe: Probe) -> steadfast_engine::Result<()> {
    ctx.step("before", || async { Ok::<_, Error>(()) }).await?;
    ctx.step("hang", || async {
        probe.entered.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<()>().await;
        Ok::<_, Error>(())
    })
    .await
}

pub(crate) fn register(builder: Builder, probe: &Probe) -> Builder {
    let (one, two) = (probe.clone(), probe.clone());
    builder
        .settings(Settings { max_running: 20_000, ..Settings::default() })
        .tool(Tool::new("three", three))
        .tool(Tool::new("approve", approve))
        .tool(Tool::new("nanos", nanos_of_answer))
        .tool(Tool::new("long", move |ctx: Context, steps: u64| long(ctx, one.clone(), steps)))
        .tool(Tool::new("hang", move |ctx: Context, (): ()| hang(ctx, two.clone())))
}

pub(crate) fn open(path: &Path, delay: Duration) -> Result<Arc<steadfast_sqlite::Store>> {
    Ok(Arc::new(steadfast_sqlite::Options::new(path).flush_delay(delay).open()?))
}

pub(crate) fn engine(path: &Path, delay: Duration, probe: &Probe) -> Result<Engine> {
    Ok(register(Engine::builder(open(path, delay)?), probe).start())
}

#[derive(Deserialize, JsonSchema)]
struct Pair {
    a: i64,
    b: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Number {
    n: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Ticks {
    count: u32,
    every_ms: u64,
}

/// Says what time it is, over and over, in a step.
async fn ticks(ctx: steadfast_mcp::Context, ticks: Ticks) -> steadfast_engine::Result<String> {
    let Ticks { count, every_ms } = ticks;
    ctx.step("tick", || async {
        for _ in 0..count {
            tokio::time::sleep(Duration::from_millis(every_ms)).await;
            ctx.progress(nanos() as f64, None, None);
        }
        Ok::<_, Error>(())
    })
    .await?;
    Ok("done".into())
}

/// Three steps that take a while, and say how far they are in the middle and at the end.
async fn work(ctx: steadfast_mcp::Context, _: Number) -> steadfast_engine::Result<String> {
    for n in 0..3_u32 {
        ctx.step("step", || async {
            tokio::time::sleep(Duration::from_millis(30)).await;
            ctx.progress(f64::from(n) + 0.5, Some(3.0), None);
            tokio::time::sleep(Duration::from_millis(30)).await;
            Ok::<_, Error>(())
        })
        .await?;
        ctx.progress(f64::from(n) + 1.0, Some(3.0), None);
    }
    Ok("done".into())
}

/// Waits for something that does not come.
async fn wait(ctx: steadfast_mcp::Context, _: Number) -> steadfast_engine::Result<String> {
    ctx.event::<()>("never").await?;
    Ok("done".into())
}

/// The front with a trivial plain tool and a durable one of three steps, and some that have something to
/// say.
pub(crate) fn server() -> Server {
    let steps = |ctx: steadfast_mcp::Context, number: Number| async move {
        let n = number.n;
        let a = ctx.step("one", || async { Ok::<_, Error>(n + 1) }).await?;
        let b = ctx.step("two", || async { Ok::<_, Error>(a + 1) }).await?;
        let c = ctx.step("three", || async { Ok::<_, Error>(b + 1) }).await?;
        Ok(c.to_string())
    };
    let add = |pair: Pair| async move { Ok((pair.a + pair.b).to_string()) };
    // One principal asks for all, so that its limits are out of reach; they are checked all the same.
    let settings = steadfast_mcp::Settings {
        max_polls_per_second: u32::MAX,
        max_open_tasks: u64::MAX,
        ..steadfast_mcp::Settings::default()
    };
    Server::new("bench")
        .settings(settings)
        .tool(steadfast_mcp::Tool::plain("add", add).description("Adds two numbers."))
        .tool(steadfast_mcp::Tool::new("three", steps))
        .tool(steadfast_mcp::Tool::new("ticks", ticks))
        .tool(steadfast_mcp::Tool::new("work", work))
        .tool(steadfast_mcp::Tool::new("wait", wait))
        // Of the tasks that a store is filled with.
        .engine(|builder| builder.tool(Tool::new("approve", approve)))
}

pub(crate) fn ada() -> Principal {
    // The name is well-formed.
    Principal::new("ada").unwrap_or_else(|error| unreachable!("{error}"))
}
