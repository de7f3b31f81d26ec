//! What is asked of a heat: one workload, one size, and who takes part.

use std::path::PathBuf;

use runqueue::hold::{ALL_KEYS, Keys};
use serde::{Deserialize, Serialize};

use crate::RaceError;
use crate::workload::Workload;

/// The most items that are raced, all queues of an entrant together: 64 bytes each, and more.
pub const ITEMS_MAX: u64 = 1 << 24;
/// The most rounds of a heat.
pub const ROUNDS_MAX: u32 = 10_000;
/// The most loops of a round.
pub const LOOPS_MAX: u64 = 1 << 32;

/// In which order the entrants of a round run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Each round begins with another entrant.
    #[default]
    Rotating,
    /// A B C B A, as in April 2007: all but the last entrant run twice a round, and the mean of
    /// both counts.
    Abcba,
}

/// One heat. As JSON, everything but `workload` has a default.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeatSpec {
    /// What is done.
    pub workload: Workload,
    /// Name of the distribution of what is added to keys; see [`runqueue::hold::Keys`].
    #[serde(default = "uniform")]
    pub keys: String,
    /// Items in a queue; `None`: 100, or as many as the trace has.
    #[serde(default)]
    pub n: Option<u32>,
    /// Queues that an entrant has, for [`Workload::Cold`]; 1 otherwise.
    #[serde(default = "one")]
    pub queues: u32,
    /// Loops or operations of a round, about; `None`: what suits the workload.
    #[serde(default)]
    pub loops: Option<u64>,
    /// Loops or operations before each of those, untimed: since an entrant's last turn all others
    /// had the caches. `None`: one for each item, a quarter of the loops or more; for the loop of
    /// 2007 ten for each item, up to 100,000; none for [`Workload::Cold`].
    #[serde(default)]
    pub run_up: Option<u64>,
    /// Rounds, each of which gives every entrant one figure.
    #[serde(default = "nine")]
    pub rounds: u32,
    /// Who runs when.
    #[serde(default)]
    pub order: Order,
    /// Names of those who take part; `None`: everybody, plug-ins included.
    #[serde(default)]
    pub structures: Option<Vec<String>>,
    /// The CPU that the heat runs on; `None`: the last one that this process may use.
    #[serde(default)]
    pub cpu: Option<usize>,
    /// How many times as long as a chain of operations turns of a short queue take on a core of
    /// one's own, as heats before have found: a heat waits for that for a while. Filled in with
    /// the least of those and of its own, which is the best twentieth of its looks.
    #[serde(default)]
    pub pace: Option<f64>,
    /// Seed of keys and choices.
    #[serde(default = "first_seed")]
    pub seed: u64,
    /// Shared objects with further entrants.
    #[serde(default)]
    pub plugins: Vec<PathBuf>,
    /// The recorded operations, for [`Workload::Trace`].
    #[serde(default)]
    pub trace: Option<PathBuf>,
}

fn uniform() -> String {
    Keys::Uniform.name().to_owned()
}

fn one() -> u32 {
    1
}

fn nine() -> u32 {
    9
}

fn first_seed() -> u64 {
    1
}

impl HeatSpec {
    /// The heat with all defaults.
    pub fn new(workload: Workload, n: u32) -> Self {
        HeatSpec {
            workload,
            keys: uniform(),
            n: Some(n),
            queues: one(),
            loops: None,
            run_up: None,
            rounds: nine(),
            order: Order::Rotating,
            structures: None,
            cpu: None,
            pace: None,
            seed: first_seed(),
            plugins: Vec::new(),
            trace: None,
        }
    }

    /// Reads a heat from JSON.
    ///
    /// # Errors
    ///
    /// [`RaceError::Spec`] if it is no JSON, names something unknown, or lacks the workload.
    pub fn from_json(text: &str) -> Result<Self, RaceError> {
        serde_json::from_str(text).map_err(|cause| RaceError::Spec { cause })
    }

    /// The distribution that `keys` names.
    pub(crate) fn keys(&self) -> Result<Keys, RaceError> {
        let found = ALL_KEYS.into_iter().find(|keys| keys.name() == self.keys);
        found.ok_or_else(|| RaceError::UnknownKeys {
            name: self.keys.clone(),
            known: ALL_KEYS.map(Keys::name).join(", "),
        })
    }

