//! The structures that a policy and the simulator share, as `policies/include/scx/simulator.h`
//! lays them out. Both sides touch them in place, so the layouts must be equal: a policy
//! describes its own, and loading it compares that with [`expected_sizes`].

#![allow(missing_docs)] // Fields mean what the header says; repeating it here would drift.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// Version of the layout; a policy built from other headers is refused.
pub const ABI_VERSION: u32 = 2;
/// CPUs in a mask.
pub const CPUS_MAX: usize = 1024;
/// Task-storage maps a policy may have.
pub const STORAGE_MAX: usize = 8;
/// Tasks that an iterator holds at once.
pub const ITERATOR_CHUNK: usize = 32;

/// `struct cpumask`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuMask {
    pub bits: [u64; CPUS_MAX / 64],
}

impl CpuMask {
    /// No CPU.
    pub const EMPTY: CpuMask = CpuMask { bits: [0; CPUS_MAX / 64] };

    /// Whether `cpu` is in the mask; numbers beyond the mask are not.
    pub fn has(&self, cpu: usize) -> bool {
        cpu < CPUS_MAX && self.bits[cpu / 64] >> (cpu % 64) & 1 == 1
    }

    /// Adds `cpu`, which must be below [`CPUS_MAX`].
    pub fn set(&mut self, cpu: usize) {
        self.bits[cpu / 64] |= 1 << (cpu % 64);
    }

    /// Takes `cpu`, which must be below [`CPUS_MAX`], out.
    pub fn clear(&mut self, cpu: usize) {
        self.bits[cpu / 64] &= !(1 << (cpu % 64));
    }

    /// How many CPUs it holds.
    pub fn weight(&self) -> u32 {
        self.bits.iter().map(|word| word.count_ones()).sum()
    }

    /// The CPUs that both masks hold, lowest first.
    pub fn intersection<'a>(&'a self, other: &'a CpuMask) -> impl Iterator<Item = usize> + 'a {
        (0..CPUS_MAX / 64).flat_map(move |word| {
            let mut bits = self.bits[word] & other.bits[word];
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

/// `struct mm_struct`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AddressSpace {
    pub id: u32,
}

/// `struct scx_dispatch_q`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DispatchQueueView {
    pub id: u64,
    pub nr: u32,
}

/// `struct sched_ext_entity`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
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
#[derive(Clone, Copy, Debug)]
pub struct SchedEntity {
    pub sum_exec_runtime: u64,
    pub load_weight: u64,
}

/// `struct task_struct`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Task {
    pub scx: Entity,
    pub cpus_ptr: *const CpuMask,
    pub mm: *mut AddressSpace,
    pub storage: [*mut u8; STORAGE_MAX],
    pub pid: c_int,
    pub tgid: c_int,
    pub prio: c_int,
    pub static_prio: c_int,
    pub nr_cpus_allowed: c_int,
    pub cpu: c_int,
    pub recent_used_cpu: c_int,
    pub wake_cpu: c_int,
    pub state: c_uint,
    pub flags: c_uint,
    pub policy: c_uint,
    pub rt_priority: c_uint,
    pub normal_prio: c_int,
    pub on_cpu: c_int,
    pub se: SchedEntity,
    pub nvcsw: u64,
    pub nivcsw: u64,
    pub start_time: u64,
    pub real_parent: *mut Task,
    pub parent: *mut Task,
    pub group_leader: *mut Task,
    pub comm: [u8; 16],
    pub cpus_mask: CpuMask,
}

/// `struct scx_exit_info`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExitInfo {
    pub kind: c_uint,
    pub exit_code: i64,
    pub reason: *const c_char,
    pub msg: *const c_char,
}

/// `struct scx_init_task_args`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct InitTaskArgs {
    pub fork: bool,
    pub cgroup: *mut c_void,
}

/// `struct scx_exit_task_args`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExitTaskArgs {
    pub cancelled: bool,
}

