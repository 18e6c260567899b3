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

impl Report {
    pub(crate) fn add(&mut self, name: impl Into<String>, values: Vec<f64>, bound: Bound) {
        let name = name.into();
        eprintln!("  {name}: {:.4}", median(&values));
        self.figures.push(Figure { name, values, bound });
    }

    pub(crate) fn print(&self) {
        println!("{:<34} {:>12} {:>25}  bound", "figure", "median", "spread");
        for figure in &self.figures {
            let middle = median(&figure.values);
            let least = figure.values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = figure.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let (bound, met) = match figure.bound {
                Bound::AtLeast(bound) => (format!(">= {bound}"), middle >= bound),
                Bound::AtMost(bound) => (format!("<= {bound}"), middle <= bound),
                Bound::None => (String::new(), true),
            };
            let verdict = if met { "" } else { "  MISSED" };
            let spread = format!("{} .. {}", show(least), show(most));
            println!("{:<34} {:>12} {spread:>25}  {bound}{verdict}", figure.name, show(middle));
        }
    }

    pub(crate) fn json(&self) -> Result<String> {
        let flat: BTreeMap<&str, f64> =
            self.figures.iter().map(|f| (f.name.as_str(), median(&f.values))).collect();
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
