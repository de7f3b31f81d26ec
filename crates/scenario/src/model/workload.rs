//! A workload: tasks and what they do.
//!
//! Tasks run programs: flat lists of operations with counted loops. Tasks talk through channels
//! (finite buffers of bytes) and gates (tokens to wait for). Nothing here says which CPU runs
//! what: that is the policy's business.

use crate::model::place::Origin;
use std::sync::Arc;

/// A number drawn from the run's seed, or fixed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Always this.
    Fixed(u64),
    /// Any whole number from `low` to `high`, both included.
    Uniform {
        /// Smallest value.
        low: u64,
        /// Largest value.
        high: u64,
    },
    /// Exponentially distributed.
    Exponential {
        /// Mean value.
        mean: u64,
    },
    /// Normally distributed, cut at 0.
    Normal {
        /// Mean before cutting.
        mean: u64,
        /// Standard deviation before cutting.
        sd: u64,
    },
    /// Log-normally distributed.
    LogNormal {
        /// Median.
        median: u64,
        /// Standard deviation of the logarithm, in thousandths.
        sigma_permille: u64,
    },
    /// As a recording was distributed.
    Recorded(Quantiles),
}

/// The levels in thousandths at which [`Quantiles`] are given: the least, 10, 25, 50, 75, 90, 95
/// and 99 percent, the most.
pub const QUANTILE_LEVELS_PERMILLE: [u64; 9] = [0, 100, 250, 500, 750, 900, 950, 990, 1000];

/// A recorded distribution: straight lines between its quantiles.
///
/// The quantiles stand in the operation itself, so they are 32 bits wide: an operation is copied
/// whenever it is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantiles {
    /// The value at each of [`QUANTILE_LEVELS_PERMILLE`], in units of `unit`; never decreasing.
    pub at: [u32; QUANTILE_LEVELS_PERMILLE.len()],
    /// What one in `at` stands for: 1000 ns in durations, 1 in counts.
    pub unit: u32,
    /// What is drawn, in thousandths of the recording.
    pub permille: u32,
}

/// How often a loop's body runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Repeat {
    /// So many times, drawn once when the loop is entered.
    Times(Amount),
    /// Until the run ends.
    Forever,
    /// As long as the task has a child that has not exited, tested before each round.
    WhileChildren,
}

/// One step of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// Compute for so many ns of the reference CPU.
    Run(Amount),
    /// Sleep for so many ns.
    Sleep(Amount),
    /// Write a message of `bytes` bytes; blocks while the channel has no room.
    Send {
        /// Index into `Workload::channels`.
        channel: u32,
        /// Size of the message.
        bytes: u32,
    },
    /// Read until `bytes` bytes have been read; blocks while the channel is empty.
    Recv {
        /// Index into `Workload::channels`.
        channel: u32,
        /// How much to read.
        bytes: u32,
    },
    /// Put a token into a gate, waking one waiter if there is one.
    Wake {
        /// Index below `Workload::nr_gates`.
        gate: u32,
    },
    /// Open a gate for good: every present and future waiter passes.
    WakeAll {
        /// Index below `Workload::nr_gates`.
        gate: u32,
    },
    /// Take a token from a gate; blocks while it is shut and has none.
    Wait {
        /// Index below `Workload::nr_gates`.
        gate: u32,
    },
    /// Wait until `every` after the task's last release (at first: after its birth), or not at all
    /// if that time has passed: releases are as many and at the same times however late the task
    /// is. A request begins at that time. It goes with the task's messages and to its children
    /// until one of those who work on it is [`Op::Done`].
    Release {
        /// From one release to the next, in ns.
        every: Amount,
        /// How long the request may take, in ns; [`NO_DEADLINE_NS`] if that does not matter.
        deadline_ns: u64,
    },
    /// The request that the task works on, if it does on one, is done: takes its response time.
    Done,
    /// sched_yield.
    Yield,
    /// Create a child of the template `Workload::templates[template]`.
    Fork {
        /// Index into `Workload::templates`.
        template: u32,
    },
    /// Block until all children have exited.
    Join,
    /// Change the task's own nice value.
    Nice(i8),
    /// Change the CPUs that the task itself may run on (sched_setaffinity). Refused, so without
    /// effect, if none of them is online.
    Affinity {
        /// Index into `Workload::cpu_sets`.
        set: u32,
    },
    /// Go into another group of tasks, with all tasks of the same address space. Without effect if
    /// the policy refuses it.
    Move {
        /// Index into `Workload::cgroups`; the root if `None`.
        to: Option<u32>,
    },
    /// Start of a loop; `end` is the index of its `End`.
    Loop {
        /// How often.
        repeat: Repeat,
        /// Index of the matching `Op::End` in the same program.
        end: u32,
    },
    /// End of the loop that starts at `start`.
    End {
        /// Index of the matching `Op::Loop`.
        start: u32,
    },
    /// What is measured begins here (the first time any task reaches it).
    Mark,
    /// From the first of these to the second is a time that is no part of what is measured: it is
    /// taken from the makespan, as lmbench takes what a pipe costs from what a switch takes.
    Tare,
    /// The task ends. A program that runs off its end does the same.
    Exit,
}

