//! A machine: its CPUs, how they share caches, and what every kernel operation costs.
//!
//! A machine carries no policy and no seed. Costs are virtual time that the simulator charges;
//! nothing else in a simulation takes time.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The largest number of CPUs a machine may have: the width of the simulator's widest CPU masks.
pub const CPUS_MAX: usize = 4096;

/// The watchdog's time where a machine does not say otherwise.
/// Source: Linux 6.12 kernel/sched/ext.c, SCX_WATCHDOG_MAX_TIMEOUT.
pub const WATCHDOG_DEFAULT_NS: u64 = 30_000_000_000;

/// Bytes that fit into a pipe of today. Source: Linux 6.12 fs/pipe.c, 16 pages.
pub const PIPE_BYTES: u32 = 65_536;

/// A release of Linux, whose sched_ext a simulated kernel can have instead of that of all releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// The first with sched_ext.
    Linux6_12,
    /// The last of its major version with long support.
    Linux6_18,
    /// The newest that is known here.
    Linux7_3,
}

impl Release {
    /// All of them, the oldest first.
    pub const ALL: [Release; 3] = [Release::Linux6_12, Release::Linux6_18, Release::Linux7_3];

    /// Major and minor version.
    pub fn version(self) -> (u8, u8) {
        match self {
            Release::Linux6_12 => (6, 12),
            Release::Linux6_18 => (6, 18),
            Release::Linux7_3 => (7, 3),
        }
    }

    /// The one of this name, such as "6.12".
    pub fn named(name: &str) -> Option<Release> {
        Release::ALL.into_iter().find(|release| release.to_string() == name)
    }

    /// Their names, for a person.
    pub fn names() -> String {
        Release::ALL.map(|release| release.to_string()).join(", ")
    }
}

impl fmt::Display for Release {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.version();
        write!(out, "{major}.{minor}")
    }
}

/// A version of Linux, by which pipes and messages are what they were then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Linux([u16; 3]);

impl Linux {
    /// The one that is written so, such as "2.6.31" or "6.12".
    pub fn named(name: &str) -> Option<Linux> {
        let mut numbers = [0; 3];
        let parts: Vec<&str> = name.split('.').collect();
        if !(2..=numbers.len()).contains(&parts.len()) {
            return None;
        }
        for (number, part) in numbers.iter_mut().zip(parts) {
            // A number has one way to be written: no sign, no zeros before it.
            *number = part.parse().ok().filter(|found: &u16| found.to_string() == part)?;
        }
        Some(Linux(numbers))
    }

    /// Bytes that fit into a pipe. Source: Linux fs/pipe.c: one page until 2.6.10, 16 from 2.6.11.
    pub fn pipe_bytes(self) -> u32 {
        if self < Linux([2, 6, 11]) { 4096 } else { 65_536 }
    }

    /// Whether messages wake synchronously. Source: "sched, net: socket wakeups are sync", 2.6.29.
    pub fn wakes_synchronously(self) -> bool {
        self >= Linux([2, 6, 29])
    }
}

impl fmt::Display for Linux {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Linux([major, minor, patch]) = self;
        write!(out, "{major}.{minor}")?;
        if *patch > 0 { write!(out, ".{patch}") } else { Ok(()) }
    }
}

/// How far apart two CPUs are, nearest first. The index into every cost "by distance".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum Distance {
    /// The same CPU.
    Same = 0,
    /// Two hardware threads of one core.
    Smt = 1,
    /// Two cores that share their last-level cache.
    Cache = 2,
    /// Two caches of one NUMA node (or two sockets of a machine without NUMA), on one bus.
    Node = 3,
    /// Two NUMA nodes, or two buses of one.
    Remote = 4,
}

/// How many distances there are.
pub const DISTANCES: usize = 5;

/// A task that a CPU left so many switches ago, or fewer, finds its kernel stack and its page table
/// where it left them.
///
/// Source: own, `schedlab-bench lat-ctx -n N` on one CPU of a virtual machine of 2026 (Linux 6.18,
/// 48 KiB and 2 MiB of cache a core): 1.4 microseconds a switch with two processes, 1.5 with three,
/// 1.9 with four, 3.0 with five and 3.1 to 3.3 with six to twelve.
pub const WARM_SWITCHES: u64 = 4;

