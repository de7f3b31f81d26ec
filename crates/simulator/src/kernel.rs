//! The simulated kernel: all its state, its clock, and how time is charged.
//!
//! One CPU is active at a time. While it is, `now_ns` is its clock: every charge moves that
//! clock, so whatever the CPU does later in the same event happens later. Other CPUs notice
//! through locks, dispatch queues and interrupts, all of which carry times.

use crate::abi;
use crate::agenda::{Agenda, Timers};
use crate::channel::{Channel, Gate};
use crate::choices::Choices;
use crate::cpu::{Activity, Cpu, Spent};
use crate::dispatch_queue::{DispatchQueues, Lock};
use crate::failure::{Failure, FailureKind};
use crate::limits::Limits;
use crate::linked::Code;
use crate::metrics::Metrics;
use crate::neighbours::Neighbours;
use crate::operations::Operations;
use crate::own_kicks::OwnKicks;
use crate::place::TaskId;
use crate::policy_state::Given;
use crate::prints::Prints;
use crate::shown::{Part, Shown};
use crate::task::{Tasks, new_task};
use crate::timer::Timer;
use crate::visible::{Placed, Visible};
use bytecode::Maps;
use scenario::draw::Random;
use scenario::machine::{Costs, Machine};
use scenario::workload::Workload;
use std::mem::offset_of;

/// Expiries that may wait for their time although they do not hold any more.
const STALE_TIMERS_KEPT: usize = 64;

/// What `scx_bpf_dsq_insert` was asked to do.
#[derive(Clone, Copy, Debug)]
pub struct Insertion {
    /// The task.
    pub task: TaskId,
    /// The queue's number.
    pub dsq: u64,
    /// `SCX_ENQ_*`
    pub flags: u64,
    /// Whether the queue is ordered by virtual time.
    pub by_vtime: bool,
    /// The instruction of the policy that asked for it, if one did.
    pub asked_at: Option<u32>,
}

/// Which operation of the policy is running, as far as calls depend on it.
#[derive(Clone, Copy, Debug)]
pub enum Context {
    /// Any other.
    Plain,
    /// `select_cpu` or `enqueue` of this task: it may be dispatched directly.
    Enqueueing {
        /// The task that is being enqueued.
        task: TaskId,
        /// Where the policy dispatched it.
        direct: Option<Insertion>,
    },
    /// `dispatch`: insertions are collected in a buffer.
    Dispatching,
    /// A timer's callback: no run queue is locked, so tasks may be moved between queues.
    Unlocked,
}

/// The whole simulated machine.
pub struct Kernel<'a> {
    /// The active CPU.
    pub cpu: usize,
    /// Its clock.
    pub now_ns: u64,
    /// The policy's private copy.
    pub code: Code,
    /// Makes another one.
    pub load: &'a dyn Fn() -> Result<policy::Loaded, policy::PolicyError>,
    /// Times that the policy was loaded again, see `restart`.
    pub nr_restarts: u64,
    /// The memory that it sees.
    pub visible: Visible,
    /// Its operations.
    pub ops: Operations,
    /// The machine.
    pub machine: &'a Machine,
    /// What the tasks do.
    pub workload: &'a Workload,
    /// Costs, at hand.
    pub costs: Costs,
    /// Distance of each pair of CPUs, row by row.
    pub distances: Vec<u8>,
    /// CPUs that share a core, by CPU, itself excluded.
    pub siblings: Vec<Vec<u32>>,
    /// CPUs among which a task is kept.
    pub neighbours: Neighbours,
    /// What happens next.
    pub agenda: Agenda,
    /// Sleeping timers; their first is the agenda's last place.
    pub timers: Timers<Timer>,
    /// Pending timers of the workload: starts and sleeps.
    pub pending_timers: usize,
    /// CPUs.
    pub cpus: Vec<Cpu>,
    /// Tasks.
    pub tasks: Tasks,
    /// What runs on an idle CPU, by CPU.
    pub idle_tasks: Vec<Placed<abi::Task>>,
    /// Dispatch queues.
    pub queues: DispatchQueues,
    /// Tasks in all dispatch queues.
    pub nr_queued: u32,
    /// Order of insertions into dispatch queues.
    pub next_seq: u64,
    /// Idle CPUs, cores all of whose CPUs are idle, CPUs that are online, all CPUs.
    pub masks: Placed<Masks>,
    /// Whether the built-in idle tracking works.
    pub tracks_idle: bool,
    /// What the policy may do now.
    pub context: Context,
    /// Insertions of the present `dispatch`.
    pub buffer: Vec<Insertion>,
    /// Queues whose locks walks of the policy's hold now, innermost last.
    pub walked: Vec<u32>,
    /// What the policy was given.
    pub given: Given,
    /// Tasks that a policy, in the middle of a walk, gave to the own queue of a CPU that is gone.
    pub stranded: Vec<TaskId>,
    /// Whether the active CPU is choosing its next task and so holds its own run queue's lock.
    pub scheduling: bool,
    /// Whether its task has blocked or it is choosing: what it tells itself comes afterwards.
    pub switching: bool,
    /// Its kicks of itself meanwhile.
    pub own_kicks: OwnKicks,
    /// The policy's maps and timers.
    pub maps: Maps,
    /// Locks of the policy's own.
    pub spin_locks: Vec<Lock>,
    /// State of the workload's channels.
    pub channels: Vec<Channel>,
    /// State of the workload's gates.
    pub gates: Vec<Gate>,
    /// Address spaces.
    pub address_spaces: Vec<Placed<abi::AddressSpace>>,
    /// Draws of the policy and of nobody else.
    pub random: Random,
    /// See [`Options::prints`](crate::Options).
    pub prints: Prints,
    /// Seed of the run.
    pub seed: u64,
    /// Ticks a second.
    pub hz: u32,
    /// Whether all messages wake synchronously.
    pub sync_wakeups: bool,
    /// Nothing happens after this time.
    pub until_ns: u64,
    /// What stops a run that would not end.
    pub limits: Limits,
    /// When the present event began.
    pub began_ns: u64,
    /// The CPU that `any_online_of` chose last.
    pub distributed_cpu: usize,
    /// Number of events at which everything is counted anew.
    pub next_full_check: u64,
    /// Which of several CPUs goes first, if that is chosen.
    pub choices: Option<Choices>,
    /// What was counted.
    pub metrics: Metrics,
    /// Why the run ended early.
    pub failure: Option<Failure>,
    /// Tasks that have not ended.
    pub alive: u32,
    /// Tasks that want a CPU or have one, counted apart from their places.
    pub nr_runnable: u32,
}

