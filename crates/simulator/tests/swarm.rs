//! Goal: whatever tasks do on whatever machine, no policy of ours breaks an invariant, stalls a
//! task or loses one. Method: random scenarios; the invariants are assertions of the simulator.
//! `make swarm` runs many more.

use crate::support::{POLICIES, attempt, shipped};
use scenario::machine::{Bus, Machine};
use scenario::workload::Workload;
use simulator::Status;

const SEEDS: u64 = 40;

/// A random scenario with what none has by itself: turbo, a bus, waits for memory, and channels as
/// large as a kernel's or for one message each.
fn beyond(seed: u64) -> (Machine, Workload) {
    let (mut machine, mut workload) = scenario::random_scenario(seed);
    machine.turbo_permille = vec![1500, 1300, 1200];
    machine.turbo_permille.truncate(1 + seed as usize % 3);
    machine.bus = Some(Bus { caches: 1 + seed as u32 % 4, mb_per_s: 10 + 200 * (seed % 5) });
    machine.costs.memory_ns = 50 * (seed % 3);
    let kib = 1 + machine.costs.cache_kib as u32 / 4;
    workload.lines_per_ms = vec![(kib, 20_000), (2 * kib, 5_000), (8 * kib, 0)];
    for (number, channel) in workload.channels.iter_mut().enumerate() {
        (channel.capacity_bytes, channel.wake_senders_at_bytes) = (number as u32 % 2, 0);
    }
    (machine.with_digest(), workload.with_digest())
}

fn completes(name: &str, seed: u64, (machine, workload): (Machine, Workload)) {
    let result = attempt(&shipped(name), &machine, &workload, seed);
    assert_eq!(result.status, Status::Completed, "{name}, seed {seed}: {:?}", result.error);
    let total_ns = result.elapsed_ns * result.nr_cpus;
    assert_eq!(result.cpu_time_ns.total(), total_ns, "{name}, seed {seed}: CPU time");
}

#[test]
fn random_scenarios_complete_under_every_policy() {
    for name in POLICIES {
        (0..SEEDS).for_each(|seed| completes(name, seed, scenario::random_scenario(seed)));
    }
}

#[test]
fn they_complete_with_turbo_buses_memory_and_the_smallest_channels() {
    for name in POLICIES {
        (0..SEEDS / 2).for_each(|seed| completes(name, seed, beyond(seed)));
    }
}