/// `struct sched_ext_ops`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Ops {
    pub select_cpu: Option<unsafe extern "C" fn(*mut Task, i32, u64) -> i32>,
    pub enqueue: Option<unsafe extern "C" fn(*mut Task, u64)>,
    pub dequeue: Option<unsafe extern "C" fn(*mut Task, u64)>,
    pub dispatch: Option<unsafe extern "C" fn(i32, *mut Task)>,
    pub tick: Option<unsafe extern "C" fn(*mut Task)>,
    pub runnable: Option<unsafe extern "C" fn(*mut Task, u64)>,
    pub running: Option<unsafe extern "C" fn(*mut Task)>,
    pub stopping: Option<unsafe extern "C" fn(*mut Task, bool)>,
    pub quiescent: Option<unsafe extern "C" fn(*mut Task, u64)>,
    pub yield_: Option<unsafe extern "C" fn(*mut Task, *mut Task) -> bool>,
    pub core_sched_before: Option<unsafe extern "C" fn(*mut Task, *mut Task) -> bool>,
    pub set_weight: Option<unsafe extern "C" fn(*mut Task, u32)>,
    pub set_cpumask: Option<unsafe extern "C" fn(*mut Task, *const CpuMask)>,
    pub update_idle: Option<unsafe extern "C" fn(i32, bool)>,
    pub cpu_acquire: Option<unsafe extern "C" fn(i32, *mut c_void)>,
    pub cpu_release: Option<unsafe extern "C" fn(i32, *mut c_void)>,
    pub init_task: Option<unsafe extern "C" fn(*mut Task, *mut InitTaskArgs) -> i32>,
    pub exit_task: Option<unsafe extern "C" fn(*mut Task, *mut ExitTaskArgs)>,
    pub enable: Option<unsafe extern "C" fn(*mut Task)>,
    pub disable: Option<unsafe extern "C" fn(*mut Task)>,
    pub dump: Option<unsafe extern "C" fn(*mut c_void)>,
    pub dump_cpu: Option<unsafe extern "C" fn(*mut c_void, i32, bool)>,
    pub dump_task: Option<unsafe extern "C" fn(*mut c_void, *mut Task)>,
    pub cpu_online: Option<unsafe extern "C" fn(i32)>,
    pub cpu_offline: Option<unsafe extern "C" fn(i32)>,
    pub init: Option<unsafe extern "C" fn() -> i32>,
    pub exit: Option<unsafe extern "C" fn(*mut ExitInfo)>,
    pub dispatch_max_batch: u32,
    pub flags: u64,
    pub timeout_ms: u32,
    pub exit_dump_len: u32,
    pub hotplug_seq: u64,
    pub name: [u8; 128],
}

/// `struct scx_map`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Map {
    pub kind: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    pub index: u32,
    pub value_stride: u32,
    pub cpu_stride: u64,
    pub values: *mut u8,
}

/// `struct bpf_iter_scx_dsq`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DsqIterator {
    pub dsq: *mut DispatchQueueView,
    pub seq: u64,
    pub steps: u64,
    pub flags: u64,
    pub cursor: [u64; 2],
    pub pending_slice: u64,
    pub pending_vtime: u64,
    pub next: u32,
    pub filled: u32,
    pub chunk: [*mut Task; ITERATOR_CHUNK],
}

/// `struct bpf_timer`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    pub id: u64,
    pub reserved: u64,
}

/// `struct bpf_spin_lock`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SpinLock {
    pub id: u32,
}

/// `struct scx_host`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Host {
    pub now_ns: u64,
    pub cpu: i32,
    pub nr_cpu_ids: u32,
    pub hz: u32,
    pub nr_online_cpus: u32,
    pub current: *mut Task,
    pub idle_cpus: *mut CpuMask,
    pub idle_cores: *mut CpuMask,
    pub online_cpus: *mut CpuMask,
    pub possible_cpus: *mut CpuMask,
    pub calls: *const HostCalls,
}

