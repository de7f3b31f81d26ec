//! Scenarios as files that `schedlab run` plays again.

use crate::problem::Problem;
use crate::scenarios::{CHECKS, SMALL, Scenario};
use crate::shrink::{Shrunk, shrink};
use crate::swarm;
use crate::trial::Subject;
use scenario::{machine_text, workload_text};
use serde::Serialize;

/// A machine file and a workload file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Files {
    /// Name of the machine; its file has this name and `.toml`.
    pub machine_name: String,
    /// Text of the machine's file.
    pub machine: String,
    /// Name of the workload; its file has this name and `.toml`.
    pub workload_name: String,
    /// Text of the workload's file.
    pub workload: String,
}

/// A random scenario that fails, made as small as it can be.
#[derive(Clone, Debug, Serialize)]
pub struct Smallest {
    /// Its files.
    pub files: Files,
    /// What goes wrong in it.
    pub problem: Problem,
    /// Tasks at its start.
    pub nr_tasks: usize,
    /// CPUs of its machine.
    pub nr_cpus: usize,
    /// Runs that it took to find it.
    pub tried: u64,
    /// Whether it could perhaps be smaller: the limit on runs was reached.
    pub is_cut_short: bool,
}

/// The files of the made or small scenario of this name; none if there is no such scenario.
pub fn files_of(name: &str) -> Option<Files> {
    let made = CHECKS.iter().find(|check| check.name == name).map(|check| check.scenario());
    let small = || SMALL.iter().find(|scope| scope.name == name);
    let scenario = made.or_else(|| small().map(|scope| scope.scenario()))?;
    Some(files(scenario, "schedlab check"))
}

/// The files of random scenario number `seed`.
pub fn random_files(seed: u64) -> Files {
    files(swarm::scenario(seed), &format!("schedlab check: random scenario {seed}"))
}

/// Random scenario number `seed` made smaller, with at most `tries_max` runs, while it fails in the
/// same way; none if nothing goes wrong in it.
pub fn smallest(subject: &Subject, seed: u64, tries_max: u64) -> Option<Smallest> {
    let whole = swarm::scenario(seed);
    let problem_in = |scenario: &Scenario| {
        let outcome = subject.attempt(scenario, seed, None);
        subject.problem_of(&outcome)
    };
    let kind = problem_in(&whole)?.kind;
    let mut fails_alike =
        |smaller: &Scenario| problem_in(smaller).is_some_and(|problem| problem.kind == kind);
    let Shrunk { scenario, tried, is_cut_short } = shrink(&whole, tries_max, &mut fails_alike);
    let problem = problem_in(&scenario)?;
    let (nr_tasks, nr_cpus) = (scenario.workload.initial.len(), scenario.machine.cpus.len());
    let source = format!("schedlab check: what is needed of random scenario {seed}");
    let files = files(scenario, &source);
    Some(Smallest { files, problem, nr_tasks, nr_cpus, tried, is_cut_short })
}

fn files(scenario: Scenario, source: &str) -> Files {
    let Scenario { machine, workload } = scenario;
    let workload = workload.as_written();
    let machine_name = match machine.name == workload.name {
        true => format!("{}-machine", machine.name),
        false => machine.name.clone(),
    };
    Files {
        machine_name,
        machine: machine_text(&machine, source)
            .unwrap_or_else(|error| unreachable!("made and random machines are regular: {error}")),
        workload: workload_text(&workload, source),
        workload_name: workload.name,
    }
}
