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
#[derive(Debug, Default)]
pub struct Times {
    /// Values by [`bucket_of`], as far as the largest reaches.
    counts: Vec<u64>,
    max_ns: u64,
}

/// The longest time that histograms tell apart.
const HISTOGRAM_MAX_NS: u64 = 3_600_000_000_000;
/// Decimal digits that histograms keep.
const HISTOGRAM_DIGITS: u8 = 2;
/// Buckets of histograms from one power of 2 to the next; values below twice this have one each.
const BUCKETS_PER_OCTAVE: u64 = 128;

/// Which bucket of a histogram counts `ns`. What every switch asks is computed here and not by the
/// library, which takes five times as long.
///
/// Source: hdrhistogram 7.6.0, `Histogram::index_for`. With the bounds above, `unit_magnitude` is 0
/// and `sub_bucket_half_count` is [`BUCKETS_PER_OCTAVE`]: half the power of 2 above 2 * 10^digits.
fn bucket_of(ns: u64) -> usize {
    let shift = (ns | BUCKETS_PER_OCTAVE).ilog2() - BUCKETS_PER_OCTAVE.ilog2();
    (u64::from(shift) * BUCKETS_PER_OCTAVE + (ns >> shift)) as usize
}

/// The smallest value of a bucket (`Histogram::value_for`).
fn bucket_start(bucket: usize) -> u64 {
    let shift = (bucket as u64 / BUCKETS_PER_OCTAVE).saturating_sub(1);
    (bucket as u64 - shift * BUCKETS_PER_OCTAVE) << shift
}

impl Times {
    /// Adds one.
    pub fn record(&mut self, ns: u64) {
        match self.counts.get_mut(bucket_of(ns)) {
            Some(count) => *count += 1,
            None => self.record_beyond(ns),
        }
        if ns > self.max_ns {
            self.max_ns = ns;
        }
    }

    /// Adds one whose bucket is not there yet. Above its last bucket, which ends at a power of 2,
    /// the library counts values as the longest (`Histogram::saturating_record`).
    #[cold]
    fn record_beyond(&mut self, ns: u64) {
        let has_bucket = ns < HISTOGRAM_MAX_NS.next_power_of_two();
        let bucket = bucket_of(if has_bucket { ns } else { HISTOGRAM_MAX_NS });
        self.counts.resize(self.counts.len().max(bucket + 1), 0);
        self.counts[bucket] += 1;
    }

    /// Adds all of `others`.
    pub fn add(&mut self, others: &Times) {
        self.counts.resize(self.counts.len().max(others.counts.len()), 0);
        for (count, other) in self.counts.iter_mut().zip(&others.counts) {
            *count = count.saturating_add(*other);
        }
        self.max_ns = self.max_ns.max(others.max_ns);
    }

    /// The counts, in the library that computes with them.
    fn histogram(&self) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, HISTOGRAM_MAX_NS, HISTOGRAM_DIGITS)
            .expect("the bounds are valid");
        for (bucket, &count) in self.counts.iter().enumerate().filter(|bucket| *bucket.1 > 0) {
            histogram.record_n(bucket_start(bucket), count).expect("it has the same buckets");
        }
        histogram
    }

    /// Quantiles and the histogram.
    pub fn distribution(&self) -> Distribution {
        let histogram = self.histogram();
        Distribution { histogram: self.classes(&histogram), ..self.quantiles_of(&histogram) }
    }

    /// Without the histogram.
    pub fn quantiles(&self) -> Distribution {
        self.quantiles_of(&self.histogram())
    }

    /// Values by class. A class ends where one of the finer histogram's buckets does, so that no
    /// bucket is split.
    fn classes(&self, histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
        let mut classes: Vec<(u64, u64)> = Vec::new();
        for bucket in histogram.iter_recorded() {
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

    fn quantiles_of(&self, histogram: &Histogram<u64>) -> Distribution {
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
    use proptest::prelude::*;

    /// Recorded by the library itself.
    fn by_library(values: &[u64]) -> Histogram<u64> {
        let mut histogram = Times::default().histogram();
        values.iter().for_each(|&ns| histogram.saturating_record(ns));
        histogram
    }

    fn by_times(values: &[u64]) -> Times {
        let mut times = Times::default();
        values.iter().for_each(|&ns| times.record(ns));
        times
    }

    fn assert_equal(times: &Times, library: &Histogram<u64>) {
        let own = times.histogram();
        assert!(own.iter_recorded().eq(library.iter_recorded()), "{times:?}");
        assert_eq!(own.mean().to_bits(), library.mean().to_bits());
        for quantile in [0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0] {
            assert_eq!(own.value_at_quantile(quantile), library.value_at_quantile(quantile));
        }
        assert_eq!(&own, library);
    }

    /// Any value, or one beside a border of buckets.
    fn ns() -> impl Strategy<Value = u64> {
        let border = (0..6_000usize, 0..3u64).prop_map(|(bucket, above)| {
            bucket_start(bucket).saturating_add(above).saturating_sub(1)
        });
        prop_oneof![border, any::<u64>(), 0..300u64, Just(u64::MAX), Just(HISTOGRAM_MAX_NS)]
    }

    proptest! {
        #[test]
        fn times_are_counted_as_the_library_counts_them(
            values in prop::collection::vec(ns(), 0..200),
            nr_first in 0..200usize,
        ) {
            let library = by_library(&values);
            assert_equal(&by_times(&values), &library);
            let (first, second) = values.split_at(nr_first.min(values.len()));
            let mut sum = by_times(first);
            sum.add(&by_times(second));
            assert_equal(&sum, &library);
            prop_assert_eq!(sum.max_ns, values.iter().copied().max().unwrap_or(0));
        }
    }

    #[test]
    fn each_bucket_begins_and_ends_where_the_library_has_it() {
        let mut start_ns = 0;
        for (number, bucket) in by_library(&[]).iter_all().enumerate() {
            let end_ns = bucket.value_iterated_to();
            assert_eq!(bucket_start(number), start_ns);
            assert_eq!([bucket_of(start_ns), bucket_of(end_ns)], [number; 2]);
            start_ns = end_ns + 1;
        }
        let at_the_end = [start_ns - 1, start_ns, start_ns + 1];
        assert_equal(&by_times(&at_the_end), &by_library(&at_the_end));
    }

    /// The smallest value of the class that ends with `upto_ns`: octaves are divided evenly.
    fn class_start(upto_ns: u64) -> u64 {
        let width = ((1u64 << upto_ns.max(1).ilog2()) / CLASSES_PER_OCTAVE).max(1);
        upto_ns - upto_ns % width
    }

    #[test]
    fn a_histogram_counts_each_value_in_the_class_that_holds_it() {
        let values: Vec<u64> = (0..40_000).map(|i: u64| i * i % 7_919 * (i % 97 + 1)).collect();
        let found = by_times(&values).distribution();
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
