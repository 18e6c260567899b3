//! What the log says of transactions that the store's only writer waits for.

use std::{
    io::Write,
    sync::{Arc, Mutex},
    time::Duration,
};

use steadfast_engine::{Context, Engine, Error, Principal, Status, Tool};
use steadfast_sqlite::{Store, Transaction, in_sqlite};

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// All that is logged in this process from now on: a transaction runs on a thread of the store's.
    fn begin() -> Log {
        let log = Log::default();
        let to = log.clone();
        let logs = tracing_subscriber::fmt().with_ansi(false).with_writer(move || to.clone());
        tracing::subscriber::set_global_default(logs.with_max_level(tracing::Level::WARN).finish())
            .unwrap();
        log
    }

    /// The lines about slow transactions of a task: the name of each, and how long it took.
    fn slow(&self, task: &str) -> Vec<(String, u64)> {
        let log = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let of_task = format!("task={task} ");
        let lines = log.lines().filter(|line| line.contains("a transaction was slow"));
        let lines = lines.filter(|line| line.contains(" WARN ") && line.contains(&of_task));
        let read = |line: &str| {
            let (_, rest) = line.split_once("name=\"")?;
            let (name, rest) = rest.split_once("\" milliseconds=")?;
            Some((name.to_owned(), rest.parse().ok()?))
        };
        lines.map(|line| read(line).unwrap_or_else(|| panic!("{line}"))).collect()
    }
}

fn book(tx: &Transaction<'_>, takes: Duration) -> Result<(), Error> {
    tx.execute_batch("CREATE TABLE IF NOT EXISTS payment (cents INTEGER)")?;
    // Not the SQL is slow, which would be stopped, but the code around it.
    std::thread::sleep(takes);
    Ok(())
}

#[tokio::test]
async fn one_that_is_slow_is_logged_with_its_task_its_name_and_its_time() {
    let log = Log::begin();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("tasks.db")).unwrap();
    let tool = Tool::new("t", |ctx: Context, (): ()| async move {
        let quick = in_sqlite(|tx: &Transaction<'_>| book(tx, Duration::ZERO));
        ctx.transaction("quick", quick).await?;
        let slow = in_sqlite(|tx: &Transaction<'_>| book(tx, Duration::from_millis(150)));
        ctx.transaction("slow one", slow).await
    });
    let engine = Engine::builder(Arc::new(store)).tool(tool).start();
    let tasks = engine.tasks(Principal::new("ada").unwrap());
    let id = tasks.start("t", &()).await.unwrap().id;
    assert_eq!(tasks.wait(&id).await.unwrap().status, Status::Completed);
    engine.shutdown(Duration::from_secs(5)).await;
    let slow = log.slow(&id.to_string());
    // Also the other, if the machine stood still; but nothing that was not slow.
    assert!(slow.iter().all(|(_, took)| *took >= 100), "{slow:?}");
    let named: Vec<_> = slow.iter().filter(|(name, _)| name == "slow one").collect();
    assert!(named.len() == 1 && named[0].1 >= 150, "{slow:?}");
}
