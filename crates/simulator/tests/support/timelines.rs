//! What a timeline says: who was where and when, for how long, and the picture of it.

use super::S;
use simulator::{RunResult, Stay};
use std::collections::BTreeMap;

/// Stays on CPUs in the order of their beginnings, those left out that go on when the run ends.
pub fn all_stays(result: &RunResult) -> Vec<Stay> {
    let mut stays = result.timeline.clone().expect("a timeline was asked for");
    stays.retain(|stay| stay.0 < stay.1);
    stays.sort_unstable();
    stays
}

/// Stays of one task, by its pid.
pub fn stays_of(result: &RunResult, pid: u32) -> Vec<Stay> {
    all_stays(result).into_iter().filter(|stay| stay.3 == pid).collect()
}

/// When the tasks of one name were on a CPU: start and end of each stay in ns, and the CPU. A
/// stay that is still going on at the end of the run is not among them.
pub fn stays(result: &RunResult, name: &str) -> Vec<(u64, u64, u32)> {
    let names = result.timeline_names.as_ref().expect("asked for");
    let timeline = result.timeline.as_ref().expect("asked for");
    let of_name = timeline.iter().filter(|(_, _, _, pid)| names[pid] == name);
    of_name.map(|(start, end, cpu, _)| (*start, *end, *cpu)).collect()
}

/// The most frequent length of a stay in whole ticks, rounded up.
pub fn usual_stay_ticks(result: &RunResult, name: &str, hz: u32) -> u64 {
    let tick_ns = S / u64::from(hz);
    let mut ticks: Vec<u64> =
        stays(result, name).iter().map(|(start, end, _)| (end - start).div_ceil(tick_ns)).collect();
    ticks.sort_unstable();
    ticks[ticks.len() / 2]
}

/// The longest time between two stays, the first of which ended after `from_ns`, of a task of
/// which there is one.
pub fn longest_gap_ns(result: &RunResult, name: &str, from_ns: u64) -> u64 {
    let mut stays = stays(result, name);
    stays.retain(|(_, end, _)| *end > from_ns);
    stays.windows(2).map(|pair| pair[1].0 - pair[0].1).max().expect("at least two stays")
}
