//! Small scenarios in every order in which simultaneous events can happen.
//!
//! Where several CPUs have something to do at the same nanosecond, a run takes them in one fixed
//! order and a real machine in any. On a machine without costs, where all of that happens at once,
//! every order of a small scenario can be tried: by depth-first search over the choices, each run
//! anew from its beginning.

use crate::facts::Spell;
use crate::problem::Problem;
use crate::scenarios::{Scenario, Scope};
use crate::trial::Subject;
use serde::Serialize;
use simulator::Choice;
use std::collections::BTreeSet;

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

/// An order in which something went wrong.
#[derive(Clone, Debug, Serialize)]
pub struct FailedOrder {
    /// The choices, as [`Options::choices`](simulator::Options::choices) takes them.
    pub choices: Vec<u32>,
    /// What went wrong.
    pub problem: Problem,
}

impl Scope {
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
