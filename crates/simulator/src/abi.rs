//! The structures that policies see, as they lie in the memory that both share.
//! A policy finds their fields by name (`world`).

#![allow(missing_docs)] // Fields mean what they mean in Linux.

use std::ffi::{c_int, c_uint};
use std::mem::offset_of;
use std::ptr::null_mut;

/// CPUs that a mask can hold, and a machine can have.
pub use scenario::machine::CPUS_MAX;

/// Groups that may be above each other, the root included.
pub use scenario::check::CGROUP_LEVELS_MAX as GROUPS_ABOVE_MAX;

/// Maps of storage of each kind that a policy may have.
pub const STORAGE_MAX: usize = 8;
/// Tasks that an iterator holds at once.
pub const ITERATOR_CHUNK: usize = 64;

/// How wide the masks of a machine are: a task has one, and a million tasks of a machine that most
/// people have must not pay for what only the largest need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaskWidth {
    /// 1,024 CPUs.
    #[default]
    Usual,
    /// [`CPUS_MAX`] CPUs.
    Wide,
}

impl MaskWidth {
    /// The one that so many CPUs need.
    pub const fn of(nr_cpus: usize) -> MaskWidth {
        if nr_cpus <= MaskWidth::Usual.cpus() { MaskWidth::Usual } else { MaskWidth::Wide }
    }

    /// How many CPUs a mask can hold.
    pub const fn cpus(self) -> usize {
        match self {
            MaskWidth::Usual => 1024,
            MaskWidth::Wide => CPUS_MAX,
        }
    }

    /// Its words.
    pub const fn words(self) -> usize {
        self.cpus() / 64
    }

    /// Its size.
    pub const fn bytes(self) -> usize {
        self.cpus() / 8
    }
}

/// `struct cpumask`, as wide as those of the machine.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CpuMask<Words: ?Sized = [u64]> {
    pub bits: Words,
}

/// A mask as wide as there are machines, which is no policy's.
pub type OwnMask = CpuMask<[u64; CPUS_MAX / 64]>;

impl<Words: AsRef<[u64]> + AsMut<[u64]> + ?Sized> CpuMask<Words> {
    fn word(&self, number: usize) -> u64 {
        self.bits.as_ref().get(number).copied().unwrap_or(0)
    }

    /// Whether `cpu` is in the mask; numbers beyond the mask are not.
    pub fn has(&self, cpu: usize) -> bool {
        self.word(cpu / 64) >> (cpu % 64) & 1 == 1
    }

    /// Adds `cpu`, which must not be beyond the mask.
    pub fn set(&mut self, cpu: usize) {
        self.bits.as_mut()[cpu / 64] |= 1 << (cpu % 64);
    }

    /// Takes `cpu`, which must not be beyond the mask, out.
    pub fn clear(&mut self, cpu: usize) {
        self.bits.as_mut()[cpu / 64] &= !(1 << (cpu % 64));
    }

    /// How many CPUs it holds.
    pub fn weight(&self) -> u32 {
        self.bits.as_ref().iter().map(|word| word.count_ones()).sum()
    }

    /// Whether both masks hold the same CPUs.
    pub fn equals(&self, other: &CpuMask) -> bool {
        let words = self.bits.as_ref().len().max(other.bits.len());
        (0..words).all(|number| self.word(number) == other.word(number))
    }

    /// Makes it hold the CPUs of `other`, none of which may be beyond it.
    pub fn copy(&mut self, other: &CpuMask) {
        for (number, word) in self.bits.as_mut().iter_mut().enumerate() {
            *word = other.word(number);
        }
    }

    /// The CPUs that both masks hold, lowest first.
    pub fn intersection<'a>(&'a self, other: &'a CpuMask) -> impl Iterator<Item = usize> + 'a {
        let both = self.bits.as_ref().iter().zip(&other.bits).enumerate();
        both.flat_map(|(word, (own, other))| {
            let mut bits = own & other;
            std::iter::from_fn(move || {
                (bits != 0).then(|| {
                    let bit = bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    word * 64 + bit
                })
            })
        })
    }
}

impl OwnMask {
    /// What `of` makes of each word that both masks have.
    pub fn combined(a: &CpuMask, b: &CpuMask, of: impl Fn(u64, u64) -> u64) -> OwnMask {
        let mut mask = OwnMask::default();
        for (word, (a, b)) in mask.bits.iter_mut().zip(a.bits.iter().zip(&b.bits)) {
            *word = of(*a, *b);
        }
        mask
    }
}

