//! What can go wrong in a run.

use serde::Serialize;
use simulator::FailureKind;

/// What went wrong in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Two problems of one kind are taken for the same one.
    pub kind: ProblemKind,
    /// What was seen, in a sentence.
    pub message: String,
    /// When it was noticed, in ns; 0 if that is not known.
    pub at_ns: u64,
}

/// Kinds of [`Problem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "what", content = "failure")]
pub enum ProblemKind {
    /// The kernel would have ended the policy.
    Failure(FailureKind),
    /// An invariant of the simulator did not hold.
    Invariant,
    /// A task ran on a CPU that it may not use.
    Affinity,
    /// A CPU idled for too long while a task that it may run waited.
    Idle,
    /// The policy refused to begin.
    Refused,
}
