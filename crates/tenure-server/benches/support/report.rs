//! Tables of results.

use std::time::Duration;

/// Measurements of one quantity, one per round.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    pub fn push(&mut self, sample: f64) {
        self.0.push(sample);
    }

    /// Returns the ratio to `base` in each round, so that a disturbance that affects both does not
    /// count.
    pub fn over(&self, base: &Self) -> Self {
        let rounds = self.0.iter().zip(&base.0);
        Self(rounds.map(|(sample, base)| sample / base).collect())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Returns the quantile `part` of the samples.
    pub fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        let index = (last as f64 * part).round() as usize;
        sorted.get(index).copied().unwrap_or(f64::NAN)
    }

    /// Formats the median and, in brackets, the minimum and the maximum.
    pub fn text(&self, digits: usize) -> String {
        let [least, most] = [0.0, 1.0].map(|part| self.quantile(part));
        let median = self.median();
        format!("{median:.digits$} ({least:.digits$} to {most:.digits$})")
    }
}

impl Extend<f64> for Samples {
    fn extend<T: IntoIterator<Item = f64>>(&mut self, samples: T) {
        self.0.extend(samples);
    }
}

/// Returns the rate per second.
pub fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

/// Prints rows under a title, in columns as wide as they need to be.
pub fn table(title: &str, rows: &[Vec<String>]) {
    println!("\n{title}");
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        println!("  {}", cells.join("   ").trim_end());
    }
}
