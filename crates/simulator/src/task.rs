//! Tasks: the structure a policy sees, and what only the simulator knows of them.
//!
//! Every task is in exactly one place at any time, and only [`Tasks::move_to`] moves it.

use crate::abi;
use crate::agenda::NEVER_NS;
use crate::dispatch_queue::Standing;
use crate::place::{Place, TaskId};
use crate::visible::{Placed, Visible};
use runqueue::Key;
use scenario::draw::{Lineage, Random};
use scenario::workload::{Amount, LOOP_DEPTH_MAX, Op, TaskTemplate};
use std::sync::Arc;

/// How many tasks are where, as far as invariants compare it. The numbers lie side by side in one
/// word, so that a move is one addition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census(u64);

/// Bits of a number in a [`Census`]: there are fewer tasks than 2^21.
const CENSUS_BITS: u32 = 21;
const MOVING: u64 = 1;
const QUEUED: u64 = 1 << CENSUS_BITS;
/// Wants a CPU or has one.
const RUNNABLE: u64 = 1 << (2 * CENSUS_BITS);

impl Census {
    /// No task is between two places, and so many are elsewhere.
    pub fn of(queued: u32, runnable: u32) -> Census {
        Census(u64::from(queued) * QUEUED + u64::from(runnable) * RUNNABLE)
    }

    fn number(self, of: u64) -> u32 {
        (self.0 / of % (1 << CENSUS_BITS)) as u32
    }

    /// Tasks between two places.
    pub fn moving(self) -> u32 {
        self.number(MOVING)
    }

    /// Tasks in dispatch queues.
    pub fn queued(self) -> u32 {
        self.number(QUEUED)
    }

    /// Tasks that want a CPU or have one.
    pub fn runnable(self) -> u32 {
        self.number(RUNNABLE)
    }

    /// What a task at a place adds.
    #[inline]
    fn weight(place: Place) -> u64 {
        match place {
            Place::Unborn | Place::Asleep | Place::Exited => 0,
            Place::Moving => MOVING,
            Place::Custody | Place::Running(_) => RUNNABLE,
            Place::Queued(_) => QUEUED + RUNNABLE,
        }
    }

    #[inline]
    fn replace(&mut self, from: Place, to: Place) {
        self.0 = self.0 + Census::weight(to) - Census::weight(from);
    }
}

/// One level of a loop that a task is in.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopFrame {
    /// Rounds still to run, this one included; `u64::MAX` means for ever.
    pub rounds: u64,
}

/// A request on its way: goes with messages and to children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number among all of the run.
    pub number: u64,
    /// When it began.
    pub released_at_ns: u64,
    /// How long it may take.
    pub deadline_ns: u64,
    /// The task that released it.
    pub by: TaskId,
}

/// A task's own releases.
#[derive(Clone, Copy, Debug, Default)]
pub struct Releases {
    /// The last one; its birth before the first.
    pub last_at_ns: u64,
    /// From one to the next, and the deadline of each, once there was one.
    pub every: Option<(Amount, u64)>,
}

