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

/// Error numbers that policies answer with, and what they mean. Source: Linux,
/// include/uapi/asm-generic/errno-base.h and errno.h.
const NUMBERS: [(i32, &str); 14] = [
    (1, "EPERM, not permitted"),
    (2, "ENOENT, no such thing"),
    (7, "E2BIG, too large"),
    (11, "EAGAIN, try again"),
    (12, "ENOMEM, no memory"),
    (13, "EACCES, no access"),
    (14, "EFAULT, bad address"),
    (16, "EBUSY, in use"),
    (17, "EEXIST, there already"),
    (19, "ENODEV, no such device"),
    (22, "EINVAL, invalid argument"),
    (28, "ENOSPC, no room left"),
    (34, "ERANGE, out of range"),
    (95, "EOPNOTSUPP, not supported"),
];

/// What the answer of an operation means, behind a colon; nothing if it is no known error number.
pub(crate) fn told_number(answer: i32) -> String {
    let known = NUMBERS.iter().find(|(number, _)| answer.checked_neg() == Some(*number));
    known.map_or(String::new(), |(_, meaning)| format!(": {meaning}"))
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
