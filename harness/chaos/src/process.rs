//! The server as a process, which is killed every few seconds.

use std::{
    process::Stdio,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use steadfast_crash::Rng;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
    sync::oneshot,
    time::{sleep, timeout},
};

use crate::world::World;

/// Starts it, and says to the proxy where it is.
async fn start(world: &Arc<World>) -> Option<(u32, Child)> {
    let (life, mut command) = world.command();
    command.args(["--listen", "127.0.0.1:0"]).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    let mut lines = BufReader::new(child.stderr.take()?).lines();
    let mut log = tokio::fs::File::create(world.dir.join(format!("life-{life}.log"))).await.ok()?;
    let (found, address) = oneshot::channel();
    tokio::spawn(async move {
        let mut found = Some(found);
        while let Ok(Some(line)) = lines.next_line().await {
            let place = line.split_once("http://").and_then(|(_, rest)| rest.split('/').next());
            if let Some(address) = place.and_then(|place| place.parse().ok())
                && let Some(found) = found.take()
            {
                let _ = found.send(address);
            }
            let _ = log.write_all(format!("{line}\n").as_bytes()).await;
        }
    });
    let address = timeout(Duration::from_secs(20), address).await.ok()?.ok()?;
    world.serve_at(Some(address));
    Some((life, child))
}

/// Ends it: at once, or as who deploys does.
async fn end(world: &World, (life, mut child): (u32, Child), kindly: bool) {
    if let Ok(Some(status)) = child.try_wait() {
        world.wrong(format!("the server has ended by itself: {status}"));
    }
    world.ends_now(life);
    if !kindly {
        let _ = child.kill().await;
        world.serve_at(None);
        world.kills.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let id = child.id().unwrap_or_default().to_string();
    let _ = Command::new("kill").arg(id).status().await;
    world.stops.fetch_add(1, Ordering::Relaxed);
    // While it goes it still answers, if only that it is going.
    if timeout(Duration::from_secs(15), child.wait()).await.is_err() {
        world.wrong("the server was told to stop, and is still there".into());
        let _ = child.kill().await;
    }
    world.serve_at(None);
}

/// Kills it and starts it again, until all is to be calm. Then it is left alone.
pub(crate) async fn torment(world: Arc<World>) -> Option<Child> {
    let mut dice = Rng::of(world.seed, 1 << 40);
    let mut child = start(&world).await?;
    loop {
        sleep(Duration::from_millis(1_000 + dice.below(3_000))).await;
        if world.is_calm() {
            return Some(child.1);
        }
        end(&world, child, dice.chance(20)).await;
        sleep(Duration::from_millis(dice.below(300))).await;
        child = start(&world).await?;
    }
}
