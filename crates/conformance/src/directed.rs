//! What is measured in the scenarios that ask one question each, and whether it is well.

use crate::facts::{Facts, Spell, final_nice};
use crate::problem::{Problem, ProblemKind};
use crate::scenarios::{Ask, Check};
use crate::trial::{Outcome, Subject, name};
use crate::verdict::{Row, Verdict};
use scenario::workload::Workload;
use simulator::FailureKind;

/// What every run must do, whatever the policy promises: come to its end, break no rule of the
/// kernel, keep tasks to the CPUs that they may use.
pub const SOUND: &str = "sound";

/// Names of tasks whose shares of CPU time are compared begin so.
const HOG: &str = "hog";
/// Names of tasks whose wake-ups are timed begin so.
const LIGHT: &str = "light";
/// From when on wake-ups are timed: policies that watch how tasks behave have seen it then.
const SETTLED_NS: u64 = 1_000_000_000;

impl Check {
    /// Tries the policy in it: a row on whether it went well, and one for each figure.
    pub fn judge(&self, subject: &Subject, seed: u64) -> Vec<Row> {
        let scenario = self.scenario();
        let outcome = subject.attempt(&scenario, seed, None);
        let wait_limit = subject.promises.limit(self.name, Ask::Wait.property());
        let mut rows = vec![self.soundness(outcome.problem.clone(), wait_limit)];
        let began = !outcome.facts.tasks.is_empty();
        let ended_early =
            matches!(outcome.problem, Some(Problem { kind: ProblemKind::Failure(_), .. }))
                && rows[0].verdict == Verdict::Violated;
        for &ask in self.asks.iter().filter(|_| began) {
            let (measured, detail) = measure(ask, &scenario.workload, &outcome, subject);
            let limit = subject.promises.limit(self.name, ask.property());
            let row = Row::judged(self.name, ask.property(), measured, limit, detail);
            // What would have come nobody knows; what is too much already stays so.
            if !ended_early || row.verdict == Verdict::Violated {
                rows.push(row);
            }
        }
        rows
    }

    /// Whether the run went well. That a task waits for ever is for the row on waits to judge, if
    /// the policy promises no end of waits.
    fn soundness(&self, problem: Option<Problem>, wait_limit: Option<f64>) -> Row {
        let stalled = ProblemKind::Failure(FailureKind::Stall);
        let verdict = match &problem {
            None => Verdict::Holds,
            Some(problem) if problem.kind == stalled && wait_limit.is_none() => {
                Verdict::NotPromised
            }
            Some(_) => Verdict::Violated,
        };
        let detail = problem.as_ref().map(|problem| problem.message.clone()).unwrap_or_default();
        let (measured, limit) = (None, None);
        Row { check: self.name, property: SOUND, measured, limit, verdict, detail, problem }
    }
}

/// A figure in the unit of its property, and whom it is about.
fn measure(ask: Ask, workload: &Workload, outcome: &Outcome, subject: &Subject) -> (f64, String) {
    let facts = &outcome.facts;
    let ms = |ns: u64| ns as f64 / 1e6;
    let from = |ns: u64| format!("from {:.6} s on", ns as f64 / 1e9);
    match ask {
        Ask::Wait => {
            let wait = facts.wait;
            let who = name(workload, facts, wait.whose);
            (ms(wait.ns), format!("{who}, {}", from(wait.from_ns)))
        }
        Ask::Wakeup => {
            let mut longest = Spell::default();
            for task in named(workload, facts, LIGHT) {
                let wakeups = facts.tasks[task].wakeups.iter();
                for &(at_ns, waited_ns) in wakeups.filter(|(at_ns, _)| *at_ns >= SETTLED_NS) {
                    longest.longest(at_ns, at_ns + waited_ns, task as u32);
                }
            }
            let who = name(workload, facts, longest.whose);
            (ms(longest.ns), format!("{who}, {}", from(longest.from_ns)))
        }
        Ask::Idle => {
            let idle = facts.idle;
            (ms(idle.ns), format!("CPU {}, {}", idle.whose, from(idle.from_ns)))
        }
        Ask::Share { from_ns } => {
            let due = |nice| subject.promises.due(nice);
            share_error(workload, facts, (from_ns, outcome.elapsed_ns), &due)
        }
    }
}

/// Numbers of the tasks whose names begin so.
fn named(workload: &Workload, facts: &Facts, beginning: &str) -> Vec<usize> {
    let is_named =
        |task: &usize| workload.templates[facts.tasks[*task].template].name.starts_with(beginning);
    (0..facts.tasks.len()).filter(is_named).collect()
}

/// How far the hog that is furthest from its due is from it, in percent, and which one it is.
fn share_error(
    workload: &Workload,
    facts: &Facts,
    (from_ns, to_ns): (u64, u64),
    due: &dyn Fn(i8) -> f64,
) -> (f64, String) {
    let hogs = named(workload, facts, HOG);
    let weight = |&task: &usize| due(final_nice(&workload.templates[facts.tasks[task].template]));
    let ran = |&task: &usize| facts.tasks[task].ran_ns(from_ns, to_ns) as f64;
    let weights: f64 = hogs.iter().map(weight).sum();
    let all: f64 = hogs.iter().map(ran).sum();
    let error = |task: &usize| 100.0 * (ran(task) / (all * weight(task) / weights) - 1.0);
    let furthest = hogs.iter().max_by(|a, b| error(a).abs().total_cmp(&error(b).abs()));
    let Some(task) = furthest else { return (0.0, String::new()) };
    let due = 100.0 * weight(task) / weights;
    let had = 100.0 * ran(task) / all;
    let who = name(workload, facts, *task as u32);
    (error(task).abs(), format!("{who} had {had:.3} % and was due {due:.3} %"))
}
