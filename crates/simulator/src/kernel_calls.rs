//! Calls from the policy: the kernel's functions that sched_ext offers it.
//!
//! Each receives the address of `Kernel::host`, which is the address of the kernel itself. While
//! the policy runs, the kernel that called it does nothing, so the exclusive borrow made here is
//! the only one in use.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the first line of every call rests on what is said above"
)]

pub mod cpus;
pub mod memory;
pub mod queues;

use crate::failure::FailureKind;
use crate::kernel::Kernel;
use crate::place::TaskId;
use cpus::{
    cpu_curr, kick_cpu, pick_any_cpu, pick_idle_cpu, select_cpu_and, select_cpu_dfl, task_from_pid,
    test_and_clear_cpu_idle,
};
use memory::{
    hash_lookup, map_delete, map_update, spin_lock, spin_unlock, task_storage_create,
    task_storage_delete, timer_cancel, timer_init, timer_set_callback, timer_start,
};
use policy::abi::{self, Host, Task};
use queues::{
    create_dsq, destroy_dsq, dispatch_cancel, dispatch_nr_slots, dsq_insert, dsq_insert_vtime,
    dsq_move, dsq_move_set_slice, dsq_move_set_vtime, dsq_move_to_local, dsq_nr_queued,
    iter_destroy, iter_fill, iter_new, reenqueue_local,
};
use std::ffi::{CStr, c_char};

/// The table that every policy is given.
pub static CALLS: abi::HostCalls = abi::HostCalls {
    create_dsq,
    destroy_dsq,
    dsq_insert,
    dsq_insert_vtime,
    dsq_nr_queued,
    dsq_move_to_local,
    dsq_move,
    dsq_move_set_slice,
    dsq_move_set_vtime,
    iter_new,
    iter_fill,
    iter_destroy,
    dispatch_nr_slots,
    dispatch_cancel,
    reenqueue_local,
    kick_cpu,
    select_cpu_dfl,
    select_cpu_and,
    test_and_clear_cpu_idle,
    pick_idle_cpu,
    pick_any_cpu,
    cpu_curr,
    task_from_pid,
    task_storage_create,
    task_storage_delete,
    hash_lookup,
    map_update,
    map_delete,
    timer_init,
    timer_set_callback,
    timer_start,
    timer_cancel,
    spin_lock,
    spin_unlock,
    prandom,
    error,
    exit,
    print,
};

/// # Safety
/// `host` was set by `Kernel::open` for the call of the policy that is running now.
unsafe fn kernel<'a>(host: *mut Host) -> &'a mut Kernel<'a> {
    // SAFETY: `host` is the first field of a `#[repr(C)]` kernel and was made from a borrow of
    // the whole kernel; see the module's comment for why no other borrow is in use.
    unsafe { &mut *host.cast::<Kernel<'a>>() }
}

/// # Safety
/// `task` is a task structure of the simulator's, or the idle task.
unsafe fn id_of(task: *const Task) -> TaskId {
    // SAFETY: promised by the caller; pids are one more than task numbers.
    (unsafe { (*task).pid } - 1) as TaskId
}

impl Kernel<'_> {
    /// A task the policy named; a failure if it is none of ours (an idle task, a wild pid).
    fn known(&mut self, task: *const Task) -> Option<TaskId> {
        if task.is_null() {
            self.fail(FailureKind::BadCall, "NULL task passed to a kernel function".to_owned());
            return None;
        }
        // SAFETY: not null; tasks are only made by the simulator.
        let id = unsafe { id_of(task) };
        if (id as usize) < self.tasks.len() {
            return Some(id);
        }
        self.fail(FailureKind::BadCall, "the idle task cannot be scheduled".to_owned());
        None
    }
}

impl Kernel<'_> {
    /// A line as `trace_pipe` has it: task, CPU, seconds, message.
    pub fn print(&self, message: &str) {
        let Some(progress) = &self.progress else { return };
        progress.print(|| {
            let cpu = self.here();
            let task = self.cpus[cpu]
                .current
                .map_or_else(|| "<idle>[0]".to_owned(), |task| self.tasks.label(task));
            let (s, ns) = (self.host.now_ns / 1_000_000_000, self.host.now_ns % 1_000_000_000);
            let message = message.trim_end();
            format!("{task:>16} [{cpu:03}] {s:>3}.{ns:09}: bpf_trace_printk: {message}")
        });
    }
}

unsafe extern "C" fn prandom(host: *mut Host) -> u32 {
    (unsafe { kernel(host) }.random.next_u64() >> 32) as u32
}

/// # Safety
/// `text` is a terminated string.
unsafe fn text(text: *const c_char) -> String {
    // SAFETY: promised by the caller.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

unsafe extern "C" fn error(host: *mut Host, message: *const c_char) {
    // SAFETY: the header formats into a terminated buffer.
    let message = unsafe { text(message) };
    unsafe { kernel(host) }.fail(FailureKind::PolicyError, format!("scx_bpf_error ({message})"));
}

unsafe extern "C" fn exit(host: *mut Host, code: i64, message: *const c_char) {
    // SAFETY: as above.
    let message = unsafe { text(message) };
    let k = unsafe { kernel(host) };
    k.fail(FailureKind::PolicyExit, format!("policy asked to exit with code {code} ({message})"));
}

unsafe extern "C" fn print(host: *mut Host, message: *const c_char) {
    // SAFETY: as above.
    let message = unsafe { text(message) };
    unsafe { kernel(host) }.print(&message);
}
