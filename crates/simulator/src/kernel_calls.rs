//! Calls from the policy: the kernel's functions that sched_ext offers it.
//!
//! Each receives the address of `Kernel::host`, which is the address of the kernel itself. While
//! the policy runs, the kernel that called it does nothing, so the exclusive borrow made here is
//! the only one in use.

use crate::cpu::Spent;
use crate::dispatch_queue::{BUILTIN, Cursor, LOCAL_CPU_MASK};
use crate::failure::FailureKind;
use crate::kernel::{Context, Insertion, Kernel, Timer};
use crate::policy_maps::errno;
use crate::scheduling::flags::{KICK_IDLE, KICK_PREEMPT};
use crate::task::{Place, TaskId};
use policy::abi::{self, CpuMask, DsqIterator, Host, ITERATOR_CHUNK, Map, SpinLock, Task};
use std::ffi::{CStr, c_char, c_void};

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

/// `ops.dispatch_max_batch` where the policy names none.
pub const DISPATCH_BATCH_DEFAULT: u32 = 32;
/// The error number for "no CPU free".
const EBUSY: i32 = 16;
/// An iterator that has not fetched anything asks for few tasks first: most walks are short.
const FIRST_CHUNK: usize = 4;

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

    fn request_insertion(&mut self, insertion: Insertion, slice: u64, vtime: Option<u64>) {
        let task = insertion.task;
        match self.context {
            Context::Enqueueing { task: allowed, .. } if allowed != task => {
                let (wanted, had) = (self.tasks.label(task), self.tasks.label(allowed));
                let message = format!("scheduling for {had} but trying to direct-dispatch {wanted}");
                self.fail_about(task, FailureKind::BadCall, message);
            }
            Context::Enqueueing { direct: Some(_), .. } => {
                let message = format!("{} already direct-dispatched", self.tasks.label(task));
                self.fail_about(task, FailureKind::BadCall, message);
            }
            Context::Enqueueing { .. } => {
                self.set_slice_and_vtime(task, slice, vtime);
                self.context = Context::Enqueueing { task, direct: Some(insertion) };
            }
            Context::Dispatching => {
                if self.buffer.len() >= self.dispatch_batch() {
                    let message = "dispatch buffer overflow".to_owned();
                    return self.fail_about(task, FailureKind::BadCall, message);
                }
                self.set_slice_and_vtime(task, slice, vtime);
                self.buffer.push(insertion);
            }
            Context::Plain => {
                let message = "scx_bpf_dsq_insert() called from an operation that may not dispatch \
                               (allowed: select_cpu, enqueue, dispatch)";
                self.fail_about(task, FailureKind::BadCall, message.to_owned());
            }
        }
    }

    fn set_slice_and_vtime(&mut self, task: TaskId, slice: u64, vtime: Option<u64>) {
        let entity = &mut self.tasks.seen_mut(task).scx;
        entity.slice = if slice > 0 { slice } else { entity.slice.max(1) };
        entity.dsq_vtime = vtime.unwrap_or(entity.dsq_vtime);
    }

    fn dispatch_batch(&self) -> usize {
        match self.ops.dispatch_max_batch {
            0 => DISPATCH_BATCH_DEFAULT as usize,
            batch => batch as usize,
        }
    }

    fn may_dispatch(&mut self, what: &str) -> bool {
        let allowed = matches!(self.context, Context::Dispatching);
        if !allowed {
            let message = format!("{what}() called from outside ops.dispatch()");
            self.fail(FailureKind::BadCall, message);
        }
        allowed
    }

    /// Index of the queue with this number, built-in ones included, as seen from a CPU.
    fn any_queue(&self, id: u64) -> Option<u32> {
        if id & BUILTIN == 0 {
            return self.queues.find(id);
        }
        let cpu = if id & crate::dispatch_queue::LOCAL_ON == crate::dispatch_queue::LOCAL_ON {
            (id & LOCAL_CPU_MASK) as usize
        } else {
            self.here()
        };
        match id {
            crate::dispatch_queue::GLOBAL => {
                Some(self.queues.global(self.machine.cpus[self.here()].node as usize))
            }
            _ if cpu < self.cpus.len() => Some(self.queues.local(cpu)),
            _ => None,
        }
    }

    fn uses_builtin_idle(&mut self) -> bool {
        if !self.tracks_idle {
            self.fail(FailureKind::BadCall, "built-in idle tracking is disabled".to_owned());
        }
        self.tracks_idle
    }

    /// Charges the steps of a walk that have not been charged.
    fn charge_steps(&mut self, walk: &mut DsqIterator, index: u32) {
        let ns = self.scan_ns(std::mem::take(&mut walk.steps), index);
        self.charge(Spent::Scheduler, ns);
    }
}