impl Default for OwnMask {
    fn default() -> OwnMask {
        CpuMask { bits: [0; CPUS_MAX / 64] }
    }
}

impl FromIterator<usize> for OwnMask {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut mask = OwnMask::default();
        cpus.into_iter().for_each(|cpu| mask.set(cpu));
        mask
    }
}

/// `struct mm_struct`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AddressSpace {
    pub id: u32,
}

/// `struct scx_dispatch_q`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DispatchQueueView {
    pub id: u64,
    pub nr: u32,
}

/// `struct sched_ext_entity`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Entity {
    pub dsq: *mut DispatchQueueView,
    pub dsq_seq: u64,
    pub dsq_vtime: u64,
    pub slice: u64,
    pub weight: u32,
    pub flags: u32,
}

/// `struct sched_entity`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SchedEntity {
    pub sum_exec_runtime: u64,
    pub load: LoadWeight,
}

/// `struct load_weight`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadWeight {
    pub weight: u64,
}

/// `struct cgroup_subsys_state`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupState {
    pub cgroup: *mut Group,
    pub parent: *mut GroupState,
}

/// `struct cgroup`. It is its tasks' `struct css_set` and `struct task_group` as well: the first
/// word of each leads to it; and their `struct cred`, as all of them are root's.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Group {
    pub css: GroupState,
    pub kn: *mut GroupNode,
    pub level: c_int,
    pub ancestors: [*mut Group; GROUPS_ABOVE_MAX],
    pub storage: [u64; STORAGE_MAX],
    /// Who its tasks belong to.
    pub user: c_uint,
}

/// `struct kernfs_node`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GroupNode {
    pub id: u64,
    pub name: *const u8,
}

/// A group and its node.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GroupView {
    pub group: Group,
    pub node: GroupNode,
}

/// `struct scx_cgroup_init_args`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupInit {
    pub weight: u32,
    pub bw_period_us: u64,
    pub bw_quota_us: u64,
    pub bw_burst_us: u64,
    pub sched_idle: bool,
}

/// The members of `struct scx_event_stats`, each of 8 bytes. Those that have no constant of theirs
/// here stay 0. Source: Linux 7.3, kernel/sched/ext/internal.h.
pub const EVENTS: [&str; 21] = [
    "SCX_EV_SELECT_CPU_FALLBACK",
    "SCX_EV_DISPATCH_LOCAL_DSQ_OFFLINE",
    "SCX_EV_DISPATCH_KEEP_LAST",
    "SCX_EV_ENQ_SKIP_EXITING",
    "SCX_EV_ENQ_SKIP_MIGRATION_DISABLED",
    "SCX_EV_REENQ_IMMED",
    "SCX_EV_REENQ_REPEAT",
    "SCX_EV_REFILL_SLICE_DFL",
    "SCX_EV_SLICE_CLAMPED",
    "SCX_EV_SLICE_DENIED",
    "SCX_EV_BYPASS_DURATION",
    "SCX_EV_BYPASS_DISPATCH",
    "SCX_EV_BYPASS_ACTIVATE",
    "SCX_EV_INSERT_NOT_OWNED",
    "SCX_EV_SUB_BYPASS_DISPATCH",
    "SCX_EV_SUB_FORCED_ADMIT",
    "SCX_EV_SUB_PREEMPT_DENIED",
    "SCX_EV_SUB_KICK_DENIED",
    "SCX_EV_SUB_REENQ_DENIED",
    "SCX_EV_SUB_CIDPERF_DENIED",
    "SCX_EV_SUB_RESCUE",
];
pub const EV_SELECT_CPU_FALLBACK: usize = 0;
pub const EV_REENQ_REPEAT: usize = 6;

/// `struct rq`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RunQueue {
    pub curr: *mut Task,
    pub cpu: c_int,
    pub clock: u64,
    pub clock_task: u64,
    pub clock_pelt: u64,
    pub lost_idle_time: u64,
}

/// `struct sched_info`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SchedInfo {
    /// Times it was put on a CPU.
    pub pcount: u64,
    /// Time it was runnable and not running.
    pub run_delay: u64,
}