/// One logical CPU and the hardware it shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Hardware threads with the same `core` share its execution units.
    pub core: u32,
    /// CPUs with the same `cache` share a last-level cache.
    pub cache: u32,
    /// CPUs with the same `node` share a memory controller.
    pub node: u32,
    /// Speed in thousandths of the reference CPU for which workloads state their run times.
    pub speed_permille: u32,
}

/// What kernel operations cost on this machine, in nanoseconds unless the name says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Switch between two tasks of different address spaces, without the policy's own work.
    pub context_switch_ns: u64,
    /// Switch between two tasks of one address space.
    pub thread_switch_ns: u64,
    /// Added to either if this CPU has switched more than [`WARM_SWITCHES`] times since it left
    /// the task: others have taken its place in the first caches and in the TLB.
    pub cold_switch_ns: u64,
    /// Entering and leaving the kernel once.
    pub syscall_ns: u64,
    /// The part of send or receive that does not depend on the size (allocation, queueing).
    pub message_ns: u64,
    /// Copying 1 KiB between user and kernel memory.
    pub copy_ns_per_kib: u64,
    /// Writing 1 KiB of a message to memory that is in no cache: it is fetched, and as much written
    /// back. 0 if a message never leaves the cache of the CPU that wrote it.
    #[serde(default)]
    pub cold_write_ns_per_kib: u64,
    /// try_to_wake_up without the policy's own work.
    pub wakeup_ns: u64,
    /// What the sender of an inter-processor interrupt pays.
    pub ipi_send_ns: u64,
    /// From sending an inter-processor interrupt to its handler on the other CPU.
    pub ipi_ns: u64,
    /// Leaving the idle loop (wake from a sleep state included).
    pub idle_exit_ns: u64,
    /// One periodic timer tick, without the policy's own work.
    pub tick_ns: u64,
    /// Arming a timer or handling its expiry.
    pub timer_ns: u64,
    /// Creating a task.
    pub fork_ns: u64,
    /// Ending a task.
    pub exit_ns: u64,
    /// Calling one operation of the policy.
    pub hook_ns: u64,
    /// One insertion into or removal from a dispatch queue, its lock already held.
    pub dsq_op_ns: u64,
    /// What an insertion by virtual time takes longer.
    pub vtime_op_ns: u64,
    /// Looking at one queued task during a scan, its data in this CPU's cache.
    pub scan_step_ns: u64,
    /// Looking at one queued task during a scan that does not fit in the cache.
    pub scan_miss_ns: u64,
    /// Scans longer than this many tasks miss the cache at every step.
    pub scan_cached_tasks: u64,
    /// Taking and releasing a lock that this CPU held last.
    pub lock_ns: u64,
    /// Moving a cache line (a lock's, a message's) from the CPU that wrote it last, by distance.
    pub line_transfer_ns: [u64; DISTANCES],
    /// Size of a cache line in bytes, at least 1.
    pub line_bytes: u64,
    /// Cache lines of a message's header, which its receiver fetches from the sender's CPU as it
    /// fetches the lines of its content.
    pub message_lines: u64,
    /// Cache lines of a channel's own state, which whoever uses it fetches from its last user.
    pub channel_lines: u64,
    /// Fixed cost of a task's first run on another CPU, by distance.
    pub migration_ns: [u64; DISTANCES],
    /// Refilling 1 KiB of a task's footprint, by the distance to where the data is;
    /// the entry for `Same` is what it costs after others have evicted the data.
    pub refill_ns_per_kib: [u64; DISTANCES],
    /// Cache that a task's footprint may occupy on one CPU before it evicts others.
    pub cache_kib: u64,
    /// How long computing waits for a line from memory. 0 if it never does.
    #[serde(default)]
    pub memory_ns: u64,
    /// Speed of a hardware thread while its sibling is busy, in percent of its speed alone.
    pub smt_percent: u64,
    /// What the policy's own instructions cost.
    #[serde(default)]
    pub policy: PolicyCosts,
    /// What memory for messages costs.
    #[serde(default)]
    pub allocator: AllocatorCosts,
}

