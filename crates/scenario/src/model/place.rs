//! Places of a workload, and what can be wrong there.

use std::collections::BTreeMap;

/// Where in a workload a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// The workload as a whole.
    Whole,
    /// A key of a channel.
    Channel(usize, &'static str),
    /// A key of a template.
    Template(usize, &'static str),
    /// An operation of a template's program.
    Op(usize, usize),
    /// A key of a change from outside.
    Change(usize, &'static str),
    /// A key of a group of tasks.
    Cgroup(usize, &'static str),
}

impl Place {
    /// Its name where there is no file.
    pub fn key(self) -> String {
        match self {
            Place::Whole => "workload".to_string(),
            Place::Channel(i, key) => format!("channels[{i}].{key}"),
            Place::Template(i, key) => format!("templates[{i}].{key}"),
            Place::Op(i, op) => format!("templates[{i}].program[{op}]"),
            Place::Change(i, key) => format!("changes[{i}].{key}"),
            Place::Cgroup(i, key) => format!("cgroups[{i}].{key}"),
        }
    }
}

/// What is wrong, where, and the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub place: Place,
    pub value: String,
    pub problem: String,
    pub hint: String,
}

impl Problem {
    pub fn new(
        place: Place,
        value: impl Into<String>,
        problem: impl Into<String>,
        hint: impl Into<String>,
    ) -> Problem {
        Problem { place, value: value.into(), problem: problem.into(), hint: hint.into() }
    }
}

/// The file that a workload was read from, and the keys there that name CPUs. Empty for workloads
/// made in Rust. It is for messages only, so all origins are equal.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    pub(crate) file: Option<String>,
    pub(crate) keys: BTreeMap<Place, String>,
}

impl PartialEq for Origin {
    fn eq(&self, _: &Origin) -> bool {
        true
    }
}
