//! What a CPU tells itself while it picks its next task.

/// Kicks of a CPU by itself while it picks its next task.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnKicks {
    /// It is to pick again.
    pub always: bool,
    /// It is to pick again if it has become idle (`SCX_KICK_IDLE`).
    pub if_idle: bool,
    /// Its new task is to lose its slice (`SCX_KICK_PREEMPT`).
    pub preempts: bool,
}
