//! Why `select_cpu` is called, and flags of `enqueue`: `SCX_WAKE_*`, `SCX_ENQ_*`.

/// A new task.
pub const WAKE_FORK: u64 = 1 << 2;
/// An old task wakes up.
pub const WAKE_TTWU: u64 = 1 << 3;
/// The waker is about to sleep.
pub const WAKE_SYNC: u64 = 1 << 4;
/// The task becomes runnable.
pub const ENQ_WAKEUP: u64 = 1 << 0;
/// To the head of the queue: `ENQUEUE_HEAD`, whose number has moved since Linux 6.18.
pub const ENQ_HEAD: u64 = 1 << 4 | 1 << 16;
/// `select_cpu` chose the CPU: `ENQUEUE_RQ_SELECTED`, before and now.
pub const ENQ_CPU_SELECTED: u64 = 1 << 10 | 1 << 20;
/// Preempt what runs on the CPU into whose queue the task goes.
pub const ENQ_PREEMPT: u64 = 1 << 32;
/// The task was in a queue that is enqueued again.
pub const ENQ_REENQ: u64 = 1 << 40;
/// The CPU would become idle without this task.
pub const ENQ_LAST: u64 = 1 << 41;
/// The task goes to sleep.
pub const DEQ_SLEEP: u64 = 1 << 0;
/// The task leaves for another reason than sleep.
pub const DEQ_SCHED_CHANGE: u64 = 1 << 33;
/// It goes only for as long as it is changed: `DEQUEUE_SAVE | DEQUEUE_NOCLOCK`.
pub const DEQ_CHANGE: u64 = 1 << 1 | 1 << 3 | DEQ_SCHED_CHANGE;
/// It comes back after that: `ENQUEUE_RESTORE | ENQUEUE_NOCLOCK`.
pub const ENQ_CHANGE: u64 = 1 << 1 | 1 << 3;
/// Both.
pub const CHANGE: (u64, u64) = (DEQ_CHANGE, ENQ_CHANGE);
/// The task leaves its CPU's run queue for another's: `DEQUEUE_NOCLOCK`.
pub const DEQ_MIGRATED: u64 = 1 << 3 | DEQ_SCHED_CHANGE;
/// It comes to that: `ENQUEUE_MIGRATED`.
pub const ENQ_MIGRATED: u64 = 1 << 6;
/// The task leaves its scheduler: `DEQUEUE_SAVE | DEQUEUE_MOVE`.
pub const DEQ_CLASS: u64 = 1 << 1 | 1 << 2 | DEQ_SCHED_CHANGE;
/// It comes to another: `ENQUEUE_RESTORE | ENQUEUE_MOVE`.
pub const ENQ_CLASS: u64 = 1 << 1 | 1 << 2;
/// The task leaves for as long as it changes its group, or comes back to a CPU that goes:
/// `DEQUEUE_SAVE | DEQUEUE_MOVE | DEQUEUE_NOCLOCK`.
pub const DEQ_GROUP: u64 = DEQ_CLASS | 1 << 3;
/// It comes back after that.
pub const ENQ_GROUP: u64 = ENQ_CLASS | 1 << 3;
/// `SCX_TASK_QUEUED`: the task is runnable.
pub const TASK_QUEUED: u32 = 1 << 0;
/// `SCX_OPS_ENQ_LAST`
pub const OPS_ENQ_LAST: u64 = 1 << 1;
/// `SCX_OPS_SWITCH_PARTIAL`
pub const OPS_SWITCH_PARTIAL: u64 = 1 << 3;
/// `SCX_OPS_BUILTIN_IDLE_PER_NODE`
pub const OPS_IDLE_PER_NODE: u64 = 1 << 6;
/// `SCX_OPS_TID_TO_TASK`
pub const OPS_TID_TO_TASK: u64 = 1 << 8;
/// `SCX_KICK_IDLE`
pub const KICK_IDLE: u64 = 1 << 0;
/// `SCX_KICK_PREEMPT`
pub const KICK_PREEMPT: u64 = 1 << 1;