/// What memory for messages costs; all 0 where it costs nothing to get and to free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllocatorCosts {
    /// Objects that a message consists of, each of a kind that has a lock.
    pub objects: u64,
    /// Free objects of a kind that a CPU keeps at most.
    pub kept: u64,
    /// How many it gives away, or gets, at a time.
    pub batch: u64,
    /// Free objects of a kind that CPUs keep for each other at most.
    pub shared: u64,
    /// Objects of a slab.
    pub slab: u64,
    /// Cache lines that are looked at for each slab that gives objects.
    pub get_lines: u64,
    /// Those for each object that goes back to its slab.
    pub free_lines: u64,
    /// Cache lines that are only written for each object that goes back to its slab.
    pub free_writes: u64,
}

/// What instructions of a policy cost, in picoseconds; all 0 where they take no time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyCosts {
    /// An instruction, whatever it does.
    pub instruction_ps: u64,
    /// What one that divides takes longer.
    pub division_ps: u64,
    /// What one that calls a function of the kernel takes longer, beside what that does.
    pub call_ps: u64,
    /// What each further instruction takes that a machine of 32 bits needs for numbers of 64.
    pub wide_ps: u64,
}

impl PolicyCosts {
    /// Whether instructions take time.
    pub fn any(self) -> bool {
        self != PolicyCosts::default()
    }
}

impl Costs {
    /// Cache lines of a message with so many bytes of content.
    #[inline]
    pub fn message_lines_of(&self, bytes: u64) -> u64 {
        let line_bytes = self.line_bytes;
        // Each message is asked, and a division takes as long as a dozen other instructions.
        let lines = match line_bytes.is_power_of_two() {
            true => (bytes + line_bytes - 1) >> line_bytes.trailing_zeros(),
            false => bytes.div_ceil(line_bytes),
        };
        self.message_lines + lines
    }

    /// The size of a message with so many bytes of content, all told.
    pub fn message_bytes(&self, bytes: u64) -> u64 {
        self.message_lines_of(bytes) * self.line_bytes
    }

    /// Every cost in one fixed order, lists by distance spread out.
    pub(crate) fn values(&self) -> Vec<u64> {
        // Taken apart by name, so that a new field cannot be forgotten here.
        let Costs {
            context_switch_ns,
            thread_switch_ns,
            cold_switch_ns,
            syscall_ns,
            message_ns,
            copy_ns_per_kib,
            cold_write_ns_per_kib: _, // So has it this one.
            wakeup_ns,
            ipi_send_ns,
            ipi_ns,
            idle_exit_ns,
            tick_ns,
            timer_ns,
            fork_ns,
            exit_ns,
            hook_ns,
            dsq_op_ns,
            vtime_op_ns: _, // So has it this one.
            scan_step_ns,
            scan_miss_ns,
            scan_cached_tasks,
            lock_ns,
            line_transfer_ns,
            line_bytes,
            message_lines,
            channel_lines,
            migration_ns,
            refill_ns_per_kib,
            cache_kib,
            memory_ns: _, // So has it this one.
            smt_percent,
            policy: _, // The digest has it apart.
            allocator: _,
        } = *self;
        let mut values = vec![context_switch_ns, thread_switch_ns, syscall_ns, message_ns];
        values.extend([copy_ns_per_kib, wakeup_ns, ipi_send_ns, ipi_ns, idle_exit_ns]);
        values.extend([tick_ns, timer_ns, fork_ns, exit_ns, hook_ns, dsq_op_ns]);
        values.extend([scan_step_ns, scan_miss_ns, scan_cached_tasks, lock_ns]);
        values.extend(line_transfer_ns);
        values.extend(migration_ns);
        values.extend(refill_ns_per_kib);
        values.extend([cache_kib, smt_percent, line_bytes, message_lines, channel_lines]);
        // Machines that were described before there was this cost keep their digests.
        values.extend(Some(cold_switch_ns).filter(|ns| *ns > 0));
        values
    }
}

/// What lies between caches and memory, and how much it carries: a front-side bus, or the memory of
/// a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bus {
    /// Last-level caches that share one.
    pub caches: u32,
    /// Bytes a microsecond, which are MB a second, that each carries at most.
    pub mb_per_s: u64,
}

