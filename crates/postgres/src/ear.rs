//! Hearing what others say, and noticing what was not heard.
//!
//! A notice can be lost: by a connection that broke, or by a process that died between its commit and its
//! word. So each says how many words there were before this one; and a look at the counts of batches, once
//! a second, shows who has written more than he has told. What was missed may be anything.

use std::collections::HashMap;

use steadfast_store::Change;

use crate::news::{Point, Said, Word};

/// What is known of another process.
#[derive(Debug, Default)]
struct Other {
    /// How much it has said.
    point: Option<Point>,
    /// The sum of its batches up to which all is known: it was told of, or looked at.
    known: i64,
    /// The same sum as it was at the last look.
    seen: i64,
}

/// What a connection has heard, from its beginning on.
#[derive(Debug, Default)]
pub(crate) struct Ear(HashMap<i64, Other>);

impl Ear {
    /// What something that was said is to this desk; `None` if it is our own word, or nobody's.
    pub(crate) fn hear(&mut self, desk: i64, text: &str) -> Option<Change> {
        let Said { by, word } = Said::read(text)?;
        if by == desk {
            return None;
        }
        let other = self.0.entry(by).or_default();
        let (point, change) = match word {
            Word::Farewell => return Some(Change::anything()),
            Word::Hello(point) => {
                tracing::debug!(by, "another process has come");
                (point, Change::anything())
            }
            Word::Changed(point, news) => {
                let next = other.point.is_some_and(|last| last.number + 1 == point.number);
                (point, if next { news.to(desk) } else { Change::anything() })
            }
        };
        other.point = Some(point);
        other.known = other.known.max(point.batches);
        Some(change)
    }

    /// Looks at how much each of the others has written by now. What is not told of by the next look was
    /// missed; who hears nothing at all does not wait for that.
    pub(crate) fn look(&mut self, sums: &[(i64, i64)], deaf: bool) -> Option<Change> {
        let mut missed = self.0.keys().any(|desk| sums.iter().all(|(other, _)| other != desk));
        self.0.retain(|desk, _| sums.iter().any(|(other, _)| other == desk));
        for (desk, sum) in sums {
            let other = self.0.entry(*desk).or_insert_with(|| {
                missed = true;
                Other { known: *sum, seen: *sum, ..Other::default() }
            });
            let late = if deaf { *sum } else { other.seen };
            if late > other.known {
                missed = true;
                other.known = *sum;
            }
            other.seen = *sum;
        }
        missed.then(Change::anything)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use steadfast_store::{TaskKey, Which};

    use super::*;
    use crate::news::News;

    fn changed(by: i64, number: i64, batches: i64) -> String {
        let tasks = Which::These(BTreeSet::from([TaskKey(number)]));
        let word = Word::Changed(Point { number, batches }, News { tasks, ..News::written() });
        Said { by, word }.text()
    }

    fn hello(by: i64, number: i64, batches: i64) -> String {
        Said { by, word: Word::Hello(Point { number, batches }) }.text()
    }

    fn only(task: i64) -> Option<Change> {
        let tasks = Which::These(BTreeSet::from([TaskKey(task)]));
        Some(Change { tasks, ..Change::nothing() })
    }

    const ANYTHING: fn() -> Option<Change> = || Some(Change::anything());

    #[test]
    fn who_has_heard_all_is_told_what_it_was() {
        let mut ear = Ear::default();
        assert_eq!(ear.hear(1, &hello(2, 0, 0)), ANYTHING());
        assert_eq!(ear.hear(1, &changed(2, 1, 5)), only(1));
        assert_eq!(ear.hear(1, &changed(2, 2, 9)), only(2));
        assert_eq!(ear.hear(1, &changed(1, 7, 1)), None, "nobody hears himself");
    }

    #[test]
    fn a_word_that_is_missing_may_have_been_about_anything() {
        let mut ear = Ear::default();
        assert_eq!(ear.hear(1, &changed(2, 8, 5)), ANYTHING(), "there were others before it");
        assert_eq!(ear.hear(1, &changed(2, 9, 6)), only(9));
        assert_eq!(ear.hear(1, &changed(2, 11, 8)), ANYTHING());
        assert_eq!(ear.hear(1, &changed(2, 12, 9)), only(12));
        assert_eq!(ear.hear(1, &changed(3, 12, 9)), ANYTHING(), "each counts for himself");
    }

    #[test]
    fn what_is_written_and_not_told_of_until_the_next_look_was_missed() {
        let mut ear = Ear::default();
        assert_eq!(ear.look(&[(2, 5)], false), ANYTHING(), "somebody new");
        assert_eq!(ear.look(&[(2, 5)], false), None);
        assert_eq!(ear.look(&[(2, 6)], false), None, "it may be on its way");
        assert_eq!(ear.look(&[(2, 6)], false), ANYTHING());
        assert_eq!(ear.look(&[(2, 6)], false), None, "once is enough");
        ear.hear(1, &hello(2, 0, 6));
        assert_eq!(ear.look(&[(2, 9)], false), None);
        assert_eq!(ear.hear(1, &changed(2, 1, 9)), only(1));
        assert_eq!(ear.look(&[(2, 12)], false), None, "nine were told of");
        assert_eq!(ear.look(&[], false), ANYTHING(), "somebody has gone");
        assert_eq!(ear.look(&[], false), None);
    }

    #[test]
    fn who_can_not_hear_goes_by_what_he_sees() {
        let mut ear = Ear::default();
        ear.look(&[(2, 5)], true);
        assert_eq!(ear.look(&[(2, 6)], true), ANYTHING());
        assert_eq!(ear.look(&[(2, 6)], true), None);
    }
}
