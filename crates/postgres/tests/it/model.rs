//! The store does what the one in memory does, whatever is committed together.
//!
//! Both are given the same calls, made up from a seed. On PostgreSQL they are held back until
//! several wait, so that they become one batch.

mod made;
mod seen;

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use steadfast_postgres::{Options, Store, testing};
use steadfast_store::{Disk, Lease, Memory, Store as _};

use self::made::{Answer, Call, Maker};

/// What is known of a store from the answers so far.
#[derive(Default)]
pub(crate) struct Book {
    /// Of each handle, by task.
    pub(crate) leases: BTreeMap<(usize, String), Lease>,
    /// Names of numbers.
    pub(crate) tasks: BTreeMap<i64, String>,
    pub(crate) activities: BTreeMap<i64, String>,
    /// The last leases of activities, by token.
    pub(crate) works: BTreeMap<String, (i64, i64)>,
    /// Of histories.
    pub(crate) lengths: BTreeMap<String, u64>,
}

/// Lets futures begin in their order.
fn begin<'a, T: 'a>(
    calls: Vec<Pin<Box<dyn Future<Output = T> + 'a>>>,
) -> impl Future<Output = Vec<T>> + 'a {
    let mut calls: Vec<_> = calls.into_iter().map(|call| (call, None)).collect();
    std::future::poll_fn(move |cx: &mut Context<'_>| {
        let mut waits = false;
        for (call, done) in &mut calls {
            if done.is_none() {
                match call.as_mut().poll(cx) {
                    Poll::Ready(value) => *done = Some(value),
                    Poll::Pending => waits = true,
                }
            }
        }
        match waits {
            true => Poll::Pending,
            false => Poll::Ready(calls.iter_mut().map(|(_, done)| done.take().unwrap()).collect()),
        }
    })
}

/// Makes all calls on one handle as one batch: while another transaction has the writer's row, the
/// first call waits for it and the others for the first.
async fn together(
    options: &Options,
    store: &Store,
    by: usize,
    calls: &[Call],
    book: &Book,
) -> Vec<Answer> {
    let hold = testing::hold(options, store.desk()).await.unwrap();
    let first = store.unbind(vec![], crate::common::since(0));
    let release = async {
        tokio::time::sleep(std::time::Duration::from_millis(3)).await;
        drop(hold);
    };
    let all: Vec<Pin<Box<dyn Future<Output = Answer> + '_>>> = calls
        .iter()
        .map(|call| Box::pin(call.make(store, by, book)) as Pin<Box<dyn Future<Output = _>>>)
        .collect();
    let (first, answers, ()) = tokio::join!(first, begin(all), release);
    first.unwrap();
    answers
}

async fn compare(seed: u64, rounds: usize) {
    let options = testing::shared().unwrap().options();
    let disk = Disk::new();
    let (mut model, mut real) = (Vec::<Memory>::new(), Vec::<Store>::new());
    for _ in 0..2 {
        model.push(disk.open());
        real.push(options.clone().open().await.unwrap());
    }
    let (mut model_book, mut real_book) = (Book::default(), Book::default());
    let mut maker = Maker::new(seed);
    let mut log = Vec::new();
    for round in 0..rounds {
        let by = maker.below(2) as usize;
        let held = model[by].held().await.unwrap();
        let held = held.iter().filter_map(|one| model_book.tasks.get(&one.lease.key.0).cloned());
        let calls = maker.batch(held.collect());
        let mut expected = Vec::new();
        for call in &calls {
            expected.push(call.make(&model[by], by, &model_book).await);
        }
        let found = match calls.len() {
            1 => vec![calls[0].make(&real[by], by, &real_book).await],
            _ => together(&options, &real[by], by, &calls, &real_book).await,
        };
        for ((call, expected), found) in calls.iter().zip(expected).zip(found) {
            log.push(format!("{round} by {by}: {call:?}\n      memory: {expected:?}"));
            let expected = seen::answer(&model, by, call, expected, &mut model_book).await;
            let found = seen::answer(&real, by, call, found, &mut real_book).await;
            assert_eq!(expected, found, "seed {seed}, after\n{}", log.join("\n"));
        }
        if matches!(calls[..], [Call::Close]) {
            // The process goes, and another comes.
            model[by] = disk.open();
            real[by] = options.clone().open().await.unwrap();
        }
        let expected = seen::all(&model, &mut model_book, maker.now, maker.ops).await;
        let found = seen::all(&real, &mut real_book, maker.now, maker.ops).await;
        assert_eq!(expected, found, "seed {seed}, after\n{}", log.join("\n"));
    }
}

#[tokio::test]
async fn whatever_is_committed_together_is_as_if_it_came_one_by_one() {
    let seeds = std::env::var("MODEL_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let from = std::env::var("MODEL_FROM").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    for seed in from..from + seeds {
        compare(seed, 60).await;
    }
}
