//! Two processes that share a store, and one client of both.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use steadfast_engine::{Engine, ListTasks, Moment, System, TaskInfo, Timestamp, World};
use steadfast_mcp::Settings;
use steadfast_store::Disk;

use crate::{
    site::{Legacy, Site},
    tools::{Count, server},
    unsteady::Unsteady,
};

/// A clock that a test can put forward, by seconds.
#[derive(Clone, Default)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn pass(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl World for Clock {
    fn now(&self) -> Timestamp {
        System.now().plus(Duration::from_secs(self.0.load(Ordering::SeqCst)))
    }

    fn moment(&self) -> Moment {
        Moment(System.moment().0 + 1_000_000 * self.0.load(Ordering::SeqCst) as i64)
    }

    fn random(&self) -> u128 {
        System.random()
    }
}

/// Two processes on one store, each of which may be held up where it calls that.
pub(crate) struct Pair {
    pub(crate) disk: Disk,
    clocks: [Clock; 2],
    pub(crate) count: Count,
    pub(crate) one: (Arc<Unsteady>, Site),
    pub(crate) two: (Arc<Unsteady>, Site),
}

impl Pair {
    pub(crate) async fn held_at(call: &'static str) -> Pair {
        let (disk, clocks, count) = (Disk::new(), <[Clock; 2]>::default(), Count::default());
        let open = async |clock: &Clock| {
            let store = Unsteady::new(disk.open(), call);
            let settings = Settings { anonymous_list: true, ..Settings::default() };
            let server = server(&count).settings(settings);
            let engine = Engine::builder(store.clone()).world(clock.clone());
            (store, Site::of(server, engine).await)
        };
        let (one, two) = (open(&clocks[0]).await, open(&clocks[1]).await);
        Pair { disk, clocks, count, one, two }
    }

    /// Puts the clocks forward.
    pub(crate) fn pass(&self, seconds: u64) {
        self.clocks.iter().for_each(|clock| clock.pass(seconds));
    }

    /// Puts the second clock ahead of the first.
    pub(crate) fn put_apart(&self, seconds: u64) {
        self.clocks[1].pass(seconds);
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clocks[0].now()
    }

    /// A client that is at the one, and the same at the other.
    pub(crate) async fn client(&self, version: &'static str) -> (Legacy, Legacy) {
        let client = Legacy::open(&self.one.1, version, json!({})).await;
        let other = client.of(client.session.clone()).at(&self.two.1);
        (client, other)
    }

    /// All that is in the store.
    pub(crate) async fn tasks(&self) -> Vec<TaskInfo> {
        let tasks = self.one.1.running.engine().operator();
        tasks.list(ListTasks::default()).await.unwrap().tasks
    }

    pub(crate) async fn until_open(&self) {
        let open = async {
            while self.tasks().await.iter().all(|task| task.status.is_terminal()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        in_time(open).await;
    }
}

pub(crate) async fn in_time<T>(done: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), done).await.expect("done in time")
}

pub(crate) fn taken_back(id: u64) -> Value {
    let params = json!({ "requestId": id });
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
}