/// The CPU masks that policies read.
#[derive(Clone, Copy, Debug)]
pub struct Masks {
    /// Idle CPUs.
    pub idle_cpus: abi::CpuMask,
    /// CPUs whose whole core is idle.
    pub idle_cores: abi::CpuMask,
    /// CPUs that are online (`cpu_online_mask`).
    pub online: abi::CpuMask,
    /// All CPUs; tasks that may run everywhere point to it.
    pub possible: abi::CpuMask,
}

impl Shown for Masks {
    const PARTS: &'static [Part] = &[
        Part::of::<abi::CpuMask>(offset_of!(Masks, idle_cpus), "the mask of idle CPUs"),
        Part::of::<abi::CpuMask>(offset_of!(Masks, idle_cores), "the mask of idle cores"),
        Part::of::<abi::CpuMask>(offset_of!(Masks, online), "the mask of online CPUs"),
        Part::of::<abi::CpuMask>(offset_of!(Masks, possible), "the mask of all CPUs"),
    ];
}

impl Masks {
    /// The masks of a machine all of whose CPUs are online and idle.
    pub fn of(all: abi::CpuMask) -> Self {
        Masks { idle_cpus: all, idle_cores: all, online: all, possible: all }
    }
}

/// The idle task of a CPU.
pub fn idle_task(visible: &mut Visible, cpu: usize) -> Placed<abi::Task> {
    const PF_IDLE: u32 = 2;
    let mut task = visible.place(new_task(0, &format!("swapper/{cpu}"), 0));
    task.flags = PF_IDLE;
    task.cpu = cpu as i32;
    let itself = visible.room.shift.show(task.address());
    task.group_leader = itself;
    task.parent = itself;
    task.real_parent = itself;
    task
}

