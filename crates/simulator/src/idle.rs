//! Which CPUs are idle: the built-in tracking of sched_ext.

use crate::abi::{CpuMask, MaskWidth, OwnMask};
use crate::neighbours::{Group, Neighbours};
use crate::shown::Part;
use crate::visible::{Placed, Visible};
use scenario::machine::Cpu;
use std::mem::offset_of;

/// The CPU masks that policies read, as far as the machine's masks reach. As they are looked at all
/// the time, it pays that their width is known where this is compiled.
#[derive(Clone, Copy, Debug)]
pub struct Masks {
    /// Idle CPUs.
    pub idle_cpus: OwnMask,
    /// CPUs whose whole core is idle.
    pub idle_cores: OwnMask,
    /// CPUs that are online (`cpu_online_mask`).
    pub online: OwnMask,
    /// All CPUs; tasks that may run everywhere point to it.
    pub possible: OwnMask,
}

impl Masks {
    /// The masks of a machine all of whose CPUs are online and idle.
    pub fn of(all: OwnMask) -> Self {
        Masks { idle_cpus: all, idle_cores: all, online: all, possible: all }
    }

    /// What the policy has addresses of.
    fn parts(width: MaskWidth) -> [Part; 4] {
        let part = |offset, name| Part { offset, bytes: width.bytes(), name };
        [
            part(offset_of!(Masks, idle_cpus), "the mask of idle CPUs"),
            part(offset_of!(Masks, idle_cores), "the mask of idle cores"),
            part(offset_of!(Masks, online), "the mask of online CPUs"),
            part(offset_of!(Masks, possible), "the mask of all CPUs"),
        ]
    }
}

/// Which CPUs are idle, and which are near each other.
#[derive(Debug)]
pub struct Idle {
    masks: Placed<Masks>,
    /// CPUs among which a task is kept.
    neighbours: Neighbours,
}

impl Idle {
    /// All of these CPUs are online and idle.
    pub fn new(cpus: &[Cpu], visible: &mut Visible) -> Idle {
        let masks = Masks::of((0..cpus.len()).collect());
        let masks = visible.place_with(masks, 0, &Masks::parts(visible.width()));
        Idle { masks, neighbours: Neighbours::new(cpus) }
    }

    /// The masks.
    pub fn masks(&self) -> &Masks {
        &self.masks
    }

    /// A CPU comes or goes.
    pub fn set_online(&mut self, cpu: usize, online: bool) {
        if online {
            self.masks.online.set(cpu);
        } else {
            self.masks.online.clear(cpu);
        }
    }

    /// What the CPUs that are online share is found out anew.
    pub fn update_neighbours(&mut self) {
        self.neighbours.update(&self.masks.online);
    }

    fn whole_core_idle(&self, cpu: usize, siblings: &[u32]) -> bool {
        let idle = &self.masks.idle_cpus;
        // A sibling that is offline is no part of the core.
        let is_idle =
            |&sibling: &u32| idle.has(sibling as usize) || !self.masks.online.has(sibling as usize);
        idle.has(cpu) && siblings.iter().all(is_idle)
    }

    /// Marks a CPU idle; `siblings` are the others of its core.
    pub fn mark(&mut self, cpu: usize, siblings: &[u32]) {
        self.masks.idle_cpus.set(cpu);
        if self.whole_core_idle(cpu, siblings) {
            self.masks.idle_cores.set(cpu);
            for &sibling in siblings {
                self.masks.idle_cores.set(sibling as usize);
            }
        }
    }

    /// Marks a CPU busy, or claimed by somebody who will make it busy.
    pub fn mark_busy(&mut self, cpu: usize, siblings: &[u32]) {
        self.masks.idle_cpus.clear(cpu);
        self.masks.idle_cores.clear(cpu);
        for &sibling in siblings {
            self.masks.idle_cores.clear(sibling as usize);
        }
    }

    /// Whether a CPU, or its whole core, is idle.
    pub fn is_idle(&self, cpu: usize, core: bool) -> bool {
        if core { self.masks.idle_cores.has(cpu) } else { self.masks.idle_cpus.has(cpu) }
    }

    /// An idle CPU of `allowed`, one with an idle core if there is such a one; only such a one if
    /// `core_only`. O(words of a mask that the machine's CPUs reach).
    // A part of each of its few callers, all of which are on the way of a task that wakes up.
    #[inline(always)]
    pub fn find(&self, allowed: &CpuMask, core_only: bool) -> Option<usize> {
        self.find_in(self.neighbours.machine(), allowed, core_only)
    }

    /// The same, the nearest to `prev` first.
    pub fn find_near(&self, allowed: &CpuMask, prev: usize, core_only: bool) -> Option<usize> {
        let mut near = self.neighbours.near(prev);
        let found = near.find_map(|group| self.find_in(group, allowed, core_only));
        found.or_else(|| self.find(allowed, core_only))
    }

    #[inline(always)]
    fn find_in(&self, group: &Group, allowed: &CpuMask, core_only: bool) -> Option<usize> {
        let core = group.first_and(allowed, &self.masks.idle_cores);
        let any = || group.first_and(allowed, &self.masks.idle_cpus);
        if core_only { core } else { core.or_else(any) }
    }

    /// The first CPU of `allowed` that the machine has.
    pub fn first_of(&self, allowed: &CpuMask) -> Option<usize> {
        self.neighbours.machine().first_and(allowed, &self.masks.possible)
    }

    /// Whether a CPU of `allowed` is idle.
    pub fn any(&self, allowed: &CpuMask) -> bool {
        self.neighbours.machine().first_and(allowed, &self.masks.idle_cpus).is_some()
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a core is idle if all of its CPUs are, and nearer CPUs are found before others.

    use super::*;

    /// Two nodes of two cores of two CPUs.
    fn idle() -> (Visible, Idle) {
        let cpu = |number: u32| Cpu {
            core: number / 2,
            cache: number / 4,
            node: number / 4,
            speed_permille: 1000,
        };
        let cpus: Vec<Cpu> = (0..8).map(cpu).collect();
        let mut visible = Visible::new(1000, 8, false).expect("addresses");
        let idle = Idle::new(&cpus, &mut visible);
        (visible, idle)
    }

    #[test]
    fn a_core_is_idle_as_long_as_all_its_cpus_are() {
        let (_visible, mut idle) = idle();
        idle.mark_busy(0, &[1]);
        assert!(!idle.is_idle(1, true) && idle.is_idle(1, false) && !idle.is_idle(0, false));
        idle.mark(0, &[1]);
        assert!(idle.is_idle(0, true) && idle.is_idle(1, true));
    }

    #[test]
    fn near_cpus_are_found_first_and_others_then() {
        let (_visible, mut idle) = idle();
        let all = idle.masks().possible;
        assert_eq!(idle.find_near(&all, 6, false), Some(4));
        for cpu in 4..8 {
            idle.mark_busy(cpu, &[cpu as u32 ^ 1]);
        }
        assert_eq!(idle.find_near(&all, 6, false), Some(0));
        assert_eq!(idle.find_near(&(4..8).collect::<OwnMask>(), 6, false), None);
    }
}
