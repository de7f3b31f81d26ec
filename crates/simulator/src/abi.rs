//! The structures that policies see, as they lie in the memory that both share.
//! A policy finds their fields by name (`world`).

#![allow(missing_docs)] // Fields mean what they mean in Linux.

use std::ffi::{c_int, c_uint, c_void};

/// CPUs in a mask.
pub const CPUS_MAX: usize = 1024;
/// Task-storage maps a policy may have.
pub const STORAGE_MAX: usize = 8;
/// Tasks that an iterator holds at once.
pub const ITERATOR_CHUNK: usize = 32;

/// `struct cpumask`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuMask {
    pub bits: [u64; CPUS_MAX / 64],
}

impl CpuMask {
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

    /// The mask of the CPUs that both masks hold.
    pub fn and(mut self, other: &CpuMask) -> CpuMask {
        for (word, other) in self.bits.iter_mut().zip(other.bits) {
            *word &= other;
        }
        self
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

impl FromIterator<usize> for CpuMask {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut mask = CpuMask::default();
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

/// `struct rq`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RunQueue {
    pub curr: *mut Task,
}

/// `struct task_struct`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Task {
    pub scx: Entity,
    pub cpus_ptr: *const CpuMask,
    pub mm: *mut AddressSpace,
    pub storage: [u64; STORAGE_MAX],
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

/// `struct scx_init_task_args`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct InitTaskArgs {
    pub fork: bool,
    pub cgroup: *mut c_void,
}

/// `struct scx_exit_task_args`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ExitTaskArgs {
    pub cancelled: bool,
}

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

/// `struct bpf_iter_scx_dsq`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DsqIterator {
    pub dsq: *mut DispatchQueueView,
    pub seq: u64,
    pub steps: u64,
    pub flags: u64,
    pub cursor: [u64; 2],
    // These two hold for the next move only, whether or not it finds its task.
    pub pending_slice: Option<u64>,
    pub pending_vtime: Option<u64>,
    pub next: u32,
    pub filled: u32,
    pub chunk: [*mut Task; ITERATOR_CHUNK],
}
