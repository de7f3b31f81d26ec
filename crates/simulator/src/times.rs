//! Times that were seen, and where they lie.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Where a distribution lies. Times in ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Mean; 0 without values.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Largest value.
    pub max: u64,
    /// How many values lie in each class that has any, as (largest value of the class, count), in
    /// ascending order: [`CLASSES_PER_OCTAVE`] classes from one power of 2 to the next, so that the
    /// curve of the whole distribution can be drawn. Empty where nobody draws it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<(u64, u64)>,
}

/// Classes of [`Distribution::histogram`] from one power of 2 to the next: the largest value of a
/// class is at most 1/16 above its smallest, which is finer than what is seen on a log axis.
pub const CLASSES_PER_OCTAVE: u64 = 16;

/// Times that were seen: quantiles to [`HISTOGRAM_DIGITS`] digits, the largest exactly.
#[derive(Debug)]
pub struct Times {
    histogram: Histogram<u64>,
    max_ns: u64,
}

/// The longest time that histograms tell apart.
const HISTOGRAM_MAX_NS: u64 = 3_600_000_000_000;
/// Decimal digits that histograms keep.
const HISTOGRAM_DIGITS: u8 = 2;

impl Default for Times {
    /// None yet.
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, HISTOGRAM_MAX_NS, HISTOGRAM_DIGITS)
            .expect("the bounds are valid");
        Times { histogram, max_ns: 0 }
    }
}

impl Times {
    /// Adds one.
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds all of `others`.
    pub fn add(&mut self, others: &Times) {
        self.histogram.add(&others.histogram).expect("all have the same bounds");
        self.max_ns = self.max_ns.max(others.max_ns);
    }

    /// Quantiles and the histogram.
    pub fn distribution(&self) -> Distribution {
        Distribution { histogram: self.classes(), ..self.quantiles() }
    }

    /// Values by class. A class ends where one of the finer histogram's buckets does, so that no
    /// bucket is split.
    fn classes(&self) -> Vec<(u64, u64)> {
        let mut classes: Vec<(u64, u64)> = Vec::new();
        for bucket in self.histogram.iter_recorded() {
            let upto_ns = class_end(bucket.value_iterated_to()).min(self.max_ns);
            match classes.last_mut() {
                Some((last_ns, count)) if *last_ns == upto_ns => {
                    *count += bucket.count_at_value();
                }
                _ => classes.push((upto_ns, bucket.count_at_value())),
            }
        }
        classes
    }

    /// Without the histogram.
    pub fn quantiles(&self) -> Distribution {
        let histogram = &self.histogram;
        // A bucket's upper end stands for what is in it, but nothing was longer than the longest.
        let quantile = |q| histogram.value_at_quantile(q).min(self.max_ns);
        Distribution {
            count: histogram.len(),
            mean: if histogram.is_empty() { 0.0 } else { histogram.mean() },
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            max: self.max_ns,
            histogram: Vec::new(),
        }
    }
}

/// The largest value in the class of `ns`.
fn class_end(ns: u64) -> u64 {
    let octave = 1 << ns.max(1).ilog2();
    ns | (octave / CLASSES_PER_OCTAVE).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest value of the class that ends with `upto_ns`: octaves are divided evenly.
    fn class_start(upto_ns: u64) -> u64 {
        let width = ((1u64 << upto_ns.max(1).ilog2()) / CLASSES_PER_OCTAVE).max(1);
        upto_ns - upto_ns % width
    }

    #[test]
    fn a_histogram_counts_each_value_in_the_class_that_holds_it() {
        let values: Vec<u64> = (0..40_000).map(|i: u64| i * i % 7_919 * (i % 97 + 1)).collect();
        let mut times = Times::default();
        values.iter().for_each(|&ns| times.record(ns));
        let found = times.distribution();
        assert_eq!(found.histogram.last().map(|class| class.0), values.iter().copied().max());
        assert!(found.histogram.is_sorted_by(|a, b| a.0 < b.0));
        for (upto_ns, count) in found.histogram {
            let inside = class_start(upto_ns)..=upto_ns;
            let expected = values.iter().filter(|ns| inside.contains(ns)).count();
            assert_eq!(count, expected as u64, "{inside:?}");
        }
    }

    #[test]
    fn a_class_is_narrower_than_a_sixteenth() {
        for ns in (0..70).chain([1_000, 1_023, 1_024, 1_025, 999_999, u64::from(u32::MAX) + 9]) {
            let (start, end) = (class_start(class_end(ns)), class_end(ns));
            assert!(start <= ns && ns <= end, "{ns} in {start}..={end}");
            assert!((end - start) * CLASSES_PER_OCTAVE <= start, "{ns}: {start}..={end}");
        }
    }

    #[test]
    fn without_values_there_are_no_classes() {
        assert_eq!(Times::default().distribution(), Distribution::default());
    }
}
