//! What is said of one property of a policy.

use crate::problem::Problem;
use serde::Serialize;

/// Whether a policy does what is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It does.
    Holds,
    /// It does not.
    Violated,
    /// Nobody asks: the figure is a fact, neither good nor bad.
    NotPromised,
}

/// One property that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The scenario.
    pub check: &'static str,
    /// The property; its name ends in its unit.
    pub property: &'static str,
    /// What was measured, in that unit; nothing if the run broke off.
    pub measured: Option<f64>,
    /// The most that is allowed, in that unit.
    pub limit: Option<f64>,
    /// What follows.
    pub verdict: Verdict,
    /// Whom or what it is about, or what went wrong.
    pub detail: String,
    /// What went wrong, if the run ended early.
    pub problem: Option<Problem>,
}

impl Row {
    /// A property whose figure is to stay within a limit, if there is one.
    pub fn judged(
        check: &'static str,
        property: &'static str,
        measured: f64,
        limit: Option<f64>,
        detail: String,
    ) -> Row {
        let verdict = match limit {
            None => Verdict::NotPromised,
            Some(limit) if measured <= limit => Verdict::Holds,
            Some(_) => Verdict::Violated,
        };
        Row { check, property, measured: Some(measured), limit, verdict, detail, problem: None }
    }
}
