//! What others should hear of a batch, and how it is put into words.

use std::collections::BTreeSet;

use steadfast_core::Timestamp;
use steadfast_store::{Change, TaskKey, Which};

/// What a batch changed that somebody elsewhere acts on, or looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// Something was written.
    pub(crate) written: bool,
    /// These have to look at what lies on them.
    pub(crate) desks: BTreeSet<i64>,
    /// All have to.
    pub(crate) every_desk: bool,
    /// There is something to take up.
    pub(crate) work: bool,
    /// There will be at this time, or before.
    pub(crate) due: Option<i64>,
    /// A task asks something or no longer, a notice was put up, or a session is another.
    pub(crate) asked: bool,
    /// Who watches these sees something else.
    pub(crate) tasks: Which,
}

impl News {
    /// Something was written that nobody acts on, and hardly anybody sees.
    pub(crate) fn written() -> News {
        News { written: true, ..News::default() }
    }

    /// All, as far as is known.
    pub(crate) fn anything() -> News {
        News { every_desk: true, work: true, asked: true, tasks: Which::All, ..News::written() }
    }

    /// Whether somebody has something to do, and not only to see.
    pub(crate) fn is_urgent(&self) -> bool {
        self.work || self.every_desk || !self.desks.is_empty()
    }

    pub(crate) fn add(&mut self, more: News) {
        self.written |= more.written;
        self.desks.extend(more.desks);
        self.every_desk |= more.every_desk;
        self.work |= more.work;
        self.due = [self.due, more.due].into_iter().flatten().min();
        self.asked |= more.asked;
        self.tasks.add(more.tasks);
    }

    /// What it is to a desk.
    pub(crate) fn to(self, desk: i64) -> Change {
        Change {
            held: self.every_desk || self.desks.contains(&desk),
            work: self.work,
            due: self.due.map(Timestamp),
            news: self.asked,
            tasks: self.tasks,
        }
    }
}

/// The longest list, in bytes: a notice of PostgreSQL has less than 8,000.
const LONGEST: usize = 3_500;

/// All, in place of a list.
const ALL: &str = "*";
const NONE: &str = "-";

/// Numbers in their order, each by how far it is behind the one before: those that are changed together
/// were mostly made together.
fn list(numbers: impl Iterator<Item = i64>) -> String {
    let (mut text, mut last) = (String::new(), 0);
    for number in numbers {
        if !text.is_empty() {
            text.push('.');
        }
        text += &format!("{:x}", number - last);
        last = number;
        if text.len() > LONGEST {
            return ALL.into();
        }
    }
    if text.is_empty() { NONE.into() } else { text }
}

/// What a list has; `None` for all.
fn read_list(text: &str) -> Option<Option<BTreeSet<i64>>> {
    if text == ALL {
        return Some(None);
    }
    let mut numbers = BTreeSet::new();
    let mut last = 0_i64;
    for step in text.split('.').filter(|_| text != NONE) {
        last = last.checked_add(i64::from_str_radix(step, 16).ok()?)?;
        numbers.insert(last);
    }
    Some(Some(numbers))
}

/// What is said, and by which desk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) by: i64,
    pub(crate) word: Word,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// From one that is new here, or was away.
    Hello(Point),
    /// From one that has committed.
    Changed(Point, News),
    /// From one whose last word it is: what it held is others' now.
    Farewell,
}

/// How much a process has said, so that others see whether they have missed something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Point {
    /// The number of this word, or of the last one that told of a change.
    pub(crate) number: i64,
    /// The sum of the numbers of its lanes' last batches: all up to there was told of.
    pub(crate) batches: i64,
}

