//! A store in a runtime that goes down.

#![allow(clippy::unwrap_used)]

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use steadfast_sqlite::Store;
use steadfast_store::{Filter, Order, Store as _};

/// Whoever reads just then is gone a moment later; until then it has no error that it could pass on.
#[test]
fn nobody_is_told_that_a_read_failed_because_the_process_ends() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(dir.path().join("store.db")).unwrap());
    let (failed, failures) = mpsc::channel();
    for _ in 0..100 {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        for _ in 0..4 {
            let (store, failed) = (store.clone(), failed.clone());
            runtime.spawn(async move {
                loop {
                    let list = store.list(Filter::default(), Order::OldestFirst, None, 1).await;
                    if let Err(error) = list {
                        failed.send(error.to_string()).unwrap();
                    }
                }
            });
        }
        std::thread::sleep(Duration::from_millis(3));
        drop(runtime);
    }
    drop(failed);
    assert_eq!(failures.iter().collect::<Vec<_>>(), Vec::<String>::new());
}