/// The deadline of a request that has none.
pub const NO_DEADLINE_NS: u64 = u64::MAX;

/// The deepest nesting of loops in a program.
pub const LOOP_DEPTH_MAX: usize = 4;

/// CPUs that a task may run on, in increasing order; all of them if `None`. Not empty.
pub type CpuSet = Option<Arc<[u32]>>;

/// A list of operations that tasks of the same kind share.
pub type Program = Arc<[Op]>;

/// A finite buffer through which tasks send bytes: a pipe if messages take up nothing beside their
/// bytes, else a socket pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channel {
    /// Bytes that fit, overheads included; a sender blocks while its message does not fit. 0 of a
    /// pipe as the machine's kernel makes it.
    pub capacity_bytes: u32,
    /// Bytes that each message takes up beside its content (buffer headers).
    pub overhead_bytes: u32,
    /// Blocked senders are woken, all of them, once no more than this many bytes are in use.
    pub wake_senders_at_bytes: u32,
    /// Whether waking a receiver tells the scheduler that the waker is about to sleep
    /// (`SCX_WAKE_SYNC`), as pipes do.
    pub sync_wakeups: bool,
}

/// How a task is started and scheduled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskTemplate {
    /// Name shown in results; tasks of one name are reported together. At most 15 bytes.
    pub name: String,
    /// What it does.
    pub program: Program,
    /// Nice value, -20 to 19.
    pub nice: i8,
    /// CPUs it may run on.
    pub cpus: CpuSet,
    /// Tasks with the same number share an address space; `None` makes one of its own.
    pub address_space: Option<u32>,
    /// Memory it touches whenever it runs.
    pub footprint_kib: u32,
    /// Index into `Workload::cgroups`; its parent task's, or the root, if `None`.
    pub cgroup: Option<u32>,
}

/// A group of tasks below the root, as Linux has them (cgroup v2). What it says is for policies:
/// nothing else holds to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// Where it is, such as `/db/readers`.
    pub path: String,
    /// `cpu.weight`
    pub weight: u32,
    /// `cpu.idle`
    pub idle: bool,
    /// `cpu.max`: CPU time in ns for all its tasks together in each period; `None` is no limit.
    pub quota_ns: Option<u64>,
    /// See `quota_ns`.
    pub period_ns: u64,
    /// `cpu.max.burst`, in ns.
    pub burst_ns: u64,
}

impl Cgroup {
    /// The path of its parent, which is empty if that is the root, and its own name there.
    pub fn place(&self) -> (&str, &str) {
        self.path.rsplit_once('/').unwrap_or(("", &self.path))
    }

    /// The files that are written one after the other for it to become `now`, and what it says
    /// after each. A kernel takes no weight while it is idle, and no burst above the quota.
    pub fn steps_to(&self, now: &Cgroup) -> Vec<(GroupFile, Cgroup)> {
        let (mut at, mut steps) = (self.clone(), Vec::new());
        let (wakes, falls) = (!now.idle, now.burst_ns < self.burst_ns);
        let mut order = [GroupFile::Weight, GroupFile::Max, GroupFile::Burst, GroupFile::Idle];
        order[1..3].rotate_left(usize::from(falls));
        order.rotate_right(usize::from(wakes));
        for file in order {
            let before = at.clone();
            match file {
                GroupFile::Weight => at.weight = now.weight,
                GroupFile::Max => (at.quota_ns, at.period_ns) = (now.quota_ns, now.period_ns),
                GroupFile::Burst => at.burst_ns = now.burst_ns,
                GroupFile::Idle => at.idle = now.idle,
            }
            if at != before {
                steps.push((file, at.clone()));
            }
        }
        steps
    }
}

