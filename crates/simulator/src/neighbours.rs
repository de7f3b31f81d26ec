//! Which CPUs share what, as far as that decides which idle CPU is taken.

use crate::abi::{CpuMask, OwnMask};
use scenario::machine::Cpu;
use std::collections::BTreeMap;

/// CPUs that share something.
#[derive(Debug, Default)]
pub struct Group {
    /// The word of a mask in which the first of them is.
    begin: usize,
    /// Their words of a mask, from that one to the one of the last of them.
    words: Vec<u64>,
}

impl Group {
    fn add(&mut self, cpu: usize) {
        if self.words.is_empty() {
            self.begin = cpu / 64;
        }
        self.words.resize(cpu / 64 + 1 - self.begin, 0);
        self.words[cpu / 64 - self.begin] |= 1 << (cpu % 64);
    }

    /// The first CPU that is in the group and in both masks. O(words of the group).
    pub fn first_and(&self, a: &CpuMask, b: &OwnMask) -> Option<usize> {
        let reach = self.begin..self.begin + self.words.len();
        let theirs = a.bits[reach.clone()].iter().zip(&b.bits[reach.clone()]);
        let each = reach.zip(self.words.iter().zip(theirs));
        let mut both = each.map(|(word, (own, (a, b)))| (word, own & a & b));
        let (word, bits) = both.find(|(_, bits)| *bits != 0)?;
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    fn weight_in(&self, mask: &OwnMask) -> u32 {
        let theirs = &mask.bits[self.begin..self.begin + self.words.len()];
        self.words.iter().zip(theirs).map(|(own, other)| (own & other).count_ones()).sum()
    }
}

/// The CPUs of a machine, each in one group.
#[derive(Debug)]
struct Groups {
    all: Vec<Group>,
    /// By CPU.
    own: Vec<u32>,
}

impl Groups {
    /// CPUs with the same `part` are a group.
    fn of(cpus: &[Cpu], part: fn(&Cpu) -> u32) -> Groups {
        let (mut all, mut numbers) = (Vec::<Group>::new(), BTreeMap::new());
        let join = |(cpu, own)| {
            let number = *numbers.entry(part(own)).or_insert(all.len());
            if number == all.len() {
                all.push(Group::default());
            }
            all[number].add(cpu);
            number as u32
        };
        let own = cpus.iter().enumerate().map(join).collect();
        Groups { all, own }
    }

    fn get(&self, cpu: usize) -> &Group {
        &self.all[self.own[cpu] as usize]
    }
}

/// Which CPUs share what, as far as that decides which idle CPU is taken.
#[derive(Debug)]
pub struct Neighbours {
    machine: Group,
    caches: Groups,
    nodes: Groups,
    by_cache: bool,
    by_node: bool,
}

impl Neighbours {
    /// Those of a machine whose CPUs are all online.
    pub fn new(cpus: &[Cpu]) -> Self {
        let mut machine = Group::default();
        (0..cpus.len()).for_each(|cpu| machine.add(cpu));
        let mut neighbours = Neighbours {
            machine,
            caches: Groups::of(cpus, |cpu| cpu.cache),
            nodes: Groups::of(cpus, |cpu| cpu.node),
            by_cache: false,
            by_node: false,
        };
        neighbours.update(&(0..cpus.len()).collect());
        neighbours
    }

    /// Caches count if there are several with more than one CPU; nodes if there are several that
    /// are not just those of the caches (`scx_idle_update_selcpu_topology`).
    pub fn update(&mut self, online: &OwnMask) {
        let nr_online = self.machine.weight_in(online);
        // A cache of a single CPU is no scheduling domain.
        let cache = |cpu: usize| Some(self.caches.get(cpu).weight_in(online)).filter(|&nr| nr > 1);
        let node = |cpu: usize| self.nodes.get(cpu).weight_in(online);
        let Some(first) = self.machine.first_and(online, online) else { return };
        let by_cache = cache(first).is_some_and(|nr| nr < nr_online);
        let differ = |cpu: usize| cache(cpu) != Some(node(cpu));
        let by_node = node(first) < nr_online && online.intersection(online).any(differ);
        (self.by_cache, self.by_node) = (by_cache, by_node);
    }

    /// All CPUs.
    pub fn machine(&self) -> &Group {
        &self.machine
    }

    /// Where to look for an idle CPU before all others, the nearest first.
    pub fn near(&self, cpu: usize) -> impl Iterator<Item = &Group> {
        let cache = self.by_cache.then(|| self.caches.get(cpu));
        let node = self.by_node.then(|| self.nodes.get(cpu));
        cache.into_iter().chain(node)
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a group finds what masks have in common, wherever its words begin and end.
    //! Method: each pair of CPUs beside borders of words.

    use super::*;

    #[test]
    fn a_group_finds_the_first_cpu_of_both_masks_at_borders_of_words() {
        let at_borders = [0, 1, 62, 63, 64, 65, 127, 128, 191, 1022, 1023, 1024, 1025, 4094, 4095];
        for (place, &low) in at_borders.iter().enumerate() {
            for &high in &at_borders[place + 1..] {
                let mut group = Group::default();
                [low, high].into_iter().for_each(|cpu| group.add(cpu));
                let all: OwnMask = at_borders.into_iter().collect();
                let first = |of: &OwnMask| group.first_and(&all, of);
                assert_eq!(first(&all), Some(low));
                assert_eq!(first(&[high].into_iter().collect()), Some(high));
                let others = at_borders.into_iter().filter(|&cpu| cpu != low && cpu != high);
                assert_eq!(first(&others.collect()), None);
                assert_eq!(group.weight_in(&all), 2);
            }
        }
    }

    #[test]
    fn cpus_of_one_number_are_one_group() {
        let cpu = |number: u32| Cpu { core: number, cache: number % 3, node: 0, speed_permille: 1 };
        let cpus: Vec<Cpu> = (0..200).map(cpu).collect();
        let groups = Groups::of(&cpus, |cpu| cpu.cache);
        let all = (0..200).collect();
        let weights = [67, 67, 66];
        for own in 0..200 {
            let group = groups.get(own);
            assert_eq!(group.weight_in(&all), weights[own % 3]);
            assert_eq!(group.first_and(&all, &(own..200).collect()), Some(own));
        }
    }
}
