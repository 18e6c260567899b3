//! Several hosts in one address, of which one is the primary.

use std::time::{Duration, Instant};

use steadfast_postgres::{Options, Store, testing::Server, testing::Setup};
use steadfast_store::{Error, Store as _};

use crate::{
    common::{held, history, turn},
    proxy::Proxy,
};

/// The primary and the one that follows it, and how to reach whichever writes.
async fn pair() -> (Server, Server) {
    let primary = Setup::default().fsync(true).start().unwrap();
    let standby = primary.standby().await.unwrap();
    (primary, standby)
}

fn either(ports: [u16; 2]) -> Options {
    let hosts = ports.map(|port| format!("127.0.0.1:{port}")).join(",");
    Options::new(format!("postgres://steadfast@{hosts}/postgres?sslmode=disable"))
        .lease(Duration::from_secs(30))
        .schema("hosts")
}

/// The primary is killed while turns are on their way; the standby takes its place. All that was
/// acknowledged is there, in its order and once, and the one that was under way ends one way or the
/// other.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_when_a_standby_takes_over() {
    let (primary, standby) = pair().await;
    // The standby is first: it is let alone as long as it only reads.
    let store = either([standby.port(), primary.port()]).open().await.unwrap();
    let lease = held(&store, "a").await;
    let (acknowledged, last) = tokio::sync::watch::channel(0);
    let writing = async {
        let mut n = 1;
        while n < 400 {
            match store.turn(turn(lease, n, &n.to_string())).await {
                Ok(_) => {
                    acknowledged.send_replace(n);
                    n += 1;
                }
                Err(Error::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(error) => return Some(error),
            }
        }
        None
    };
    let failing_over = async {
        let mut last = last.clone();
        last.wait_for(|n| *n >= 100).await.unwrap();
        primary.kill().unwrap();
        standby.promote().await.unwrap();
    };
    let (end, ()) = tokio::join!(writing, failing_over);
    assert!(end.is_none(), "{end:?}");
    let expected: Vec<String> =
        ["started".to_owned()].into_iter().chain((1..400).map(|n: u32| n.to_string())).collect();
    assert_eq!(history(&store, lease).await, expected);
}

/// However long it takes until a standby has taken over: nobody could be heard meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_takes_longer_than_a_lease_costs_nobody_his_tasks() {
    let (primary, standby) = pair().await;
    let either = either([standby.port(), primary.port()]).lease(Duration::from_secs(1));
    let store = either.open().await.unwrap();
    let (lease, desk) = (held(&store, "a").await, store.desk());
    primary.kill().unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    standby.promote().await.unwrap();
    let begun = Instant::now();
    while let Err(error) = store.turn(turn(lease, 1, "x")).await {
        assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
        assert!(begun.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(store.desk(), desk);
    assert_eq!(history(&store, lease).await, ["started", "x"]);
}

/// A machine that takes connections and says nothing does not keep us from the other.
#[tokio::test]
async fn a_host_that_says_nothing_is_passed_over() {
    let server = Setup::default().start().unwrap();
    let silent = Proxy::to(server.port()).await;
    silent.freeze(true);
    let begun = Instant::now();
    let url = format!(
        "postgres://steadfast@127.0.0.1:{},127.0.0.1:{}/postgres?sslmode=disable&connect_timeout=1",
        silent.port,
        server.port()
    );
    let store: Store = Options::new(url).open().await.unwrap();
    held(&store, "a").await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let nobody = "postgres://a:secret@127.0.0.1:1,127.0.0.1:2/d?connect_timeout=1";
    let error = Options::new(nobody).open().await.unwrap_err().to_string();
    assert!(error.contains("127.0.0.1:1:") && error.contains("127.0.0.1:2:"), "{error}");
    assert!(!error.contains("secret"), "{error}");
}
