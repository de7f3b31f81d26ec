//! How tasks get into dispatch queues and out of them.

use crate::core::Core;
use crate::cpu::{Activity, Spent};
use crate::dispatch_queue::{
    BUILTIN, GLOBAL, LOCAL, LOCAL_CPU_MASK, LOCAL_ON, MixedOrders, Standing, way_to_queue,
};
use crate::failure::FailureKind;
use crate::flags;
use crate::place::{Place, TaskId};
use crate::policy_state::Insertion;
use crate::queues::Stranded;

impl Core<'_> {
    /// Puts a task that is in no queue where the policy said; `local_cpu` is the CPU that
    /// `SCX_DSQ_LOCAL` means. If that is gone, the task is stranded, see `push_stranded`.
    pub fn insert(&mut self, insertion: Insertion, local_cpu: usize) {
        let Some(index) = self.resolve(insertion, local_cpu) else {
            return self.tasks.move_to(insertion.task, Place::Custody);
        };
        self.push(index, insertion.task, insertion.flags, insertion.by_vtime);
    }

    /// Index of the queue an insertion names; a failure if there is none.
    #[inline]
    pub fn resolve(&mut self, insertion: Insertion, local_cpu: usize) -> Option<u32> {
        let Insertion { task, dsq, by_vtime, .. } = insertion;
        if dsq & BUILTIN == 0 {
            return self.queues.find(dsq).or_else(|| self.no_queue_for(insertion));
        }
        if by_vtime {
            let message = "cannot use vtime ordering for built-in DSQs".to_owned();
            self.fail_to_insert(insertion, FailureKind::BadQueue, message);
            return None;
        }
        if dsq == GLOBAL {
            let cpu = self.tasks.seen(task).cpu as usize;
            return Some(self.queues.global(self.cpus.node(cpu)));
        }
        let cpu = match dsq & LOCAL_ON == LOCAL_ON {
            true => (dsq & LOCAL_CPU_MASK) as usize,
            false if dsq == LOCAL => local_cpu,
            false => return self.no_queue_for(insertion),
        };
        if !self.check_local_target(insertion, cpu) {
            return None;
        }
        let home = self.tasks.seen(task).cpu as usize;
        if cpu != home && !self.cpus[cpu].is_online {
            // CPUs may go at any time, so this is no fault of the policy's.
            return Some(self.queues.global(self.cpus.node(home)));
        }
        Some(self.queues.local(cpu))
    }

    /// Ends the run because there is no queue of the number that an insertion names.
    #[cold]
    fn no_queue_for(&mut self, insertion: Insertion) -> Option<u32> {
        let (dsq, label) = (insertion.dsq, self.tasks.label(insertion.task));
        let message = format!("non-existent DSQ {dsq:#x} for {label}{}", way_to_queue(dsq));
        self.fail_to_insert(insertion, FailureKind::BadQueue, message);
        None
    }

    /// Ends the run by an insertion, which may have been asked for some calls ago.
    #[cold]
    fn fail_to_insert(&mut self, insertion: Insertion, kind: FailureKind, message: String) {
        if !self.recorder.has_failed() {
            self.policy.given.failed_at = insertion.asked_at;
        }
        self.fail_about(insertion.task, kind, message);
    }

    /// Whether a task may be put into a CPU's own queue; a failure if not.
    fn check_local_target(&mut self, insertion: Insertion, cpu: usize) -> bool {
        let task = insertion.task;
        if cpu >= self.cpus.len() {
            let message = format!("invalid CPU {cpu} in SCX_DSQ_LOCAL_ON dispatch verdict");
            self.fail_to_insert(insertion, FailureKind::BadCpu, message);
            return false;
        }
        // Where a task is already it may stay until the kernel itself moves it.
        if !self.may_run_on(task, cpu) && self.tasks.seen(task).cpu != cpu as i32 {
            let label = self.tasks.label(task);
            let message = format!("SCX_DSQ_LOCAL[_ON] target CPU {cpu} not allowed for {label}");
            self.fail_to_insert(insertion, FailureKind::BadCpu, message);
            return false;
        }
        true
    }

    #[inline(always)]
    fn holds_lock(&self, index: u32) -> bool {
        self.queues.is_walked(index)
            || (self.picking.is_choosing() && index as usize == self.here())
    }

    /// Takes a queue's lock unless this CPU holds it already.
    #[inline(always)]
    pub fn lock_queue(&mut self, index: u32) {
        if !self.holds_lock(index) {
            self.take(self.queues.get(index).lock);
        }
    }

    /// Gives a queue's lock back unless a longer critical section goes on.
    #[inline(always)]
    pub fn unlock_queue(&mut self, index: u32) {
        if !self.holds_lock(index) {
            self.release_queue(index);
        }
    }

    /// Gives a queue's lock back.
    #[inline]
    pub fn release_queue(&mut self, index: u32) {
        self.queues.get_mut(index).lock = self.released();
    }

    /// Appends a task to the queue with this index (`dispatch_enqueue`).
    pub fn push(&mut self, index: u32, task: TaskId, enq_flags: u64, by_vtime: bool) {
        self.lock_queue(index);
        let costs = self.cpus.costs();
        self.charge(Spent::Queue, costs.dsq_op_ns + u64::from(by_vtime) * costs.vtime_op_ns);
        let at_head = enq_flags & (flags::ENQ_HEAD | flags::ENQ_PREEMPT) != 0;
        let (seen, state) = self.tasks.both_mut(task);
        let vtime = seen.scx.dsq_vtime;
        match self.queues.add(index, task, by_vtime.then_some(vtime), at_head) {
            Ok((position, seq)) => {
                state.fifo_position = position;
                state.queued_at = vtime as i64;
                let queue = self.queues.get(index);
                seen.scx.dsq = self.visible.room.shift.show(queue.address());
                seen.scx.dsq_seq = seq;
                match self.recorder.queues() {
                    Some(recorder) if by_vtime => recorder.pushed_by_vtime(index, task, vtime),
                    Some(recorder) => recorder.pushed(index, task, seq, at_head),
                    None => {}
                }
                self.tasks.move_to(task, Place::Queued(index));
            }
            Err(MixedOrders) => {
                self.tasks.move_to(task, Place::Custody);
                self.fail_with_mixed_orders(index, task, by_vtime);
            }
        }
        self.unlock_queue(index);
        if let Some(cpu) = self.queues.cpu_of(index) {
            self.entered_local(cpu, task, enq_flags);
        }
    }

    /// Ends the run because a task cannot be put into a queue in this order.
    pub fn fail_with_mixed_orders(&mut self, index: u32, task: TaskId, by_vtime: bool) {
        let had = if by_vtime { "FIFO" } else { "PRIQ" };
        let id = self.queues.get(index).id();
        let message = format!("DSQ ID {id:#018x} already had {had}-enqueued tasks");
        self.fail_about(task, FailureKind::BadQueue, message);
    }

    /// What follows when a task enters a CPU's own queue (`local_dsq_post_enq`).
    fn entered_local(&mut self, cpu: usize, task: TaskId, enq_flags: u64) {
        self.tasks.seen_mut(task).cpu = cpu as i32;
        if self.cpus[cpu].activity == Activity::Offline {
            return self.queues.strand(Stranded::OnGoneCpu(task));
        }
        match self.cpus[cpu].current {
            None => {
                if !(self.picking.is_choosing() && cpu == self.here()) {
                    self.resched(cpu);
                }
            }
            Some(current) if enq_flags & flags::ENQ_PREEMPT != 0 && current != task => {
                self.tasks.seen_mut(current).scx.slice = 0;
                self.resched(cpu);
            }
            Some(_) => {}
        }
    }

    /// A task that was in the policy's custody, or in a queue of its own, is in another queue now.
    /// If that is the kernel's, the policy is to hear of it (`task_leave_custody`).
    #[inline]
    pub fn left_custody(&mut self, task: TaskId) {
        if self.policy.hears_of_custody()
            && let Place::Queued(index) = self.tasks.state(task).place
            && !self.queues.is_own(index)
        {
            self.queues.strand(Stranded::OutOfCustody(task));
        }
    }

    /// Takes a queued task out of its queue; it is then in no place.
    pub fn unqueue(&mut self, task: TaskId) {
        let Place::Queued(index) = self.tasks.state(task).place else {
            unreachable!("{} is not queued", self.tasks.label(task))
        };
        self.lock_queue(index);
        self.unlink(index, task);
        self.unlock_queue(index);
    }

    /// Takes the first task out of a queue that is not empty; it is then in no place.
    #[inline]
    pub fn unqueue_first(&mut self, index: u32) -> TaskId {
        self.lock_queue(index);
        let first = self.unlink_first(index);
        self.unlock_queue(index);
        first
    }

    /// Takes the first task out of this queue, whose lock the active CPU holds.
    #[inline]
    fn unlink_first(&mut self, index: u32) -> TaskId {
        self.charge(Spent::Queue, self.cpus.costs().dsq_op_ns);
        let first = self.queues.remove_first(index);
        if let Some(recorder) = self.recorder.queues() {
            recorder.left(index, first, true);
        }
        self.belongs_nowhere(first);
        first
    }

    #[inline]
    fn belongs_nowhere(&mut self, task: TaskId) {
        self.tasks.seen_mut(task).scx.dsq = std::ptr::null_mut();
        if self.queues.has_walks() {
            let shown = self.visible.width().tasks().address(task.into());
            self.visible.walks.forget(std::ptr::without_provenance_mut(shown as usize));
        }
        self.tasks.move_to(task, Place::Moving);
    }

    /// Takes a task out of this queue, whose lock the active CPU holds.
    fn unlink(&mut self, index: u32, task: TaskId) {
        self.charge(Spent::Queue, self.cpus.costs().dsq_op_ns);
        let queue = self.queues.get(index);
        let state = self.tasks.state(task);
        let standing = if queue.is_by_vtime() {
            state.standing_key(self.tasks.seen(task).scx.dsq_seq)
        } else {
            Standing::Position(state.fifo_position)
        };
        if let Some(recorder) = self.recorder.queues() {
            recorder.left(index, task, queue.first() == Some(task));
        }
        let removed = self.queues.remove(index, standing);
        assert_eq!(removed, task, "queue {} gave another task", self.queues.get(index).id());
        self.belongs_nowhere(task);
    }

    /// Moves the first task of a queue that may run on the active CPU to that CPU's own queue
    /// (`consume_dispatch_q`).
    #[inline]
    pub fn move_first_to_local(&mut self, index: u32) -> Option<TaskId> {
        if self.queues.get(index).len() > 0 { self.move_first_allowed(index) } else { None }
    }

    fn move_first_allowed(&mut self, index: u32) -> Option<TaskId> {
        let cpu = self.here();
        self.lock_queue(index);
        let (found, steps) = self.first_allowed(index, cpu);
        self.charge_scan(steps - 1, index);
        match found {
            Some(_) if steps == 1 => drop(self.unlink_first(index)),
            Some(task) => self.unlink(index, task),
            None => {}
        }
        self.unlock_queue(index);
        self.push(self.queues.local(cpu), found?, 0, false);
        found
    }

    /// The first task of a queue that is not empty that may run on a CPU, and how many were looked
    /// at.
    fn first_allowed(&self, index: u32, cpu: usize) -> (Option<TaskId>, u64) {
        let queue = self.queues.get(index);
        // A CPU that goes takes only what belongs to its run queue.
        let may_run = |task: &TaskId| match self.cpus[cpu].is_online {
            true => self.may_run_on(*task, cpu),
            false => self.tasks.seen(*task).cpu == cpu as i32,
        };
        if let Some(first) = queue.first().filter(may_run) {
            return (Some(first), 1);
        }
        match queue.iter().zip(1..).find(|(task, _)| may_run(task)) {
            Some((found, steps)) => (Some(found), steps),
            None => (None, queue.len() as u64),
        }
    }

    /// Charges looking at `steps` tasks of the queue with this index. Where they do not fit in the
    /// cache, a line of each comes from memory.
    pub fn charge_scan(&mut self, steps: u64, index: u32) {
        let costs = self.cpus.costs();
        if self.queues.get(index).len() as u64 <= costs.scan_cached_tasks {
            return self.charge(Spent::Scan, steps * costs.scan_step_ns);
        }
        let (bytes, ns) = (steps * costs.line_bytes, steps * costs.scan_miss_ns);
        self.wait_for_bus(bytes, ns, 0);
        self.charge(Spent::Scan, ns);
    }
}