/// `struct scx_host_calls`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HostCalls {
    pub create_dsq: unsafe extern "C" fn(*mut Host, u64, i32) -> i32,
    pub destroy_dsq: unsafe extern "C" fn(*mut Host, u64),
    pub dsq_insert: unsafe extern "C" fn(*mut Host, *mut Task, u64, u64, u64),
    pub dsq_insert_vtime: unsafe extern "C" fn(*mut Host, *mut Task, u64, u64, u64, u64),
    pub dsq_nr_queued: unsafe extern "C" fn(*mut Host, u64) -> i32,
    pub dsq_move_to_local: unsafe extern "C" fn(*mut Host, u64) -> bool,
    pub dsq_move:
        unsafe extern "C" fn(*mut Host, *mut DsqIterator, *mut Task, u64, u64, bool) -> bool,
    pub dsq_move_set_slice: unsafe extern "C" fn(*mut Host, *mut DsqIterator, u64),
    pub dsq_move_set_vtime: unsafe extern "C" fn(*mut Host, *mut DsqIterator, u64),
    pub iter_new: unsafe extern "C" fn(*mut Host, *mut DsqIterator, u64, u64) -> i32,
    pub iter_fill: unsafe extern "C" fn(*mut Host, *mut DsqIterator) -> bool,
    pub iter_destroy: unsafe extern "C" fn(*mut Host, *mut DsqIterator),
    pub dispatch_nr_slots: unsafe extern "C" fn(*mut Host) -> u32,
    pub dispatch_cancel: unsafe extern "C" fn(*mut Host),
    pub reenqueue_local: unsafe extern "C" fn(*mut Host) -> u32,
    pub kick_cpu: unsafe extern "C" fn(*mut Host, i32, u64),
    pub select_cpu_dfl: unsafe extern "C" fn(*mut Host, *mut Task, i32, u64, *mut bool) -> i32,
    pub select_cpu_and:
        unsafe extern "C" fn(*mut Host, *mut Task, i32, u64, *const CpuMask, u64) -> i32,
    pub test_and_clear_cpu_idle: unsafe extern "C" fn(*mut Host, i32) -> bool,
    pub pick_idle_cpu: unsafe extern "C" fn(*mut Host, *const CpuMask, u64) -> i32,
    pub pick_any_cpu: unsafe extern "C" fn(*mut Host, *const CpuMask, u64) -> i32,
    pub cpu_curr: unsafe extern "C" fn(*mut Host, i32) -> *mut Task,
    pub task_from_pid: unsafe extern "C" fn(*mut Host, i32) -> *mut Task,
    pub task_storage_create: unsafe extern "C" fn(*mut Host, *mut Map, *mut Task) -> *mut u8,
    pub task_storage_delete: unsafe extern "C" fn(*mut Host, *mut Map, *mut Task),
    pub hash_lookup: unsafe extern "C" fn(*mut Host, *mut Map, *const u8) -> *mut u8,
    pub map_update: unsafe extern "C" fn(*mut Host, *mut Map, *const u8, *const u8, u64) -> i32,
    pub map_delete: unsafe extern "C" fn(*mut Host, *mut Map, *const u8) -> i32,
    pub timer_init: unsafe extern "C" fn(*mut Host, *mut Timer, *mut Map) -> i32,
    pub timer_set_callback: unsafe extern "C" fn(*mut Host, *mut Timer, *mut c_void) -> i32,
    pub timer_start: unsafe extern "C" fn(*mut Host, *mut Timer, u64, u64) -> i32,
    pub timer_cancel: unsafe extern "C" fn(*mut Host, *mut Timer) -> i32,
    pub spin_lock: unsafe extern "C" fn(*mut Host, *mut SpinLock),
    pub spin_unlock: unsafe extern "C" fn(*mut Host, *mut SpinLock),
    pub prandom: unsafe extern "C" fn(*mut Host) -> u32,
    pub error: unsafe extern "C" fn(*mut Host, *const c_char),
    pub exit: unsafe extern "C" fn(*mut Host, i64, *const c_char),
    pub print: unsafe extern "C" fn(*mut Host, *const c_char),
}

/// `struct scx_policy_description`
#[repr(C)]
pub struct PolicyDescription {
    pub abi_version: u32,
    pub sizes: [u32; 12],
    pub ops: *const Ops,
    pub host: *mut *mut Host,
}

/// Names of what [`expected_sizes`] holds, for error messages.
pub const SIZE_NAMES: [&str; 12] = [
    "struct task_struct",
    "struct sched_ext_entity",
    "struct sched_ext_ops",
    "struct scx_host",
    "struct scx_host_calls",
    "struct scx_map",
    "struct bpf_iter_scx_dsq",
    "struct scx_exit_info",
    "offset of task_struct.cpus_ptr",
    "offset of task_struct.se",
    "offset of task_struct.comm",
    "offset of task_struct.cpus_mask",
];

/// Sizes and offsets in bytes as this side lays the structures out.
pub fn expected_sizes() -> [u32; 12] {
    use std::mem::{offset_of, size_of};
    [
        size_of::<Task>(),
        size_of::<Entity>(),
        size_of::<Ops>(),
        size_of::<Host>(),
        size_of::<HostCalls>(),
        size_of::<Map>(),
        size_of::<DsqIterator>(),
        size_of::<ExitInfo>(),
        offset_of!(Task, cpus_ptr),
        offset_of!(Task, se),
        offset_of!(Task, comm),
        offset_of!(Task, cpus_mask),
    ]
    .map(|bytes| bytes as u32)
}