    /// The heat with every number chosen: a trace has `recorded` operations.
    pub(crate) fn filled_in(&self, n: u32, recorded: u64) -> Result<Self, RaceError> {
        let mut spec = self.clone();
        if spec.workload != Workload::Cold && spec.queues != 1 {
            let hint = "only the workload `cold` has more than one queue".to_owned();
            return Err(number("queues", u64::from(spec.queues), hint));
        }
        let items = u64::from(n) * u64::from(spec.queues);
        in_range("n", u64::from(n), 1, ITEMS_MAX)?;
        in_range("queues", u64::from(spec.queues), 1, ITEMS_MAX)?;
        in_range("n * queues", items, 1, ITEMS_MAX)?;
        in_range("rounds", u64::from(spec.rounds), 1, u64::from(ROUNDS_MAX))?;
        let usual = spec.workload.loops(u64::from(n), u64::from(spec.queues), recorded);
        let loops = spec.loops.unwrap_or(usual);
        in_range("loops", loops, 1, LOOPS_MAX)?;
        let run_up = spec.run_up.unwrap_or(spec.workload.run_up(u64::from(n), loops));
        in_range("run_up", run_up, 0, LOOPS_MAX)?;
        (spec.n, spec.loops, spec.run_up) = (Some(n), Some(loops), Some(run_up));
        Ok(spec)
    }
}

fn in_range(what: &'static str, value: u64, least: u64, most: u64) -> Result<(), RaceError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(number(what, value, format!("{least} to {most} will do")))
}

fn number(what: &'static str, value: u64, hint: String) -> RaceError {
    RaceError::Number { what, value, hint }
}

#[cfg(test)]
mod tests {
    //! Goal: what is wrong in a heat is said. Method: wrong heats.

    use super::*;
    use crate::workload::WORKLOADS;

    #[test]
    fn names_of_workloads_are_those_of_json() {
        for workload in WORKLOADS {
            let spec = HeatSpec::from_json(&format!(r#"{{"workload": "{}"}}"#, workload.name()));
            assert_eq!(spec.expect("a workload").workload, workload);
        }
    }

    #[test]
    fn a_heat_that_cannot_be_read_says_what_there_is() {
        for text in [r#"{"workload": "sprint"}"#, r#"{"workload": "hold", "size": 3}"#, "{}", "x"] {
            let error = HeatSpec::from_json(text).expect_err(text).to_string();
            assert!(error.contains("hold_remove, cold"), "{error}");
        }
    }

    #[test]
    fn a_round_of_the_loop_is_short_and_after_ten_loops_for_each_item_or_serves_each() {
        for (n, loops, run_up) in [
            (1, 20_000, 5000),
            (1000, 20_000, 10_000),
            (10_000, 20_000, 100_000),
            (100_000, 25_000, 100_000),
            (1_000_000, 1_000_000, 250_000),
        ] {
            let spec = HeatSpec::new(Workload::Hold, n).filled_in(n, 0).expect("a heat");
            assert_eq!((spec.loops, spec.run_up), (Some(loops), Some(run_up)), "n = {n}");
        }
    }

    #[test]
    fn numbers_that_cannot_be_raced_are_named() {
        let wrong = |change: &dyn Fn(&mut HeatSpec)| {
            let mut spec = HeatSpec::new(Workload::Hold, 10);
            change(&mut spec);
            let n = spec.n.unwrap_or(0);
            spec.filled_in(n, 0).expect_err("a wrong number").to_string()
        };
        assert!(wrong(&|spec| spec.n = Some(0)).contains("n = 0"));
        assert!(wrong(&|spec| spec.n = Some(u32::MAX)).contains("n = 4294967295"));
        assert!(wrong(&|spec| spec.rounds = 0).contains("rounds = 0"));
        assert!(wrong(&|spec| spec.loops = Some(0)).contains("loops = 0"));
        assert!(wrong(&|spec| spec.queues = 4).contains("queues = 4"));
        let keys = HeatSpec { keys: "prime".into(), ..HeatSpec::new(Workload::Hold, 10) };
        assert!(keys.keys().expect_err("unknown").to_string().contains("prime"));
    }
}
