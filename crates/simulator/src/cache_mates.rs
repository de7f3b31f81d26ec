//! How fast the CPUs of a last-level cache compute by how many of them are busy, and whose speed
//! that changes: few have turbo, and each has more of the cache, so that it waits less for memory.
//! Counts are kept, so that a switch costs the same on machines of all sizes.

use scenario::machine::{Costs, Machine};
use scenario::workload::Workload;
use std::collections::BTreeMap;

/// What is busy of each cache.
#[derive(Debug)]
pub struct CacheMates {
    /// Speed in thousandths of what it is without turbo, by how many other cores are busy; the last
    /// for all that are more.
    turbo_permille: Vec<u32>,
    /// How long computing waits for memory for each ms of the reference CPU's computing, by how
    /// many other CPUs are busy; the last for all that are more.
    waits_ns: Vec<u64>,
    /// The core of each CPU, by number from 0.
    cores: Vec<usize>,
    /// Busy CPUs of each core.
    nr_busy: Vec<u32>,
    /// The cache of each CPU, by number from 0.
    caches: Vec<usize>,
    busy: Vec<Busy>,
}

/// What is busy of a cache.
#[derive(Clone, Debug, Default)]
struct Busy {
    nr_cores: usize,
    /// In order.
    cpus: Vec<u32>,
}

impl CacheMates {
    /// Those of a machine on which nothing is busy; none if a busy CPU is nothing to the others
    /// beyond its core.
    pub fn new(machine: &Machine, costs: &Costs, workload: &Workload) -> Option<CacheMates> {
        let cpus = &machine.cpus;
        let cores = numbered(cpus.iter().map(|cpu| (cpu.cache, cpu.core)));
        let caches = numbered(cpus.iter().map(|cpu| cpu.cache));
        let nr = |numbers: &[usize]| numbers.iter().max().map_or(0, |most| most + 1);
        let mut nr_cpus = vec![0; nr(&caches)];
        caches.iter().for_each(|&cache| nr_cpus[cache] += 1);
        let most = nr_cpus.into_iter().max().unwrap_or(0);
        let waits_ns = waits(costs, workload, most);
        let mut turbo_permille = machine.turbo_permille.clone();
        if turbo_permille.is_empty() && waits_ns == [0] {
            return None;
        }
        turbo_permille.resize(turbo_permille.len().max(1), 1000);
        let (nr_busy, busy) = (vec![0; nr(&cores)], vec![Busy::default(); nr(&caches)]);
        Some(CacheMates { turbo_permille, waits_ns, cores, nr_busy, caches, busy })
    }

    /// A CPU is busy, or idle, from now on; whether speeds of others may change by it. O(busy CPUs
    /// of the cache), a copy of 4 bytes each.
    pub fn set_busy(&mut self, cpu: usize, is_busy: bool) -> bool {
        let of_core = &mut self.nr_busy[self.cores[cpu]];
        let cache = &mut self.busy[self.caches[cpu]];
        let before = (cache.nr_cores, cache.cpus.len());
        match (is_busy, cache.cpus.binary_search(&(cpu as u32))) {
            (true, Err(place)) => {
                cache.cpus.insert(place, cpu as u32);
                cache.nr_cores += usize::from(*of_core == 0);
                *of_core += 1;
            }
            (false, Ok(place)) => {
                cache.cpus.remove(place);
                *of_core -= 1;
                cache.nr_cores -= usize::from(*of_core == 0);
            }
            _ => {}
        }
        // Where more are busy all of them have the last speed.
        before.0.min(cache.nr_cores) <= self.turbo_permille.len()
            || before.1.min(cache.cpus.len()) < self.waits_ns.len()
    }

    /// The busy CPUs of a CPU's cache, in order.
    pub fn busy_near(&self, cpu: usize) -> &[u32] {
        &self.busy[self.caches[cpu]].cpus
    }

    /// Speed of a CPU that is busy, in thousandths of what it is without turbo.
    pub fn turbo_permille(&self, cpu: usize) -> u64 {
        let own = usize::from(self.nr_busy[self.cores[cpu]] > 0);
        let others = self.busy[self.caches[cpu]].nr_cores - own;
        u64::from(at_most(&self.turbo_permille, others))
    }

    /// Speed of a CPU that is busy and computes so fast in its caches, in thousandths of the
    /// reference CPU: a ms of that one's computing takes it 1 ms * 1000 / speed, and its waits.
    /// Rounded to whole thousandths, at least one.
    pub fn with_waits(&self, cpu: usize, speed_permille: u64) -> u64 {
        const MS: u64 = 1_000_000;
        let others = self.busy[self.caches[cpu]].cpus.len().saturating_sub(1);
        let waits_ns = at_most(&self.waits_ns, others);
        let takes = 1000 * MS + speed_permille * waits_ns;
        ((1000 * MS * speed_permille + takes / 2) / takes).max(1)
    }
}

/// How long computing waits for memory for each ms of the reference CPU's computing, by how many
/// CPUs share a cache, from 1 to `most`: each has as much of it as the others, and a line that is
/// not there takes as long as the memory. Without what does not change at the end.
fn waits(costs: &Costs, workload: &Workload, most: usize) -> Vec<u64> {
    let lines = |nr: u64| workload.lines_per_ms_with(costs.cache_kib / nr);
    let mut waits: Vec<u64> = (1..=most as u64).map(|nr| lines(nr) * costs.memory_ns).collect();
    while waits.len() > 1 && waits[waits.len() - 2] == waits[waits.len() - 1] {
        waits.pop();
    }
    waits
}