/// Interrupts that CPUs take beside what tasks do, such as those of a network card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupts {
    /// What they are of, for a person.
    pub name: String,
    /// The CPUs that take them, in increasing order, each with times of its own.
    pub cpus: Vec<u32>,
    /// The mean time from one to the next on each of these CPUs; exponentially distributed.
    pub every_ns: u64,
    /// How long a CPU is busy with one.
    pub takes_ns: u64,
}

/// A change of speed: from a time on CPUs are faster or slower than they are by themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpeedStep {
    /// When, counted from the start of the run.
    pub at_ns: u64,
    /// The CPUs, in increasing order.
    pub cpus: Vec<u32>,
    /// Their speed in thousandths of what [`Cpu::speed_permille`] and turbo say.
    pub permille: u32,
}

/// A machine: CPUs, tick rate and costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Name of its file.
    pub name: String,
    /// What it is, in a sentence.
    pub description: String,
    /// CPUs, indexed by CPU number.
    pub cpus: Vec<Cpu>,
    /// Timer ticks a second.
    pub hz: u32,
    /// Tick rates of kernels that were built with another one, by policy name:
    /// Linux 2.4 ticked at 100 Hz on the machines on which 2.6 ticked at 1000 Hz.
    pub hz_by_policy: BTreeMap<String, u32>,
    /// Whether the ticks of a CPU come later than those of the one before, all within half a tick,
    /// and not all at the same time (Linux, `tick_setup_sched_timer`).
    pub skew_tick: bool,
    /// Whether messages wake their receivers, and room its senders, telling the scheduler that the
    /// waker is about to sleep (`SCX_WAKE_SYNC`): Linux does from 2.6.29 on. A channel may ask for
    /// it by itself.
    pub sync_wakeups: bool,
    /// The same for kernels of another age, by policy name.
    pub sync_wakeups_by_policy: BTreeMap<String, bool>,
    /// Policies whose kernels have one run-queue lock, which a CPU takes before it decides: whom a
    /// message reaches while it waits for the lock does not sleep, and who is to make way for
    /// several meanwhile does so once (Linux up to 2.4 and BFS, `schedule`, `try_to_wake_up`).
    pub one_lock: BTreeSet<String>,
    /// How long a runnable task may wait for a CPU before the watchdog ends the run, where the
    /// policy does not ask for less. The kernel's is 30 s; before sched_ext there was none.
    pub watchdog_ns: u64,
    /// The release whose sched_ext policies find; without it they find that of every release, so
    /// that what was written for any of them runs.
    pub release: Option<Release>,
    /// The Linux that pipes are of; today's if `None`.
    pub linux: Option<Linux>,
    /// Speed in thousandths of what [`Cpu::speed_permille`] says while one, two and more cores of a
    /// last-level cache are busy, the last for all that are more; none without turbo.
    pub turbo_permille: Vec<u32>,
    /// What kernel operations cost.
    pub costs: Costs,
    /// The same for kernels of another age, by policy name.
    pub costs_by_policy: BTreeMap<String, Costs>,
    /// What CPUs share on the way to memory; without it nobody ever waits for memory.
    pub bus: Option<Bus>,
    /// What interrupts its CPUs beside ticks, timers and each other.
    pub interrupts: Vec<Interrupts>,
    /// How the speed of its CPUs changes, in the order of time.
    pub speeds: Vec<SpeedStep>,
    /// Digest of everything that can influence a run (not of names and descriptions).
    pub digest: String,
}

impl Machine {
    /// Ticks a second of a kernel that has `policy` as its scheduler.
    pub fn hz_for(&self, policy: &str) -> u32 {
        self.hz_by_policy.get(policy).copied().unwrap_or(self.hz)
    }

    /// The policies whose kernels are another here, each once, in the order of their names.
    pub fn policies(&self) -> impl Iterator<Item = &str> {
        let by_policy = self.hz_by_policy.keys().chain(self.sync_wakeups_by_policy.keys());
        let by_policy = by_policy.chain(self.costs_by_policy.keys()).chain(&self.one_lock);
        by_policy.map(String::as_str).collect::<BTreeSet<_>>().into_iter()
    }

    /// Bytes that fit into a pipe that does not say so itself.
    pub fn pipe_bytes(&self) -> u32 {
        self.linux.map_or(PIPE_BYTES, Linux::pipe_bytes)
    }

