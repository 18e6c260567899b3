//! Several processes of the server on one database, each of which something befalls in turn.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use steadfast_crash::Rng;
use steadfast_postgres::testing;
use tokio::{task::JoinSet, time::sleep};

use crate::{
    gate::{Gate, Way},
    process::Process,
    world::{LEASE, World},
};

/// A process, and its own way to the database.
pub(crate) struct Replica {
    process: Process,
    gate: Gate,
}

/// What befalls one.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// It is killed, and started again.
    Killed,
    /// It stands still for longer than its lease, and goes on.
    Stalled,
    /// Its connections to the database are dropped, and new ones refused, for longer than its lease.
    CutOff,
    /// It is told to stop: what it has others have at once. And started again.
    Told,
    /// Nothing passes between it and the database for longer than its lease, and nobody is told.
    Silenced,
    /// Its connections to the database are dropped: not for long, so that it loses nothing.
    Interrupted,
}

/// In turn, so that a short run has all of them.
const FAULTS: [Fault; 6] = [
    Fault::Killed,
    Fault::Stalled,
    Fault::CutOff,
    Fault::Told,
    Fault::Silenced,
    Fault::Interrupted,
];

/// How much longer than its lease one is away at most, in milliseconds.
const LONGER: u64 = 1_500;

impl Replica {
    async fn start(world: &Arc<World>, place: usize) -> Option<Replica> {
        let gate = Gate::to(world.database.as_ref()?.port()).await.ok()?;
        let process = Process::start(world, place, Some(gate.port)).await?;
        Some(Replica { process, gate })
    }

    async fn ended(self, world: &Arc<World>, kindly: bool, dice: &mut Rng) -> Option<Replica> {
        let place = self.process.place;
        self.process.end(world, kindly).await;
        sleep(Duration::from_millis(dice.below(1_000))).await;
        let process = Process::start(world, place, Some(self.gate.port)).await?;
        Some(Replica { process, ..self })
    }

    /// Something befalls it, and is over when this returns.
    async fn meet(self, fault: Fault, world: Arc<World>, mut dice: Rng) -> Option<Replica> {
        let longer = LEASE + Duration::from_millis(200 + dice.below(LONGER - 200));
        let (life, lives) = (self.process.life, &world.lives_of);
        match fault {
            Fault::Killed => return self.ended(&world, false, &mut dice).await,
            Fault::Told => return self.ended(&world, true, &mut dice).await,
            Fault::Stalled => {
                world.stalls.fetch_add(1, Ordering::Relaxed);
                lives.trouble(life);
                self.process.signal("STOP").await;
                sleep(longer).await;
                self.process.signal("CONT").await;
                lives.relief(life);
            }
            Fault::CutOff | Fault::Silenced => {
                let way = if matches!(fault, Fault::CutOff) { Way::Closed } else { Way::Silent };
                world.cuts.fetch_add(1, Ordering::Relaxed);
                lives.trouble(life);
                self.gate.set(way);
                sleep(longer).await;
                self.gate.set(Way::Open);
                lives.relief(life);
            }
            Fault::Interrupted => {
                world.cuts.fetch_add(1, Ordering::Relaxed);
                self.gate.set(Way::Closed);
                sleep(LEASE / 10).await;
                self.gate.set(Way::Open);
            }
        }
        Some(self)
    }
}

/// Lets things befall them until all is to be calm, and all are well. At any time one at least is left alone.
pub(crate) async fn torment(world: Arc<World>, count: usize) -> Option<Vec<Replica>> {
    let mut dice = Rng::of(world.seed, 1 << 40);
    let mut well = Vec::new();
    for place in 0..count {
        well.push(Replica::start(&world, place).await?);
    }
    let mut faults = FAULTS.into_iter().cycle();
    let mut unwell = JoinSet::new();
    while !world.is_calm() {
        sleep(Duration::from_millis(700 + dice.below(1_300))).await;
        if world.has_mutant("adopted") {
            bury_one_alive(&world).await;
        }
        while let Some(done) = unwell.try_join_next() {
            well.push(done.ok()??);
        }
        if well.len() > 1 && !world.is_calm() {
            let replica = well.swap_remove(dice.below(well.len() as u64) as usize);
            let (fault, dice) = (faults.next()?, Rng::new(dice.next()));
            unwell.spawn(replica.meet(fault, world.clone(), dice));
        }
    }
    while let Some(done) = unwell.join_next().await {
        well.push(done.ok()??);
    }
    Some(well)
}

/// For a mutant: a process that is well is taken for dead.
async fn bury_one_alive(world: &World) {
    let sql = "UPDATE desk SET until = '-infinity', lease = '0' WHERE n = (
                   SELECT desk FROM task WHERE desk > 0 ORDER BY random() LIMIT 1)";
    if let Some(options) = world.database_options()
        && let Err(error) = testing::sql(&options, sql).await
    {
        world.wrong(format!("nobody could be buried: {error}"));
    }
}
