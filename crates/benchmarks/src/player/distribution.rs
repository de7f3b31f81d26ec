//! Where times lie that were seen in a kernel, in the words of the simulator's results.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a distribution lies. Times in ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// ascending order. The simulator's classes, see there; empty where nobody draws the curve.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<(u64, u64)>,
}

/// Classes of [`Distribution::histogram`] from one power of 2 to the next, as in simulations.
const CLASSES_PER_OCTAVE: u64 = 16;

impl Distribution {
    /// Of these values, with the histogram.
    #[must_use]
    pub fn with_histogram(values_ns: Vec<u64>) -> Distribution {
        let max_ns = values_ns.iter().copied().max().unwrap_or(0);
        let mut classes = BTreeMap::new();
        for &ns in &values_ns {
            let octave = 1 << ns.max(1).ilog2();
            let upto_ns = ns | (octave / CLASSES_PER_OCTAVE).saturating_sub(1);
            *classes.entry(upto_ns.min(max_ns)).or_insert(0) += 1;
        }
        Distribution { histogram: classes.into_iter().collect(), ..Distribution::of(values_ns) }
    }

    /// Of these values, by nearest rank.
    #[must_use]
    pub fn of(mut values_ns: Vec<u64>) -> Distribution {
        values_ns.sort_unstable();
        let Some(&max) = values_ns.last() else { return Distribution::default() };
        let count = values_ns.len();
        let rank = |percent: usize| values_ns[(count * percent).div_ceil(100) - 1];
        let sum: u128 = values_ns.iter().map(|&ns| u128::from(ns)).sum();
        Distribution {
            count: count as u64,
            mean: sum as f64 / count as f64,
            p50: rank(50),
            p90: rank(90),
            p99: rank(99),
            max,
            histogram: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: quantiles and classes. Method: examples.
    use super::*;

    #[test]
    fn a_distribution_is_taken_by_nearest_rank() {
        let found = Distribution::of((1..=200).rev().collect());
        assert_eq!((found.count, found.mean), (200, 100.5));
        assert_eq!((found.p50, found.p90, found.p99, found.max), (100, 180, 198, 200));
        assert_eq!(Distribution::of(vec![7]).p50, 7);
        assert_eq!(Distribution::of(Vec::new()), Distribution::default());
    }

    #[test]
    fn a_histogram_has_the_classes_of_simulations() {
        // From 1,024 on a class is 64 wide, from 2,048 on 128; what is below 32 has its own.
        let found = Distribution::with_histogram(vec![31, 1_024, 1_087, 1_088, 2_048, 2_100, 7]);
        assert_eq!(found.histogram, [(7, 1), (31, 1), (1_087, 2), (1_151, 1), (2_100, 2)]);
        assert_eq!(Distribution::with_histogram(Vec::new()), Distribution::default());
    }
}
