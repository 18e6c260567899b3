//! A small server, for `tests/process.rs`, which kills it.

use std::{fs::OpenOptions, io::Write, path::Path, time::Duration};

use steadfast::prelude::*;

/// Does something in the world outside: here, a line in a file.
async fn enter(what: &str) -> Result<()> {
    let mut ledger = OpenOptions::new().create(true).append(true).open("ledger")?;
    ledger.write_all(format!("{what}\n").as_bytes())?;
    Ok(())
}

/// The warehouse begins, and says that it is done by a file.
async fn pack() -> Result<()> {
    enter("pack").await?;
    while !Path::new("packed").exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// Orders something: it is reserved, packed and charged.
#[tool]
async fn order(ctx: Context, item: String) -> Result<String> {
    ctx.step("reserve", || enter("reserve")).await?;
    ctx.progress(1.0, Some(3.0), Some("reserved"));
    ctx.step("pack", pack).await?;
    ctx.step("charge", || enter("charge")).at_most_once().await?;
    Ok(format!("{item} is on its way"))
}

#[tokio::main]
async fn main() -> Result<()> {
    Server::new("orders").tool(order).run().await
}
