//! The load that every peer is put under.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use crate::Result;

/// How long a peer works, and on how many tasks at a time.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) at_once: usize,
    pub(crate) time: Duration,
}

/// Let the caches, pools and files of a peer grow to their working size first.
static W: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
const WARM_UP: Duration = Duration::from_secs(1);

impl Load {
    /// Tasks a second, start to completed, after a warm-up.
    ///
    /// `task` starts one task and returns when it is completed; the number is different each time.
    pub(crate) async fn tasks_per_s<F, Fut>(self, task: F) -> Result<f64>
    where
        F: Fn(u64) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = Result<()>> + Send,
    {
        let (warm, _) = self.drive(0, WARM_UP, task.clone()).await?;
        let (done, took) = self.drive(warm, self.time, task).await?;
        eprintln!("window {}", W.load(std::sync::atomic::Ordering::Relaxed) as f64 / self.time.as_secs_f64());
        eprintln!("  warm {warm}, {done} tasks in {:.2} s", took.as_secs_f64());
        Ok(done as f64 / took.as_secs_f64())
    }

    /// Tasks done and the time that it took, the last of each caller included: some peers move all
    /// tasks on in step, and to cut a wave off in the middle would count it wholly or not at all.
    async fn drive<F, Fut>(self, first: u64, time: Duration, task: F) -> Result<(u64, Duration)>
    where
        F: Fn(u64) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = Result<()>> + Send,
    {
        let begun = Instant::now();
        let mut callers = JoinSet::new();
        for caller in 0..self.at_once as u64 {
            let task = task.clone();
            // Numbers of callers don't meet: none does as many as this in a run.
            let first = first + (caller << 32);
            callers.spawn(async move {
                let mut done = 0;
                while begun.elapsed() < time {
                    task(first + done).await?;
                    if begun.elapsed() < time { W.fetch_add(1, std::sync::atomic::Ordering::Relaxed); }
                    done += 1;
                }
                Ok::<_, crate::Error>(done)
            });
        }
        let mut done = 0;
        while let Some(caller) = callers.join_next().await {
            done += caller??;
        }
        Ok((done, begun.elapsed()))
    }
}
