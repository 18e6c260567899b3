//! The front over HTTP: against rmcp and FastMCP with the same tools, and against itself.

mod server;

use std::{
    net::SocketAddr,
    path::Path,
    slice,
    time::{Duration, Instant},
};

use steadfast_engine::Principal;
use tokio::runtime::Runtime;

pub(crate) use self::server::{Server, Session, call};
use crate::{
    EngineArgs, Result,
    fastmcp::FastMcp,
    floor,
    load::{Connection, Work, post, run},
    parked,
    report::{Bound, Report, median, short},
};

/// Connections at a time.
const AT_ONCE: usize = 64;

/// Whoever calls without a name.
fn anonymous() -> Principal {
    // A name of visible characters always is one.
    #[allow(clippy::expect_used)]
    Principal::new("anonymous").expect("a name")
}

pub(crate) async fn measure(args: &EngineArgs, report: &mut Report) -> Result<()> {
    let (time, rounds) = match args.quick {
        true => (Duration::from_secs(1), 1),
        false => (Duration::from_secs(5), 5),
    };
    if args.wants("plain") {
        plain(args, report, time, rounds).await?;
    }
    if args.wants("durable") {
        durable(args, report, time, rounds).await?;
    }
    if args.wants("get") {
        get(args, report, time, rounds).await?;
    }
    if args.wants("idle") {
        let dir = args.scratch()?;
        let server = Server::ours(&dir.path().join("store").to_string_lossy(), 0)?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        report.add("idle_rss_mb", vec![server.resident_mb()?], Bound::AtMost(20.0));
    }
    Ok(())
}

/// A trivial plain tool, ours and rmcp's in turn.
async fn plain(args: &EngineArgs, report: &mut Report, time: Duration, rounds: u32) -> Result<()> {
    let dir = args.scratch()?;
    let ours = Server::ours(&dir.path().join("store").to_string_lossy(), 0)?;
    let rmcp = match &args.peers {
        Some(peers) => Some(Server::start(peers, &["--serve-rmcp"])?),
        None => None,
    };
    for (name, modern) in [("2025", false), ("2026", true)] {
        let (mut mine, mut theirs, mut ratio) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let us = load(&ours, modern, time).await?;
            mine.push(us);
            if let Some(rmcp) = &rmcp {
                let them = load(rmcp, modern, time).await?;
                theirs.push(them);
                ratio.push(us / them);
            }
        }
        report.add(format!("plain_per_s_{name}"), mine, Bound::None);
        if rmcp.is_some() {
            report.add(format!("rmcp_per_s_{name}"), theirs, Bound::None);
            report.add(format!("plain_vs_rmcp_{name}"), ratio, Bound::AtLeast(1.5));
        }
    }
    Ok(())
}

async fn load(server: &Server, modern: bool, time: Duration) -> Result<f64> {
    let mut workers = match modern {
        true => server.modern_workers(AT_ONCE).await?,
        false => server.legacy_workers(AT_ONCE).await?,
    };
    server.check(&mut workers).await?;
    run(workers, time).await
}

