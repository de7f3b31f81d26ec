//! What came of a heat, as it is handed on.

use serde::Serialize;

use crate::HeatSpec;

/// The result of a heat.
#[derive(Clone, Debug, Serialize)]
pub struct Heat {
    /// What was asked for, with what was chosen filled in.
    pub spec: HeatSpec,
    /// What `ticks_per_loop` counts: "loop" or "operation"; see [`crate::Workload::per`].
    pub per: &'static str,
    /// Ticks of a second.
    pub ticks_per_s: f64,
    /// "tsc" or "monotonic".
    pub clock: &'static str,
    /// The CPU that the heat ran on.
    pub cpu: usize,
    /// Whether instructions and cache misses were counted.
    pub counters: Counting,
    /// Bytes of the process that were in pages of 2 MiB when the last round ended, of all entrants
    /// together; `None` where the system does not say. They are asked for, not sure to be had.
    pub large_page_bytes: Option<u64>,
    /// One for each entrant, in the order of the races; those left out at the end.
    pub rows: Vec<Row>,
}

/// Whether a machine counts for us.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counting {
    /// Whether instructions were counted.
    pub available: bool,
    /// Why not, or nothing.
    pub why_not: String,
}

/// What an entrant did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub structure: String,
    /// Whether it promises exact order, which was verified.
    pub exact: bool,
    /// "schedlab", "rust_std", or "plugin:" and its file.
    pub source: String,
    /// Ticks of a loop or an operation, one figure a round; empty if it was left out.
    pub ticks_per_loop: Vec<f64>,
    /// Figures of stretches in which another thread had the CPU for a while, or the other half of
    /// its core. One that is short is run again up to three times until nobody has.
    pub disturbed: usize,
    /// Of each figure, the larger pace at its two ends: see [`HeatSpec::pace`]. Beyond 1.4 times
    /// that of a core of one's own another thread had the other half of it.
    pub paces: Vec<f64>,
    /// Instructions of a loop or an operation, in a round of its own; where operations are timed
    /// alone those that read the clock are among them.
    pub instructions_per_loop: Option<f64>,
    /// Misses of the last level of cache a loop or an operation, in a round of its own.
    pub cache_misses_per_loop: Option<f64>,
    /// Bytes that a full queue holds for each item it has room for. Exact, but for
    /// `rust_btree_map`, where it is an estimate from how full nodes are on average, and for what
    /// a plug-in says.
    pub bytes_per_item: f64,
    /// Ticks of operations timed alone; only in the workloads `single` and `single_remove`.
    pub single: Option<Single>,
    /// What all exact entrants of a heat have alike; `None` if it is not exact or was left out.
    pub order_hash: Option<String>,
    /// Why it does not take part, or nothing.
    pub left_out: String,
}

/// Ticks of operations timed alone, over all rounds; the cost of reading the clock is taken off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Single {
    /// Of a pop and the push after it, added; in `single_remove` of a removal and the push after
    /// it.
    #[serde(flatten)]
    pub both: Percentiles,
    /// Of pops.
    pub pop: Percentiles,
    /// Of pushes of what was popped, with a later key.
    pub push: Percentiles,
    /// Of removals; only in `single_remove`, as the last.
    pub remove: Option<Percentiles>,
    /// Of pushes that bring back what was removed, with the key that it had.
    pub back: Option<Percentiles>,
}

/// What so many of a thousand stay at or below. The maximum includes interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    /// Half of all.
    pub p50: u32,
    /// 99 of 100.
    pub p99: u32,
    /// 999 of 1000.
    pub p999: u32,
    /// The largest.
    pub max: u32,
}

impl Percentiles {
    /// Of `samples`, which get sorted: the smallest sample that is not below so many. `None` of
    /// no samples.
    pub fn of(samples: &mut [u32]) -> Option<Self> {
        samples.sort_unstable();
        let per_mille = |share: usize| {
            let rank = (samples.len() * share).div_ceil(1000).max(1);
            samples[rank - 1]
        };
        let max = *samples.last()?;
        Some(Percentiles { p50: per_mille(500), p99: per_mille(990), p999: per_mille(999), max })
    }
}

#[cfg(test)]
mod tests {
    //! Goal: percentiles are those of the definition. Method: closed forms.

    use super::*;

    #[test]
    fn percentiles_of_a_thousand_numbers_are_their_ranks() {
        let mut samples: Vec<u32> = (1..=1000).rev().collect();
        let found = Percentiles::of(&mut samples).expect("samples");
        assert_eq!(found, Percentiles { p50: 500, p99: 990, p999: 999, max: 1000 });
    }

    #[test]
    fn percentiles_of_few_are_the_last_and_of_none_are_none() {
        let found = Percentiles::of(&mut [7, 3]).expect("samples");
        assert_eq!(found, Percentiles { p50: 3, p99: 7, p999: 7, max: 7 });
        assert_eq!(Percentiles::of(&mut []), None);
    }
}
