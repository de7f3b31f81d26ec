//! Goal: whatever tasks do on whatever machine, no policy of ours breaks an invariant, stalls a
//! task or loses one. Method: random scenarios; the invariants are assertions of the simulator.
//! `make swarm` runs many more.

use crate::support::{POLICIES, attempt, shipped};
use simulator::Status;

const SEEDS: u64 = 40;

#[test]
fn random_scenarios_complete_under_every_policy() {
    for name in POLICIES {
        let policy = shipped(name);
        for seed in 0..SEEDS {
            let (machine, workload) = scenario::random_scenario(seed);
            let result = attempt(&policy, &machine, &workload, seed);
            assert_eq!(result.status, Status::Completed, "{name}, seed {seed}: {:?}", result.error);
            let total_ns = result.elapsed_ns * result.nr_cpus;
            assert_eq!(result.cpu_time_ns.total(), total_ns, "{name}, seed {seed}: CPU time");
        }
    }
}
