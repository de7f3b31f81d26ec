//! Random scenarios: whatever tasks do on whatever machine, a policy must cope.

use crate::problem::{Problem, ProblemKind};
use crate::scenarios::Scenario;
use crate::trial::Subject;
use serde::Serialize;
use simulator::FailureKind;

/// What came of some random scenarios.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Swarm {
    /// Scenarios that were tried.
    pub tried: u64,
    /// The longest that a CPU idled in any while a task that it may run waited, in ms.
    pub idle_ms_max: f64,
    /// The longest wait of a runnable task in any, in ms.
    pub wait_ms_max: f64,
    /// Those in which something went wrong.
    pub failed: Vec<Failed>,
}

/// A random scenario in which something went wrong.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    /// Its number, which is also the seed of its run.
    pub seed: u64,
    /// What went wrong.
    pub problem: Problem,
}

/// Random scenario number `seed`, as its files would be read.
pub fn scenario(seed: u64) -> Scenario {
    let (machine, workload) = scenario::random_scenario(seed);
    Scenario { machine, workload: workload.as_written() }
}

/// Tries the policy in the random scenarios `first`, `first + 1` … `first + count - 1`. Stops at
/// one that has no end: it takes seconds to see that, and others are most likely like it.
pub fn try_seeds(subject: &Subject, first: u64, count: u64) -> Swarm {
    let mut swarm = Swarm::default();
    for seed in first..first.saturating_add(count) {
        let outcome = subject.attempt(&scenario(seed), seed, None);
        swarm.tried += 1;
        swarm.idle_ms_max = swarm.idle_ms_max.max(outcome.facts.idle.ns as f64 / 1e6);
        swarm.wait_ms_max = swarm.wait_ms_max.max(outcome.facts.wait.ns as f64 / 1e6);
        if let Some(problem) = subject.problem_of(&outcome) {
            let is_endless = problem.kind == ProblemKind::Failure(FailureKind::Limit);
            swarm.failed.push(Failed { seed, problem });
            if is_endless {
                break;
            }
        }
    }
    swarm
}
