//! The workload in virtual time, from a seed, with a store that fails and a process that dies; and
//! the proof that wrong engines would be noticed.
#![allow(clippy::unwrap_used)] // In a test a panic is the report.

use std::{sync::Arc, time::Duration};

use steadfast_crash::{
    Bent, Faults, Ledger, Mutant, Rng,
    check::{self, Expect, LostLeases},
    driver::{self, Job},
    workload,
};
use steadfast_engine::{Engine, Principal, Simulated, Timestamp};
use steadfast_store::{Disk, Store};

struct Scenario {
    seed: u64,
    tasks: u64,
    deaths: u64,
    faults: Faults,
    mutant: Option<Mutant>,
    /// Processes that share the store at a time.
    processes: u64,
    /// One of them is taken for dead while it lives.
    zombies: bool,
    /// They live by leases, which are lost now and then, and their clocks are apart: as on machines of
    /// their own with a database between them.
    leased: bool,
}

impl Scenario {
    fn new(seed: u64) -> Scenario {
        let faults = Faults { fails: 3, lost: 2, slow: 5, ..Faults::default() };
        let (mutant, processes, zombies, leased) = (None, 1, false, false);
        Scenario { seed, tasks: 40, deaths: 6, faults, mutant, processes, zombies, leased }
    }

