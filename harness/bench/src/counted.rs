//! How many commits a call takes, plain and as a task.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use serde_json::json;
use steadfast_engine::Engine;
use steadfast_store::{Around, BoxFuture, Changes, Desk, Store};

use crate::{
    EngineArgs, Result,
    http::Server,
    load::Connection,
    report::{Bound, Report},
    tools,
};

/// A store whose writes are counted.
struct Counted {
    inner: Arc<dyn Store>,
    commits: Arc<AtomicU64>,
}

/// Calls that only read. Claims look for work more often than they find any, which commits nothing.
const READS: [&str; 18] = [
    "dead",
    "is_alive",
    "claim",
    "claim_activities",
    "sweep",
    "activity",
    "held_activities",
    "session",
    "posted",
    "get",
    "keyed",
    "row",
    "held",
    "list",
    "counts",
    "history",
    "inbox",
    "questions",
];

impl Around for Counted {
    fn inner(&self) -> steadfast_store::Result<Arc<dyn Store>> {
        Ok(self.inner.clone())
    }

    fn desk(&self) -> Desk {
        self.inner.desk()
    }

    fn changed(&self) -> Arc<Changes> {
        self.inner.changed()
    }

    async fn around<T: Send + 'static>(
        &self,
        call: &'static str,
        done: BoxFuture<'static, steadfast_store::Result<T>>,
    ) -> steadfast_store::Result<T> {
        if !READS.contains(&call) && !["state", "next_wake", "check", "close"].contains(&call) {
            self.commits.fetch_add(1, Ordering::SeqCst);
        }
        done.await
    }
}

/// The same work, called by clients that wait for it and by clients that get a task, of both generations.
pub(crate) async fn measure(args: &EngineArgs, report: &mut Report) -> Result<()> {
    let calls = if args.quick { 5 } else { 100 };
    let dir = args.scratch()?;
    let commits = Arc::new(AtomicU64::new(0));
    let inner = tools::open(&dir.path().join("store"), std::time::Duration::ZERO)?;
    let store = Arc::new(Counted { inner, commits: commits.clone() });
    let running = tools::server().start(Engine::builder(store))?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    let server = Server::at(listener.local_addr()?);
    tokio::spawn(async move { running.serve(listener, std::future::pending()).await });
    let mut per_call = Vec::new();
    for (name, how) in [
        ("plain_2025", How { session: true, task: false }),
        ("task_2025", How { session: true, task: true }),
        ("plain_2026", How { session: false, task: false }),
        ("task_2026", How { session: false, task: true }),
    ] {
        let before = commits.load(Ordering::SeqCst);
        let mut connection = server.connect().await?;
        let session = match how.session {
            true => Some(server.session(&mut connection).await?),
            false => None,
        };
        // The session's own commit is no call's.
        let begun = commits.load(Ordering::SeqCst) - before;
        for id in 1..=calls {
            how.call(&server, &mut connection, session.as_ref(), id).await?;
        }
        // That answers were sent is written down right after.
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        let count = (commits.load(Ordering::SeqCst) - before - begun) as f64 / calls as f64;
        report.add(format!("commits_{name}"), vec![count], Bound::None);
        per_call.push(count);
    }
    let [plain_2025, task_2025, plain_2026, task_2026] = per_call[..] else {
        return Err("four ways were measured".into());
    };
    let bound = Bound::AtMost(1.5);
    report.add("plain_call_commit_ratio", vec![plain_2025 / task_2025], bound);
    report.add("plain_call_commit_ratio_2026", vec![plain_2026 / task_2026], bound);
    Ok(())
}

#[derive(Clone, Copy)]
struct How {
    session: bool,
    task: bool,
}

impl How {
    async fn call(
        self,
        server: &Server,
        connection: &mut Connection,
        session: Option<&crate::http::Session>,
        id: u64,
    ) -> Result<()> {
        let mut params = crate::http::call("work", json!({ "n": 1 }));
        params["_meta"] = json!({ "progressToken": id });
        if self.task && self.session {
            params["task"] = json!({});
        }
        let request = |method: &str, name: &str, params| match session {
            Some(session) => session.request(id, method, params),
            None => server.modern(method, name, params, self.task),
        };
        let made = connection.ask(&request("tools/call", "work", params)).await?.json()?;
        if !self.task {
            return match made["result"]["content"][0]["text"] == "done" {
                true => Ok(()),
                false => Err(format!("the call came to {made}").into()),
            };
        }
        let result = &made["result"];
        let task = result["taskId"].as_str().or_else(|| result["task"]["taskId"].as_str());
        let task = task.ok_or_else(|| format!("no task: {made}"))?;
        loop {
            let get = request("tasks/get", task, json!({ "taskId": task }));
            let seen = connection.ask(&get).await?.json()?;
            match seen["result"]["status"].as_str() {
                Some("completed") => return Ok(()),
                Some("working") => {
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
                _ => return Err(format!("the task is {seen}").into()),
            }
        }
    }
}
