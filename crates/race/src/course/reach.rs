//! How far keys get in a heat: beyond 2^63, who compares them as signed numbers would err.

use super::{Setting, WARM_UP_LOOPS};
use crate::{Workload, order};

/// Keys must stay below this, a quarter of what signed numbers hold.
pub const REACH_MAX: f64 = (1u64 << 61) as f64;
/// Loops that nobody asked for are made fewer where keys would get too far, but not below this.
const LOOPS_LEAST: u64 = 100;
/// Keys of items that come in bursts get at most so many times as far as those of turns.
const BURSTS: f64 = 2.0;

impl Setting {
    /// Turns before anything is timed, of all queues together.
    pub(super) fn warm_up_turns(&self) -> u64 {
        3 * u64::from(self.n) * u64::from(self.nr_queues()) + WARM_UP_LOOPS
    }

    /// By how much keys move on, at most, if a round is run `runs` times.
    pub fn reach(&self, runs: u64) -> f64 {
        let (n, queues) = (f64::from(self.n), f64::from(self.nr_queues()));
        let table = self.increments.table();
        let mean = table.iter().map(|&next| next as f64).sum::<f64>() / table.len() as f64;
        let longest = table.iter().copied().max().unwrap_or(1) as f64;
        // Those with the least weight go ahead fastest, if items have a weight.
        let slowest = self.increments.slowness().map_or(1.0, |slowness| {
            let of_items = slowness.iter().take(self.n as usize);
            of_items.copied().max().unwrap_or(1024) as f64 / 1024.0
        });
        let verified = order::TURNS_MAX as f64 * mean / n;
        let all = self.loops as f64 * runs as f64;
        let warm_up = self.warm_up_turns() as f64;
        let timed = match self.workload {
            Workload::Hold | Workload::HoldRemove | Workload::Cold | Workload::Single => {
                (warm_up + all) * mean / (n * queues)
            }
            Workload::Markov | Workload::Storm | Workload::ForkBurst => {
                (warm_up + all) * BURSTS * mean / n
            }
            // A pass takes every item once, and time moves on to the last of them.
            Workload::UpDown | Workload::MassExit | Workload::Drain => {
                (all / (n * queues) + runs as f64) * longest
            }
            // Its keys are its own.
            Workload::Trace => 0.0,
        };
        (verified + timed + 2.0 * longest) * slowest
    }

    /// Makes loops fewer that nobody asked for, until keys do not get too far.
    pub fn shorten(&mut self, runs: u64) {
        while self.reach(runs) >= REACH_MAX && self.loops >= 2 * LOOPS_LEAST {
            self.loops /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: keys get no further than was said. Method: look at the farthest key after a heat.

    use super::*;
    use crate::HeatSpec;
    use crate::course::{Course, Meter, Runner};
    use runqueue::hold::ALL_KEYS;
    use runqueue::{RedBlackTree, RunQueue};

    #[test]
    fn no_key_gets_further_than_is_said() {
        let workloads =
            crate::WORKLOADS.into_iter().filter(|&workload| workload != Workload::Trace);
        for workload in workloads {
            for (keys, n) in ALL_KEYS.into_iter().flat_map(|keys| [1, 7, 60].map(|n| (keys, n))) {
                let queues = if workload == Workload::Cold { 4 } else { 1 };
                let spec = HeatSpec { loops: Some(30_000), queues, ..HeatSpec::new(workload, n) };
                let setting = Setting::new(&spec, keys, n, None);
                let make = |capacity| Ok(RedBlackTree::with_capacity(capacity as usize));
                let mut course = Course::new(&setting, &make).expect("a course");
                course.warm_up();
                for _ in 0..3 {
                    course.run(&mut Meter::new(&setting, None));
                }
                let mut farthest = 0;
                for queue in &mut course.queues {
                    queue.for_each(&mut |_, key| farthest = farthest.max(key as i64));
                }
                let farthest = farthest.max(course.now as i64) as f64;
                let (said, who) = (setting.reach(4), format!("{workload:?} {keys:?} {n}"));
                assert!(farthest <= said, "{who}: {farthest:e} and not {said:e}");
            }
        }
    }
}
