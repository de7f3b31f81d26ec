//! Where a task goes: the kernel's own choice of a CPU, and how fast CPUs compute.

use crate::abi::{CpuMask, OwnMask};
use crate::core::Core;
use crate::cpu::Activity;
use crate::flags::WAKE_SYNC;
use crate::place::TaskId;
use scenario::machine::Distance;
use scenario::workload::CpuSet;

/// A CPU for a task that wakes up.
#[derive(Clone, Copy, Debug)]
enum Found {
    /// It is idle and is to be claimed.
    Idle(usize),
    /// The waker's own, which stays busy until the waker leaves it.
    Waker(usize),
}

impl Core<'_> {
    // ---- idle CPUs --------------------------------------------------------------------------

    /// Marks a CPU idle.
    #[inline]
    pub fn mark_idle(&mut self, cpu: usize) {
        self.idle.mark(cpu, self.cpus.siblings(cpu));
    }

    /// Marks a CPU busy, or claimed by somebody who will make it busy.
    #[inline]
    pub fn mark_busy(&mut self, cpu: usize) {
        self.idle.mark_busy(cpu, self.cpus.siblings(cpu));
    }

    /// Claims the CPU that was found, if one was.
    #[inline]
    pub fn claim(&mut self, found: Option<usize>) -> Option<usize> {
        if let Some(cpu) = found {
            self.mark_busy(cpu);
        }
        found
    }

    /// Claims a CPU if it is idle.
    pub fn claim_idle(&mut self, cpu: usize) -> bool {
        self.claim(self.idle.is_idle(cpu, false).then_some(cpu)).is_some()
    }

    /// The kernel's own choice of a CPU for a task that wakes up, and whether that CPU was idle
    /// and is now claimed (`scx_bpf_select_cpu_dfl`).
    pub fn select_cpu_default(&mut self, task: TaskId, prev: usize, wake: u64) -> (usize, bool) {
        let found = self.idle_for(&self.tasks.mask(task), prev, wake, false);
        match self.claim_found(found) {
            Some(cpu) => (cpu, true),
            None => (prev, false),
        }
    }

    /// An idle CPU of `allowed` for a task that last ran on `prev`, which is claimed, or the
    /// waker's CPU after a synchronous wake-up.
    pub fn select_idle(
        &mut self,
        allowed: &CpuMask,
        prev: usize,
        wake: u64,
        core_only: bool,
    ) -> Option<usize> {
        self.claim_found(self.idle_for(allowed, prev, wake, core_only))
    }

    fn claim_found(&mut self, found: Option<Found>) -> Option<usize> {
        match found? {
            Found::Idle(cpu) => self.claim(Some(cpu)),
            Found::Waker(cpu) => Some(cpu),
        }
    }

    /// What [`Core::select_idle`] takes: a whole idle core before a part of one, and each time
    /// `prev`, then its cache, then its node, then any (`scx_select_cpu_dfl`).
    fn idle_for(
        &self,
        allowed: &CpuMask,
        prev: usize,
        wake: u64,
        core_only: bool,
    ) -> Option<Found> {
        if let Some(found) = self.find_for_sync(allowed, prev, wake) {
            return Some(found);
        }
        let has_smt = !self.cpus.siblings(prev).is_empty();
        if has_smt {
            if allowed.has(prev) && self.idle.is_idle(prev, true) {
                return Some(Found::Idle(prev));
            }
            let near = self.idle.find_near(allowed, prev, true);
            if near.is_some() || core_only {
                return near.map(Found::Idle);
            }
        }
        if allowed.has(prev) && self.idle.is_idle(prev, false) {
            return Some(Found::Idle(prev));
        }
        self.idle.find_near(allowed, prev, false).map(Found::Idle)
    }

    fn find_for_sync(&self, allowed: &CpuMask, prev: usize, wake: u64) -> Option<Found> {
        let here = self.here();
        if wake & WAKE_SYNC == 0 || !allowed.has(here) {
            return None;
        }
        let near = self.cpus.distance(here, prev) <= Distance::Cache as usize;
        if near && allowed.has(prev) && self.idle.is_idle(prev, false) {
            return Some(Found::Idle(prev));
        }
        let local = self.queues.local(here);
        let takes_over = self.queues.get(local).len() == 0
            && self.cpus[here].current.is_some()
            && self.idle.any(allowed);
        takes_over.then_some(Found::Waker(here))
    }

    // ---- where a task may run ---------------------------------------------------------------

    /// Whether a task may run on a CPU now (`is_cpu_allowed`).
    pub fn is_usable(&self, task: TaskId, cpu: usize) -> bool {
        self.cpus[cpu].is_online && self.may_run_on(task, cpu)
    }

    /// A CPU that a task may use if it cannot be on `cpu`: one of its node, else any; none if none
    /// of those is online (`select_fallback_rq`).
    pub fn usable_near(&self, task: TaskId, cpu: usize) -> Option<usize> {
        let node = self.cpus.node(cpu);
        let near = |other: &usize| self.cpus.node(*other) == node;
        let usable = |other: &usize| self.is_usable(task, *other);
        let all = 0..self.cpus.len();
        all.clone().filter(near).find(usable).or(all.clone().find(usable))
    }

    /// The CPUs of a set that the machine has; all of them if the set does not say.
    pub fn mask_of_set(&self, set: &CpuSet) -> OwnMask {
        let Some(cpus) = set else { return self.idle.masks().possible };
        cpus.iter().map(|&cpu| cpu as usize).filter(|&cpu| cpu < self.cpus.len()).collect()
    }

    // ---- CPUs whose speed changes ------------------------------------------------------------

    /// Recomputes how fast `cpu` and those compute whose speed depends on it, after it became busy
    /// or idle.
    #[inline]
    pub fn refresh_mates(&mut self, cpu: usize) {
        if self.cpus.has_mates(cpu) {
            self.refresh_speeds(cpu);
        }
    }

    fn refresh_speeds(&mut self, cpu: usize) {
        let now_ns = self.now_ns();
        let in_cache = self.cpus.note_busy(cpu);
        self.cpus[cpu].speed_permille = self.cpus.speed_of(cpu);
        let mut places = 0..;
        while let Some(mate) = places.next().and_then(|place| self.cpus.mate(cpu, place, in_cache))
        {
            if mate != cpu {
                self.refresh_speed(mate, now_ns);
            }
        }
    }

    /// The machine's CPUs have the speeds of this number from `at_ns` on.
    pub fn change_speeds(&mut self, number: u32, at_ns: u64) {
        let step = &self.cpus.machine().speeds[number as usize];
        for cpu in step.cpus.iter().map(|&cpu| cpu as usize) {
            self.cpus.set_step(cpu, step.permille);
            self.refresh_speed(cpu, at_ns);
        }
    }

    /// Recomputes how fast `cpu`, not the active one, computes from `at_ns` on.
    fn refresh_speed(&mut self, cpu: usize, at_ns: u64) {
        self.progress_to(cpu, at_ns);
        self.cpus[cpu].speed_permille = self.cpus.speed_of(cpu);
        if self.cpus[cpu].activity == Activity::Work {
            self.plan_end_of_work(cpu);
            self.publish(cpu);
        }
    }

    /// Accounts for the computing that `cpu`, not the active one, did up to `at_ns`.
    fn progress_to(&mut self, cpu: usize, at_ns: u64) {
        let to_ns = at_ns.min(self.cpus[cpu].ends.at_ns).max(self.cpus[cpu].clock_ns());
        if self.cpus[cpu].activity == Activity::Work {
            self.account(cpu, to_ns);
        }
    }

    /// Sets when the present computation of `cpu` ends if nothing interrupts it.
    pub fn plan_end_of_work(&mut self, cpu: usize) {
        let Some(task) = self.cpus[cpu].current else { return };
        let state = &mut self.cpus[cpu];
        let left_ns = state.work_ns(self.tasks.state(task).left);
        state.ends = self.time.turn(state.clock_ns().saturating_add(left_ns));
    }
}
