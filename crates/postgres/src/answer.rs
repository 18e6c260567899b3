//! Answering those of a batch.

use steadfast_store::Error;

use crate::queue::Waiting;

/// So few are told by the writer itself.
const FEW: usize = 4;

/// Tells them that they were not done, and why, or that they were.
pub(crate) fn answer(batch: Vec<Waiting>, why: impl Fn() -> Option<Error>) {
    batch.into_iter().for_each(|waiting| waiting.command.answer(why()));
}

/// Tells them that they were done, in the runtime where they wait: it is called once then, and not for each of
/// them by a thread that is not its own, which it would mostly interrupt.
pub(crate) fn answer_at_home(batch: Vec<Waiting>) {
    let home = batch.first().filter(|_| batch.len() > FEW).and_then(|first| first.home.clone());
    let Some(home) = home else { return answer(batch, || None) };
    let at_home = |waiting: &Waiting| waiting.home.as_ref().is_some_and(|at| at.id() == home.id());
    // Who waits elsewhere does not depend on that runtime, which may do nothing any more.
    let (here, elsewhere) = batch.into_iter().partition(at_home);
    let told = Told(here);
    home.spawn(async move { drop(told) });
    answer(elsewhere, || None);
}

/// Those who are told that they were done when this is dropped: also by a runtime that takes nothing more.
struct Told(Vec<Waiting>);

impl Drop for Told {
    fn drop(&mut self) {
        answer(std::mem::take(&mut self.0), || None);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use tokio::{
        runtime,
        sync::oneshot::{Receiver, error::TryRecvError},
    };

    use super::*;
    use crate::{
        queue::{Call, Queue},
        write::Nothing,
    };

    type Answers = Vec<Receiver<Box<Call<Nothing>>>>;

    /// A batch of calls that were made in these runtimes, in turn.
    fn batch(homes: &[&runtime::Runtime]) -> (Vec<Waiting>, Answers) {
        let queue = Queue::default();
        let mut answers = Vec::new();
        for n in 0..FEW * 4 {
            let _here = homes[n % homes.len()].enter();
            answers.push(queue.put(Nothing).unwrap());
        }
        let mut waiting = VecDeque::new();
        homes[0].block_on(queue.take(&mut waiting, None));
        (waiting.into(), answers)
    }

    fn still() -> runtime::Runtime {
        runtime::Builder::new_current_thread().build().unwrap()
    }

    #[test]
    fn who_waits_elsewhere_is_told_also_if_the_first_is_in_a_runtime_that_stands_still() {
        let (idle, other) = (still(), still());
        let (batch, mut answers) = batch(&[&idle, &other]);
        answer_at_home(batch);
        for (n, answer) in answers.iter_mut().enumerate() {
            match n % 2 {
                0 => assert!(matches!(answer.try_recv(), Err(TryRecvError::Empty)), "{n}"),
                _ => assert!(answer.try_recv().is_ok(), "{n}"),
            }
        }
        idle.block_on(tokio::task::yield_now());
        assert!(answers.iter_mut().step_by(2).all(|answer| answer.try_recv().is_ok()));
    }

    #[test]
    fn all_are_told_also_if_their_runtime_ends() {
        for ends_before in [true, false] {
            let home = still();
            let (batch, mut answers) = batch(&[&home]);
            if ends_before {
                drop(home);
                answer_at_home(batch);
            } else {
                answer_at_home(batch);
                drop(home);
            }
            assert!(answers.iter_mut().all(|answer| answer.try_recv().is_ok()), "{ends_before}");
        }
    }
}
