//! Numbers of tasks, and where a task is.

/// Number of a task; its pid is one more.
pub type TaskId = u32;

/// Where a task is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Known but not started.
    #[default]
    Unborn,
    /// Blocked: waiting for time, data, a gate, children.
    Asleep,
    /// Between two places within one event.
    Moving,
    /// The policy took it in `enqueue` and has not dispatched it.
    Custody,
    /// In the dispatch queue with this index.
    Queued(u32),
    /// On this CPU.
    Running(u32),
    /// Ended.
    Exited,
}
