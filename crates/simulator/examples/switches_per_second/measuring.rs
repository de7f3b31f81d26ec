//! How long each policy takes for each mix, in turns with the bare event loop.

use crate::mixes::{Mix, Unit};
use crate::repository::stop;
use policy::Policy;
use scenario::machine::Machine;
use scenario::workload::Workload;
use simulator::{Options, RunResult, simulate};

/// Each is measured so often, and all take turns, because the host is shared.
pub const ROUNDS: usize = 3;
/// Runs that take less are repeated within their round.
const SECONDS_MIN: f64 = 0.1;

/// One policy under one mix.
pub struct Cell {
    pub policy: String,
    pub mix: &'static str,
    pub unit: Unit,
    pub switches: u64,
    pub events: u64,
    /// CPU time of the best run of each round.
    pub seconds: Vec<f64>,
    /// What the bare loop did in a second, at its best, of the mix's unit.
    pub bare_per_second: f64,
}

impl Cell {
    /// CPU time of the best round: whatever disturbs only adds to it.
    pub fn best_seconds(&self) -> f64 {
        self.seconds.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// How much is simulated in a second, of the mix's unit.
    pub fn per_second(&self, seconds: f64) -> f64 {
        self.unit.of(self.switches, self.events) as f64 / seconds
    }

    fn of(policy: &Policy, mix: &Mix) -> Cell {
        Cell {
            policy: policy.name.clone(),
            mix: mix.key,
            unit: mix.unit,
            switches: 0,
            events: 0,
            seconds: Vec::new(),
            bare_per_second: 0.0,
        }
    }

    fn add_round(&mut self, policy: &Policy, machine: &Machine, mix: &Mix) {
        let (mut best, mut sum) = (f64::INFINITY, 0.0);
        while sum < SECONDS_MIN {
            let (result, seconds) = timed(|| run(policy, machine, &mix.workload));
            if let Some(error) = &result.error {
                stop(&format!("{} under {}: {error:?}", mix.name, self.policy));
            }
            (self.switches, self.events) = (result.switches, result.events);
            (best, sum) = (seconds.min(best), sum + seconds);
        }
        self.seconds.push(best);
    }
}

/// All cells, mix by mix and in the order of the policies.
pub fn measure(
    policies: &[Policy],
    machine: &Machine,
    mixes: &[Mix],
    with_bare: bool,
) -> Vec<Cell> {
    let pairs = || mixes.iter().flat_map(|mix| policies.iter().map(move |policy| (policy, mix)));
    let mut cells: Vec<Cell> = pairs().map(|(policy, mix)| Cell::of(policy, mix)).collect();
    for _ in 0..ROUNDS {
        for (cell, (policy, mix)) in cells.iter_mut().zip(pairs()) {
            if with_bare {
                let (counts, seconds) = timed(mix.bare);
                std::hint::black_box(counts.digest);
                let done = mix.unit.of(counts.switches, counts.events);
                cell.bare_per_second = cell.bare_per_second.max(done as f64 / seconds);
            }
            cell.add_round(policy, machine, mix);
        }
    }
    cells
}

/// A whole run.
pub fn run(policy: &Policy, machine: &Machine, workload: &Workload) -> RunResult {
    let options = Options { seed: 1, ..Options::default() };
    simulate(policy, machine, workload, &options).unwrap_or_else(|error| stop(&error))
}

/// CPU time of this thread: others on the host take turns, which is none of ours.
pub fn timed<T>(what: impl FnOnce() -> T) -> (T, f64) {
    let start = cpu_seconds();
    let done = what();
    (done, cpu_seconds() - start)
}

fn cpu_seconds() -> f64 {
    // The kernel counts up to the last tick or switch: this is a switch.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat");
    let text = text.unwrap_or_else(|error| stop(&error));
    let ns = text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
    ns.unwrap_or_else(|| stop(&"no CPU time in /proc/thread-self/schedstat")) / 1e9
}