impl Kernel<'_> {
    /// The active CPU.
    pub fn here(&self) -> usize {
        self.cpu
    }

    /// How many CPUs there are, as policies are told.
    pub fn nr_cpu_ids(&self) -> u32 {
        self.cpus.len() as u32
    }

    /// How far apart two CPUs are, as an index into costs by distance.
    pub fn distance(&self, a: usize, b: usize) -> usize {
        usize::from(self.distances[a * self.cpus.len() + b])
    }

    /// Makes `cpu` the active one at `at_ns` and accounts for what it did so far.
    pub fn enter(&mut self, cpu: usize, at_ns: u64) {
        let clock_ns = self.cpus[cpu].clock_ns;
        assert!(at_ns >= clock_ns, "CPU {cpu} is busy until {clock_ns} ns, not free at {at_ns} ns");
        self.account(cpu, at_ns);
        self.began_ns = at_ns;
        self.now_ns = at_ns;
        self.cpu = cpu;
    }

    /// Accounts for what a CPU did up to `to_ns`.
    pub fn account(&mut self, cpu: usize, to_ns: u64) {
        let cpu = &mut self.cpus[cpu];
        let passed_ns = to_ns - cpu.clock_ns;
        let spent = match cpu.activity {
            Activity::Idle => Spent::Idle,
            Activity::Work => Spent::Work,
            Activity::Syscall => Spent::Kernel,
            Activity::Offline => Spent::Offline,
        };
        cpu.spent_ns[spent as usize] += passed_ns;
        cpu.clock_ns = to_ns;
        if let (Activity::Work, Some(task)) = (cpu.activity, cpu.current) {
            let state = self.tasks.state_mut(task);
            state.left = state.left.saturating_sub(passed_ns * cpu.speed_permille);
        }
    }

    /// Whether a task may run on a CPU of the machine, be it online or not. Most tasks share the
    /// mask of all CPUs, and then one look at the pointer will do.
    pub fn may_run_on(&self, task: TaskId, cpu: usize) -> bool {
        let seen = self.tasks.seen(task);
        std::ptr::eq(seen.cpus_ptr, self.shown_possible()) || seen.cpus_mask.has(cpu)
    }

    /// What the policy is shown for the mask of all CPUs.
    pub fn shown_possible(&self) -> *const abi::CpuMask {
        self.visible.room.shift.show(&raw const self.masks.possible)
    }

    /// The task, or idle task, that runs on a CPU.
    pub fn current_of(&self, cpu: usize) -> *mut abi::Task {
        match self.cpus[cpu].current {
            Some(task) => self.tasks.address(task),
            None => self.idle_tasks[cpu].address(),
        }
    }

    /// Spends time of the active CPU.
    pub fn charge(&mut self, spent: Spent, ns: u64) {
        self.now_ns += ns;
        self.visible.facts.now_ns = self.now_ns;
        let cpu = &mut self.cpus[self.cpu];
        cpu.clock_ns += ns;
        cpu.spent_ns[spent as usize] += ns;
    }

    /// Takes a lock for the active CPU: waits until it is free, then pays for moving it here.
    /// Whoever holds it stores [`released`](Self::released) when the critical section ends.
    pub fn take(&mut self, lock: Lock) {
        self.charge(Spent::LockWait, lock.free_at_ns.saturating_sub(self.now_ns));
        let distance = self.distance(lock.holder as usize, self.here());
        let ns = self.costs.lock_ns + self.costs.line_transfer_ns[distance];
        self.charge(Spent::Scheduler, ns);
    }

    /// A lock that the active CPU gives up now.
    pub fn released(&self) -> Lock {
        Lock { free_at_ns: self.now_ns, holder: self.cpu as u32 }
    }

    /// Ends the run; the first failure counts.
    pub fn fail(&mut self, kind: FailureKind, message: String) {
        let failure = Failure::new(kind, message, self.here(), self.now_ns);
        self.failure.get_or_insert(failure);
    }

    /// Ends the run because of a task; the first failure counts.
    pub fn fail_about(&mut self, task: TaskId, kind: FailureKind, message: String) {
        let failure = Failure::new(kind, message, self.here(), self.now_ns)
            .about(task, self.tasks.label(task));
        self.failure.get_or_insert(failure);
    }

    /// Puts a CPU's next event into the agenda.
    pub fn publish(&mut self, cpu: usize) {
        self.agenda.set(cpu, self.cpus[cpu].next_event());
    }

    /// Adds a timer.
    pub fn add_timer(&mut self, at_ns: u64, timer: Timer) {
        if matches!(timer, Timer::Start(_) | Timer::Sleep(_)) {
            self.pending_timers += 1;
        }
        let when = self.agenda.turn(at_ns);
        self.timers.add(when, timer);
        self.agenda.set(self.cpus.len(), self.timers.first());
    }

    /// Forgets expiries of the policy's timers that do not hold any more, once they are most of
    /// all: a timer can be set for ever.
    pub fn forget_stale_timers(&mut self) {
        if self.maps.has_stale_expiries(STALE_TIMERS_KEPT + self.timers.len() / 2) {
            let maps = &self.maps;
            self.timers.retain(|timer| match timer {
                Timer::Policy(index, generation) => maps.expiry_cpu(index, generation).is_some(),
                _ => true,
            });
        }
    }

    /// Length of a tick.
    pub fn tick_period_ns(&self) -> u64 {
        1_000_000_000 / u64::from(self.hz)
    }
}
