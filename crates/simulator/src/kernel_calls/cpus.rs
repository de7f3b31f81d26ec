//! Calls that choose, claim and kick CPUs, and look at what runs.

use super::kernel;
use crate::failure::FailureKind;
use crate::flags::{KICK_IDLE, KICK_PREEMPT};
use crate::kernel::Kernel;
use crate::place::{Place, TaskId};
use crate::policy_maps::errno;
use policy::abi::{CpuMask, Host, Task};

/// `SCX_PICK_IDLE_CORE`
const PICK_IDLE_CORE: u64 = 1;

impl Kernel<'_> {
    fn uses_builtin_idle(&mut self) -> bool {
        if !self.tracks_idle {
            self.fail(FailureKind::BadCall, "built-in idle tracking is disabled".to_owned());
        }
        self.tracks_idle
    }
}

pub(crate) unsafe extern "C" fn kick_cpu(host: *mut Host, cpu: i32, flags: u64) {
    let k = unsafe { kernel(host) };
    let Some(cpu) = usize::try_from(cpu).ok().filter(|&cpu| cpu < k.cpus.len()) else {
        let message = format!("invalid CPU {cpu} in scx_bpf_kick_cpu()");
        return k.fail(FailureKind::BadCpu, message);
    };
    if flags & (KICK_IDLE | KICK_PREEMPT) == KICK_IDLE | KICK_PREEMPT {
        let message = "PREEMPT/WAIT cannot be used with SCX_KICK_IDLE".to_owned();
        return k.fail(FailureKind::BadCall, message);
    }
    if k.switching && cpu == k.here() {
        let kicks = &mut k.own_kicks;
        kicks.always |= flags & KICK_IDLE == 0;
        kicks.if_idle |= flags & KICK_IDLE != 0;
        kicks.preempts |= flags & KICK_PREEMPT != 0;
        return;
    }
    if !k.masks.online.has(cpu) && cpu != k.here() {
        return;
    }
    let current = k.cpus[cpu].current;
    if flags & KICK_IDLE != 0 && current.is_some() {
        return;
    }
    if let (true, Some(task)) = (flags & KICK_PREEMPT != 0, current) {
        k.tasks.seen_mut(task).scx.slice = 0;
    }
    if cpu == k.here() {
        // The interrupt comes before this CPU leaves the kernel (`irq_work_queue`): its task does
        // not begin another operation.
        k.metrics.interrupts += 1;
        return k.resched(cpu);
    }
    k.interrupt(cpu);
}

pub(crate) unsafe extern "C" fn select_cpu_dfl(
    host: *mut Host,
    task: *mut Task,
    prev_cpu: i32,
    wake_flags: u64,
    is_idle: *mut bool,
) -> i32 {
    let k = unsafe { kernel(host) };
    let Some(task) = k.known(task) else { return prev_cpu };
    if !k.uses_builtin_idle() || prev_cpu < 0 || prev_cpu as usize >= k.cpus.len() {
        return prev_cpu;
    }
    let (cpu, idle) = k.select_cpu_default(task, prev_cpu as usize, wake_flags);
    // SAFETY: points to the policy's own variable.
    unsafe { *is_idle = idle };
    cpu as i32
}

pub(crate) unsafe extern "C" fn select_cpu_and(
    host: *mut Host,
    task: *mut Task,
    prev_cpu: i32,
    wake_flags: u64,
    allowed: *const CpuMask,
    flags: u64,
) -> i32 {
    let k = unsafe { kernel(host) };
    let Some(task) = k.known(task) else { return -errno::EINVAL };
    if !k.uses_builtin_idle() {
        return -errno::EBUSY;
    }
    // SAFETY: a CPU mask that the policy holds.
    let mut mask = unsafe { *allowed };
    for (word, own) in mask.bits.iter_mut().zip(k.tasks.seen(task).cpus_mask.bits) {
        *word &= own;
    }
    let Some(prev) = usize::try_from(prev_cpu).ok().filter(|&cpu| cpu < k.cpus.len()) else {
        return -errno::EINVAL;
    };
    let found = k.select_idle(&mask, prev, wake_flags, flags & PICK_IDLE_CORE != 0);
    found.map_or(-errno::EBUSY, |cpu| cpu as i32)
}

pub(crate) unsafe extern "C" fn test_and_clear_cpu_idle(host: *mut Host, cpu: i32) -> bool {
    let k = unsafe { kernel(host) };
    if !k.uses_builtin_idle() {
        return false;
    }
    match usize::try_from(cpu).ok().filter(|&cpu| cpu < k.cpus.len()) {
        Some(cpu) => k.claim_idle(cpu),
        None => {
            let message = format!("invalid CPU {cpu} in scx_bpf_test_and_clear_cpu_idle()");
            k.fail(FailureKind::BadCpu, message);
            false
        }
    }
}

pub(crate) unsafe extern "C" fn pick_idle_cpu(
    host: *mut Host,
    allowed: *const CpuMask,
    flags: u64,
) -> i32 {
    let k = unsafe { kernel(host) };
    if !k.uses_builtin_idle() {
        return -errno::EBUSY;
    }
    // SAFETY: a CPU mask that the policy holds; copied because it may be the idle mask itself.
    let allowed = unsafe { *allowed };
    k.pick_idle(&allowed, flags & PICK_IDLE_CORE != 0).map_or(-errno::EBUSY, |cpu| cpu as i32)
}

pub(crate) unsafe extern "C" fn pick_any_cpu(
    host: *mut Host,
    allowed: *const CpuMask,
    flags: u64,
) -> i32 {
    // SAFETY: as for `pick_idle_cpu`.
    let idle = unsafe { pick_idle_cpu(host, allowed, flags) };
    if idle >= 0 {
        return idle;
    }
    let k = unsafe { kernel(host) };
    // SAFETY: a CPU mask that the policy holds.
    let allowed = unsafe { *allowed };
    allowed.intersection(&k.masks.possible).next().map_or(-errno::EBUSY, |cpu| cpu as i32)
}

pub(crate) unsafe extern "C" fn cpu_curr(host: *mut Host, cpu: i32) -> *mut Task {
    let k = unsafe { kernel(host) };
    match usize::try_from(cpu).ok().filter(|&cpu| cpu < k.cpus.len()) {
        Some(cpu) => match k.cpus[cpu].current {
            Some(task) => k.tasks.address(task),
            None => k.idle_tasks[cpu].address(),
        },
        None => {
            let message = format!("invalid CPU {cpu} in scx_bpf_cpu_curr()");
            k.fail(FailureKind::BadCpu, message);
            std::ptr::null_mut()
        }
    }
}

pub(crate) unsafe extern "C" fn task_from_pid(host: *mut Host, pid: i32) -> *mut Task {
    let k = unsafe { kernel(host) };
    let id = pid.wrapping_sub(1);
    let known = id >= 0 && (id as usize) < k.tasks.len();
    if known && k.tasks.state(id as TaskId).place != Place::Exited {
        k.tasks.address(id as TaskId)
    } else {
        std::ptr::null_mut()
    }
}