unsafe extern "C" fn create_dsq(host: *mut Host, id: u64, _node: i32) -> i32 {
    let k = unsafe { kernel(host) };
    if id & BUILTIN != 0 {
        return -errno::EINVAL;
    }
    if k.queues.create(id) { 0 } else { -errno::EEXIST }
}

unsafe extern "C" fn destroy_dsq(host: *mut Host, id: u64) {
    let k = unsafe { kernel(host) };
    match k.queues.find(id) {
        Some(index) if k.queues.get(index).len() > 0 => {
            let message = format!("attempting to destroy in-use dsq {id:#018x}");
            k.fail(FailureKind::BadQueue, message);
        }
        _ => k.queues.destroy(id),
    }
}

unsafe extern "C" fn dsq_insert(host: *mut Host, task: *mut Task, dsq: u64, slice: u64, flags: u64) {
    let k = unsafe { kernel(host) };
    let Some(task) = k.known(task) else { return };
    k.request_insertion(Insertion { task, dsq, flags, by_vtime: false }, slice, None);
}

unsafe extern "C" fn dsq_insert_vtime(
    host: *mut Host,
    task: *mut Task,
    dsq: u64,
    slice: u64,
    vtime: u64,
    flags: u64,
) {
    let k = unsafe { kernel(host) };
    let Some(task) = k.known(task) else { return };
    k.request_insertion(Insertion { task, dsq, flags, by_vtime: true }, slice, Some(vtime));
}

unsafe extern "C" fn dsq_nr_queued(host: *mut Host, id: u64) -> i32 {
    let k = unsafe { kernel(host) };
    k.any_queue(id).map_or(-errno::ENOENT, |index| k.queues.get(index).len() as i32)
}

unsafe extern "C" fn dsq_move_to_local(host: *mut Host, id: u64) -> bool {
    let k = unsafe { kernel(host) };
    if !k.may_dispatch("scx_bpf_dsq_move_to_local") {
        return false;
    }
    k.flush_buffer();
    match k.queues.find(id) {
        Some(index) if id & BUILTIN == 0 => k.move_first_to_local(index),
        _ => {
            let message = format!("invalid DSQ ID {id:#018x}");
            k.fail(FailureKind::BadQueue, message);
            false
        }
    }
}

unsafe extern "C" fn dsq_move(
    host: *mut Host,
    walk: *mut DsqIterator,
    task: *mut Task,
    dsq: u64,
    flags: u64,
    by_vtime: bool,
) -> bool {
    let k = unsafe { kernel(host) };
    // SAFETY: the policy's own iterator, on its stack.
    let walk = unsafe { &mut *walk };
    let Some(from) = k.walked.filter(|_| !walk.dsq.is_null()) else { return false };
    if !k.may_dispatch("scx_bpf_dsq_move") {
        return false;
    }
    k.charge_steps(walk, from);
    let Some(task) = k.known(task) else { return false };
    let queued_here = k.tasks.state(task).place == Place::Queued(from);
    if !queued_here || k.tasks.seen(task).scx.dsq_seq > walk.seq {
        return false;
    }
    let insertion = Insertion { task, dsq, flags, by_vtime };
    let here = k.here();
    let Some(to) = k.resolve(insertion, here) else { return false };
    if k.queues.get(to).refuses(by_vtime) {
        let message = format!("DSQ ID {dsq:#018x} is in use in the other order");
        k.fail_about(task, FailureKind::BadQueue, message);
        return false;
    }
    k.unqueue(task);
    apply_pending(k, walk, task);
    k.push(to, task, flags, by_vtime);
    true
}

/// `scx_bpf_dsq_move_set_slice` and `_set_vtime` hold for the next move only. The iterator
/// carries them in the upper half of its flags, with the values behind the cursor.
const PENDING_SLICE: u64 = 1 << 32;
const PENDING_VTIME: u64 = 1 << 33;

