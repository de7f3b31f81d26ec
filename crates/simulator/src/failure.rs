//! Why a run ended early: what the kernel would have said.

use crate::place::TaskId;
use serde::Serialize;

/// What kind of failure ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// A runnable task did not run for the watchdog's time.
    Stall,
    /// A task was put into a queue that does not exist, or that it may not be in.
    BadQueue,
    /// A CPU that does not exist or that the task may not run on.
    BadCpu,
    /// A call that is not allowed where it was made.
    BadCall,
    /// The policy called `scx_bpf_error`.
    PolicyError,
    /// The policy called `scx_bpf_exit`, or its `init` failed.
    PolicyExit,
    /// All tasks wait for each other.
    Deadlock,
    /// The policy did what no program may, such as reading what is not its own.
    Fault,
    /// A limit of the simulator was reached.
    Limit,
}

impl FailureKind {
    /// Whether the policy was stopped where it was.
    pub(crate) fn is_fault(self) -> bool {
        matches!(self, FailureKind::Fault | FailureKind::Limit)
    }

    /// Whether a call of the policy's is what was wrong, where a call noticed it.
    pub(crate) fn is_of_calls(self) -> bool {
        matches!(self, FailureKind::BadQueue | FailureKind::BadCpu | FailureKind::BadCall)
    }
}

/// A failure as it is reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// What kind.
    pub kind: FailureKind,
    /// The kernel's message, then what a reader needs to find the reason.
    pub message: String,
    /// The task it is about.
    pub pid: Option<i32>,
    /// That task's name.
    pub task: Option<String>,
    /// The CPU on which it was noticed.
    pub cpu: Option<i32>,
    /// When it was noticed.
    pub at_ns: u64,
}

impl Failure {
    /// A failure without a task.
    pub fn new(kind: FailureKind, message: String, cpu: usize, at_ns: u64) -> Self {
        Failure { kind, message, pid: None, task: None, cpu: Some(cpu as i32), at_ns }
    }

    /// The same failure, about a task.
    pub fn about(mut self, task: TaskId, name: String) -> Self {
        self.pid = Some(task as i32 + 1);
        self.task = Some(name);
        self
    }
}
