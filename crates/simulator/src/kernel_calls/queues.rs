//! Calls on dispatch queues: insert, move, walk.

use crate::abi::{ITERATOR_CHUNK, Task};
use crate::core::Core;
use crate::dispatch_queue::{BUILTIN, Cursor, LOCAL, LOCAL_CPU_MASK, LOCAL_ON, way_to_queue};
use crate::failure::FailureKind;
use crate::place::{Place, TaskId};
use crate::policy_state::{Context, Insertion};
use crate::visible::WALKS_MAX;
use bytecode::errno;

/// An iterator that has not fetched anything asks for few tasks first: most walks are short. Then
/// it asks for so many times as many as before.
const FIRST_CHUNK: usize = 4;
const CHUNK_GROWTH: usize = 4;

impl Core<'_> {
    /// Notes where a task is to go; with a `vtime` into a queue ordered by that.
    pub fn dsq_insert(
        &mut self,
        task: TaskId,
        dsq: u64,
        slice: u64,
        vtime: Option<u64>,
        flags: u64,
    ) {
        let (by_vtime, asked_at) = (vtime.is_some(), self.policy.given.call);
        let insertion = Insertion { task, dsq, flags, by_vtime, asked_at };
        match self.policy.context() {
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
                self.policy.begin(Context::Enqueueing { task, direct: Some(insertion) });
            }
            Context::Dispatching => {
                if self.policy.nr_slots() == 0 {
                    let message = "dispatch buffer overflow".to_owned();
                    return self.fail_about(task, FailureKind::BadCall, message);
                }
                self.set_slice_and_vtime(task, slice, vtime);
                self.policy.keep(insertion);
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

    /// Charges the steps of the open walk `at` that have not been charged; the index of its queue.
    fn charge_steps(&mut self, at: usize) -> u32 {
        let walk = self.visible.walks.get(at);
        let place = walk.place();
        let steps = place - std::mem::replace(&mut walk.charged, place);
        let index = walk.queue;
        self.charge_scan(steps.into(), index);
        index
    }

    /// `node` is where its memory is to be; any is for -1 (`NUMA_NO_NODE`).
    pub fn create_dsq(&mut self, id: u64, node: i32) -> i32 {
        let is_node = node >= -1 && node < self.queues.nr_nodes() as i32;
        if id & BUILTIN != 0 || !is_node {
            return -errno::EINVAL;
        }
        self.queues.create(&mut self.visible, id).err().unwrap_or(0)
    }

    pub fn destroy_dsq(&mut self, id: u64) {
        match self.queues.find(id) {
            Some(index) if self.queues.get(index).len() > 0 => {
                let message = format!("attempting to destroy in-use dsq {id:#018x}");
                self.fail(FailureKind::BadQueue, message);
            }
            _ => self.queues.destroy(id),
        }
    }

    pub fn dsq_nr_queued(&mut self, id: u64) -> i32 {
        let index = if id == LOCAL {
            Some(self.queues.local(self.here()))
        } else if id & LOCAL_ON == LOCAL_ON {
            let cpu = self.check_cpu((id & LOCAL_CPU_MASK) as u32, "scx_bpf_dsq_nr_queued");
            cpu.map(|cpu| self.queues.local(cpu))
        } else {
            // The global queues, one a node, have no number by which they are found.
            self.queues.find(id).filter(|_| id & BUILTIN == 0)
        };
        index.map_or(-errno::ENOENT, |index| self.queues.get(index).len() as i32)
    }

    /// The first task of a queue of the policy's; null if there is none.
    pub fn dsq_peek(&mut self, id: u64) -> *mut Task {
        let Some(index) = self.queues.find(id).filter(|_| id & BUILTIN == 0) else {
            let what = if id & BUILTIN == 0 { "on non-existent" } else { "disallowed on builtin" };
            self.fail(FailureKind::BadQueue, format!("peek {what} DSQ {id:#x}"));
            return std::ptr::null_mut();
        };
        let first = self.queues.get(index).first();
        first.map_or(std::ptr::null_mut(), |task| self.tasks.address(task))
    }

    /// The policy is to be given all tasks of a queue again, when its operation is over.
    pub fn dsq_reenq(&mut self, id: u64, flags: u64) {
        const ANY: u64 = 1;
        if !self.check_call(flags & !ANY == 0, &format!("invalid SCX_REENQ flags {flags:#x}")) {
            return;
        }
        let index = match id {
            LOCAL => Some(self.queues.local(self.here())),
            _ if id & LOCAL_ON == LOCAL_ON => {
                let cpu = self.check_cpu((id & LOCAL_CPU_MASK) as u32, "scx_bpf_dsq_reenq");
                cpu.map(|cpu| self.queues.local(cpu))
            }
            _ => self.queues.find(id).filter(|_| id & BUILTIN == 0),
        };
        match index {
            Some(index) => self.queues.strand_queue(index),
            None => {
                let message = format!("DSQ {id:#x} cannot be enqueued again{}", way_to_queue(id));
                self.fail(FailureKind::BadQueue, message);
            }
        }
    }

    pub fn dsq_move_to_local(&mut self, id: u64) -> bool {
        let may_consume = matches!(self.policy.context(), Context::Dispatching);
        let message = "scx_bpf_dsq_move_to_local() called from outside ops.dispatch()";
        if !self.check_call(may_consume, message) {
            return false;
        }
        self.flush_buffer();
        match self.queues.find(id) {
            Some(index) if id & BUILTIN == 0 => {
                let moved = self.move_first_to_local(index);
                if let Some(task) = moved {
                    self.left_custody(task);
                }
                moved.is_some()
            }
            _ => {
                let message = format!("invalid DSQ ID {id:#018x}{}", way_to_queue(id));
                self.fail(FailureKind::BadQueue, message);
                false
            }
        }
    }

    pub fn dispatch_nr_slots(&self) -> u32 {
        self.policy.nr_slots() as u32
    }

    pub fn dispatch_cancel(&mut self) {
        let had_one = self.policy.forget_last();
        self.check_call(had_one, "dispatch buffer underflow");
    }

    pub fn reenqueue_local(&mut self) -> u32 {
        // The kernel allows it only in ops.cpu_release, and nothing here takes CPUs from a policy.
        self.check_call(false, "scx_bpf_reenqueue_local() called from outside ops.cpu_release()");
        0
    }
}

/// Walks over dispatch queues, which are open, by their numbers less one.
impl Core<'_> {
    pub fn dsq_move(
        &mut self,
        at: usize,
        task: TaskId,
        dsq: u64,
        flags: u64,
        by_vtime: bool,
    ) -> bool {
        let may_move = matches!(self.policy.context(), Context::Dispatching | Context::Unlocked);
        let message = "scx_bpf_dsq_move() called from outside ops.dispatch() and timers";
        if !self.check_call(may_move, message) {
            return false;
        }
        let from = self.charge_steps(at);
        let insertion = Insertion { task, dsq, flags, by_vtime, asked_at: None };
        let moved = self.move_queued(at, from, insertion);
        let walk = self.visible.walks.get(at);
        (walk.pending_slice, walk.pending_vtime) = (None, None);
        moved
    }

    /// Moves a task of the queue `from` that was there when the walk began; whether it was.
    fn move_queued(&mut self, at: usize, from: u32, insertion: Insertion) -> bool {
        let Insertion { task, flags, by_vtime, .. } = insertion;
        let queued_here = self.tasks.state(task).place == Place::Queued(from);
        if !queued_here || self.tasks.seen(task).scx.dsq_seq > self.visible.walks.get(at).seq {
            return false;
        }
        let here = self.here();
        let Some(to) = self.resolve(insertion, here) else { return false };
        if self.queues.get(to).refuses(by_vtime) {
            self.fail_with_mixed_orders(to, task, by_vtime);
            return false;
        }
        self.unqueue(task);
        let (walk, entity) = (self.visible.walks.get(at), &mut self.tasks.seen_mut(task).scx);
        entity.slice = walk.pending_slice.unwrap_or(entity.slice);
        entity.dsq_vtime = walk.pending_vtime.unwrap_or(entity.dsq_vtime);
        self.push(to, task, flags, by_vtime);
        self.left_custody(task);
        true
    }

    /// Opens a walk over a queue; its number less one, or a negative error number.
    pub fn iter_new(&mut self, dsq: u64, flags: u64) -> Result<usize, i32> {
        let found = self.queues.find(dsq).filter(|_| dsq & BUILTIN == 0);
        let index = found.ok_or(-errno::ENOENT)?;
        let Some(at) = self.visible.walks.open() else {
            let message = format!("more than {WALKS_MAX} walks over dispatch queues at once");
            self.fail(FailureKind::Limit, message);
            return Err(-errno::ENOMEM);
        };
        self.lock_queue(index);
        self.queues.begin_walk(index);
        let (seq, cursor) = (self.queues.nr_insertions(), Cursor::START.0);
        let walk = self.visible.walks.get(at);
        (walk.queue, walk.seq, walk.flags, walk.cursor) = (index, seq, flags, cursor);
        (walk.pending_slice, walk.pending_vtime) = (None, None);
        // So that the first task is found without a call.
        self.iter_fetch(at, index);
        Ok(at)
    }

    /// Fetches the next tasks of a walk; whether there are any.
    fn iter_fill(&mut self, at: usize) -> bool {
        let index = self.charge_steps(at);
        let (walk, seq) = (self.visible.walks.get(at), self.queues.nr_insertions());
        // Fewer than were asked for were the last, if no task came since the walk began.
        let was_last = Cursor(walk.cursor) != Cursor::START && walk.filled < FIRST_CHUNK as u32;
        !(was_last && walk.seq == seq) && self.iter_fetch(at, index)
    }

    /// The same of a walk all of whose steps are charged and which may have more.
    fn iter_fetch(&mut self, at: usize, index: u32) -> bool {
        const BACKWARDS: u64 = 1 << 16;
        let rows = self.visible.width().tasks();
        // A product of two numbers of 32 bits: of these a processor makes several at a time.
        let (begin, bytes) = (rows.begin, rows.bytes as u32);
        let shown = |task: TaskId| {
            let address = begin + u64::from(task) * u64::from(bytes);
            std::ptr::without_provenance_mut(address as usize)
        };
        let walk = self.visible.walks.get(at);
        let mut cursor = Cursor(walk.cursor);
        let wanted = CHUNK_GROWTH * walk.filled as usize;
        let wanted = wanted.clamp(FIRST_CHUNK, ITERATOR_CHUNK);
        let backwards = walk.flags & BACKWARDS != 0;
        let (queue, chunk) = (self.queues.get(index), &mut walk.chunk[..wanted]);
        let filled = queue.walk(&mut cursor, backwards, chunk, shown);
        walk.cursor = cursor.0;
        walk.hold(filled);
        let seq = walk.seq;
        if self.queues.nr_insertions() > seq {
            self.forget_newer(at, seq);
        }
        filled > 0
    }

    /// A walk passes over tasks that came since it began.
    fn forget_newer(&mut self, at: usize, seq: u64) {
        let filled = self.visible.walks.get(at).filled as usize;
        for place in 0..filled {
            let shown = self.visible.walks.get(at).chunk[place];
            let task = self.visible.task_number(shown.addr() as u64);
            if task.is_none_or(|task| self.tasks.seen(task as TaskId).scx.dsq_seq > seq) {
                self.visible.walks.get(at).chunk[place] = std::ptr::null_mut();
            }
        }
    }

    /// The next task of a walk, by its address as the policy is shown it.
    pub fn iter_next(&mut self, at: usize) -> Option<u64> {
        loop {
            let walk = self.visible.walks.get(at);
            let place = walk.place();
            if place == walk.filled {
                if !self.iter_fill(at) {
                    return None;
                }
                continue;
            }
            let shown = walk.chunk[place as usize];
            walk.pass();
            if !shown.is_null() {
                return Some(shown.addr() as u64);
            }
        }
    }

    pub fn iter_destroy(&mut self, at: usize) {
        let index = self.charge_steps(at);
        self.queues.end_walk(index);
        self.unlock_queue(index);
        self.visible.walks.end(at);
    }
}
