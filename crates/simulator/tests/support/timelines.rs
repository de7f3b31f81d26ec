//! What a timeline says: who was where and when, for how long, and the picture of it.

use super::S;
use simulator::{RunResult, Stay};
use std::collections::BTreeMap;

/// Stays on CPUs in the order of their ends. The end of the run ends those that go on.
pub fn timeline(result: &RunResult) -> Vec<Stay> {
    let timeline = result.timeline.as_ref().expect("a timeline was asked for");
    timeline.to_vec().expect("it can be read")
}

/// Stays on CPUs in the order of their beginnings. The end of the run ends those that go on.
pub fn all_stays(result: &RunResult) -> Vec<Stay> {
    let mut stays = timeline(result);
    stays.retain(|stay| stay.0 < stay.1);
    stays.sort_unstable();
    stays
}

/// Stays of one task, by its pid.
pub fn stays_of(result: &RunResult, pid: u32) -> Vec<Stay> {
    all_stays(result).into_iter().filter(|stay| stay.3 == pid).collect()
}

/// When the tasks of one name were on a CPU: start and end of each stay in ns, and the CPU, in the
/// order of their ends. The end of the run ends those that go on.
pub fn stays(result: &RunResult, name: &str) -> Vec<(u64, u64, u32)> {
    let names = result.timeline_names.as_ref().expect("asked for");
    let of_name = timeline(result).into_iter().filter(|(_, _, _, pid)| names[pid] == name);
    of_name.map(|(start, end, cpu, _)| (start, end, cpu)).collect()
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

// ---- pictures -----------------------------------------------------------------------------------

/// Cells of a line of a picture.
const LINE_CELLS: usize = 80;

/// The run as one line a CPU, below an axis in ms: every character is `cell_ns` long and shows
/// who ran longest in it. Tasks are shown by the last character of their names; a dot stands
/// where the CPU was idle for more than half of the cell.
pub fn picture(result: &RunResult, cell_ns: u64) -> String {
    let cells = result.elapsed_ns.div_ceil(cell_ns) as usize;
    let lines: Vec<Vec<char>> =
        (0..result.nr_cpus as u32).map(|cpu| cells_of(result, cpu, cell_ns, cells)).collect();
    let mut text = String::new();
    for first in (0..cells).step_by(LINE_CELLS) {
        let end = (first + LINE_CELLS).min(cells);
        text += &axis(first, end, cell_ns);
        for (cpu, line) in lines.iter().enumerate() {
            text += &format!("cpu{cpu}  |{}|\n", line[first..end].iter().collect::<String>());
        }
        text += "\n";
    }
    text
}

/// Times in ms above every tenth cell from `first` to `end`.
fn axis(first: usize, end: usize, cell_ns: u64) -> String {
    let mut text = " ms    ".to_owned();
    for cell in (first..end).step_by(10) {
        text += &format!("{:<10}", cell as u64 * cell_ns / 1_000_000);
    }
    text.trim_end().to_owned() + "\n"
}

fn cells_of(result: &RunResult, cpu: u32, cell_ns: u64, cells: usize) -> Vec<char> {
    let names = result.timeline_names.as_ref().expect("names come with the timeline");
    let mut shares: Vec<BTreeMap<char, u64>> = vec![BTreeMap::new(); cells];
    for (start, end, _, pid) in all_stays(result).into_iter().filter(|stay| stay.2 == cpu) {
        let sign = names[&pid].chars().last().unwrap_or('?');
        for cell in start / cell_ns..end.div_ceil(cell_ns) {
            let from = start.max(cell * cell_ns);
            let to = end.min((cell + 1) * cell_ns);
            *shares[cell as usize].entry(sign).or_default() += to - from;
        }
    }
    let sign = |share: &BTreeMap<char, u64>| {
        let longest = share.iter().max_by_key(|(_, ns)| **ns);
        let idle_ns = cell_ns - share.values().sum::<u64>();
        longest.filter(|_| 2 * idle_ns <= cell_ns).map_or('.', |(&sign, _)| sign)
    };
    shares.iter().map(sign).collect()
}