/// `struct task_struct` without its own mask, which lies behind it. What changes at each switch
/// lies together, in lines of 64 bytes; what is seldom looked at is behind it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Task {
    pub scx: Entity,
    /// The first word of a mask.
    pub cpus_ptr: *const u64,
    pub mm: *mut AddressSpace,
    pub storage: [u64; STORAGE_MAX],
    pub pid: c_int,
    pub tgid: c_int,
    /// Also `normal_prio`: nobody lends a task theirs.
    pub prio: c_int,
    pub static_prio: c_int,
    pub nr_cpus_allowed: c_int,
    pub cpu: c_int,
    pub recent_used_cpu: c_int,
    /// `scx.selected_cpu`
    pub selected_cpu: c_int,
    pub state: c_uint,
    pub flags: c_uint,
    pub policy: c_uint,
    pub rt_priority: c_uint,
    /// `scx.disallow`
    pub disallow: bool,
    pub on_cpu: c_int,
    pub se: SchedEntity,
    pub nvcsw: u64,
    pub nivcsw: u64,
    pub sched_info: SchedInfo,
    pub start_time: u64,
    /// Also `parent`: nobody traces a task.
    pub real_parent: *mut Task,
    pub group_leader: *mut Task,
    pub cgroups: *mut Group,
    /// `sched_task_group`: as long as it moves, the one that it comes from.
    pub task_group: *mut Group,
    pub comm: [u8; 16],
    pub utime: u64,
    pub stime: u64,
    /// NULL: no task says where its memory is to be. Also `thread_pid` and `signal`.
    pub mempolicy: *mut c_uint,
    /// `scx.ddsp_dsq_id`: none is to be seen.
    pub ddsp_dsq_id: u64,
    /// `scx.runnable_at`, kept for policies that ask for it.
    pub runnable_at: u64,
}

/// `struct scx_init_task_args`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct InitTaskArgs {
    pub fork: bool,
    pub cgroup: *mut Group,
}

/// `struct scx_enable_args`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct EnableArgs {
    pub cmask_arena_addr: u64,
}

/// `struct scx_exit_task_args`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ExitTaskArgs {
    pub cancelled: bool,
}

/// A key of any map.
pub type Key = [u8; bytecode::KEY_BYTES_MAX as usize];

/// `struct scx_exit_info`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExitInfo {
    pub kind: u32,
    pub exit_code: i64,
    pub reason: *const u8,
    pub msg: *const u8,
    pub dump: *const u8,
}

/// `struct scx_dump_ctx`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DumpContext {
    pub kind: u32,
    pub exit_code: i64,
    pub reason: *const u8,
    pub at_ns: u64,
    pub at_jiffies: u64,
}

/// `struct bpf_iter_scx_dsq`
#[repr(C, align(1024))] // So that an address in it says where it begins.
#[derive(Clone, Copy, Debug)]
pub struct DsqIterator {
    /// Index of the queue that it goes over.
    pub queue: u32,
    pub seq: u64,
    pub flags: u64,
    pub cursor: [u64; 2],
    // These two hold for the next move only, whether or not it finds its task.
    pub pending_slice: Option<u64>,
    pub pending_vtime: Option<u64>,
    /// Where the chunk is, and the word of the task that is next, as programs have them.
    begin: u64,
    pub next: u64,
    /// From which of the chunk on steps were not charged.
    pub charged: u32,
    pub filled: u32,
    /// Tasks to come; null is who has left meanwhile, and what is behind the last.
    pub chunk: [*mut Task; ITERATOR_CHUNK],
    /// Null for ever.
    pub nothing: *mut Task,
}

impl DsqIterator {
    /// Which of the chunk is next.
    #[inline]
    pub fn place(&self) -> u32 {
        ((self.next - self.begin) / WORD) as u32
    }

    /// Passes over the next one.
    #[inline]
    pub fn pass(&mut self) {
        self.next += WORD;
    }

    /// So many tasks of its chunk are to come, and nothing behind them.
    pub fn hold(&mut self, filled: usize) {
        (self.next, self.charged, self.filled) = (self.begin, 0, filled as u32);
        if let Some(behind) = self.chunk.get_mut(filled) {
            *behind = null_mut();
        }
    }

    /// Lies at this address, as programs have it.
    pub fn lies_at(&mut self, address: u64) {
        self.begin = address + offset_of!(DsqIterator, chunk) as u64;
        self.hold(0);
    }
}

/// Bytes of an address.
const WORD: u64 = size_of::<*mut Task>() as u64;

impl Default for DsqIterator {
    fn default() -> DsqIterator {
        DsqIterator {
            queue: 0,
            seq: 0,
            flags: 0,
            cursor: [0; 2],
            pending_slice: None,
            pending_vtime: None,
            begin: 0,
            next: 0,
            charged: 0,
            filled: 0,
            chunk: [null_mut(); ITERATOR_CHUNK],
            nothing: null_mut(),
        }
    }
}