    /// Whether messages wake synchronously in a kernel that has `policy` as its scheduler.
    pub fn sync_wakeups_for(&self, policy: &str) -> bool {
        self.sync_wakeups_by_policy.get(policy).copied().unwrap_or(self.sync_wakeups)
    }

    /// What operations cost in a kernel that has `policy` as its scheduler.
    pub fn costs_for(&self, policy: &str) -> &Costs {
        self.costs_by_policy.get(policy).unwrap_or(&self.costs)
    }

    /// The same machine with so many CPUs: the first ones, as a kernel has that is booted with
    /// `maxcpus`, after as many more sockets like its own as that takes. Those are nodes of their
    /// own where the machine has several nodes. What is said of a CPU holds for its copies, too.
    /// The machine's digest is brought up to date.
    ///
    /// # Panics
    /// If it would have no CPU, or more than [`CPUS_MAX`].
    #[must_use]
    pub fn with_cpus(mut self, nr_cpus: usize) -> Machine {
        assert!((1..=CPUS_MAX).contains(&nr_cpus), "{nr_cpus} CPUs, of 1 to {CPUS_MAX}");
        let copies = nr_cpus.div_ceil(self.cpus.len()) as u32;
        let count = |part: fn(&Cpu) -> u32| self.cpus.iter().map(part).max().unwrap_or(0) + 1;
        let (cores, caches) = (count(|cpu| cpu.core), count(|cpu| cpu.cache));
        let nodes = count(|cpu| cpu.node);
        let apart = if nodes > 1 { nodes } else { 0 };
        let copy = |cpu: &Cpu, number: u32| Cpu {
            core: cpu.core + number * cores,
            cache: cpu.cache + number * caches,
            node: cpu.node + number * apart,
            ..*cpu
        };
        // As CPUs are numbered in a file: the first thread of every core, then the second ones.
        let originals: Vec<(u32, Cpu)> = (0..).zip(self.cpus.iter().copied()).collect();
        let threads = originals.chunks(cores as usize);
        let originals_of: Vec<u32>;
        (originals_of, self.cpus) = threads
            .flat_map(|thread| (0..copies).map(move |number| (thread, number)))
            .flat_map(|(thread, number)| {
                thread.iter().map(move |(original, cpu)| (*original, copy(cpu, number)))
            })
            .take(nr_cpus)
            .unzip();
        self.interrupts.iter_mut().for_each(|one| one.cpus = copies_of(&one.cpus, &originals_of));
        self.interrupts.retain(|one| !one.cpus.is_empty());
        self.speeds.iter_mut().for_each(|step| step.cpus = copies_of(&step.cpus, &originals_of));
        self.speeds.retain(|step| !step.cpus.is_empty());
        self.with_digest()
    }

    /// The same machine with the sched_ext of this release. Its digest is brought up to date.
    #[must_use]
    pub fn with_release(mut self, release: Release) -> Machine {
        self.release = Some(release);
        self.with_digest()
    }

    /// The number of the bus that a CPU uses, if the machine says that CPUs share buses.
    pub fn bus_of(&self, cpu: usize) -> Option<usize> {
        self.bus.map(|bus| (self.cpus[cpu].cache / bus.caches) as usize)
    }

    /// The NUMA node of a CPU, and the bus that it uses. CPUs that have both in common are nearer
    /// to each other than to others.
    pub fn node_and_bus_of(&self, cpu: &Cpu) -> (u32, u32) {
        (cpu.node, self.bus.map_or(0, |bus| cpu.cache / bus.caches))
    }

    /// How far apart CPUs `a` and `b` are. Both must be below the number of CPUs.
    pub fn distance(&self, a: usize, b: usize) -> Distance {
        let (x, y) = (&self.cpus[a], &self.cpus[b]);
        if a == b {
            Distance::Same
        } else if x.core == y.core {
            Distance::Smt
        } else if x.cache == y.cache {
            Distance::Cache
        } else if self.node_and_bus_of(x) == self.node_and_bus_of(y) {
            Distance::Node
        } else {
            Distance::Remote
        }
    }
}

/// The numbers of all CPUs whose original is one of `cpus`.
fn copies_of(cpus: &[u32], originals: &[u32]) -> Vec<u32> {
    let numbered = (0..).zip(originals);
    numbered.filter(|(_, original)| cpus.contains(original)).map(|(cpu, _)| cpu).collect()
}
