//! The load that every peer is put under.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use crate::{Error, Result};

/// How many tasks are in flight, and for how long new ones are started.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) at_once: u32,
    pub(crate) time: Duration,
}

/// How a task ended.
pub(crate) enum End {
    Completed,
    /// The engine gave it up. Not counted, but no reason to stop: a peer that fails one task in
    /// hundreds under load still has a throughput.
    Failed,
}

/// Caches, pools and files of a peer grow to their working size first.
const WARM_UP: Duration = Duration::from_secs(1);

/// Tasks of each caller at least, however slow the peer is: with one or two, the beginning and the
/// end, when fewer than all are in flight, would be a good part of the time.
const ROUNDS: u32 = 3;

impl Load {
    /// Tasks a second, start to completed, after the warm-up.
    ///
    /// `task` starts one task and returns when it has ended; it is never given a name twice.
    pub(crate) async fn tasks_per_s<F, Fut>(self, task: F) -> Result<f64>
    where
        F: Fn(String) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = Result<End>> + Send,
    {
        self.drive("warm", WARM_UP, 1, task.clone()).await?;
        self.drive("task", self.time, ROUNDS, task).await
    }

    /// The time is that of the last task too, as where our own engine is measured. Some peers move
    /// all tasks on in step, and a cut in the middle of a wave would count all of it or nothing.
    async fn drive<F, Fut>(
        self,
        phase: &'static str,
        time: Duration,
        rounds: u32,
        task: F,
    ) -> Result<f64>
    where
        F: Fn(String) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = Result<End>> + Send,
    {
        let begun = Instant::now();
        let mut callers = JoinSet::new();
        for caller in 0..self.at_once {
            let task = task.clone();
            callers.spawn(async move {
                let (mut completed, mut failed) = (0u32, 0u32);
                while begun.elapsed() < time || completed + failed < rounds {
                    let number = completed + failed;
                    match task(format!("{phase}-{caller}-{number}")).await? {
                        End::Completed => completed += 1,
                        End::Failed => failed += 1,
                    }
                }
                Ok::<_, Error>((completed, failed))
            });
        }
        let (mut completed, mut failed) = (0, 0);
        while let Some(caller) = callers.join_next().await {
            let caller = caller??;
            completed += caller.0;
            failed += caller.1;
        }
        let took = begun.elapsed().as_secs_f64();
        eprintln!("  {phase}: {completed} completed, {failed} failed, {took:.2} s");
        Ok(f64::from(completed) / took)
    }
}
