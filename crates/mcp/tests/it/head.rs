//! The head of a request: how large it may be, and how long it may take.

use std::time::Duration;

use steadfast_mcp::Settings;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
};

use crate::{
    site::Site,
    tools::{Count, server},
};

async fn site(settings: Settings) -> Site {
    Site::start(server(&Count::default()).settings(settings)).await
}

/// Sends this, and reads what comes until the server closes the connection.
async fn send(site: &Site, text: &str) -> String {
    let mut tcp = TcpStream::connect(site.address).await.unwrap();
    // The server may close it before it has read all.
    let _ = tcp.write_all(text.as_bytes()).await;
    let mut answer = Vec::new();
    let read = tcp.read_to_end(&mut answer);
    let _ = tokio::time::timeout(Duration::from_secs(20), read).await.expect("it stays open");
    String::from_utf8_lossy(&answer).into_owned()
}

fn head(size: usize) -> String {
    let start = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nX-Long: ";
    format!("{start}{}\r\n\r\n", "x".repeat(size - start.len() - 4))
}

#[tokio::test]
async fn one_that_is_too_large_is_refused_and_one_that_fits_is_not() {
    let site = site(Settings::default()).await;
    assert!(send(&site, &head(30 << 10)).await.starts_with("HTTP/1.1 200 "));
    // As much as is read of it, so that nothing is left to be read when the connection is closed: otherwise
    // the system throws away the answer with it.
    assert!(send(&site, &head(40 << 10)[..32 << 10]).await.starts_with("HTTP/1.1 431 "));
    assert!(!send(&site, &head(40 << 20)).await.contains(" 200 "));
}

#[tokio::test]
async fn one_that_does_not_come_to_an_end_is_given_up() {
    let head_time = Duration::from_millis(200);
    let site = site(Settings { head_time, ..Settings::default() }).await;
    for begun in ["", "GET /health HT", "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"] {
        let answer = send(&site, begun).await;
        assert!(!answer.contains(" 200 "), "{begun:?}: {answer}");
    }
}

#[tokio::test]
async fn a_server_that_stops_closes_idle_connections_and_takes_no_more() {
    let site = site(Settings::default()).await;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = site.running.clone();
    let served =
        tokio::spawn(async move { serving.serve(listener, async { drop(stopped.await) }).await });
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").await.unwrap();
    let mut some = [0; 64];
    assert!(idle.read(&mut some).await.unwrap() > 0);
    stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(20), served).await.unwrap().unwrap().unwrap();
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).await.unwrap();
    TcpStream::connect(address).await.unwrap_err();
}
