//! `steadfast dev`: builds a server and runs it, and does both again when its source changes.

mod build;
mod project;
mod server;
mod watch;

use std::{path::PathBuf, time::Duration};

use clap::Args;

use crate::Result;
use build::Built;
use project::Project;
use server::Server;

/// Build a server and run it; build it anew and restart it when its source changes.
#[derive(Args, Clone)]
pub(crate) struct Dev {
    /// Run this binary, if there are several
    #[arg(long, value_name = "NAME")]
    bin: Option<String>,

    /// Of this package of the workspace
    #[arg(long, short, value_name = "NAME")]
    package: Option<String>,

    /// The Cargo.toml of the project [default: found from the working directory upwards]
    #[arg(long, value_name = "FILE")]
    manifest_path: Option<PathBuf>,

    /// Build in release mode
    #[arg(long)]
    release: bool,

    /// Hand this to `cargo build` as well, such as --features=x. May repeat
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    cargo_arg: Vec<String>,

    /// Watch this file or directory as well. May repeat
    #[arg(long, value_name = "PATH")]
    watch: Vec<PathBuf>,

    /// Give the old server this many seconds to stop before it is killed: what it was at goes on in the
    /// new one
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    grace: u64,

    /// The server's own arguments, the same at every start
    #[arg(last = true, value_name = "SERVER ARGS")]
    arguments: Vec<String>,
}

impl Dev {
    pub(crate) async fn run(self) -> Result<u8> {
        let project = Project::find(&self).await?;
        let mut changes = watch::start(&project, &self.watch)?;
        let mut server = Server::new(&self);
        let mut stop = std::pin::pin!(told_to_stop());
        loop {
            // What changes from here on is not in this build.
            changes.forget();
            let built = tokio::select! {
                built = build::build(&self, &project) => built?,
                () = &mut stop => break,
            };
            match built {
                Built::Executable(program) => server.run(&program).await?,
                Built::Broken if server.is_running() => {
                    eprintln!("steadfast: it does not build; the server that runs stays");
                }
                Built::Broken => eprintln!("steadfast: it does not build; waiting for a change"),
            }
            tokio::select! {
                () = changes.next() => {}
                () = server.watch_over() => {}
                () = &mut stop => break,
            }
        }
        server.stop().await;
        Ok(0)
    }

    fn grace(&self) -> Duration {
        Duration::from_secs(self.grace)
    }
}

/// Ends when the process is asked to end.
async fn told_to_stop() {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let terminate = async {
        use tokio::signal::unix::{SignalKind, signal};
        match signal(SignalKind::terminate()) {
            Ok(mut terminate) => drop(terminate.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! {
        () = interrupt => {}
        () = terminate => {}
    }
}
