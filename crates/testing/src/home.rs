//! Where a server lives over HTTP: a runtime of its own, which dies with it.

use std::{net::SocketAddr, time::Duration};

use steadfast_mcp::Running;
use tokio::{
    net::TcpListener,
    runtime::{Builder, EnterGuard, Runtime},
    task::JoinHandle,
};

/// How long code may take to its next `.await`.
const PATIENCE: Duration = Duration::from_secs(30);

/// A runtime. What a server spawns is spawned here, so that it all dies as with a process: requests that
/// go on without their connection, and what the code of tools began by itself.
pub(crate) struct Home(Option<Runtime>);

impl Home {
    pub(crate) fn new() -> Home {
        let mut builder = Builder::new_multi_thread();
        match builder.worker_threads(2).thread_name("test-server").enable_all().build() {
            Ok(runtime) => Home(Some(runtime)),
            Err(error) => panic!("there is no runtime for the server: {error}"),
        }
    }

    fn runtime(&self) -> &Runtime {
        self.0.as_ref().unwrap_or_else(|| panic!("the server's runtime is gone"))
    }

    /// What is spawned until the guard is dropped is spawned here.
    pub(crate) fn enter(&self) -> EnterGuard<'_> {
        self.runtime().enter()
    }

    /// Serves HTTP, until the server is told to stop and all connections are closed.
    pub(crate) fn serve(&self, address: SocketAddr, running: &Running) -> JoinHandle<()> {
        let _inside = self.enter();
        let bound = std::net::TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        });
        let listener = match bound {
            Ok(listener) => listener,
            Err(error) => panic!("can't listen on {address}: {error}"),
        };
        let running = running.clone();
        self.runtime().spawn(async move {
            drop(running.serve(listener, running.draining()).await);
        })
    }

    /// Drops all that runs here, at its next `.await`, and waits until it is.
    pub(crate) async fn end(mut self) {
        let Some(runtime) = self.0.take() else { return };
        let ended = tokio::task::spawn_blocking(move || {
            let begun = std::time::Instant::now();
            runtime.shutdown_timeout(PATIENCE);
            begun.elapsed() < PATIENCE
        });
        assert!(ended.await.unwrap_or(false), "the server's code comes to no .await");
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Not waited for: that is not allowed where futures run.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
