//! Numbers of tasks, and where a task is.

/// Number of a task; its pid is one more.
pub type TaskId = u32;

/// Kinds of [`Place`].
pub const PLACE_KINDS: usize = 7;

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

impl Place {
    /// Whether a task there wants a CPU or has one.
    pub fn is_runnable(self) -> bool {
        matches!(self, Place::Custody | Place::Queued(_) | Place::Running(_))
    }

    /// Numbers kinds of places from 0, for counting.
    pub fn kind(self) -> usize {
        match self {
            Place::Unborn => 0,
            Place::Asleep => 1,
            Place::Moving => 2,
            Place::Custody => 3,
            Place::Queued(_) => 4,
            Place::Running(_) => 5,
            Place::Exited => 6,
        }
    }
}
