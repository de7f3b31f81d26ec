//! Calls on dispatch queues: insert, move, walk.

use super::kernel;
use crate::cpu::Spent;
use crate::dispatch_queue::{BUILTIN, Cursor, LOCAL, LOCAL_CPU_MASK, LOCAL_ON, NotCreated};
use crate::failure::FailureKind;
use crate::kernel::{Context, Insertion, Kernel};
use crate::place::{Place, TaskId};
use crate::policy_maps::errno;
use crate::visible::WALKS_MAX;
use policy::abi::{DsqIterator, Host, ITERATOR_CHUNK, Task};

/// `ops.dispatch_max_batch` where the policy names none.
const DISPATCH_BATCH_DEFAULT: u32 = 32;
/// An iterator that has not fetched anything asks for few tasks first: most walks are short.
const FIRST_CHUNK: usize = 4;

impl Kernel<'_> {
    fn request_insertion(&mut self, insertion: Insertion, slice: u64, vtime: Option<u64>) {
        let task = insertion.task;
        match self.context {
            Context::Enqueueing { task: allowed, .. } if allowed != task => {
                let (wanted, had) = (self.tasks.label(task), self.tasks.label(allowed));
                let message =
                    format!("scheduling for {had} but trying to direct-dispatch {wanted}");
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
            Context::Plain | Context::Unlocked => {
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

    /// Whether the policy is in `dispatch`; a failure if not.
    fn may_consume(&mut self) -> bool {
        let allowed = matches!(self.context, Context::Dispatching);
        if !allowed {
            let message = "scx_bpf_dsq_move_to_local() called from outside ops.dispatch()";
            self.fail(FailureKind::BadCall, message.to_owned());
        }
        allowed
    }

    /// Whether the policy is in `dispatch` or a timer's callback; a failure if not.
    fn may_move(&mut self) -> bool {
        let allowed = matches!(self.context, Context::Dispatching | Context::Unlocked);
        if !allowed {
            let message = "scx_bpf_dsq_move() called from outside ops.dispatch() and timers";
            self.fail(FailureKind::BadCall, message.to_owned());
        }
        allowed
    }

    /// Place in `walked` of the queue that an open walk goes over.
    fn place_of(&self, walk: &DsqIterator) -> Option<usize> {
        let dsq = self.visible.shift.find(walk.dsq);
        let goes_over = |&index: &u32| std::ptr::eq(self.queues.get(index).address(), dsq);
        self.walked.iter().rposition(goes_over)
    }

    /// Index of the queue that an open walk goes over.
    fn walked_by(&self, walk: &DsqIterator) -> Option<u32> {
        self.place_of(walk).map(|place| self.walked[place])
    }

    /// Charges the steps of a walk that have not been charged.
    fn charge_steps(&mut self, walk: &mut DsqIterator, index: u32) {
        let ns = self.scan_ns(std::mem::take(&mut walk.steps), index);
        self.charge(Spent::Scheduler, ns);
    }
}

pub(crate) unsafe extern "C" fn create_dsq(host: *mut Host, id: u64, _node: i32) -> i32 {
    let k = unsafe { kernel(host) };
    if id & BUILTIN != 0 {
        return -errno::EINVAL;
    }
    match k.queues.create(&mut k.visible, id) {
        Ok(()) => 0,
        Err(NotCreated::Exists) => -errno::EEXIST,
        Err(NotCreated::NoPlace) => -errno::ENOMEM,
    }
}

pub(crate) unsafe extern "C" fn destroy_dsq(host: *mut Host, id: u64) {
    let k = unsafe { kernel(host) };
    match k.queues.find(id) {
        Some(index) if k.queues.get(index).len() > 0 => {
            let message = format!("attempting to destroy in-use dsq {id:#018x}");
            k.fail(FailureKind::BadQueue, message);
        }
        _ => k.queues.destroy(id),
    }
}

pub(crate) unsafe extern "C" fn dsq_insert(
    host: *mut Host,
    task: *mut Task,
    dsq: u64,
    slice: u64,
    flags: u64,
) {
    let k = unsafe { kernel(host) };
    let Some(task) = k.known(task) else { return };
    k.request_insertion(Insertion { task, dsq, flags, by_vtime: false }, slice, None);
}

pub(crate) unsafe extern "C" fn dsq_insert_vtime(
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

pub(crate) unsafe extern "C" fn dsq_nr_queued(host: *mut Host, id: u64) -> i32 {
    let k = unsafe { kernel(host) };
    let index = if id == LOCAL {
        Some(k.queues.local(k.here()))
    } else if id & LOCAL_ON == LOCAL_ON {
        let cpu = (id & LOCAL_CPU_MASK) as usize;
        if cpu >= k.cpus.len() {
            let message = format!("invalid CPU {cpu} in scx_bpf_dsq_nr_queued()");
            k.fail(FailureKind::BadCpu, message);
            return -errno::ENOENT;
        }
        Some(k.queues.local(cpu))
    } else {
        // The global queues, one a node, have no number by which they are found.
        k.queues.find(id).filter(|_| id & BUILTIN == 0)
    };
    index.map_or(-errno::ENOENT, |index| k.queues.get(index).len() as i32)
}

pub(crate) unsafe extern "C" fn dsq_move_to_local(host: *mut Host, id: u64) -> bool {
    let k = unsafe { kernel(host) };
    if !k.may_consume() {
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

pub(crate) unsafe extern "C" fn dsq_move(
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
    let Some(from) = k.walked_by(walk) else { return false };
    if !k.may_move() {
        return false;
    }
    k.charge_steps(walk, from);
    let Some(task) = k.known(task) else { return false };
    let moved = move_queued(k, walk, from, Insertion { task, dsq, flags, by_vtime });
    walk.flags &= !(PENDING_SLICE | PENDING_VTIME);
    moved
}

/// Moves a task of the queue `from` that was there when the walk began; whether it was.
fn move_queued(k: &mut Kernel<'_>, walk: &DsqIterator, from: u32, insertion: Insertion) -> bool {
    let Insertion { task, flags, by_vtime, .. } = insertion;
    let queued_here = k.tasks.state(task).place == Place::Queued(from);
    if !queued_here || k.tasks.seen(task).scx.dsq_seq > walk.seq {
        return false;
    }
    let here = k.here();
    let Some(to) = k.resolve(insertion, here) else { return false };
    if k.queues.get(to).refuses(by_vtime) {
        k.fail_with_mixed_orders(to, task, by_vtime);
        return false;
    }
    k.unqueue(task);
    apply_pending(k, walk, task);
    k.push(to, task, flags, by_vtime);
    true
}

/// `scx_bpf_dsq_move_set_slice` and `_set_vtime` hold for the next move only, whether or not it
/// finds its task. The iterator carries them in the upper half of its flags, with the values
/// behind the cursor.
const PENDING_SLICE: u64 = 1 << 32;
const PENDING_VTIME: u64 = 1 << 33;

fn apply_pending(k: &mut Kernel<'_>, walk: &DsqIterator, task: TaskId) {
    let entity = &mut k.tasks.seen_mut(task).scx;
    if walk.flags & PENDING_SLICE != 0 {
        entity.slice = walk.pending_slice;
    }
    if walk.flags & PENDING_VTIME != 0 {
        entity.dsq_vtime = walk.pending_vtime;
    }
}

pub(crate) unsafe extern "C" fn dsq_move_set_slice(
    _host: *mut Host,
    walk: *mut DsqIterator,
    slice: u64,
) {
    // SAFETY: the policy's own iterator.
    let walk = unsafe { &mut *walk };
    walk.flags |= PENDING_SLICE;
    walk.pending_slice = slice;
}

pub(crate) unsafe extern "C" fn dsq_move_set_vtime(
    _host: *mut Host,
    walk: *mut DsqIterator,
    vtime: u64,
) {
    // SAFETY: the policy's own iterator.
    let walk = unsafe { &mut *walk };
    walk.flags |= PENDING_VTIME;
    walk.pending_vtime = vtime;
}

pub(crate) unsafe extern "C" fn iter_new(
    host: *mut Host,
    walk: *mut DsqIterator,
    dsq: u64,
    flags: u64,
) -> i32 {
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
    if k.walked.len() >= WALKS_MAX {
        let message = format!("more than {WALKS_MAX} walks over dispatch queues at once");
        k.fail(FailureKind::Limit, message);
        return -errno::ENOMEM;
    }
    k.lock_queue(index);
    k.walked.push(index);
    let seq = k.next_seq;
    let queue = k.queues.get_mut(index);
    queue.walks += 1;
    walk.dsq = k.visible.shift.show(queue.address());
    walk.seq = seq;
    walk.cursor = Cursor::START.0;
    0
}

pub(crate) unsafe extern "C" fn iter_fill(host: *mut Host, walk: *mut DsqIterator) -> bool {
    const BACKWARDS: u64 = 1 << 16;
    // SAFETY: the policy's own iterator.
    let walk = unsafe { &mut *walk };
    if walk.dsq.is_null() {
        return false;
    }
    let k = unsafe { kernel(host) };
    let Some(index) = k.walked_by(walk) else { return false };
    k.charge_steps(walk, index);
    let mut cursor = Cursor(walk.cursor);
    let wanted = if cursor == Cursor::START { FIRST_CHUNK } else { ITERATOR_CHUNK };
    let mut ids = [0; ITERATOR_CHUNK];
    let backwards = walk.flags & BACKWARDS != 0;
    let filled = k.queues.get(index).walk(&mut cursor, backwards, &mut ids[..wanted]);
    for (place, &id) in walk.chunk.iter_mut().zip(&ids[..filled]) {
        *place = k.visible.shift.show(k.tasks.address(id));
    }
    walk.cursor = cursor.0;
    walk.next = 0;
    walk.filled = filled as u32;
    filled > 0
}

pub(crate) unsafe extern "C" fn iter_destroy(host: *mut Host, walk: *mut DsqIterator) {
    // SAFETY: the policy's own iterator.
    let walk = unsafe { &mut *walk };
    if walk.dsq.is_null() {
        return;
    }
    let k = unsafe { kernel(host) };
    let place = k.place_of(walk);
    walk.dsq = std::ptr::null_mut();
    let Some(place) = place else { return };
    let index = k.walked[place];
    k.charge_steps(walk, index);
    k.walked.remove(place);
    k.queues.get_mut(index).walks -= 1;
    k.unlock_queue(index);
}

pub(crate) unsafe extern "C" fn dispatch_nr_slots(host: *mut Host) -> u32 {
    let k = unsafe { kernel(host) };
    (k.dispatch_batch() - k.buffer.len()) as u32
}

pub(crate) unsafe extern "C" fn dispatch_cancel(host: *mut Host) {
    let k = unsafe { kernel(host) };
    if k.buffer.pop().is_none() {
        let message = "dispatch buffer underflow".to_owned();
        k.fail(FailureKind::BadCall, message);
    }
}

pub(crate) unsafe extern "C" fn reenqueue_local(host: *mut Host) -> u32 {
    let k = unsafe { kernel(host) };
    // The kernel allows it only in ops.cpu_release, and nothing here takes CPUs from a policy.
    let message = "scx_bpf_reenqueue_local() called from outside ops.cpu_release()".to_owned();
    k.fail(FailureKind::BadCall, message);
    0
}