/// What is at a place, or the last.
fn at_most<T: Copy>(all: &[T], place: usize) -> T {
    all[place.min(all.len() - 1)]
}

/// The place of each key among the different ones.
fn numbered<Key: Ord>(keys: impl Iterator<Item = Key>) -> Vec<usize> {
    let mut numbers = BTreeMap::new();
    let mut number = |key| {
        let next = numbers.len();
        *numbers.entry(key).or_insert(next)
    };
    keys.map(&mut number).collect()
}

#[cfg(test)]
mod tests {
    //! Goal: speeds are those of what is busy, and what is asked does not grow with the machine.
    //! Method: a plain model that counts anew, over random changes.

    use super::*;
    use scenario::machine::Cpu;

    fn machine(nr_cpus: u32, threads: u32, cores: u32, speeds: &[u32]) -> Machine {
        let cpu = |number: u32| {
            let (core, cache) = (number / threads, number / (threads * cores));
            Cpu { core, cache, node: 0, speed_permille: 1000 }
        };
        let mut machine = scenario::random_scenario(1).0;
        machine.cpus = (0..nr_cpus).map(cpu).collect();
        machine.turbo_permille = speeds.to_vec();
        machine
    }

    #[test]
    fn speeds_are_those_of_a_plain_model() {
        let turbo = [1500, 1300, 1200];
        // Of 6,000 KiB two and three CPUs have 3,000 and 2,000 each, six and more 1,000 or less.
        let workload = Workload {
            lines_per_ms: vec![(1000, 9000), (2000, 5000), (3000, 4000), (6000, 1000)],
            ..Workload::default()
        };
        let lines = |busy: u64| match 6000 / busy {
            kib @ 2000.. => workload.lines_per_ms_with(kib),
            kib => 9000 - (kib.max(1000) - 1000) * 4,
        };
        let mut random = scenario::Random::new(5, 0);
        for (threads, cores, memory_ns) in [(1, 2, 0), (1, 8, 100), (2, 3, 70), (3, 4, 0)] {
            let mut machine = machine(24, threads, cores, &turbo);
            (machine.costs.cache_kib, machine.costs.memory_ns) = (6000, memory_ns);
            let mut mates =
                CacheMates::new(&machine, &machine.costs, &workload).expect("it has turbo");
            let mut is_busy = [false; 24];
            let speed = |mates: &CacheMates, cpu| {
                mates.with_waits(cpu, 2 * mates.turbo_permille(cpu)) // It is twice as fast.
            };
            let model = |is_busy: &[bool; 24], cpu: usize| {
                let own = machine.cpus[cpu];
                let near = |other: &usize| machine.cpus[*other].cache == own.cache;
                let busy: Vec<usize> = (0..24).filter(|other| is_busy[*other]).collect();
                let busy: Vec<usize> = busy.into_iter().filter(near).collect();
                let cores = busy.iter().map(|other| machine.cpus[*other].core);
                let mut cores: Vec<u32> = cores.filter(|core| *core != own.core).collect();
                cores.dedup();
                let in_cache = 2 * u64::from(turbo[cores.len().min(2)]);
                let waits_ns = lines(busy.len().max(1) as u64) * memory_ns;
                let ns_per_ms = 1e9 / in_cache as f64 + waits_ns as f64;
                (1e9 / ns_per_ms) as u64
            };
            for _ in 0..2000 {
                let cpu = random.below(24) as usize;
                let before: Vec<u64> = (0..24).map(|cpu| speed(&mates, cpu)).collect();
                let was_busy = is_busy;
                is_busy[cpu] = random.below(2) == 0;
                let may_change = mates.set_busy(cpu, is_busy[cpu]);
                for other in 0..24 {
                    let (now, expected) = (speed(&mates, other), model(&is_busy, other));
                    assert!(now.abs_diff(expected) <= 1, "{now} for {expected}");
                    let changes = now != before[other];
                    let computes = other != cpu && was_busy[other];
                    assert!(may_change || !(changes && computes), "{is_busy:?}");
                }
                let own = machine.cpus[cpu].cache;
                let cache = |other: &usize| machine.cpus[*other].cache == own;
                let near = (0..24).filter(|other| is_busy[*other]).filter(cache);
                let near: Vec<u32> = near.map(|other| other as u32).collect();
                assert_eq!(mates.busy_near(cpu), near);
            }
        }
    }

    #[test]
    fn a_thousand_cpus_are_not_asked_for_each_switch() {
        let machine = machine(1024, 2, 512, &[1500, 1200]);
        let workload = Workload::default();
        let mut mates = CacheMates::new(&machine, &machine.costs, &workload).expect("it has turbo");
        let asked = |mates: &mut CacheMates, cpu, is_busy| {
            if mates.set_busy(cpu, is_busy) { mates.busy_near(cpu).len() } else { 0 }
        };
        let beginning = (0..1024).map(|cpu| asked(&mut mates, cpu, true)).max();
        let ending = (0..1024).map(|cpu| asked(&mut mates, cpu, false)).max();
        assert!(beginning.max(ending) <= Some(2 * 3), "{beginning:?}, {ending:?}");
    }
}
