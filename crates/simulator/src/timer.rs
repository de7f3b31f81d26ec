//! What happens at a time that is known before.

use crate::place::TaskId;

/// What wakes up at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A task of the workload begins.
    Start(TaskId),
    /// A task's sleep is over.
    Sleep(TaskId),
    /// A timer of the policy's expires; the second number tells whether it was set anew since.
    Policy(u32, u32),
    /// The watchdog looks for stalled tasks.
    Watchdog,
    /// `Workload::changes` of this number is made.
    Change(u32),
    /// That change reaches a task which was running on another CPU.
    Affinity(TaskId, u32),
    /// The move of this number to another group reaches a task which was running on another CPU.
    Move(TaskId, u32),
    /// This source of `Background` interrupts its CPU.
    Background(u32),
    /// `Machine::speeds` of this number holds from now on.
    Speed(u32),
}

impl Timer {
    /// Whether it is an event of its own, while timers of the kernel's that are due belong to one
    /// interrupt. Somebody forks one task after the other, and the CPU may pick in between; an
    /// interrupt of the background is another one.
    pub fn is_separate(self) -> bool {
        matches!(self, Timer::Start(_) | Timer::Background(_))
    }

    /// Whether a task begins or wakes up by it.
    pub fn is_awaited(self) -> bool {
        matches!(self, Timer::Start(_) | Timer::Sleep(_))
    }
}
