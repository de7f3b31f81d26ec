//! How fast the cores of a last-level cache compute while few of them are busy, and whose speed
//! that changes. Counts are kept, so that a switch costs the same on machines of all sizes.

use scenario::machine::Machine;
use std::collections::BTreeMap;

/// What is busy of each cache.
#[derive(Debug)]
pub struct Turbo {
    /// Speed in thousandths of what it is without turbo, by how many other cores are busy; the last
    /// for all that are more.
    speeds: Vec<u32>,
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

impl Turbo {
    /// That of a machine on which nothing is busy; none if it has no turbo.
    pub fn new(machine: &Machine) -> Option<Turbo> {
        let cpus = &machine.cpus;
        let cores = numbered(cpus.iter().map(|cpu| (cpu.cache, cpu.core)));
        let caches = numbered(cpus.iter().map(|cpu| cpu.cache));
        let nr = |numbers: &[usize]| numbers.iter().max().map_or(0, |most| most + 1);
        let (nr_busy, busy) = (vec![0; nr(&cores)], vec![Busy::default(); nr(&caches)]);
        let speeds = machine.turbo_permille.clone();
        (!speeds.is_empty()).then_some(Turbo { speeds, cores, nr_busy, caches, busy })
    }

    /// A CPU is busy, or idle, from now on; whether speeds of others may change by it. O(busy CPUs
    /// of the cache), a copy of 4 bytes each.
    pub fn set_busy(&mut self, cpu: usize, is_busy: bool) -> bool {
        let of_core = &mut self.nr_busy[self.cores[cpu]];
        let cache = &mut self.busy[self.caches[cpu]];
        let before = cache.nr_cores;
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
        // Where more cores are busy all of them have the last speed.
        before.min(cache.nr_cores) <= self.speeds.len()
    }

    /// The busy CPUs of a CPU's cache, in order.
    pub fn busy_near(&self, cpu: usize) -> &[u32] {
        &self.busy[self.caches[cpu]].cpus
    }

    /// Speed of a CPU that is busy, in thousandths of what it is without turbo.
    pub fn permille(&self, cpu: usize) -> u64 {
        let own = usize::from(self.nr_busy[self.cores[cpu]] > 0);
        let others = self.busy[self.caches[cpu]].nr_cores - own;
        u64::from(self.speeds[others.min(self.speeds.len() - 1)])
    }
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
        let speeds = [1500, 1300, 1200];
        let mut random = scenario::Random::new(5, 0);
        for (threads, cores) in [(1, 2), (1, 8), (2, 3), (3, 4)] {
            let machine = machine(24, threads, cores, &speeds);
            let mut turbo = Turbo::new(&machine).expect("it has some");
            let mut is_busy = [false; 24];
            let model = |is_busy: &[bool; 24], cpu: usize| {
                let (own, all) = (machine.cpus[cpu], machine.cpus.iter().zip(is_busy));
                let others = all.filter(|(other, _)| other.cache == own.cache);
                let mut cores: Vec<u32> = others
                    .filter(|(other, is_busy)| **is_busy && other.core != own.core)
                    .map(|(other, _)| other.core)
                    .collect();
                cores.dedup();
                u64::from(speeds[cores.len().min(2)])
            };
            for _ in 0..2000 {
                let cpu = random.below(24) as usize;
                let before: Vec<u64> = (0..24).map(|cpu| turbo.permille(cpu)).collect();
                let was_busy = is_busy;
                is_busy[cpu] = random.below(2) == 0;
                let may_change = turbo.set_busy(cpu, is_busy[cpu]);
                for other in 0..24 {
                    assert_eq!(turbo.permille(other), model(&is_busy, other));
                    let changes = turbo.permille(other) != before[other];
                    let computes = other != cpu && was_busy[other];
                    assert!(may_change || !(changes && computes), "{is_busy:?}");
                }
                let own = machine.cpus[cpu].cache;
                let cache = |other: &usize| machine.cpus[*other].cache == own;
                let near = (0..24).filter(|other| is_busy[*other]).filter(cache);
                let near: Vec<u32> = near.map(|other| other as u32).collect();
                assert_eq!(turbo.busy_near(cpu), near);
            }
        }
    }

    #[test]
    fn a_thousand_cpus_are_not_asked_for_each_switch() {
        let machine = machine(1024, 2, 512, &[1500, 1200]);
        let mut turbo = Turbo::new(&machine).expect("it has some");
        let asked = |turbo: &mut Turbo, cpu, is_busy| {
            if turbo.set_busy(cpu, is_busy) { turbo.busy_near(cpu).len() } else { 0 }
        };
        let beginning = (0..1024).map(|cpu| asked(&mut turbo, cpu, true)).max();
        let ending = (0..1024).map(|cpu| asked(&mut turbo, cpu, false)).max();
        assert!(beginning.max(ending) <= Some(2 * 3), "{beginning:?}, {ending:?}");
    }
}
