//! Advisory locks, for what has no row to lock. All end with their transaction.

use std::collections::BTreeSet;

pub(crate) const EXCLUSIVE: &str = "SELECT pg_advisory_xact_lock($1::int, $2::int)";
pub(crate) const SHARED: &str = "SELECT pg_advisory_xact_lock_shared($1::int, $2::int)";
/// In the order of the array, which is that of all batches.
pub(crate) const ALL: &str = "SELECT pg_advisory_xact_lock($1::int, k) FROM unnest($2::int[]) AS k";
pub(crate) const TRY: &str = "SELECT pg_try_advisory_xact_lock($1::int, $2::int)";

/// Messages for tasks that do not exist yet. Starts of tasks share it; who keeps a message has it
/// alone: otherwise each could miss the other.
pub(crate) const KEPT: i32 = 1;
/// Whoever takes tasks from the ready pile, so that two don't go for the same ones.
pub(crate) const CLAIM: i32 = 2;
/// Values, in buckets from here on: a watch and a write of the same must not miss each other. The
/// number of buckets bounds how many locks a batch takes, of which a server has a few thousand.
const BUCKETS: i32 = 16;
const BUCKET_COUNT: u64 = 256;
/// Keys of requests, in as many buckets: of one that takes a request back, and one that begins it under another
/// key, the second must see the first.
const KEYS: i32 = 512;

/// The locks of one schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Locks {
    pub(crate) class: i32,
}

impl Locks {
    pub(crate) fn of(schema: &str) -> Locks {
        Locks { class: (hash([b"steadfast", schema.as_bytes()]) >> 33) as i32 }
    }

    /// The buckets of these values and keys, in order.
    pub(crate) fn buckets<'a>(
        &self,
        values: impl Iterator<Item = &'a (String, String)>,
        keys: &BTreeSet<(String, String)>,
    ) -> Vec<i32> {
        let bucket = |from: i32| {
            move |(scope, key): &(String, String)| {
                let hash = hash([scope.as_bytes(), key.as_bytes()]);
                from + (hash % BUCKET_COUNT) as i32
            }
        };
        let keys = keys.iter().map(bucket(KEYS));
        let all: BTreeSet<i32> = values.map(bucket(BUCKETS)).chain(keys).collect();
        all.into_iter().collect()
    }
}

/// FNV-1a: all processes must agree on it, whatever they were built with.
fn hash(parts: [&[u8]; 2]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.iter().copied().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