fn apply_pending(k: &mut Kernel<'_>, walk: &mut DsqIterator, task: TaskId) {
    let entity = &mut k.tasks.seen_mut(task).scx;
    if walk.flags & PENDING_SLICE != 0 {
        entity.slice = walk.pending_slice;
    }
    if walk.flags & PENDING_VTIME != 0 {
        entity.dsq_vtime = walk.pending_vtime;
    }
    walk.flags &= !(PENDING_SLICE | PENDING_VTIME);
}

unsafe extern "C" fn dsq_move_set_slice(_host: *mut Host, walk: *mut DsqIterator, slice: u64) {
    // SAFETY: the policy's own iterator.
    let walk = unsafe { &mut *walk };
    walk.flags |= PENDING_SLICE;
    walk.pending_slice = slice;
}

unsafe extern "C" fn dsq_move_set_vtime(_host: *mut Host, walk: *mut DsqIterator, vtime: u64) {
    // SAFETY: the policy's own iterator.
    let walk = unsafe { &mut *walk };
    walk.flags |= PENDING_VTIME;
    walk.pending_vtime = vtime;
}

unsafe extern "C" fn iter_new(host: *mut Host, walk: *mut DsqIterator, dsq: u64, flags: u64) -> i32 {
    let k = unsafe { kernel(host) };
    // SAFETY: memory for an iterator on the policy's stack; every field read later is set here.
    let walk = unsafe { &mut *walk };
    walk.dsq = std::ptr::null_mut();
    walk.next = 0;
    walk.filled = 0;
    walk.steps = 0;
    walk.flags = flags;
    let Some(index) = k.queues.find(dsq).filter(|_| dsq & BUILTIN == 0) else {
        return -errno::ENOENT;
    };
    if k.walked.is_some() {
        let message = "nested walks over dispatch queues are not simulated".to_owned();
        k.fail(FailureKind::BadCall, message);
        return -errno::EINVAL;
    }
    k.lock_queue(index);
    k.walked = Some(index);
    let seq = k.next_seq;
    let queue = k.queues.get_mut(index);
    queue.walks += 1;
    walk.dsq = queue.address();
    walk.seq = seq;
    walk.cursor = Cursor::START.0;
    0
}

unsafe extern "C" fn iter_fill(host: *mut Host, walk: *mut DsqIterator) -> bool {
    const BACKWARDS: u64 = 1 << 16;
    // SAFETY: the policy's own iterator.
    let walk = unsafe { &mut *walk };
    if walk.dsq.is_null() {
        return false;
    }
    let k = unsafe { kernel(host) };
    let Some(index) = k.walked else { return false };
    k.charge_steps(walk, index);
    let mut cursor = Cursor(walk.cursor);
    let wanted = if cursor == Cursor::START { FIRST_CHUNK } else { ITERATOR_CHUNK };
    let mut ids = [0; ITERATOR_CHUNK];
    let backwards = walk.flags & BACKWARDS != 0;
    let filled = k.queues.get(index).walk(&mut cursor, backwards, &mut ids[..wanted]);
    for (place, &id) in walk.chunk.iter_mut().zip(&ids[..filled]) {
        *place = k.tasks.address(id);
    }
    walk.cursor = cursor.0;
    walk.next = 0;
    walk.filled = filled as u32;
    filled > 0
}

unsafe extern "C" fn iter_destroy(host: *mut Host, walk: *mut DsqIterator) {
    // SAFETY: the policy's own iterator.
    let walk = unsafe { &mut *walk };
    if walk.dsq.is_null() {
        return;
    }
    let k = unsafe { kernel(host) };
    walk.dsq = std::ptr::null_mut();
    let Some(index) = k.walked else { return };
    k.charge_steps(walk, index);
    k.walked = None;
    k.queues.get_mut(index).walks -= 1;
    k.unlock_queue(index);
}

unsafe extern "C" fn dispatch_nr_slots(host: *mut Host) -> u32 {
    let k = unsafe { kernel(host) };
    (k.dispatch_batch() - k.buffer.len()) as u32
}

unsafe extern "C" fn dispatch_cancel(host: *mut Host) {
    let k = unsafe { kernel(host) };
    if k.buffer.pop().is_none() {
        let message = "dispatch buffer underflow".to_owned();
        k.fail(FailureKind::BadCall, message);
    }
}

unsafe extern "C" fn reenqueue_local(host: *mut Host) -> u32 {
    const ENQ_REENQ: u64 = 1 << 40;
    let k = unsafe { kernel(host) };
    let local = k.queues.local(k.here());
    let waiting: Vec<TaskId> = k.queues.get(local).iter().collect();
    for &task in &waiting {
        k.unqueue(task);
        k.enqueue(task, ENQ_REENQ);
    }
    waiting.len() as u32
}