/// What the simulator knows of a task beside what the policy sees.
#[derive(Debug, Default)]
pub struct State {
    /// Where it is.
    pub place: Place,
    /// Index into the workload's templates.
    pub template: u32,
    /// KiB that it works on.
    pub footprint_kib: u32,
    /// What it does, shared by its kind.
    pub program: Arc<[Op]>,
    /// The operation it is in.
    pub pc: u32,
    /// How far it is inside that operation; each operation has its own meaning for it.
    pub phase: u8,
    /// Loops it is in.
    pub loop_depth: u8,
    /// Their frames, outermost first.
    pub loops: [LoopFrame; LOOP_DEPTH_MAX],
    /// What is left of a computation, in thousandths of a ns of the reference CPU.
    pub left: u64,
    /// Bytes still to receive.
    pub bytes_left: u32,
    /// Tasks that the operation it is in still has to wake up, at the most.
    pub to_wake: u32,
    /// Of a channel's senders, the last that it has to wake: others block meanwhile.
    pub last_to_wake: u64,
    /// Draws of this task alone, so that schedules do not change what tasks do.
    pub random: Random,
    /// By which its draws and those of its children are told from others'.
    pub lineage: Lineage,
    /// The request that it works on.
    pub request: Option<Request>,
    /// The requests that it releases.
    pub releases: Releases,
    /// Children that have not exited.
    pub children: u32,
    /// Its parent, if it was forked by a task of the workload.
    pub parent: Option<TaskId>,
    /// Whether it waits for its children to exit.
    pub joining: bool,
    /// It is gone, and the policy has been told.
    pub is_forgotten: bool,
    /// Number of its address space.
    pub address_space: u32,
    /// Position in a first-in-first-out queue.
    pub fifo_position: i64,
    /// Key in a queue by virtual time: the policy may change `dsq_vtime` meanwhile.
    pub queued_at: i64,
    /// CPU it last ran on.
    pub last_cpu: Option<u32>,
    /// Cache turnover of that CPU when it stopped there.
    pub cache_mark_kib: u64,
    /// Switches of that CPU when it last began there.
    pub switch_mark: u64,
    /// How often it was enqueued again, and what `sched_info.pcount` was then.
    pub reenqueued: (u32, u32),
    /// When it became runnable, or was put back.
    pub waiting_since_ns: u64,
    /// When the policy had taken it: nobody can dispatch it before.
    pub custody_since_ns: u64,
    /// Whether its present wait began with a wake-up.
    pub woken: bool,
    /// When it was put on its CPU.
    pub on_cpu_since_ns: u64,
    /// Where the policy left it last, for messages: the CPU of its last `enqueue`.
    pub enqueued_on: Option<u32>,
    /// Sums for the report.
    pub totals: Totals,
}

/// [`State::phase`] of an operation that has not been tried.
pub const FIRST_TRY: u8 = 0;

impl State {
    /// Has computed so much, in thousandths of a ns of the reference CPU.
    #[inline]
    pub fn compute(&mut self, computed: u64) {
        self.left = self.left.saturating_sub(computed);
    }

    /// Goes to the next operation.
    pub fn next_operation(&mut self) {
        self.pc += 1;
        self.phase = FIRST_TRY;
    }

    /// Where it stands in a queue by virtual time that it entered as number `arrival`.
    pub fn standing_key(&self, arrival: u64) -> Standing {
        Standing::Key(Key { at: self.queued_at, arrival })
    }
}

/// What a task did over the run, beside what [`abi::SchedInfo`] has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// CPU time it was given, system calls included.
    pub run_ns: u64,
    /// Times it ran on another CPU than before.
    pub migrations: u64,
    /// First became runnable.
    pub born_at_ns: u64,
    /// Ended, or [`NEVER_NS`].
    pub exited_at_ns: u64,
}

/// A task.
#[derive(Debug)]
struct Known {
    /// The structure that the policy sees.
    seen: Placed<abi::Task>,
    state: State,
}

/// All tasks of a run.
#[derive(Debug, Default)]
pub struct Tasks {
    known: Vec<Known>,
    /// Words of a mask.
    mask_words: usize,
    census: Census,
    /// Tasks that want a CPU or have one, counted apart from their places.
    nr_runnable: u32,
    /// Tasks that have ended.
    nr_exited: u32,
    /// What runs on an idle CPU, by CPU.
    idle: Vec<Placed<abi::Task>>,
    address_spaces: Vec<Placed<abi::AddressSpace>>,
    /// The tasks of each of the first address spaces, which are those that can be shared.
    sharers: Vec<Vec<TaskId>>,
}

