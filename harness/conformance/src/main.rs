//! A server with everything that the public conformance suite of MCP calls for, on a store in memory.
//!
//! The suite knows its tools, prompts and resources by name and says what each must do; here they are
//! built from what any author has. `cargo xtask conformance` runs the suite against it.
#![allow(clippy::print_stdout)] // Its address is for whoever started it.

mod asking;
mod changing;
mod content;
mod prompts;
mod resources;
mod rounds;
mod saying;
mod schemas;
mod tasks;

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use clap::Parser;
use steadfast_engine::Engine;
use steadfast_mcp::{Server, Settings};
use steadfast_store::Disk;
use tokio::net::TcpListener;

/// Serves what the conformance suite of MCP calls for, and prints the address.
#[derive(Parser)]
struct Args {
    /// The port on the loopback interface; a free one if it is 0.
    #[arg(long, default_value_t = 0)]
    port: u16,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let mut server = Server::new("steadfast-conformance")
        .version(env!("CARGO_PKG_VERSION"))
        .title("Steadfast's conformance fixtures")
        .settings(settings());
    for tool in [
        content::tools(),
        saying::tools(),
        asking::tools(),
        rounds::tools(),
        schemas::tools(),
        tasks::tools(),
    ]
    .into_iter()
    .flatten()
    {
        server = server.tool(tool);
    }
    for prompt in prompts::prompts().into_iter().chain(rounds::prompts()) {
        server = server.prompt(prompt);
    }
    for resource in resources::resources() {
        server = server.resource(resource);
    }
    let running = server
        .template(resources::template())
        .start(Engine::builder(Arc::new(Disk::new().open())))?;
    changing::add_tools(&running)?;

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    let stop = async {
        let _ = tokio::signal::ctrl_c().await;
        running.shutdown(Duration::from_secs(5)).await;
    };
    running.serve(listener, stop).await?;
    Ok(())
}

/// Streams begin and are hung up early, so that the suite sees one that has to be taken up again.
fn settings() -> Settings {
    Settings {
        stream_after: Duration::from_millis(100),
        stream_life: Some(Duration::from_secs(1)),
        ..Settings::default()
    }
}
