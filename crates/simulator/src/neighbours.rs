//! Which CPUs share what, as far as that decides which idle CPU is taken.

use crate::abi::CpuMask;
use scenario::machine::Cpu;

/// Which CPUs share what, as far as that decides which idle CPU is taken.
#[derive(Debug)]
pub struct Neighbours {
    /// Of each CPU, its own included.
    caches: Vec<CpuMask>,
    nodes: Vec<CpuMask>,
    by_cache: bool,
    by_node: bool,
}

impl Neighbours {
    /// Those of a machine whose CPUs are all online.
    pub fn new(cpus: &[Cpu]) -> Self {
        let all = 0..cpus.len();
        let sharing = |part: fn(&Cpu) -> u32| {
            let same = |own| all.clone().filter(move |&other| part(&cpus[other]) == part(own));
            cpus.iter().map(|own| same(own).collect()).collect()
        };
        let mut neighbours = Neighbours {
            caches: sharing(|cpu| cpu.cache),
            nodes: sharing(|cpu| cpu.node),
            by_cache: false,
            by_node: false,
        };
        neighbours.update(&all.collect());
        neighbours
    }

    /// Caches count if there are several with more than one CPU; nodes if there are several that
    /// are not just those of the caches (`scx_idle_update_selcpu_topology`).
    pub fn update(&mut self, online: &CpuMask) {
        let nr_online = online.weight();
        let nr_online_of = |mask: &CpuMask| mask.and(online).weight();
        // A cache of a single CPU is no scheduling domain.
        let cache = |cpu: usize| Some(nr_online_of(&self.caches[cpu])).filter(|&nr| nr > 1);
        let node = |cpu: usize| nr_online_of(&self.nodes[cpu]);
        let mut cpus = online.intersection(online);
        let Some(first) = cpus.next() else { return };
        let by_cache = cache(first).is_some_and(|nr| nr < nr_online);
        let differ = |cpu: usize| cache(cpu) != Some(node(cpu));
        let by_node = node(first) < nr_online && online.intersection(online).any(differ);
        (self.by_cache, self.by_node) = (by_cache, by_node);
    }

    /// Where to look for an idle CPU before all others, the nearest first.
    pub fn near(&self, cpu: usize) -> [Option<CpuMask>; 2] {
        [self.by_cache.then(|| self.caches[cpu]), self.by_node.then(|| self.nodes[cpu])]
    }
}
