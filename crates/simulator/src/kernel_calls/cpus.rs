//! Calls that choose, claim and kick CPUs, and look at what runs.

use crate::abi::{CpuMask, OwnMask, Task};
use crate::core::Core;
use crate::flags::{KICK_IDLE, KICK_PREEMPT, OPS_TID_TO_TASK};
use crate::operations::Operation;
use crate::picking::OwnKicks;
use crate::place::{Place, TaskId};
use crate::releases;
use bytecode::errno;

/// `SCX_PICK_IDLE_CORE`
pub const PICK_IDLE_CORE: u64 = 1;
/// `SCX_PICK_IDLE_IN_NODE`
const PICK_IDLE_IN_NODE: u64 = 1 << 1;

impl Core<'_> {
    /// Whether the kernel knows which CPUs are idle; if not, that ends the run.
    pub fn uses_builtin_idle(&mut self) -> bool {
        self.check_call(self.policy.tracks_idle(), "built-in idle tracking is disabled")
    }

    pub fn kick_cpu(&mut self, cpu: i32, flags: u64) {
        let Some(cpu) = self.check_cpu(cpu, "scx_bpf_kick_cpu") else { return };
        let is_one = flags & (KICK_IDLE | KICK_PREEMPT) != KICK_IDLE | KICK_PREEMPT;
        if !self.check_call(is_one, "PREEMPT/WAIT cannot be used with SCX_KICK_IDLE") {
            return;
        }
        if self.picking.is_switching() && cpu == self.here() {
            let if_idle = flags & KICK_IDLE != 0;
            let preempts = flags & KICK_PREEMPT != 0;
            return self.picking.kick_self(OwnKicks { always: !if_idle, if_idle, preempts });
        }
        if !self.idle.masks().online.has(cpu) && cpu != self.here() {
            return;
        }
        let current = self.cpus[cpu].current;
        if flags & KICK_IDLE != 0 && current.is_some() {
            return;
        }
        if let (true, Some(task)) = (flags & KICK_PREEMPT != 0, current) {
            self.tasks.seen_mut(task).scx.slice = 0;
        }
        if cpu == self.here() {
            // The interrupt comes before this CPU leaves the kernel (`irq_work_queue`): its task
            // does not begin another operation.
            self.recorder.interrupt();
            return self.resched(cpu);
        }
        self.interrupt(cpu);
    }

    /// The CPU, and whether it was idle, if that is known.
    pub fn select_cpu_dfl(
        &mut self,
        task: TaskId,
        prev_cpu: i32,
        wake_flags: u64,
    ) -> (i32, Option<bool>) {
        if !self.uses_builtin_idle() {
            return (prev_cpu, None);
        }
        let (operation, release) = (self.policy.given.operation, self.policy.given.release);
        if operation != Operation::SelectCpu && !releases::selects_in_enqueue(release) {
            let name = operation.name();
            let why = "in Linux before 6.18 scx_bpf_select_cpu_dfl() is for select_cpu";
            self.check_call(false, &format!("{why}, and it is called in {name}"));
            return (prev_cpu, None);
        }
        let Some(prev) = self.cpu_of_number(prev_cpu) else { return (prev_cpu, None) };
        let (cpu, idle) = self.select_cpu_default(task, prev, wake_flags);
        (cpu as i32, Some(idle))
    }

    pub fn select_cpu_and(
        &mut self,
        task: TaskId,
        prev_cpu: i32,
        wake_flags: u64,
        allowed: &CpuMask,
        flags: u64,
    ) -> i32 {
        if !self.uses_builtin_idle() {
            return -errno::EBUSY;
        }
        let mask = OwnMask::combined(allowed, &self.tasks.mask(task), |a, b| a & b);
        let Some(prev) = self.cpu_of_number(prev_cpu) else { return -errno::EINVAL };
        let found = self.select_idle(&mask, prev, wake_flags, flags & PICK_IDLE_CORE != 0);
        found.map_or(-errno::EBUSY, |cpu| cpu as i32)
    }

    pub fn test_and_clear_cpu_idle(&mut self, cpu: i32) -> bool {
        if !self.uses_builtin_idle() {
            return false;
        }
        let cpu = self.check_cpu(cpu, "scx_bpf_test_and_clear_cpu_idle");
        cpu.is_some_and(|cpu| self.claim_idle(cpu))
    }

    /// Claims the idle CPU that was found, if one was.
    pub fn pick_idle_cpu(&mut self, found: Option<usize>) -> i32 {
        if !self.uses_builtin_idle() {
            return -errno::EBUSY;
        }
        self.claim(found).map_or(-errno::EBUSY, |cpu| cpu as i32)
    }

    /// The same; where none was found, or who is idle is not known, any.
    pub fn pick_any_cpu(&mut self, found: Option<usize>, any: Option<usize>) -> i32 {
        let found = found.filter(|_| self.policy.tracks_idle());
        self.claim(found).or(any).map_or(-errno::EBUSY, |cpu| cpu as i32)
    }

    /// `NUMA_NO_NODE` after a failure.
    pub fn cpu_node(&mut self, cpu: i32) -> i32 {
        let cpu = self.check_cpu(cpu, "scx_bpf_cpu_node");
        cpu.map_or(-1, |cpu| self.cpus.node(cpu) as i32)
    }

    /// The CPUs of a node.
    pub fn cpus_of(&self, node: usize) -> OwnMask {
        (0..self.cpus.len()).filter(|&cpu| self.cpus.node(cpu) == node).collect()
    }

    /// The node that a call names, or a negative error number (`validate_node`). A kernel wants a
    /// flag of the policy for it, which loaders set: strict runs do, see [`Core::forbidden`].
    pub fn checked_node(&mut self, node: i32) -> Result<usize, i32> {
        if !self.check_call(self.policy.tracks_idle(), "per-node idle tracking is disabled") {
            return Err(-errno::EOPNOTSUPP);
        }
        match usize::try_from(node) {
            Ok(node) if node < self.cpus.nr_nodes() => Ok(node),
            _ if node == -1 => Err(-errno::ENOENT),
            _ => {
                self.check_call(false, &format!("invalid node {node}"));
                Err(-errno::EINVAL)
            }
        }
    }

    /// Claims an idle CPU, one of the node if there is such a one; with `any`, where none is idle,
    /// takes one that is not (`scx_bpf_pick_idle_cpu_node`).
    pub fn pick_cpu_of_node(&mut self, allowed: &CpuMask, node: i32, flags: u64, any: bool) -> i32 {
        let node = match self.checked_node(node) {
            Ok(node) => node,
            Err(errno) => return errno,
        };
        let near = OwnMask::combined(allowed, &self.cpus_of(node), |a, b| a & b);
        let (core_only, elsewhere) = (flags & PICK_IDLE_CORE != 0, flags & PICK_IDLE_IN_NODE == 0);
        let far = || self.idle.find(allowed, core_only).filter(|_| elsewhere);
        let found = self.idle.find(&near, core_only).or_else(far);
        let wanted: &CpuMask = if elsewhere { allowed } else { &near };
        let other = self.idle.first_of(wanted).filter(|_| any);
        self.claim(found).or(other).map_or(-errno::EBUSY, |cpu| cpu as i32)
    }

    pub fn cpu_curr(&mut self, cpu: i32) -> *mut Task {
        let Some(cpu) = self.check_cpu(cpu, "scx_bpf_cpu_curr") else {
            return std::ptr::null_mut();
        };
        self.current_of(cpu)
    }

    /// A task that the policy knows, by what its `scx.tid` is (`world`).
    pub fn task_from_tid(&mut self, tid: u64) -> *mut Task {
        let may_ask = self.policy.flags() & OPS_TID_TO_TASK != 0;
        let message = "scx_bpf_tid_to_task() called without SCX_OPS_TID_TO_TASK";
        let task = (tid as u32).wrapping_sub(1);
        let is_one = self.check_call(may_ask, message) && (task as usize) < self.tasks.len();
        let is_known = is_one && {
            let (seen, state) = (self.tasks.seen(task), self.tasks.state(task));
            seen.tgid as u64 == tid >> 32 && state.place != Place::Unborn && !state.is_forgotten
        };
        if is_known { self.tasks.address(task) } else { std::ptr::null_mut() }
    }

    pub fn task_from_pid(&self, pid: i32) -> *mut Task {
        let id = pid.wrapping_sub(1);
        let known = id >= 0 && (id as usize) < self.tasks.len();
        if known && self.tasks.state(id as TaskId).place != Place::Exited {
            self.tasks.address(id as TaskId)
        } else {
            std::ptr::null_mut()
        }
    }

    /// The same, and the first CPU's idle task, whose pid is 0.
    pub fn task_of_walk(&self, pid: i32) -> *mut Task {
        if pid == 0 { self.tasks.address_on(0, None) } else { self.task_from_pid(pid) }
    }
}