/// A file of a cgroup of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupFile {
    /// `cpu.weight`
    Weight,
    /// `cpu.max`
    Max,
    /// `cpu.max.burst`
    Burst,
    /// `cpu.idle`
    Idle,
}

/// A task that exists when the run begins.
#[derive(Clone, Debug, PartialEq)]
pub struct InitialTask {
    /// Index into `Workload::templates`.
    pub template: u32,
    /// When it becomes runnable.
    pub start_at_ns: u64,
}

/// Something that is done to the machine or to tasks from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// When, counted from the start of the run.
    pub at_ns: u64,
    /// What is done.
    pub what: ChangeKind,
}

/// What a [`Change`] does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// A CPU is taken down or brought up.
    Hotplug {
        /// Its number; never 0, which stays up.
        cpu: u32,
        /// Whether it is up afterwards.
        online: bool,
    },
    /// All tasks of one name that live then may run on these CPUs only (sched_setaffinity).
    Affinity {
        /// The name.
        task: String,
        /// The CPUs.
        cpus: CpuSet,
    },
    /// All tasks of one name that live then go into a group, see [`Op::Move`].
    Move {
        /// The name.
        task: String,
        /// Index into `Workload::cgroups`; the root if `None`.
        to: Option<u32>,
    },
    /// A group of tasks has other weights and limits.
    Cgroup {
        /// Index into `Workload::cgroups`.
        number: u32,
        /// What it says from then on. Its path stays.
        now: Cgroup,
    },
}

/// Tasks and what they do, ready to run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// Name of its file.
    pub name: String,
    /// What it is, in a sentence.
    pub description: String,
    /// Every parameter that shaped it, with its value as text, defaults included.
    pub parameters: Vec<(String, String)>,
    /// Kinds of tasks.
    pub templates: Vec<TaskTemplate>,
    /// Tasks at the start.
    pub initial: Vec<InitialTask>,
    /// Buffers.
    pub channels: Vec<Channel>,
    /// Number of gates.
    pub nr_gates: u32,
    /// CPUs that tasks bind themselves to, see [`Op::Affinity`].
    pub cpu_sets: Vec<CpuSet>,
    /// What is done from outside, in the order of time.
    pub changes: Vec<Change>,
    /// Groups of tasks, each behind its parent; the root is not listed.
    pub cgroups: Vec<Cgroup>,
    /// Cache lines that computing fetches from memory for each ms of the reference CPU's computing,
    /// each with the KiB of a last-level cache at which it does, in increasing order; none where
    /// all that tasks compute with is in caches. Costs say what a line takes.
    pub lines_per_ms: Vec<(u32, u32)>,
    /// Where it is written, for messages.
    pub origin: Origin,
    /// The run is stopped (successfully) at this time, for workloads that would never end.
    pub stop_at_ns: Option<u64>,
    /// Whether tasks are started on each CPU in turn, instead of all on the first.
    pub starts_everywhere: bool,
    /// Digest of everything that can influence a run (not of names and descriptions).
    pub digest: String,
}

impl Workload {
    /// Cache lines that computing fetches from memory for each ms of the reference CPU's computing
    /// with so many KiB of a last-level cache: on a straight line between the sizes that are known,
    /// and as with the nearest beyond them.
    pub fn lines_per_ms_with(&self, kib: u64) -> u64 {
        let points = self.lines_per_ms.iter().map(|&(kib, lines)| (u64::from(kib), lines.into()));
        let points: Vec<(u64, u64)> = points.collect();
        let above = points.partition_point(|&(size, _)| size <= kib);
        match (points[..above].last(), points.get(above)) {
            (Some(&(low, many)), Some(&(high, few))) => {
                many - (many - few) * (kib - low) / (high - low)
            }
            (Some(&(_, lines)), None) | (None, Some(&(_, lines))) => lines,
            (None, None) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: between the sizes of caches that are known lines lie on straight lines.

    use super::*;

    #[test]
    fn a_cache_between_two_sizes_has_lines_between_theirs() {
        let lines_per_ms = vec![(512, 1000), (1024, 400), (4096, 100)];
        let workload = Workload { lines_per_ms, ..Workload::default() };
        let sizes = [0, 511, 512, 768, 1024, 2048, 4096, 1 << 40];
        let lines = sizes.map(|kib| workload.lines_per_ms_with(kib));
        assert_eq!(lines, [1000, 1000, 1000, 700, 400, 300, 100, 100]);
        assert_eq!(Workload::default().lines_per_ms_with(1024), 0);
    }
}