unsafe extern "C" fn kick_cpu(host: *mut Host, cpu: i32, flags: u64) {
    let k = unsafe { kernel(host) };
    let Some(cpu) = usize::try_from(cpu).ok().filter(|&cpu| cpu < k.cpus.len()) else {
        let message = format!("invalid CPU {cpu} in scx_bpf_kick_cpu()");
        return k.fail(FailureKind::BadCpu, message);
    };
    if flags & (KICK_IDLE | KICK_PREEMPT) == KICK_IDLE | KICK_PREEMPT {
        let message = "PREEMPT/WAIT cannot be used with SCX_KICK_IDLE".to_owned();
        return k.fail(FailureKind::BadCall, message);
    }
    let current = k.cpus[cpu].current;
    if flags & KICK_IDLE != 0 && current.is_some() {
        return;
    }
    if let (true, Some(task)) = (flags & KICK_PREEMPT != 0, current) {
        k.tasks.seen_mut(task).scx.slice = 0;
    }
    k.interrupt(cpu);
}

unsafe extern "C" fn select_cpu_dfl(
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

unsafe extern "C" fn select_cpu_and(
    host: *mut Host,
    task: *mut Task,
    prev_cpu: i32,
    _wake_flags: u64,
    allowed: *const CpuMask,
    flags: u64,
) -> i32 {
    const PICK_IDLE_CORE: u64 = 1;
    let k = unsafe { kernel(host) };
    let Some(task) = k.known(task) else { return -errno::EINVAL };
    if !k.uses_builtin_idle() {
        return -EBUSY;
    }
    // SAFETY: a CPU mask that the policy holds.
    let mut mask = unsafe { *allowed };
    for (word, own) in mask.bits.iter_mut().zip(k.tasks.seen(task).cpus_mask.bits) {
        *word &= own;
    }
    if prev_cpu >= 0 && mask.has(prev_cpu as usize) && k.claim_idle(prev_cpu as usize) {
        return prev_cpu;
    }
    k.pick_idle(&mask, flags & PICK_IDLE_CORE != 0).map_or(-EBUSY, |cpu| cpu as i32)
}

unsafe extern "C" fn test_and_clear_cpu_idle(host: *mut Host, cpu: i32) -> bool {
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

unsafe extern "C" fn pick_idle_cpu(host: *mut Host, allowed: *const CpuMask, flags: u64) -> i32 {
    const PICK_IDLE_CORE: u64 = 1;
    let k = unsafe { kernel(host) };
    if !k.uses_builtin_idle() {
        return -EBUSY;
    }
    // SAFETY: a CPU mask that the policy holds; copied because it may be the idle mask itself.
    let allowed = unsafe { *allowed };
    k.pick_idle(&allowed, flags & PICK_IDLE_CORE != 0).map_or(-EBUSY, |cpu| cpu as i32)
}

unsafe extern "C" fn pick_any_cpu(host: *mut Host, allowed: *const CpuMask, flags: u64) -> i32 {
    // SAFETY: as for `pick_idle_cpu`.
    let idle = unsafe { pick_idle_cpu(host, allowed, flags) };
    if idle >= 0 {
        return idle;
    }
    let k = unsafe { kernel(host) };
    // SAFETY: a CPU mask that the policy holds.
    let allowed = unsafe { *allowed };
    allowed.common(&k.masks.online).next().map_or(-EBUSY, |cpu| cpu as i32)
}

unsafe extern "C" fn cpu_curr(host: *mut Host, cpu: i32) -> *mut Task {
    let k = unsafe { kernel(host) };
    match usize::try_from(cpu).ok().filter(|&cpu| cpu < k.cpus.len()) {
        Some(cpu) => match k.cpus[cpu].current {
            Some(task) => k.tasks.address(task),
            None => &raw mut *k.idle_tasks[cpu],
        },
        None => {
            let message = format!("invalid CPU {cpu} in scx_bpf_cpu_curr()");
            k.fail(FailureKind::BadCpu, message);
            std::ptr::null_mut()
        }
    }
}

unsafe extern "C" fn task_from_pid(host: *mut Host, pid: i32) -> *mut Task {
    let k = unsafe { kernel(host) };
    let id = pid.wrapping_sub(1);
    let known = id >= 0 && (id as usize) < k.tasks.len();
    if known && k.tasks.state(id as TaskId).place != Place::Exited {
        k.tasks.address(id as TaskId)
    } else {
        std::ptr::null_mut()
    }
}

unsafe extern "C" fn task_storage_create(host: *mut Host, map: *mut Map, task: *mut Task) -> *mut u8 {
    let k = unsafe { kernel(host) };
    if task.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: a task structure; the policy holds no reference while this runs.
    k.maps.create_storage(map, unsafe { &mut *task })
}

unsafe extern "C" fn task_storage_delete(host: *mut Host, map: *mut Map, task: *mut Task) {
    let k = unsafe { kernel(host) };
    if !task.is_null() {
        // SAFETY: as above.
        k.maps.delete_storage(map, unsafe { &mut *task });
    }
}

unsafe extern "C" fn hash_lookup(host: *mut Host, map: *mut Map, key: *const u8) -> *mut u8 {
    // SAFETY: the policy passes a key of the map's type.
    unsafe { kernel(host).maps.lookup(map, key) }
}

unsafe extern "C" fn map_update(
    host: *mut Host,
    map: *mut Map,
    key: *const u8,
    value: *const u8,
    flags: u64,
) -> i32 {
    let k = unsafe { kernel(host) };
    let cpu = k.here();
    // SAFETY: the policy passes a key and a value of the map's types.
    unsafe { k.maps.update(map, key, value, flags, cpu) }
}

unsafe extern "C" fn map_delete(host: *mut Host, map: *mut Map, key: *const u8) -> i32 {
    // SAFETY: the policy passes a key of the map's type.
    unsafe { kernel(host).maps.delete(map, key) }
}

unsafe extern "C" fn timer_init(host: *mut Host, timer: *mut abi::Timer, map: *mut Map) -> i32 {
    let k = unsafe { kernel(host) };
    match k.maps.add_timer(map, timer.cast()) {
        Some(id) => {
            // SAFETY: the policy's timer, inside a value of its map.
            unsafe { (*timer).id = id };
            0
        }
        None => -errno::EINVAL,
    }
}

unsafe extern "C" fn timer_set_callback(
    host: *mut Host,
    timer: *mut abi::Timer,
    callback: *mut c_void,
) -> i32 {
    // SAFETY: the policy's timer.
    let id = unsafe { (*timer).id };
    if unsafe { kernel(host) }.maps.set_callback(id, callback) { 0 } else { -errno::EINVAL }
}

unsafe extern "C" fn timer_start(host: *mut Host, timer: *mut abi::Timer, ns: u64, flags: u64) -> i32 {
    const ABSOLUTE: u64 = 1;
    let k = unsafe { kernel(host) };
    // SAFETY: the policy's timer.
    let id = unsafe { (*timer).id };
    let cpu = k.here();
    let Some((index, generation)) = k.maps.arm(id, cpu) else { return -errno::EINVAL };
    let now_ns = k.host.now_ns;
    let at_ns = if flags & ABSOLUTE != 0 { ns.max(now_ns) } else { now_ns.saturating_add(ns) };
    k.add_timer(at_ns, Timer::Policy(index, generation));
    0
}

unsafe extern "C" fn timer_cancel(host: *mut Host, timer: *mut abi::Timer) -> i32 {
    // SAFETY: the policy's timer.
    let id = unsafe { (*timer).id };
    if unsafe { kernel(host) }.maps.disarm(id) { 0 } else { -errno::EINVAL }
}

unsafe extern "C" fn spin_lock(host: *mut Host, lock: *mut SpinLock) {
    let k = unsafe { kernel(host) };
    // SAFETY: the policy's lock.
    let lock = unsafe { &mut *lock };
    if lock.id == 0 {
        k.spin_locks.push(crate::dispatch_queue::Lock::default());
        lock.id = k.spin_locks.len() as u32;
    }
    k.take(k.spin_locks[lock.id as usize - 1]);
}

unsafe extern "C" fn spin_unlock(host: *mut Host, lock: *mut SpinLock) {
    let k = unsafe { kernel(host) };
    // SAFETY: the policy's lock.
    let id = unsafe { (*lock).id };
    if id > 0 {
        k.spin_locks[id as usize - 1] = k.released();
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

unsafe extern "C" fn print(_host: *mut Host, _message: *const c_char) {
    // bpf_printk goes to the kernel's trace buffer, which a run does not have.
}