/// A `tasks/get`, written straight into text: the client shares the machine with the server.
fn get_request(address: SocketAddr, task: &str) -> Vec<u8> {
    let body = format!(
        concat!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{{"taskId":"{}","_meta":{{"#,
            r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
            r#""io.modelcontextprotocol/clientInfo":{{"name":"bench","version":"1"}},"#,
            r#""io.modelcontextprotocol/clientCapabilities":"#,
            r#"{{"extensions":{{"io.modelcontextprotocol/tasks":{{}}}}}}}}}}}}"#
        ),
        task
    );
    let headers =
        [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tasks/get"), ("Mcp-Name", task)];
    post(address, "/mcp", &headers, &body)
}

/// Creates a task, polls it at will, and reads its result.
struct ThreeSteps {
    connection: Connection,
    create: Vec<u8>,
    address: SocketAddr,
}

impl Work for ThreeSteps {
    async fn once(&mut self) -> Result<()> {
        let created = self.connection.ask(&self.create).await?.json()?;
        let task =
            created["result"]["taskId"].as_str().ok_or_else(|| format!("no task: {created}"))?;
        let get = get_request(self.address, task);
        loop {
            let seen = self.connection.ask(&get).await?.json()?;
            match seen["result"]["status"].as_str() {
                Some("completed") => {
                    return match seen["result"]["result"]["content"][0]["text"].as_str() {
                        Some("4") => Ok(()),
                        _ => Err(format!("the task came to {seen}").into()),
                    };
                }
                // As a client that is in a hurry: sooner it would mostly ask in vain.
                Some("working") => tokio::time::sleep(Duration::from_millis(10)).await,
                _ => return Err(format!("the task is {seen}").into()),
            }
        }
    }
}

/// Completed tasks of three steps a second, by clients that are spread over the servers.
async fn three_steps(servers: &[Server], time: Duration) -> Result<f64> {
    let mut workers = Vec::new();
    for server in servers.iter().cycle().take(AT_ONCE) {
        workers.push(ThreeSteps {
            connection: server.connect().await?,
            create: server.three(),
            address: server.address,
        });
    }
    run(workers, time).await
}

/// Durable tools of three steps, ours and FastMCP's in turn; and what the reply to a call costs that makes
/// a task durable.
async fn durable(
    args: &EngineArgs,
    report: &mut Report,
    time: Duration,
    rounds: u32,
) -> Result<()> {
    let dir = args.scratch()?;
    let ours = Server::ours(&dir.path().join("store").to_string_lossy(), 0)?;
    // As it is run, in one process; and with one for each core, since a Python uses but one.
    let cores = std::thread::available_parallelism()?.get();
    for (name, processes, bound) in
        [("", 1, Bound::AtLeast(30.0)), ("_on_all_cores", cores, Bound::None)]
    {
        let fastmcp = match &args.fastmcp {
            Some(command) => Some(FastMcp::start(command, dir.path(), processes)?),
            None if processes == 1 => None,
            None => break,
        };
        let (mut mine, mut theirs, mut ratio) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let us = three_steps(slice::from_ref(&ours), time).await?;
            mine.push(us);
            if let Some(fastmcp) = &fastmcp {
                let them = three_steps(fastmcp.servers(), time).await?;
                theirs.push(them);
                ratio.push(us / them);
            }
        }
        if processes == 1 {
            report.add("durable_per_s", mine, Bound::None);
        }
        if fastmcp.is_some() {
            report.add(format!("fastmcp_redis_per_s{name}"), theirs, Bound::None);
            report.add(format!("durable_vs_fastmcp_redis{name}"), ratio, bound);
        }
    }
    created(args, report, &ours, dir.path(), rounds).await
}

/// The reply to a call that makes a task durable, over one commit and one plain call. All three in
/// turn, each after the same pause, so that the task before has ended and each finds the machine alike.
async fn created(
    args: &EngineArgs,
    report: &mut Report,
    ours: &Server,
    dir: &Path,
    rounds: u32,
) -> Result<()> {
    let three = ours.three();
    let (mut ratio, mut create_us) = (Vec::new(), Vec::new());
    let commits = floor::Commits::open(dir)?;
    let (mut connection, plain) = (ours.connect().await?, ours.plain());
    let each = if args.quick { 100 } else { 1_000 };
    for round in 0..=rounds {
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..each {
            for (which, times) in times.iter_mut().enumerate() {
                tokio::time::sleep(Duration::from_millis(2)).await;
                let start = Instant::now();
                match which {
                    0 => commits.once()?,
                    1 => connection.ask(&plain).await?.fine()?,
                    _ => connection.ask(&three).await?.fine()?,
                }
                times.push(start.elapsed().as_secs_f64());
            }
        }
        // The first is for warming up: the logs still grow.
        if round > 0 {
            let [raw, plain, create] = times.map(|times| median(&times));
            create_us.push(create * 1e6);
            ratio.push(create / (raw + plain));
        }
    }
    report.add("create_p50_us", create_us, Bound::None);
    report.add("create_p50_ratio", ratio, Bound::AtMost(2.0));
    Ok(())
}

/// `tasks/get` on a store of a million tasks, over the trivial tool.
async fn get(args: &EngineArgs, report: &mut Report, time: Duration, rounds: u32) -> Result<()> {
    let many = if args.quick { 10_000 } else { 1_000_000 };
    let dir = args.scratch()?;
    let store = dir.path().join("store");
    eprintln!("get: filling a store with {many} tasks");
    let path = store.clone();
    // On threads of its own, all there are.
    let filled = std::thread::spawn(move || {
        Runtime::new()?.block_on(parked::fill(&path, many, &anonymous()))
    });
    filled.join().map_err(|_| "the store could not be filled")??;
    let ours = Server::ours(&store.to_string_lossy(), many)?;
    let (mut ratio, mut plain_us, mut get_us) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let before = ours.cpu_us()?;
        let plain = run(ours.modern_workers(AT_ONCE).await?, time).await?;
        let between = ours.cpu_us()?;
        let mut workers = Vec::new();
        for n in 0..AT_ONCE {
            let connection = ours.connect().await?;
            let at = n as u64 * 15_485_863;
            workers.push(Getting::new(connection, ours.address, many, at));
        }
        let got = run(workers, time).await?;
        ratio.push(got / plain);
        plain_us.push((between - before) / (plain * time.as_secs_f64()));
        get_us.push((ours.cpu_us()? - between) / (got * time.as_secs_f64()));
    }
    report.add("plain_cpu_us", plain_us, Bound::None);
    let many = short(many);
    report.add(format!("get_{many}_cpu_us"), get_us, Bound::None);
    report.add(format!("get_{many}_vs_plain"), ratio, Bound::AtLeast(0.6));
    Ok(())
}

/// Gets one task after the other, all over the store. What it sends costs it no more than who sends the
/// same each time: the name of the task is written into the request where the last one was.
struct Getting {
    connection: Connection,
    request: Vec<u8>,
    /// Where the name stands in it.
    places: Vec<usize>,
    many: u64,
    at: u64,
}

impl Getting {
    fn new(connection: Connection, to: SocketAddr, many: u64, at: u64) -> Getting {
        let name = parked::name(0);
        let request = get_request(to, &name);
        let windows = request.windows(name.len()).enumerate();
        let places = windows.filter(|(_, text)| *text == name.as_bytes()).map(|(n, _)| n).collect();
        Getting { connection, request, places, many, at }
    }
}

impl Work for Getting {
    async fn once(&mut self) -> Result<()> {
        self.at = self.at.wrapping_add(7_919);
        let task = parked::name(self.at % self.many);
        for place in &self.places {
            self.request[*place..place + task.len()].copy_from_slice(task.as_bytes());
        }
        let response = self.connection.ask(&self.request).await?;
        match response.status == 200 && response.body.contains(&task) {
            true => Ok(()),
            false => Err(format!("no task {task}: {}", response.body).into()),
        }
    }
}