impl Said {
    pub(crate) fn text(&self) -> String {
        let by = self.by;
        match &self.word {
            Word::Hello(Point { number, batches }) => format!("hello {by} {number} {batches}"),
            Word::Farewell => format!("farewell {by}"),
            Word::Changed(Point { number, batches }, news) => {
                let flag = |flag: bool, letter| if flag { letter } else { "" };
                let flags = format!("+{}{}", flag(news.work, "w"), flag(news.asked, "a"));
                let due = news.due.map_or_else(|| NONE.into(), |due| due.to_string());
                let desks = match news.every_desk {
                    true => ALL.into(),
                    false => list(news.desks.iter().copied()),
                };
                let tasks = match &news.tasks {
                    Which::All => ALL.into(),
                    Which::These(tasks) => list(tasks.iter().map(|task| task.0)),
                };
                format!("changed {by} {number} {batches} {flags} {due} {desks} {tasks}")
            }
        }
    }

    /// `None` for what makes no sense here; a later version may say more.
    pub(crate) fn read(text: &str) -> Option<Said> {
        let mut parts = text.split(' ');
        let word = parts.next()?;
        let by = parts.next()?.parse().ok()?;
        if word == "farewell" {
            return Some(Said { by, word: Word::Farewell });
        }
        let number = parts.next()?.parse().ok()?;
        let point = Point { number, batches: parts.next()?.parse().ok()? };
        let word = match word {
            "hello" => Word::Hello(point),
            "changed" => {
                let flags = parts.next()?.strip_prefix('+')?;
                let due = match parts.next()? {
                    NONE => None,
                    due => Some(due.parse().ok()?),
                };
                let desks = read_list(parts.next()?)?;
                let tasks = read_list(parts.next()?)?;
                let tasks = tasks.map_or(Which::All, |tasks| {
                    Which::These(tasks.into_iter().map(TaskKey).collect())
                });
                let news = News {
                    written: true,
                    every_desk: desks.is_none(),
                    desks: desks.unwrap_or_default(),
                    work: flags.contains('w'),
                    due,
                    asked: flags.contains('a'),
                    tasks,
                };
                Word::Changed(point, news)
            }
            _ => return None,
        };
        Some(Said { by, word })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(desks: &[i64], tasks: &[i64]) -> News {
        let tasks = Which::These(tasks.iter().copied().map(TaskKey).collect());
        News { desks: desks.iter().copied().collect(), tasks, ..News::written() }
    }

    fn point(number: i64, batches: i64) -> Point {
        Point { number, batches }
    }

    #[test]
    fn what_is_said_is_what_is_heard() {
        let changed = |news| Word::Changed(point(7, 1_234_567), news);
        for word in [
            Word::Hello(point(0, 0)),
            Word::Farewell,
            changed(News::written()),
            changed(News::anything()),
            changed(news(&[3, 17], &[])),
            changed(News { work: true, ..news(&[], &[1, 2, 900, i64::MAX]) }),
            changed(News { asked: true, due: Some(-7), ..news(&[i64::MAX], &[5]) }),
        ] {
            let said = Said { by: 42, word };
            assert_eq!(Said::read(&said.text()), Some(said.clone()), "{}", said.text());
        }
    }

    #[test]
    fn nonsense_is_not_heard() {
        for text in [
            "",
            "changed",
            "changed 1",
            "changed x 1 1 + - - -",
            "changed 1 1 1 w - - -",
            "changed 1 1 1 + - - x.y.z",
            "changed 1 1 1 + - -",
            "changed 1 1 1 + soon - -",
            "changed 1 1 1 + - - 7fffffffffffffff.1",
            "tomorrow 1 2 3",
        ] {
            assert_eq!(Said::read(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_word_fits_into_a_notice_whatever_it_is_about() {
        let many: Vec<i64> = (0..5_000).map(|n| n * 1_000_003).collect();
        let said = Said {
            by: i64::MAX,
            word: Word::Changed(point(i64::MAX, i64::MAX), news(&many, &many)),
        };
        assert!(said.text().len() < 7_500);
        let Some(Said { word: Word::Changed(_, heard), .. }) = Said::read(&said.text()) else {
            panic!("it is not understood")
        };
        assert!(heard.every_desk && heard.tasks == Which::All, "too many to name are all");
    }
}
