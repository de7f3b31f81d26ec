//! Checking policies, as Python sees it: each call is one piece of work that can be given to a
//! worker, and answers with a record.

use std::collections::BTreeMap;
use std::path::PathBuf;

use conformance::scenarios::{CHECKS, SMALL};
use conformance::{Subject, replay, swarm};
use pyo3::prelude::*;
use serde::Serialize;

use crate::{Policy, PolicyError, record};

/// Does `work` with a policy and gives its answer; other Python threads go on meanwhile.
fn answer<'py, T: Serialize + Send>(
    py: Python<'py>,
    policy: &Policy,
    tunables: BTreeMap<String, i64>,
    promises: Option<PathBuf>,
    work: impl Fn(&Subject) -> T + Send + Sync,
) -> PyResult<Bound<'py, PyAny>> {
    let subject = Subject::of(&policy.0, tunables, promises.as_deref())
        .map_err(|error| PolicyError::new_err(error.to_string()))?;
    record(py, &py.detach(|| work(&subject)))
}

/// Names of the scenarios made to ask a question, and of the small ones.
#[pyfunction]
pub fn check_names() -> (Vec<&'static str>, Vec<&'static str>) {
    let made = CHECKS.iter().map(|check| check.name).collect();
    (made, SMALL.iter().map(|scope| scope.name).collect())
}

/// Machine and workload file of a scenario, by its name or as the number of a random one.
#[pyfunction]
pub fn check_files<'py>(py: Python<'py>, scenario: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let seed = scenario.parse().ok();
    let files = seed.map(replay::random_files).or_else(|| replay::files_of(scenario));
    files.map(|files| record(py, &files)).transpose()
}

/// Tries a policy in a scenario made to ask a question: a list of rows.
#[pyfunction]
#[pyo3(signature = (policy, tunables, name, seed, promises=None))]
pub fn check_made<'py>(
    py: Python<'py>,
    policy: &Policy,
    tunables: BTreeMap<String, i64>,
    name: &str,
    seed: u64,
    promises: Option<PathBuf>,
) -> PyResult<Bound<'py, PyAny>> {
    answer(py, policy, tunables, promises, |subject| {
        let check = CHECKS.iter().find(|check| check.name == name);
        check.map(|check| check.judge(subject, seed))
    })
}

/// Tries a policy in `count` random scenarios from number `first` on.
#[pyfunction]
#[pyo3(signature = (policy, tunables, first, count, promises=None))]
pub fn check_random<'py>(
    py: Python<'py>,
    policy: &Policy,
    tunables: BTreeMap<String, i64>,
    first: u64,
    count: u64,
    promises: Option<PathBuf>,
) -> PyResult<Bound<'py, PyAny>> {
    answer(py, policy, tunables, promises, |subject| swarm::try_seeds(subject, first, count))
}

/// Tries a policy in a small scenario, in `orders_max` orders of simultaneous events at the most.
#[pyfunction]
#[pyo3(signature = (policy, tunables, name, orders_max, promises=None))]
pub fn check_small<'py>(
    py: Python<'py>,
    policy: &Policy,
    tunables: BTreeMap<String, i64>,
    name: &str,
    orders_max: u64,
    promises: Option<PathBuf>,
) -> PyResult<Bound<'py, PyAny>> {
    answer(py, policy, tunables, promises, |subject| {
        let scope = SMALL.iter().find(|scope| scope.name == name);
        scope.map(|scope| scope.explore(subject, orders_max))
    })
}

/// Makes random scenario `seed` as small as it can be while the policy fails in it in the same way.
#[pyfunction]
#[pyo3(signature = (policy, tunables, seed, tries_max, promises=None))]
pub fn shrink_random<'py>(
    py: Python<'py>,
    policy: &Policy,
    tunables: BTreeMap<String, i64>,
    seed: u64,
    tries_max: u64,
    promises: Option<PathBuf>,
) -> PyResult<Bound<'py, PyAny>> {
    answer(py, policy, tunables, promises, |subject| replay::smallest(subject, seed, tries_max))
}