    /// Lives until the end, and returns what is wrong.
    async fn run(&self) -> Vec<String> {
        let disk = Disk::new();
        if self.mutant == Some(Mutant::SkippedFence) {
            disk.skip_fence();
        }
        let begun = tokio::time::Instant::now();
        let mut ledger = Ledger::in_memory();
        let mut dice = Rng::of(self.seed, 3);
        for death in 0..=self.deaths {
            let last = death == self.deaths;
            let mut lives = Vec::new();
            for _ in 0..self.processes {
                let memory = if self.leased { disk.open_leased() } else { disk.open() };
                let memory = Arc::new(memory);
                let bent = Bent::new(memory.clone())
                    .faulty(self.faults.clone(), dice.next())
                    .mutant(self.mutant);
                let ahead = if self.leased { dice.below(4_000) } else { 0 };
                let epoch = Timestamp(1_800_000_000_000 + ahead as i64).plus(begun.elapsed());
                let world = Simulated::new(epoch, dice.next());
                let builder = Engine::builder(Arc::new(bent)).world(world);
                let engine = workload::tools(builder, &ledger).start();
                let tasks = engine.tasks(Principal::new("ada").unwrap());
                let job = Job::new(self.seed, self.tasks, 16, &ledger.entries());
                let hand = ledger.clone();
                let driver = tokio::spawn(async move { driver::drive(&tasks, &hand, &job).await });
                lives.push((engine, memory, driver));
                ledger = ledger.next_life();
            }
            if self.leased {
                for _ in 0..4 {
                    tokio::time::sleep(Duration::from_millis(dice.below(400))).await;
                    lives[dice.below(self.processes) as usize].1.presume_dead();
                }
            }
            if last {
                let hours = Duration::from_secs(3600);
                for (_, _, driver) in &mut lives {
                    match tokio::time::timeout(hours, driver).await {
                        Ok(ended) => ended.unwrap(),
                        Err(_) => return vec!["the last life did not finish in an hour".into()],
                    }
                }
            } else {
                if self.zombies {
                    tokio::time::sleep(Duration::from_millis(dice.below(100))).await;
                    lives[0].1.presume_dead();
                    tokio::time::sleep(Duration::from_millis(600)).await;
                }
                tokio::time::sleep(Duration::from_millis(dice.below(150))).await;
            }
            for (engine, memory, driver) in lives {
                memory.kill();
                driver.abort();
                drop(engine);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let row = disk.open().state("global".into(), "count".into()).await.unwrap();
        let text = row.value.map(|v| String::from_utf8(v).unwrap()).unwrap_or_else(|| "0".into());
        let expect = Expect {
            seed: self.seed,
            tasks: self.tasks,
            counter: text.parse().unwrap(),
            lost_leases: match self.zombies || self.leased {
                true => LostLeases::Perhaps,
                false => LostLeases::Never,
            },
        };
        check::check(&ledger.entries(), expect)
    }
}

/// Runs a future in a runtime of its own, in virtual time, so that each seed begins alike.
fn virtually<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().unwrap().block_on(future)
}

fn seeds() -> std::ops::Range<u64> {
    let many = std::env::var("STEADFAST_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    0..many
}

#[test]
fn every_invariant_holds_under_faults_and_deaths() {
    for seed in seeds() {
        let wrong = virtually(Scenario::new(seed).run());
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}

#[test]
fn every_invariant_holds_when_processes_share_a_store_and_die() {
    for seed in seeds() {
        let scenario = Scenario { processes: 2, deaths: 3, ..Scenario::new(seed) };
        let wrong = virtually(scenario.run());
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}

#[test]
fn every_invariant_holds_when_a_process_is_taken_for_dead_and_is_not() {
    for seed in seeds() {
        let scenario = Scenario { processes: 2, deaths: 2, zombies: true, ..Scenario::new(seed) };
        let wrong = virtually(scenario.run());
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}

/// What PostgreSQL adds: leases that are lost, so that a process goes on at another desk; commits whose
/// end is found out later; a database that is away for a while; notices that are lost; machines whose
/// clocks are seconds apart.
#[test]
fn every_invariant_holds_when_machines_share_a_database_over_a_bad_network() {
    for seed in seeds() {
        let faults = Faults { fails: 2, lost: 1, slow: 5, late: 4, away: 1, unheard: 30 };
        let (processes, deaths) = (2 + seed % 2, 2);
        let scenario = Scenario { processes, deaths, faults, leased: true, ..Scenario::new(seed) };
        let wrong = virtually(scenario.run());
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}

/// Whoever calls may give up in the middle; what was begun is carried to its end.
#[test]
fn a_call_that_is_given_up_still_happens_whole() {
    let given_up = async {
        let ledger = Ledger::in_memory();
        let faults = Faults { slow: 100, ..Faults::default() };
        let memory = Arc::new(Disk::new().open());
        let bent = Bent::new(memory).faulty(faults, 1);
        let world = Simulated::new(Timestamp(1_800_000_000_000), 1);
        let engine = workload::tools(Engine::builder(Arc::new(bent)).world(world), &ledger).start();
        let tasks = engine.tasks(Principal::new("ada").unwrap());
        let impatience = Duration::from_millis(10);
        let id = |name: &str| steadfast_engine::TaskId::new(name).unwrap();
        let hours = Duration::from_secs(3600);
        for (name, kind) in [("chain", workload::Kind::Chain), ("ask", workload::Kind::Ask)] {
            let start = tasks.start("work", &kind).id(id(name));
            assert!(tokio::time::timeout(impatience, start.into_future()).await.is_err());
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        let end = tokio::time::timeout(hours, tasks.wait(&id("chain"))).await.expect("it runs");
        assert_eq!(end.unwrap().status, steadfast_engine::Status::Completed);
        let cancel = id("ask");
        let cancel = tasks.cancel(&cancel, None);
        assert!(tokio::time::timeout(impatience, cancel).await.is_err());
        let end = tokio::time::timeout(hours, tasks.wait(&id("ask"))).await.expect("it ends");
        assert_eq!(end.unwrap().status, steadfast_engine::Status::Cancelled);
        drop(engine);
    };
    virtually(given_up);
}

/// A mutant must be noticed within a few seeds, by what it does wrong.
fn noticed(mutant: Mutant, processes: u64, sign: &str) {
    let mut said = Vec::new();
    for seed in 0..40 {
        let faults = Faults { slow: 20, ..Faults::default() };
        let zombies = mutant == Mutant::SkippedFence;
        let mutant = Some(mutant);
        let scenario = Scenario { mutant, processes, faults, zombies, ..Scenario::new(seed) };
        let wrong = virtually(scenario.run());
        if wrong.iter().any(|line| line.contains(sign)) {
            return;
        }
        said.extend(wrong);
    }
    panic!("{mutant:?} was not noticed by {sign:?}; said was {said:#?}");
}

#[test]
fn a_reply_before_its_commit_is_noticed() {
    noticed(Mutant::ReplyBeforeCommit, 1, "gone");
}

#[test]
fn a_skipped_fence_is_noticed() {
    noticed(Mutant::SkippedFence, 2, "took effect");
}

#[test]
fn a_skipped_fence_is_noticed_at_another_desk() {
    let mut said = Vec::new();
    for seed in 0..40 {
        let mutant = Some(Mutant::SkippedFence);
        // It does not hear for a while that it has lost its lease.
        let faults = Faults { unheard: 100, slow: 20, ..Faults::default() };
        let scenario =
            Scenario { mutant, processes: 2, faults, leased: true, ..Scenario::new(seed) };
        let wrong = virtually(scenario.run());
        if wrong.iter().any(|line| line.contains("took effect")) {
            return;
        }
        said.extend(wrong);
    }
    panic!("it was not noticed; said was {said:#?}");
}

#[test]
fn a_result_delivered_twice_is_noticed() {
    noticed(Mutant::DeliveredTwice, 1, "its events sum up to");
}

#[test]
fn a_cancel_that_is_forgotten_is_noticed() {
    noticed(Mutant::ForgottenCancel, 1, "its cancel was acknowledged");
}
