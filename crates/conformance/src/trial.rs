//! One run that is judged: what is tried, and what every policy must not do.

use crate::facts::{Facts, facts_of};
use crate::problem::{Problem, ProblemKind};
use crate::promises::{PromiseError, Promises};
use crate::scenarios::Scenario;
use policy::Policy;
use scenario::workload::Workload;
use simulator::{Choice, Options, RunResult, Status, simulate};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// A policy with values for its tunables, and what is asked of it.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// The tunables that are not to keep their defaults.
    pub tunables: BTreeMap<String, i64>,
    /// What it promises.
    pub promises: Promises,
    /// Whether it is run so that its pointers and calls are checked, too.
    pub strict: bool,
}

/// The most events of a run. The shipped policies need 1.2 million at the most, for `yields`; one
/// that sets a timer for every nanosecond would keep a check at work for hours.
pub const EVENTS_MAX: u64 = 10_000_000;

/// How a run went.
#[derive(Debug)]
pub struct Outcome {
    /// What every policy must not do, and was done.
    pub problem: Option<Problem>,
    /// What was seen; nothing if the run broke off.
    pub facts: Facts,
    /// Whether the run went to its own end.
    pub is_complete: bool,
    /// Simulated time.
    pub elapsed_ns: u64,
    /// Where it was chosen which CPU goes first.
    pub choices: Vec<Choice>,
    /// Equal for equal runs.
    pub digest: String,
}

impl<'a> Subject<'a> {
    /// A policy with these values of tunables, and what its file promises, or this one.
    ///
    /// # Errors
    /// As [`Promises::of`].
    pub fn of(
        policy: &'a Policy,
        tunables: BTreeMap<String, i64>,
        file: Option<&Path>,
    ) -> Result<Self, PromiseError> {
        let promises = Promises::of(policy, &tunables, file)?;
        Ok(Subject { policy, tunables, promises, strict: true })
    }

    /// Runs the policy once and says how it went. `choices` are as in [`Options`].
    pub fn attempt(&self, scenario: &Scenario, seed: u64, choices: Option<Vec<u32>>) -> Outcome {
        let Scenario { machine, workload } = scenario;
        let options = Options {
            seed,
            observe: true,
            events_max: Some(EVENTS_MAX),
            tunables: self.tunables.clone(),
            strict: self.strict,
            choices,
            ..Options::default()
        };
        // What is broken then is thrown away with the run.
        let run = AssertUnwindSafe(|| simulate(self.policy, machine, workload, &options));
        match catch_unwind(run) {
            Ok(Ok(result)) => match facts_of(machine, workload, &result) {
                Ok(facts) => Self::outcome(workload, result, facts),
                Err(error) => Outcome::broken_off(ProblemKind::Refused, error.to_string()),
            },
            Ok(Err(error)) => Outcome::broken_off(ProblemKind::Refused, error.to_string()),
            Err(panic) => Outcome::broken_off(ProblemKind::Invariant, said_by(&*panic)),
        }
    }

    fn outcome(workload: &Workload, result: RunResult, facts: Facts) -> Outcome {
        let misplaced = facts.misplaced.map(|(task, cpu, at_ns)| Problem {
            kind: ProblemKind::Affinity,
            message: format!(
                "{} ran on CPU {cpu}, which it may not use",
                name(workload, &facts, task)
            ),
            at_ns,
        });
        // Nothing had happened yet: `init` failed, or `init_task` of a task that was there.
        let kind = |failed| match result.events {
            0 => ProblemKind::Refused,
            _ => ProblemKind::Failure(failed),
        };
        let failure = result.error.as_ref().map(|error| Problem {
            kind: kind(error.kind),
            message: error.message.clone(),
            at_ns: error.at_ns,
        });
        Outcome {
            problem: failure.or(misplaced),
            facts,
            is_complete: result.status == Status::Completed,
            elapsed_ns: result.elapsed_ns,
            choices: result.choices,
            digest: result.digest,
        }
    }

    /// The first problem of a run of which nothing is asked but what holds everywhere.
    pub fn problem_of(&self, outcome: &Outcome) -> Option<Problem> {
        let limit_ms = self.promises.limit("everywhere", "idle_ms_max");
        let idle = outcome.facts.idle;
        let idle_ms = idle.ns as f64 / 1e6;
        let idled = limit_ms.filter(|&limit_ms| idle_ms > limit_ms).map(|limit_ms| Problem {
            kind: ProblemKind::Idle,
            message: format!(
                "CPU {} idled for {idle_ms:.3} ms while a task that it may run waited, at most \
                 {limit_ms} ms",
                idle.whose
            ),
            at_ns: idle.from_ns + idle.ns,
        });
        outcome.problem.clone().or(idled)
    }
}

impl Outcome {
    fn broken_off(kind: ProblemKind, message: String) -> Self {
        Outcome {
            problem: Some(Problem { kind, message, at_ns: 0 }),
            facts: Facts::default(),
            is_complete: false,
            elapsed_ns: 0,
            choices: Vec::new(),
            digest: String::new(),
        }
    }
}

/// A task as messages of the kernel name it.
pub fn name(workload: &Workload, facts: &Facts, task: u32) -> String {
    let template = facts.tasks.get(task as usize).map_or(0, |task| task.template);
    format!("{}[{}]", workload.templates[template].name, task + 1)
}

fn said_by(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "an assertion of the simulator failed".to_owned())
}
