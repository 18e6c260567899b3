//! Streams of events: how soon what a tool says is heard, and what it takes to keep many open.

use std::time::Duration;

use serde_json::json;
use tokio::{task::JoinSet, time::timeout};

use crate::{
    EngineArgs, Result, floor,
    http::Server,
    load::nanos,
    report::{Bound, Report, median, short},
};

/// How long a tool waits before it says the next thing.
const PAUSE: Duration = Duration::from_millis(25);

pub(crate) async fn measure(args: &EngineArgs, report: &mut Report) -> Result<()> {
    if args.wants("latency") {
        latency(args, report, 1, "_alone").await?;
        latency(args, report, 64, "").await?;
    }
    if args.wants("open") {
        open(args, report).await?;
    }
    Ok(())
}

/// From where a tool says how far it is to where its client reads it, over a commit of a row at the same
/// pace.
async fn latency(
    args: &EngineArgs,
    report: &mut Report,
    streams: usize,
    suffix: &str,
) -> Result<()> {
    let (each, rounds) = if args.quick { (40, 1) } else { (200, 5) };
    let dir = args.scratch()?;
    let server = Server::ours(&dir.path().join("store").to_string_lossy(), 0)?;
    let (mut ratio, mut heard_us, mut commit_us) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let floor = floor::paced(&dir.path().join("floor"), streams, each, PAUSE).await?;
        let heard = heard(&server, streams, each).await?;
        commit_us.push(floor * 1e6);
        heard_us.push(heard * 1e6);
        ratio.push(heard / floor);
    }
    report.add(format!("commit_p50_us{suffix}"), commit_us, Bound::None);
    report.add(format!("stream_p50_us{suffix}"), heard_us, Bound::None);
    report.add(format!("stream_latency_ratio{suffix}"), ratio, Bound::AtMost(2.0));
    Ok(())
}

/// Seconds at the median.
async fn heard(server: &Server, streams: usize, each: u32) -> Result<f64> {
    let mut listeners = JoinSet::new();
    for n in 0..streams {
        let mut connection = server.connect().await?;
        let session = server.session(&mut connection).await?;
        let ticks = json!({ "count": each, "every_ms": PAUSE.as_millis() as u64 });
        let call = session.watched_call(n as u64, "ticks", ticks);
        listeners.spawn(async move {
            let mut stream = connection.listen(&call).await?;
            let mut times = Vec::new();
            loop {
                let message = stream.next().await?;
                let now = nanos();
                match message["params"]["progress"].as_u64() {
                    Some(said) => times.push(now.saturating_sub(said) as f64 / 1e9),
                    None if message["result"]["content"][0]["text"] == "done" => break,
                    None => return Err(format!("the server said {message}").into()),
                }
            }
            match times.len() == each as usize {
                true => Ok::<_, crate::Error>(times),
                false => Err(format!("{} of {each} events came", times.len()).into()),
            }
        });
    }
    let mut times = Vec::new();
    for one in listeners.join_all().await {
        times.extend(one?);
    }
    Ok(median(&times))
}

/// Memory with 5,000 open streams: of sessions, and of calls that wait.
async fn open(args: &EngineArgs, report: &mut Report) -> Result<()> {
    let sessions: u64 = if args.quick { 250 } else { 2_500 };
    let dir = args.scratch()?;
    let server = Server::ours(&dir.path().join("store").to_string_lossy(), 0)?;
    let mut streams = Vec::new();
    for _ in 0..sessions {
        let mut connection = server.connect().await?;
        let session = server.session(&mut connection).await?;
        let call = session.call(1, "wait", json!({ "n": 1 }));
        streams.push(connection.listen(&call).await?);
        streams.push(server.connect().await?.listen(&session.stream()).await?);
    }
    // Tasks that wait leave memory.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let resident = server.resident_mb()?;
    for stream in &mut streams {
        // Nothing is to be heard on it, and it is there.
        if let Ok(ended) = timeout(Duration::from_micros(1), stream.next()).await {
            return Err(format!("a stream is not open any more: {ended:?}").into());
        }
    }
    let per_stream = resident * 1024.0 / (2 * sessions) as f64;
    report.add("stream_kb", vec![per_stream], Bound::None);
    let bound = if args.quick { Bound::None } else { Bound::AtMost(150.0) };
    report.add(format!("streams_{}_rss_mb", short(2 * sessions)), vec![resident], bound);
    Ok(())
}
