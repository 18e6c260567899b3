//! Figures, their spread and their bounds.

use std::collections::BTreeMap;

use crate::Result;

/// What a figure has to reach.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// Only for show.
    None,
}

struct Figure {
    name: String,
    values: Vec<f64>,
    bound: Bound,
}

#[derive(Default)]
pub(crate) struct Report {
    /// What must be known to read the figures.
    notes: Vec<String>,
    figures: Vec<Figure>,
}

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// How many, in the name of a figure.
pub(crate) fn short(count: u64) -> String {
    match count {
        n if n >= 1_000_000 && n % 1_000_000 == 0 => format!("{}m", n / 1_000_000),
        n if n >= 1_000 && n % 1_000 == 0 => format!("{}k", n / 1_000),
        n => n.to_string(),
    }
}

impl Figure {
    /// The median, the least and the most.
    fn spread(&self) -> [f64; 3] {
        let least = self.values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        [median(&self.values), least, most]
    }

    /// What is missing to its bound, in words. What is not a number has not met it.
    fn missed(&self) -> Option<String> {
        let [middle, ..] = self.spread();
        let (bound, words, met) = match self.bound {
            Bound::AtLeast(bound) => (bound, "under its least of", middle >= bound),
            Bound::AtMost(bound) => (bound, "over its most of", middle <= bound),
            Bound::None => return None,
        };
        let by = (middle - bound).abs();
        let part = match bound {
            0.0 => String::new(),
            bound => format!(" ({:.1} %)", 100.0 * by / bound),
        };
        let (name, middle, by) = (&self.name, show(middle), show(by));
        (!met).then(|| format!("{name} is {middle}, {words} {bound} by {by}{part}"))
    }
}

impl Report {
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    #[cfg(test)]
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    pub(crate) fn add(&mut self, name: impl Into<String>, values: Vec<f64>, bound: Bound) {
        let name = name.into();
        eprintln!("  {name}: {:.4}", median(&values));
        self.figures.push(Figure { name, values, bound });
    }

    pub(crate) fn print(&self) {
        for note in &self.notes {
            println!("{note}");
        }
        println!("{:<34} {:>12} {:>25}  bound", "figure", "median", "spread");
        for figure in &self.figures {
            let [middle, least, most] = figure.spread();
            let bound = match figure.bound {
                Bound::AtLeast(bound) => format!(">= {bound}"),
                Bound::AtMost(bound) => format!("<= {bound}"),
                Bound::None => String::new(),
            };
            let verdict = if figure.missed().is_none() { "" } else { "  MISSED" };
            let spread = format!("{} .. {}", show(least), show(most));
            println!("{:<34} {:>12} {spread:>25}  {bound}{verdict}", figure.name, show(middle));
        }
    }

    /// An error if something was to be reached and was not, or if nothing was measured.
    pub(crate) fn judge(&self) -> Result<()> {
        if self.figures.is_empty() {
            return Err("nothing was measured: no part has such a name".into());
        }
        let missed: Vec<String> = self.figures.iter().filter_map(Figure::missed).collect();
        match missed.len() {
            0 => Ok(()),
            n => Err(format!("{n} missed: {}", missed.join("; ")).into()),
        }
    }

    /// One flat object of numbers: under the name of a figure its median, and behind a dot its spread, its
    /// bound, and whether it was met (1) or missed (0).
    pub(crate) fn json(&self) -> Result<String> {
        let mut flat = BTreeMap::new();
        for figure in &self.figures {
            let name = &figure.name;
            let [middle, least, most] = figure.spread();
            flat.insert(name.clone(), middle);
            flat.insert(format!("{name}.least"), least);
            flat.insert(format!("{name}.most"), most);
            let (word, bound) = match figure.bound {
                Bound::AtLeast(bound) => ("at_least", bound),
                Bound::AtMost(bound) => ("at_most", bound),
                Bound::None => continue,
            };
            flat.insert(format!("{name}.{word}"), bound);
            flat.insert(format!("{name}.met"), if figure.missed().is_none() { 1.0 } else { 0.0 });
        }
        Ok(serde_json::to_string_pretty(&flat)?)
    }
}

fn show(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(figures: &[(&str, &[f64], Bound)]) -> Report {
        let mut report = Report::default();
        for (name, values, bound) in figures {
            report.add(*name, values.to_vec(), *bound);
        }
        report
    }

    #[test]
    fn a_bound_that_was_missed_is_an_error_that_says_by_how_much() {
        let met: [(&str, &[f64], Bound); 3] = [
            ("ratio", &[0.4, 0.5, 0.9], Bound::AtLeast(0.5)),
            ("time", &[9.0, 2.0], Bound::AtMost(5.5)),
            ("shown", &[f64::NAN], Bound::None),
        ];
        assert!(report(&met).judge().is_ok());
        let missed: [(&str, &[f64], Bound); 4] = [
            ("ratio", &[0.45], Bound::AtLeast(0.5)),
            ("time", &[6.0, 2.0, 7.0], Bound::AtMost(5.0)),
            ("bytes", &[512.0], Bound::AtMost(0.0)),
            ("met", &[1.0], Bound::AtMost(1.0)),
        ];
        let error = report(&missed).judge().unwrap_err().to_string();
        assert_eq!(
            error,
            "3 missed: ratio is 0.450, under its least of 0.5 by 0.050 (10.0 %); \
             time is 6.000, over its most of 5 by 1.000 (20.0 %); \
             bytes is 512.0, over its most of 0 by 512.0"
        );
        assert!(report(&[("none", &[], Bound::AtLeast(1.0))]).judge().is_err());
        assert!(report(&[]).judge().is_err(), "nothing was measured");
    }

    #[test]
    fn as_json_medians_stay_under_their_names() {
        let report = report(&[
            ("ratio", &[0.4, 0.9, 0.45], Bound::AtLeast(0.5)),
            ("time", &[3.0], Bound::AtMost(5.0)),
            ("shown", &[7.0], Bound::None),
        ]);
        let flat: BTreeMap<String, f64> = serde_json::from_str(&report.json().unwrap()).unwrap();
        let ratio = ["ratio", "ratio.least", "ratio.most", "ratio.at_least", "ratio.met"];
        assert_eq!(ratio.map(|name| flat[name]), [0.45, 0.4, 0.9, 0.5, 0.0]);
        assert_eq!(["time", "time.at_most", "time.met"].map(|name| flat[name]), [3.0, 5.0, 1.0]);
        assert_eq!((flat["shown"], flat.contains_key("shown.met")), (7.0, false));
    }

    #[test]
    fn a_count_is_named_for_what_it_is() {
        assert_eq!([1_000_000, 20_000, 500].map(short), ["1m", "20k", "500"]);
    }
}
