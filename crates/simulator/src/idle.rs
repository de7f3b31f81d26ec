//! Idle CPUs: the built-in tracking of sched_ext, and how busy siblings slow each other down.

use crate::abi::CpuMask;
use crate::cpu::Activity;
use crate::flags::WAKE_SYNC;
use crate::kernel::Kernel;
use crate::place::TaskId;
use scenario::machine::Distance;

impl Kernel<'_> {
    fn whole_core_idle(&self, cpu: usize) -> bool {
        let idle = &self.masks.idle_cpus;
        // A sibling that is offline is no part of the core.
        let is_idle =
            |&sibling: &u32| idle.has(sibling as usize) || !self.masks.online.has(sibling as usize);
        idle.has(cpu) && self.siblings[cpu].iter().all(is_idle)
    }

    /// Marks a CPU idle.
    pub fn mark_idle(&mut self, cpu: usize) {
        self.masks.idle_cpus.set(cpu);
        if self.whole_core_idle(cpu) {
            self.masks.idle_cores.set(cpu);
            for &sibling in &self.siblings[cpu] {
                self.masks.idle_cores.set(sibling as usize);
            }
        }
    }

    /// Marks a CPU busy, or claimed by somebody who will make it busy.
    pub fn mark_busy(&mut self, cpu: usize) {
        self.masks.idle_cpus.clear(cpu);
        self.masks.idle_cores.clear(cpu);
        for &sibling in &self.siblings[cpu] {
            self.masks.idle_cores.clear(sibling as usize);
        }
    }

    /// Claims a CPU if it is idle.
    pub fn claim_idle(&mut self, cpu: usize) -> bool {
        let idle = self.masks.idle_cpus.has(cpu);
        if idle {
            self.mark_busy(cpu);
        }
        idle
    }

    /// Claims an idle CPU of `allowed`, one with an idle core if there is such a one; only such a
    /// one if `core_only`.
    pub fn pick_idle(&mut self, allowed: &CpuMask, core_only: bool) -> Option<usize> {
        let core = allowed.intersection(&self.masks.idle_cores).next();
        let any = || allowed.intersection(&self.masks.idle_cpus).next();
        let found = if core_only { core } else { core.or_else(any) };
        if let Some(cpu) = found {
            self.mark_busy(cpu);
        }
        found
    }

    /// The kernel's own choice of a CPU for a task that wakes up, and whether that CPU was idle
    /// and is now claimed (`scx_bpf_select_cpu_dfl`).
    pub fn select_cpu_default(&mut self, task: TaskId, prev: usize, wake: u64) -> (usize, bool) {
        let allowed = self.tasks.seen(task).cpus_mask;
        match self.select_idle(&allowed, prev, wake, false) {
            Some(cpu) => (cpu, true),
            None => (prev, false),
        }
    }

    /// An idle CPU of `allowed` for a task that last ran on `prev`, which is claimed, or the
    /// waker's CPU after a synchronous wake-up: a whole idle core before a part of one, and each
    /// time `prev`, then its cache, then its node, then any (`scx_select_cpu_dfl`).
    pub fn select_idle(
        &mut self,
        allowed: &CpuMask,
        prev: usize,
        wake: u64,
        core_only: bool,
    ) -> Option<usize> {
        if let Some(cpu) = self.select_for_sync(allowed, prev, wake) {
            return Some(cpu);
        }
        let has_smt = !self.siblings[prev].is_empty();
        if has_smt {
            if allowed.has(prev) && self.masks.idle_cores.has(prev) {
                self.mark_busy(prev);
                return Some(prev);
            }
            if let Some(cpu) = self.pick_idle_near(allowed, prev, true) {
                return Some(cpu);
            }
            if core_only {
                return None;
            }
        }
        if allowed.has(prev) && self.claim_idle(prev) {
            return Some(prev);
        }
        self.pick_idle_near(allowed, prev, false)
    }

    fn select_for_sync(&mut self, allowed: &CpuMask, prev: usize, wake: u64) -> Option<usize> {
        let here = self.here();
        if wake & WAKE_SYNC == 0 || !allowed.has(here) {
            return None;
        }
        let near = self.distance(here, prev) <= Distance::Cache as usize;
        if near && allowed.has(prev) && self.claim_idle(prev) {
            return Some(prev);
        }
        let local = self.queues.local(here);
        let some_idle = allowed.intersection(&self.masks.idle_cpus).next().is_some();
        let takes_over =
            some_idle && self.queues.get(local).len() == 0 && self.cpus[here].current.is_some();
        takes_over.then_some(here)
    }

    /// Claims an idle CPU of `allowed`, the nearest to `prev` first.
    fn pick_idle_near(&mut self, allowed: &CpuMask, prev: usize, core_only: bool) -> Option<usize> {
        let near = self.neighbours.near(prev);
        let mut near = near.into_iter().flatten();
        let found = near.find_map(|near| self.pick_idle(&near.and(allowed), core_only));
        found.or_else(|| self.pick_idle(allowed, core_only))
    }

    /// Recomputes how fast the siblings of `cpu` compute, after it became busy or idle.
    pub fn refresh_siblings(&mut self, cpu: usize) {
        if self.siblings[cpu].is_empty() {
            return;
        }
        let now_ns = self.now_ns;
        self.cpus[cpu].speed_permille = self.speed_of(cpu);
        for place in 0..self.siblings[cpu].len() {
            let sibling = self.siblings[cpu][place] as usize;
            self.progress_to(sibling, now_ns);
            self.cpus[sibling].speed_permille = self.speed_of(sibling);
            if self.cpus[sibling].activity == Activity::Work {
                self.plan_end_of_work(sibling);
                self.publish(sibling);
            }
        }
    }

    fn speed_of(&self, cpu: usize) -> u64 {
        let alone = u64::from(self.machine.cpus[cpu].speed_permille);
        let busy = |&sibling: &u32| self.cpus[sibling as usize].current.is_some();
        if self.siblings[cpu].iter().any(busy) {
            (alone * self.costs.smt_percent / 100).max(1)
        } else {
            alone
        }
    }

    /// Accounts for the computing that `cpu`, not the active one, did up to `at_ns`.
    fn progress_to(&mut self, cpu: usize, at_ns: u64) {
        let to_ns = at_ns.min(self.cpus[cpu].ends.at_ns).max(self.cpus[cpu].clock_ns);
        if self.cpus[cpu].activity == Activity::Work {
            self.account(cpu, to_ns);
        }
    }

    /// Sets when the present computation of `cpu` ends if nothing interrupts it.
    pub fn plan_end_of_work(&mut self, cpu: usize) {
        let Some(task) = self.cpus[cpu].current else { return };
        let left_ns = self.tasks.state(task).left.div_ceil(self.cpus[cpu].speed_permille);
        self.cpus[cpu].ends = self.agenda.turn(self.cpus[cpu].clock_ns.saturating_add(left_ns));
    }
}
