//! How many records there are, and what they say, whatever their order.

use std::{collections::BTreeMap, fmt};

use sha2::{Digest, Sha256};

use super::{Kind, Record};

/// What a number of records comes to: their count by kind, and a digest.
///
/// The digest is the SHA-256 of the counts and of a sum: that of the SHA-256s of all records, each as its line
/// of a file, taken as numbers of 256 bits with the lowest byte first. So it is the same in whatever order they come, and another if one
/// is missing, is there twice, or differs in a byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    counts: BTreeMap<Kind, u64>,
    /// The lowest part first.
    sum: [u64; 4],
}

impl Tally {
    /// Counts a record. Its line is what [`line`] makes of it.
    pub(super) fn add(&mut self, kind: Kind, line: &[u8]) {
        *self.counts.entry(kind).or_insert(0) += 1;
        let hash = Sha256::digest(line);
        let mut carry = false;
        for (part, bytes) in self.sum.iter_mut().zip(hash.chunks_exact(8)) {
            let number = bytes.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
            let (sum, over) = part.overflowing_add(number);
            let (sum, again) = sum.overflowing_add(u64::from(carry));
            (*part, carry) = (sum, over || again);
        }
    }

    /// How many there are of each kind.
    #[must_use]
    pub fn counts(&self) -> &BTreeMap<Kind, u64> {
        &self.counts
    }

    /// How many there are of one kind.
    #[must_use]
    pub fn count(&self, kind: Kind) -> u64 {
        self.counts.get(&kind).copied().unwrap_or(0)
    }

    /// The digest, in hexadecimal digits.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for (kind, count) in &self.counts {
            hash.update(format!("{} {count}\n", kind.name()));
        }
        for part in self.sum {
            hash.update(part.to_le_bytes());
        }
        hex(&hash.finalize())
    }
}

/// As in `3 tasks, 12 events`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", counted(self.count(Kind::Task), "task", "tasks"))?;
        for (kind, one, many) in [
            (Kind::Event, "event", "events"),
            (Kind::Message, "message", "messages"),
            (Kind::Question, "open question", "open questions"),
            (Kind::Activity, "activity", "activities"),
            (Kind::Watch, "watch", "watches"),
            (Kind::State, "value of state", "values of state"),
            (Kind::Session, "session", "sessions"),
            (Kind::Kept, "kept message", "kept messages"),
            (Kind::Notice, "notice", "notices"),
        ] {
            match self.count(kind) {
                0 => {}
                n => write!(f, ", {}", counted(n, one, many))?,
            }
        }
        Ok(())
    }
}

fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// How a record stands in a file, without the end of the line.
pub(super) fn line(record: &Record) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(record)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(lines: &[&str]) -> Tally {
        let mut tally = Tally::default();
        for line in lines {
            tally.add(Kind::Event, line.as_bytes());
        }
        tally
    }

    #[test]
    fn the_order_does_not_matter_and_all_else_does() {
        let all = tally(&["a", "b", "c"]);
        assert_eq!(all.digest(), tally(&["c", "a", "b"]).digest());
        for other in [&["a", "b"][..], &["a", "b", "c", "c"], &["a", "b", "d"], &["a", "a", "a"]] {
            assert_ne!(all.digest(), tally(other).digest(), "{other:?}");
        }
        let mut kinds = tally(&["a", "b"]);
        kinds.add(Kind::State, b"c");
        assert_ne!(all.digest(), kinds.digest());
    }

    #[test]
    fn the_sum_carries() {
        let mut tally = Tally { sum: [u64::MAX; 4], ..Tally::default() };
        tally.add(Kind::Event, b"");
        // One less than the hash, as it was -1 before.
        let hash = Sha256::digest(b"");
        let first = u64::from_le_bytes(hash[..8].try_into().unwrap());
        assert_eq!(tally.sum[0], first.wrapping_sub(1));
        assert_eq!(tally.sum[3], u64::from_le_bytes(hash[24..].try_into().unwrap()));
    }

    #[test]
    fn it_is_said_in_words() {
        let mut tally = tally(&["a", "b"]);
        tally.add(Kind::Task, b"t");
        assert_eq!(tally.to_string(), "1 task, 2 events");
        assert_eq!(Tally::default().to_string(), "0 tasks");
    }
}
