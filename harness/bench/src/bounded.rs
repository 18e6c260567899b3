//! What finished calls leave behind when their time is over.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Router, body::Body, http::Request};
use rusqlite::Connection;
use serde_json::{Value, json};
use steadfast_core::Timestamp;
use steadfast_engine::{Engine, Settings, System, World};
use steadfast_mcp::Running;
use tower::ServiceExt;

use crate::{
    EngineArgs, Result,
    report::{Bound, Report},
    tools,
};

/// The system's clock, put forward.
struct Later(Arc<AtomicI64>);

impl World for Later {
    fn now(&self) -> Timestamp {
        Timestamp(System.now().0 + self.0.load(Ordering::SeqCst))
    }

    fn random(&self) -> u128 {
        System.random()
    }
}

/// Finishes a million plain calls in two halves, a week and an hour between them: the default retention.
pub(crate) async fn measure(args: &EngineArgs, report: &mut Report) -> Result<()> {
    let half: u64 = if args.quick { 5_000 } else { 500_000 };
    let dir = args.scratch()?;
    let path = dir.path().join("store");
    let ahead = Arc::new(AtomicI64::new(0));
    // What is not set here is as it comes.
    let sweep_every = Duration::from_secs(1);
    let settings = Settings { sweep_every, max_running: 20_000, ..Settings::default() };
    let engine = Engine::builder(tools::open(&path, Duration::ZERO)?)
        .world(Later(ahead.clone()))
        .settings(settings);
    let running = Arc::new(tools::server().start(engine)?);
    let (mut sizes, mut left, mut rate) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..2 {
        eprintln!("bounded: {half} plain calls");
        let begun = Instant::now();
        finish_calls(&running, half).await?;
        rate.push(half as f64 / begun.elapsed().as_secs_f64());
        ahead.fetch_add(
            Duration::from_secs(7 * 86_400 + 3_600).as_millis() as i64,
            Ordering::SeqCst,
        );
        let rows = sweep(&path).await?;
        let megabytes = std::fs::metadata(&path)?.len() as f64 / 1e6;
        left.push(rows);
        sizes.push(megabytes);
    }
    report.add("bounded_calls_per_s", rate, Bound::None);
    report.add("rows_left_behind", left, Bound::AtMost(0.0));
    report.add("file_mb", sizes.clone(), Bound::None);
    // The second half found its room in what the first one left.
    report.add("file_reuse_ratio", vec![sizes[1] / sizes[0]], Bound::AtMost(1.1));
    running.engine().shutdown(Duration::from_secs(10)).await;
    Ok(())
}

async fn finish_calls(running: &Arc<Running>, count: u64) -> Result<()> {
    const LANES: u64 = 64;
    let mut lanes = tokio::task::JoinSet::new();
    for lane in 0..LANES {
        let router = running.router();
        lanes.spawn(async move {
            let info = json!({ "name": "bench", "version": "1" });
            let params =
                json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
            let (session, _) = ask(&router, None, &request(0, "initialize", params)).await?;
            let session = session.ok_or("no session")?;
            for id in (lane..count).step_by(LANES as usize) {
                let params = crate::http::call("three", json!({ "n": id }));
                let call = request(id + 1, "tools/call", params);
                let (_, answer) = ask(&router, Some(&session), &call).await?;
                if !answer.contains(&format!("\"text\":\"{}\"", id + 3)) {
                    return Err(format!("the call came to {answer}").into());
                }
            }
            Ok::<_, crate::Error>(())
        });
    }
    for lane in lanes.join_all().await {
        lane?;
    }
    Ok(())
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// The session and the body of a response.
async fn ask(
    router: &Router,
    session: Option<&str>,
    message: &Value,
) -> Result<(Option<String>, String)> {
    let mut request = Request::post("/mcp")
        .header("host", "127.0.0.1")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    if let Some(session) = session {
        request = request.header("mcp-session-id", session);
        request = request.header("mcp-protocol-version", "2025-11-25");
    }
    let response = router.clone().oneshot(request.body(Body::from(message.to_string()))?).await?;
    let session = response.headers().get("mcp-session-id");
    let session = session.and_then(|id| id.to_str().ok()).map(str::to_owned);
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await?;
    Ok((session, String::from_utf8_lossy(&body).into_owned()))
}

/// How many rows there are of anything when no more of them are removed.
async fn sweep(path: &Path) -> Result<f64> {
    let (mut least, mut since) = (i64::MAX, Instant::now());
    while least > 0 && since.elapsed() < Duration::from_secs(30) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let rows = rows(path)?;
        if rows < least {
            (least, since) = (rows, Instant::now());
        }
    }
    Ok(least as f64)
}

fn rows(path: &Path) -> Result<i64> {
    let conn = Connection::open(path)?;
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' \
               AND name <> 'counter'";
    let tables: Vec<String> =
        conn.prepare(sql)?.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut rows = 0;
    for table in tables {
        let sql = format!("SELECT count(*) FROM {table}");
        rows += conn.query_row(&sql, [], |row| row.get::<_, i64>(0))?;
    }
    Ok(rows)
}