/// Weights of nice -20 to 19.
/// Source: Linux kernel/sched/core.c, `sched_prio_to_weight`.
pub const NICE_WEIGHTS: [u64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

/// Weight of a nice value from -20 to 19.
pub fn nice_weight(nice: i32) -> u64 {
    NICE_WEIGHTS[(nice + 20) as usize]
}

/// Weight as sched_ext shows it: nice 0 is 100.
/// Source: Linux kernel/sched/sched.h, `sched_weight_to_cgroup`.
pub fn scx_weight(weight: u64) -> u32 {
    ((weight * 100 + 512) / 1024).clamp(1, 10_000) as u32
}

impl Tasks {
    /// None but the idle tasks of so many CPUs, and the first address spaces.
    pub fn new(visible: &mut Visible, nr_cpus: usize, nr_spaces: u32) -> Tasks {
        Tasks {
            mask_words: visible.width().words(),
            idle: (0..nr_cpus).map(|cpu| idle_task(visible, cpu)).collect(),
            address_spaces: (0..nr_spaces)
                .map(|id| visible.place(abi::AddressSpace { id }))
                .collect(),
            sharers: vec![Vec::new(); nr_spaces as usize],
            ..Tasks::default()
        }
    }

    /// A new address space.
    pub fn add_space(&mut self, visible: &mut Visible) -> u32 {
        let id = self.address_spaces.len() as u32;
        self.address_spaces.push(visible.place(abi::AddressSpace { id }));
        id
    }

    /// Where an address space is.
    pub fn space_address(&self, space: u32) -> *mut abi::AddressSpace {
        self.address_spaces[space as usize].address()
    }

    /// A new task gets its address space.
    pub fn join_space(&mut self, id: TaskId, space: u32) {
        self.state_mut(id).address_space = space;
        if let Some(sharers) = self.sharers.get_mut(space as usize) {
            sharers.push(id);
        }
    }

    /// All tasks that ever shared a task's address space, in the order of their numbers.
    pub fn process_of(&self, id: TaskId) -> Vec<TaskId> {
        let sharers = self.sharers.get(self.state(id).address_space as usize);
        sharers.map_or_else(|| vec![id], Vec::clone)
    }

    /// Adds a task of this kind; it is [`Place::Unborn`]. Its mask is its own.
    pub fn add(
        &mut self,
        visible: &mut Visible,
        template: u32,
        kind: &TaskTemplate,
        cpus: &abi::CpuMask,
        random: Random,
    ) -> TaskId {
        let id = self.known.len() as TaskId;
        let task = new_task(id as i32 + 1, &kind.name, i32::from(kind.nice));
        let mut slot = visible.place_task(task);
        let (at, shift) = (slot.address(), visible.room.shift);
        let mut mask = slot.mask(self.mask_words);
        mask.copy(cpus);
        slot.nr_cpus_allowed = cpus.weight() as i32;
        slot.group_leader = shift.show(at);
        slot.cpus_ptr = shift.show(mask.bits.as_ptr());
        self.known.push(Known { seen: slot, state: new_state(template, kind, random) });
        id
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// How many tasks are where.
    pub fn census(&self) -> Census {
        self.census
    }

    /// The simulator's side of a task.
    pub fn state(&self, id: TaskId) -> &State {
        &self.known[id as usize].state
    }

    /// The simulator's side of a task.
    pub fn state_mut(&mut self, id: TaskId) -> &mut State {
        &mut self.known[id as usize].state
    }

    /// All states, by task number.
    pub fn states(&self) -> impl Iterator<Item = &State> {
        self.known.iter().map(|task| &task.state)
    }

    /// Both sides of a task. No reference to them may live across a call of the policy.
    #[inline]
    pub fn both_mut(&mut self, id: TaskId) -> (&mut abi::Task, &mut State) {
        let Known { seen, state } = &mut self.known[id as usize];
        (seen, state)
    }

    /// The structure the policy sees. No reference to it may live across a call of the policy.
    pub fn seen(&self, id: TaskId) -> &abi::Task {
        &self.known[id as usize].seen
    }

    /// The structure the policy sees. No reference to it may live across a call of the policy.
    pub fn seen_mut(&mut self, id: TaskId) -> &mut abi::Task {
        &mut self.known[id as usize].seen
    }

    /// The CPUs on which a task may run. See [`Placed::mask`].
    #[inline]
    pub fn mask(&self, id: TaskId) -> Placed<abi::CpuMask> {
        self.known[id as usize].seen.mask(self.mask_words)
    }

    /// The address that stands for a task in calls to the policy.
    pub fn address(&self, id: TaskId) -> *mut abi::Task {
        self.known[id as usize].seen.address()
    }

    /// What runs on a CPU that has this task, or none.
    pub fn address_on(&self, cpu: usize, current: Option<TaskId>) -> *mut abi::Task {
        current.map_or_else(|| self.idle[cpu].address(), |task| self.address(task))
    }

    /// What runs on idle CPUs, by CPU.
    pub fn idle_tasks(&mut self) -> impl Iterator<Item = &mut abi::Task> {
        self.idle.iter_mut().map(|task| &mut **task)
    }

    /// The idle task at an address.
    pub fn idle_at(&self, is_there: impl Fn(*mut abi::Task) -> bool) -> Option<*mut abi::Task> {
        self.idle.iter().map(Placed::address).find(|&task| is_there(task))
    }

    /// A task becomes runnable; it is nowhere yet.
    pub fn becomes_runnable(&mut self, id: TaskId) {
        self.nr_runnable += 1;
        self.move_to(id, Place::Moving);
    }

    /// A task stops being runnable.
    pub fn stops(&mut self, id: TaskId, place: Place) {
        self.move_to(id, place);
        self.nr_runnable -= 1;
        self.nr_exited += u32::from(place == Place::Exited);
    }

    /// Tasks that want a CPU or have one, counted apart from their places.
    pub fn nr_runnable(&self) -> u32 {
        self.nr_runnable
    }

    /// Tasks that have not ended.
    pub fn nr_alive(&self) -> u32 {
        self.known.len() as u32 - self.nr_exited
    }

    /// Moves a task.
    pub fn move_to(&mut self, id: TaskId, place: Place) {
        let state = &mut self.known[id as usize].state;
        self.census.replace(state.place, place);
        state.place = place;
    }

    /// Counts every task's place anew. O(tasks).
    pub fn recount(&self) -> Census {
        Census(self.states().map(|state| Census::weight(state.place)).sum())
    }

    /// Tasks in such places. O(tasks).
    pub fn count(&self, is_such: impl Fn(Place) -> bool) -> usize {
        self.states().filter(|state| is_such(state.place)).count()
    }

    /// The name of a task.
    pub fn name(&self, id: TaskId) -> String {
        let name = self.seen(id).comm.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    }

    /// `name[pid]` as the kernel's messages write it.
    pub fn label(&self, id: TaskId) -> String {
        format!("{}[{}]", self.name(id), self.seen(id).pid)
    }
}

fn new_state(template: u32, kind: &TaskTemplate, random: Random) -> State {
    let totals = Totals { exited_at_ns: NEVER_NS, ..Totals::default() };
    let (program, footprint_kib) = (kind.program.clone(), kind.footprint_kib);
    State { template, footprint_kib, program, random, totals, ..State::default() }
}

/// `SCX_DSQ_INVALID`
const DSQ_INVALID: u64 = 1 << 63;

/// `PF_IDLE`
const PF_IDLE: u32 = 1 << 1;
/// `PF_FORKNOEXEC`: forked, and never given another program. Nobody here executes one.
const PF_FORKNOEXEC: u32 = 1 << 6;

/// A task structure with this name and nice value, allowed nowhere yet.
fn new_task(pid: i32, name: &str, nice: i32) -> abi::Task {
    let weight = nice_weight(nice);
    let mut comm = [0; 16];
    for (to, from) in comm.iter_mut().zip(name.bytes().take(15)) {
        *to = from;
    }
    abi::Task {
        scx: abi::Entity { weight: scx_weight(weight), ..abi::Entity::default() },
        flags: PF_FORKNOEXEC,
        pid,
        tgid: pid,
        prio: 120 + nice,
        static_prio: 120 + nice,
        ddsp_dsq_id: DSQ_INVALID,
        se: abi::SchedEntity { sum_exec_runtime: 0, load: abi::LoadWeight { weight } },
        comm,
        ..abi::Task::default()
    }
}

/// The idle task of a CPU.
fn idle_task(visible: &mut Visible, cpu: usize) -> Placed<abi::Task> {
    let mut task = visible.place_idle_task(new_task(0, &format!("swapper/{cpu}"), 0));
    task.flags = PF_IDLE;
    task.cpu = cpu as i32;
    let itself = visible.room.shift.show(task.address());
    task.group_leader = itself;
    task.real_parent = itself;
    task
}

#[cfg(test)]
mod tests {
    //! Goal: many tasks fit into little memory. Method: the sizes of what each task has.

    use super::*;
    use crate::abi::MaskWidth;

    #[test]
    fn what_a_million_tasks_have_takes_less_than_a_gibibyte() {
        let known = size_of::<Known>() as u64;
        let space = (size_of::<abi::AddressSpace>() + size_of::<Placed<abi::Task>>()) as u64;
        let bytes = MaskWidth::Usual.tasks().bytes + known + space;
        // Beside them each has a timer and what a policy stores for it: 174 bytes under cfs.
        assert!(1_000_000 * (bytes + 180) < 1 << 30, "{bytes}, {known} of them ours");
    }
}
