//! The server as a process, which is killed every few seconds.

use std::{
    process::Stdio,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use steadfast_crash::Rng;
use tokio::{
    process::{Child, Command},
    time::{sleep, timeout},
};

use crate::world::{Serving, World};

/// A process of the server.
pub(crate) struct Process {
    /// Among those that the proxy passes connections on to.
    pub(crate) place: usize,
    pub(crate) life: u32,
    child: Child,
}

impl Process {
    /// Starts one, which finds its database behind this port, and says to the proxy where it is.
    pub(crate) async fn start(
        world: &Arc<World>,
        place: usize,
        port: Option<u16>,
    ) -> Option<Process> {
        let (life, mut command) = world.command(port);
        // Straight to the file: what it said before it was killed is there.
        let log = std::fs::File::create(world.log(life)).ok()?;
        let child = command.args(["--listen", "127.0.0.1:0"]).stderr(Stdio::from(log)).spawn();
        let process = Process { place, life, child: child.ok()? };
        let begun = Instant::now();
        loop {
            let said = tokio::fs::read_to_string(world.log(life)).await.unwrap_or_default();
            // Whole lines alone.
            let mut lines = said.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            let found = lines.find_map(|line| line.split_once("http://")?.1.split('/').next());
            if let Some(address) = found.and_then(|place| place.parse().ok()) {
                world.serve_at(place, Some(Serving { address, life }));
                return Some(process);
            }
            if begun.elapsed() > Duration::from_secs(20) {
                return None;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Sends it a signal.
    pub(crate) async fn signal(&self, name: &str) {
        let id = self.child.id().unwrap_or_default().to_string();
        let _ = Command::new("kill").args(["-s", name, &id]).status().await;
    }

    /// Ends it: at once, or as who deploys does.
    pub(crate) async fn end(mut self, world: &World, kindly: bool) {
        if let Ok(Some(status)) = self.child.try_wait() {
            world.wrong(format!("life {} has ended by itself: {status}", self.life));
        }
        if !kindly {
            world.lives_of.end(self.life);
            let _ = self.child.kill().await;
            world.serve_at(self.place, None);
            world.kills.fetch_add(1, Ordering::Relaxed);
            return;
        }
        world.lives_of.told(self.life);
        self.signal("TERM").await;
        world.stops.fetch_add(1, Ordering::Relaxed);
        // While it goes it still answers, if only that it is going.
        if timeout(Duration::from_secs(15), self.child.wait()).await.is_err() {
            world.wrong(format!("life {} was told to stop, and is still there", self.life));
            world.lives_of.end(self.life);
            let _ = self.child.kill().await;
        }
        world.serve_at(self.place, None);
    }
}

/// Kills it and starts it again, until all is to be calm. Then it is left alone.
pub(crate) async fn torment(world: Arc<World>) -> Option<Process> {
    let mut dice = Rng::of(world.seed, 1 << 40);
    let mut process = Process::start(&world, 0, None).await?;
    loop {
        sleep(Duration::from_millis(1_000 + dice.below(3_000))).await;
        if world.is_calm() {
            return Some(process);
        }
        process.end(&world, dice.chance(20)).await;
        sleep(Duration::from_millis(dice.below(300))).await;
        process = Process::start(&world, 0, None).await?;
    }
}
