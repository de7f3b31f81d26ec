//! Small scenarios in every order in which simultaneous events can happen.
//!
//! Where several CPUs have something to do at the same nanosecond, a run takes them in one fixed
//! order and a real machine in any. On a machine without costs, where all of that happens at once,
//! every order of a small scenario can be tried: by depth-first search over the choices, each run
//! anew from its beginning.

use crate::trial::{Problem, Scenario, Subject};
use crate::{directed, facts::Spell};
use scenario::machine::{Costs, DISTANCES};
use serde::Serialize;
use simulator::Choice;
use std::collections::{BTreeMap, BTreeSet};

/// A small scenario.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Its name, that of its file.
    pub name: &'static str,
    /// CPUs of its machine.
    pub nr_cpus: u32,
    text: &'static str,
}

macro_rules! scope {
    ($name:literal, $nr_cpus:literal) => {
        Scope {
            name: $name,
            nr_cpus: $nr_cpus,
            text: include_str!(concat!("../../../workloads/check/", $name, ".toml")),
        }
    };
}

/// Every small scenario, in the order in which they are shown.
pub const ALL: [Scope; 7] = [
    scope!("small_turns", 2),
    scope!("small_sleeps", 2),
    scope!("small_gates", 2),
    scope!("small_pipes", 2),
    scope!("small_masks", 3),
    scope!("small_forks", 3),
    scope!("small_hotplug", 2),
];

/// What came of the orders of a small scenario.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Exploration {
    /// Orders that were tried.
    pub tried: u64,
    /// Schedules among them that differ.
    pub distinct: u64,
    /// Whether there are no others.
    pub is_exhaustive: bool,
    /// The longest that a CPU idled in any while a task that it may run waited, in ms.
    pub idle_ms_max: f64,
    /// The first order in which something went wrong, and what.
    pub failed: Option<FailedOrder>,
}

impl Exploration {
    /// What to say of a small scenario where nobody knows which orders were tried before this.
    pub fn broken_off(problem: Problem) -> Exploration {
        let failed = Some(FailedOrder { choices: Vec::new(), problem });
        Exploration { failed, ..Exploration::default() }
    }
}

/// An order in which something went wrong.
#[derive(Clone, Debug, Serialize)]
pub struct FailedOrder {
    /// The choices, as [`Options::choices`](simulator::Options::choices) takes them.
    pub choices: Vec<u32>,
    /// What went wrong.
    pub problem: Problem,
}

impl Scope {
    /// Its machine, on which nothing but the tasks' own work takes time, and its workload.
    pub fn scenario(&self) -> Scenario {
        let file = format!("{}.toml", self.name);
        let workload = scenario::parse_workload(&file, self.text, &BTreeMap::new());
        let workload = workload.unwrap_or_else(|error| unreachable!("a shipped workload: {error}"));
        let mut machine = directed::machine(self.nr_cpus);
        machine.name = format!("costless-{}", self.nr_cpus);
        machine.description = "a machine on which no kernel operation takes time".to_owned();
        machine.hz = 100;
        machine.costs = no_costs(&machine.costs);
        Scenario { machine: machine.with_digest(), workload }
    }

    /// Tries the policy in all orders, or in the first `orders_max` of them; stops at the first in
    /// which something goes wrong. Time and memory grow with the orders tried.
    pub fn explore(&self, subject: &Subject, orders_max: u64) -> Exploration {
        explore(subject, &self.scenario(), orders_max)
    }
}

/// As [`Scope::explore`], of any scenario; its seed is 1.
pub fn explore(subject: &Subject, scenario: &Scenario, orders_max: u64) -> Exploration {
    let mut found = Exploration::default();
    let mut digests = BTreeSet::new();
    let mut idle = Spell::default();
    let mut next = Some(Vec::new());
    while let Some(choices) = next.take() {
        if found.tried == orders_max {
            break;
        }
        let outcome = subject.attempt(scenario, 1, Some(choices));
        found.tried += 1;
        if outcome.facts.idle.ns > idle.ns {
            idle = outcome.facts.idle;
        }
        if let Some(problem) = subject.problem_of(&outcome) {
            let choices = outcome.choices.iter().map(|choice| choice.taken).collect();
            found.failed = Some(FailedOrder { choices, problem });
            break;
        }
        digests.insert(outcome.digest);
        next = following(&outcome.choices);
        found.is_exhaustive = next.is_none();
    }
    found.distinct = digests.len() as u64;
    found.idle_ms_max = idle.ns as f64 / 1e6;
    found
}

/// The next list of choices in depth-first order: the last choice that has another way takes it.
fn following(made: &[Choice]) -> Option<Vec<u32>> {
    let last = made.iter().rposition(|choice| choice.taken + 1 < choice.of)?;
    let mut choices: Vec<u32> = made[..=last].iter().map(|choice| choice.taken).collect();
    choices[last] += 1;
    Some(choices)
}

/// The same costs, all of them 0; sizes stay, and threads of a core do not slow each other down.
pub fn no_costs(costs: &Costs) -> Costs {
    Costs {
        context_switch_ns: 0,
        thread_switch_ns: 0,
        cold_switch_ns: 0,
        syscall_ns: 0,
        message_ns: 0,
        copy_ns_per_kib: 0,
        wakeup_ns: 0,
        ipi_send_ns: 0,
        ipi_ns: 0,
        idle_exit_ns: 0,
        tick_ns: 0,
        timer_ns: 0,
        fork_ns: 0,
        exit_ns: 0,
        hook_ns: 0,
        dsq_op_ns: 0,
        scan_step_ns: 0,
        scan_miss_ns: 0,
        lock_ns: 0,
        line_transfer_ns: [0; DISTANCES],
        migration_ns: [0; DISTANCES],
        refill_ns_per_kib: [0; DISTANCES],
        smt_percent: 100,
        ..costs.clone()
    }
}

#[cfg(test)]
mod tests {
    //! Goal: every list of choices is visited once. Method: a tree of known shape.
    use super::*;

    /// A first choice of 2; after the first way another of 3, after the second none.
    fn run(choices: &[u32]) -> Vec<Choice> {
        let taken = |place: usize| choices.get(place).copied().unwrap_or(0);
        let mut made = vec![Choice { taken: taken(0), of: 2 }];
        if taken(0) == 0 {
            made.push(Choice { taken: taken(1), of: 3 });
        }
        made
    }

    #[test]
    fn a_tree_of_choices_is_walked_from_left_to_right() {
        let mut visited = Vec::new();
        let mut next = Some(Vec::new());
        while let Some(choices) = next {
            let made = run(&choices);
            visited.push(made.iter().map(|choice| choice.taken).collect::<Vec<_>>());
            next = following(&made);
        }
        assert_eq!(visited, [vec![0, 0], vec![0, 1], vec![0, 2], vec![1]]);
    }
}
