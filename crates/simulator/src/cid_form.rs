//! Policies whose table is a `sched_ext_ops_cid`: cids where others have CPUs.
//!
//! The simulated kernel has CPUs everywhere. What such a policy is given and what it answers is
//! translated here, beside the way that others take. Source: Linux 7.3, kernel/sched/ext/cid.h
//! (`scx_cpu_arg`, `scx_cpu_ret`) and ext.c (`scx_alloc_kern_arena_objs`, `__scx_enable_task`).

use crate::cids::{Cids, HEADER_BYTES, KernelMasks, put_bit, write_mask};
use crate::core::Core;
use crate::dispatch_queue::{LOCAL_CPU_MASK, LOCAL_ON};
use crate::failure::FailureKind;
use crate::linked::Linked;
use crate::operations::Operation;
use crate::place::TaskId;
use bytecode::{errno, kind};

impl Core<'_> {
    /// Gives each CPU its cid, as those that are online have it now.
    pub fn make_cids(&mut self) {
        let online = self.idle.masks().online;
        let (cpus, shard_size) = (&self.cpus.machine().cpus, self.policy.cid_shard_size());
        let given = &mut self.policy.given;
        given.cids = Cids::new(cpus, |cpu| online.has(cpu), shard_size);
        given.cid_masks = KernelMasks::default();
    }

    /// Lets the policy ask for cids, and puts the kernel's sets of them into its arena.
    pub fn publish_cids(&mut self) {
        self.policy.given.cids.is_published = true;
        if !self.policy.takes_cids() {
            return;
        }
        let (nr, mask) = (self.cpus.len(), self.idle.masks().online);
        let Some((arena, given)) = self.policy.arena_and_given() else { return };
        match KernelMasks::new(arena, nr) {
            Some(masks) => {
                write_mask(arena, masks.online, &given.cids, |cpu| mask.has(cpu));
                given.cid_masks = masks;
            }
            None => {
                let mut maps = self.policy.given.object.maps.iter();
                let arena = maps.find(|map| map.kind == kind::ARENA);
                let has = arena.map_or(0, |map| map.entries_max);
                let message = format!(
                    "its arena has max_entries = {has} pages, and no room among them for the \
                     kernel's sets of cids, which take {} on {nr} CPUs",
                    KernelMasks::pages(nr)
                );
                self.fail(FailureKind::PolicyExit, message);
            }
        }
    }

    /// Every CPU looks for a task when the policy has all of them, as where a kernel ends the
    /// bypass in which it enables a policy (`scx_bypass`): one that keeps its own books of idle
    /// CPUs is told of them there.
    pub fn wake_all(&mut self) {
        (0..self.cpus.len()).for_each(|cpu| self.interrupt(cpu));
    }

    /// A CPU comes or goes, which the set in the policy's arena says before the policy is told.
    pub fn set_online_cid(&mut self, cpu: usize, online: bool) {
        let Some((arena, given)) = self.policy.arena_and_given() else { return };
        if given.cid_masks.online != 0 {
            let first = given.cid_masks.online + HEADER_BYTES;
            put_bit(arena, first, given.cids.cid(cpu) as u64, online);
        }
    }

    /// Puts cids into the arguments of an operation.
    pub fn give_cids(&mut self, linked: &mut Linked) {
        let at = match self.policy.given.operation {
            Operation::SelectCpu | Operation::DumpCpu => 1,
            Operation::Dispatch
            | Operation::UpdateIdle
            | Operation::CpuOnline
            | Operation::CpuOffline => 0,
            Operation::SetCpumask => return linked.arguments.first[1] = self.fill_mask(linked),
            Operation::Enable => {
                let mask = self.fill_mask(linked);
                let given = &mut self.policy.given;
                given.enable.cmask_arena_addr = mask;
                return linked.arguments.first[1] =
                    self.visible.room.address(given.enable.address());
            }
            _ => return,
        };
        let cpu = linked.arguments.first[at] as usize;
        linked.arguments.first[at] = self.policy.given.cids.cid(cpu) as u64;
    }

    /// Where the set of cids is on which the task may run that is an operation's first argument.
    fn fill_mask(&mut self, linked: &mut Linked) -> u64 {
        let task = linked.arguments.first[0];
        let task = self.visible.task_number(task).expect("an operation of a task");
        let mask = self.tasks.mask(task as TaskId);
        let given = &self.policy.given;
        let begin = given.cid_masks.of_cpus[self.here()];
        if let Some(arena) = linked.machine.memory_mut().arena() {
            write_mask(arena, begin, &given.cids, |cpu| mask.has(cpu));
        }
        begin
    }

    /// What `select_cpu` answers, where the policy has answered with a cid.
    pub fn take_cid(&mut self, answer: u64) -> u64 {
        match answer as i32 {
            ..0 => answer,
            cid => self.cpu_of_cid(cid).map_or_else(|errno| errno as u64, |cpu| cpu as u64),
        }
    }

    /// The CPU of a cid; for one that is none a failure, and a negative error number.
    pub fn cpu_of_cid(&mut self, cid: i32) -> Result<usize, i32> {
        let found = self.policy.given.cids.cpu(cid);
        if found.is_none() {
            self.fail(FailureKind::BadCpu, format!("invalid cid {cid}"));
        }
        found.filter(|_| self.policy.given.cids.is_published).ok_or(-errno::EINVAL)
    }

    /// Puts the CPU into the number of a local queue that a call is given, for the cid that the
    /// policy has put there; whether there is one.
    pub fn take_cid_of_queue(&mut self, call: &str, arguments: &mut [u64; 5]) -> bool {
        let Some(id) = queue_of(call).map(|at| &mut arguments[at]) else { return true };
        let cid = *id as u32 as i32;
        if *id & LOCAL_ON != LOCAL_ON || cid < 0 {
            return true;
        }
        let Ok(cpu) = self.cpu_of_cid(cid) else { return false };
        *id = *id & !LOCAL_CPU_MASK | cpu as u64;
        true
    }
}

/// Which argument of a call is the number of a queue that may be a CPU's own.
fn queue_of(call: &str) -> Option<usize> {
    match call {
        "scx_bpf_dsq_nr_queued" | "scx_bpf_dsq_reenq" => Some(0),
        "scx_bpf_dsq_insert___v2"
        | "scx_bpf_dsq_insert"
        | "scx_bpf_dispatch"
        | "scx_bpf_dsq_insert_vtime"
        | "scx_bpf_dispatch_vtime" => Some(1),
        "scx_bpf_dsq_move"
        | "scx_bpf_dsq_move_vtime"
        | "scx_bpf_dispatch_from_dsq"
        | "scx_bpf_dispatch_vtime_from_dsq" => Some(2),
        _ => None,
    }
}
