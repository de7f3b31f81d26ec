//! The CPUs of the machine, how far apart they are, and what things cost there.

use crate::cache_mates::CacheMates;
use crate::cpu::Cpu;
use scenario::machine::{Costs, Distance, Machine};
use scenario::workload::Workload;
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

/// The CPUs, by number.
#[derive(Debug)]
pub struct Cpus<'a> {
    cpus: Vec<Cpu>,
    machine: &'a Machine,
    costs: Costs,
    /// Distance of each pair, row by row.
    distances: Vec<u8>,
    /// CPUs that share a core, by CPU, itself excluded.
    siblings: Vec<Vec<u32>>,
    /// What the busy CPUs of a cache are to each other, if few compute faster than many.
    cache_mates: Option<CacheMates>,
    /// Speed of each CPU in thousandths of its own since the last change; none before the first.
    steps_permille: Vec<u32>,
    /// The one that [`Cpus::any_online`] chose last.
    distributed: usize,
}

impl Index<usize> for Cpus<'_> {
    type Output = Cpu;

    fn index(&self, cpu: usize) -> &Cpu {
        &self.cpus[cpu]
    }
}

impl IndexMut<usize> for Cpus<'_> {
    fn index_mut(&mut self, cpu: usize) -> &mut Cpu {
        &mut self.cpus[cpu]
    }
}

impl<'a> Cpus<'a> {
    /// Those of a machine, all online and idle, where things cost so much and tasks compute what
    /// they do in this workload.
    pub fn new(machine: &'a Machine, costs: &Costs, workload: &Workload) -> Self {
        let mut cpus = Cpus {
            cpus: machine.cpus.iter().map(|_| Cpu::new(0)).collect(),
            machine,
            costs: costs.clone(),
            distances: distances(machine),
            siblings: others(machine, |cpu| cpu.core),
            cache_mates: CacheMates::new(machine, costs, workload),
            steps_permille: Vec::new(),
            distributed: 0,
        };
        (0..cpus.len()).for_each(|cpu| cpus.cpus[cpu].speed_permille = cpus.speed_of(cpu));
        cpus
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.cpus.len()
    }

    /// All, by number.
    pub fn iter(&self) -> std::slice::Iter<'_, Cpu> {
        self.cpus.iter()
    }

    /// All, by number.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Cpu> {
        self.cpus.iter_mut()
    }

    /// The machine.
    pub fn machine(&self) -> &'a Machine {
        self.machine
    }

    /// What things cost.
    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    /// The node of a CPU.
    pub fn node(&self, cpu: usize) -> usize {
        self.machine.cpus[cpu].node as usize
    }

    /// How many nodes there are.
    pub fn nr_nodes(&self) -> usize {
        self.machine.cpus.iter().map(|cpu| cpu.node as usize + 1).max().unwrap_or(1)
    }

    /// How far apart two CPUs are, as an index into costs by distance.
    pub fn distance(&self, a: usize, b: usize) -> usize {
        usize::from(self.distances[a * self.cpus.len() + b])
    }

    /// What moving a cache line from one CPU to another takes.
    #[inline]
    pub fn transfer_ns(&self, from: usize, to: usize) -> u64 {
        if from == to {
            return self.costs.line_transfer_ns[Distance::Same as usize];
        }
        self.costs.line_transfer_ns[self.distance(from, to)]
    }

    /// How much of a task comes along when it migrates so far: as many lines as its fixed cost is
    /// transfers of a line.
    pub fn migration_bytes(&self, distance: usize) -> u64 {
        let costs = &self.costs;
        let lines = costs.migration_ns[distance].checked_div(costs.line_transfer_ns[distance]);
        lines.unwrap_or(0) * costs.line_bytes
    }

    /// The other CPUs of a core.
    pub fn siblings(&self, cpu: usize) -> &[u32] {
        &self.siblings[cpu]
    }

    /// Whether the speed of a CPU depends on whether others are busy.
    #[inline]
    pub fn has_mates(&self, cpu: usize) -> bool {
        self.cache_mates.is_some() || !self.siblings[cpu].is_empty()
    }

    /// Notes that a CPU has become busy or idle; whether its cache feels it, or its core only.
    pub fn note_busy(&mut self, cpu: usize) -> bool {
        let is_busy = self.is_busy(cpu as u32);
        self.cache_mates.as_mut().is_some_and(|mates| mates.set_busy(cpu, is_busy))
    }

    /// Of the CPUs whose speed depends on this one the one at a place, itself perhaps among them:
    /// those of its core, or the busy ones of its cache.
    pub fn mate(&self, cpu: usize, place: usize, in_cache: bool) -> Option<usize> {
        let mates = match &self.cache_mates {
            Some(mates) if in_cache => mates.busy_near(cpu),
            _ => &self.siblings[cpu],
        };
        mates.get(place).map(|&mate| mate as usize)
    }

    /// One of the online CPUs that are wanted, each in turn (`cpumask_any_and_distribute`).
    pub fn any_online(&mut self, is_wanted: impl Fn(usize) -> bool) -> Option<usize> {
        let is_one = |cpu: &usize| is_wanted(*cpu) && self.cpus[*cpu].is_online;
        let behind = self.distributed + 1..self.cpus.len();
        let found = behind.chain(0..=self.distributed).find(is_one)?;
        self.distributed = found;
        Some(found)
    }

    /// From now on a CPU has so many thousandths of its own speed.
    pub fn set_step(&mut self, cpu: usize, permille: u32) {
        self.steps_permille.resize(self.cpus.len(), 1000);
        self.steps_permille[cpu] = permille;
    }

    /// How fast a CPU computes: slower where another one of its core has a task, and with turbo
    /// where more cores of its cache have; what it waits for memory comes on top.
    pub fn speed_of(&self, cpu: usize) -> u64 {
        let mates = self.cache_mates.as_ref();
        let turbo = mates.map_or(1000, |mates| mates.turbo_permille(cpu));
        let mut speed = u64::from(self.machine.cpus[cpu].speed_permille) * turbo / 1000;
        if let Some(&step_permille) = self.steps_permille.get(cpu) {
            speed = (speed * u64::from(step_permille) / 1000).max(1);
        }
        if self.siblings[cpu].iter().any(|&sibling| self.is_busy(sibling)) {
            speed = (speed * self.costs.smt_percent / 100).max(1);
        }
        mates.map_or(speed, |mates| mates.with_waits(cpu, speed))
    }

    fn is_busy(&self, cpu: u32) -> bool {
        self.cpus[cpu as usize].current.is_some()
    }
}

/// CPUs that share a part, by its number.
fn sharers<K: Ord>(
    machine: &Machine,
    part: impl Fn(&scenario::machine::Cpu) -> K,
) -> BTreeMap<K, Vec<u32>> {
    let mut sharers = BTreeMap::<K, Vec<u32>>::new();
    for (cpu, own) in machine.cpus.iter().enumerate() {
        sharers.entry(part(own)).or_default().push(cpu as u32);
    }
    sharers
}

/// Distance of each pair of CPUs, row by row, as [`Machine::distance`] has it: the rows of a
/// node's bus are copies of one but for the CPUs of the same cache.
fn distances(machine: &Machine) -> Vec<u8> {
    let (cores, caches) = (sharers(machine, |cpu| cpu.core), sharers(machine, |cpu| cpu.cache));
    let mark = |row: &mut [u8], cpus: &[u32], distance: Distance| {
        cpus.iter().for_each(|&cpu| row[cpu as usize] = distance as u8);
    };
    let row_of = |(place, cpus): ((u32, u32), Vec<u32>)| {
        let mut row = vec![Distance::Remote as u8; machine.cpus.len()];
        mark(&mut row, &cpus, Distance::Node);
        (place, row)
    };
    let places: BTreeMap<(u32, u32), Vec<u8>> =
        sharers(machine, |cpu| machine.node_and_bus_of(cpu)).into_iter().map(row_of).collect();
    let mut all = Vec::with_capacity(machine.cpus.len() * machine.cpus.len());
    for (cpu, own) in machine.cpus.iter().enumerate() {
        let begin = all.len();
        all.extend_from_slice(&places[&machine.node_and_bus_of(own)]);
        let row = &mut all[begin..];
        mark(row, &caches[&own.cache], Distance::Cache);
        mark(row, &cores[&own.core], Distance::Smt);
        row[cpu] = Distance::Same as u8;
    }
    all
}

/// For each CPU the others that share a part with it.
fn others(machine: &Machine, part: impl Fn(&scenario::machine::Cpu) -> u32) -> Vec<Vec<u32>> {
    let sharers = sharers(machine, &part);
    let others = |(cpu, own): (usize, &scenario::machine::Cpu)| {
        let all = &sharers[&part(own)];
        all.iter().copied().filter(|&other| other as usize != cpu).collect()
    };
    machine.cpus.iter().enumerate().map(others).collect()
}

#[cfg(test)]
mod tests {
    //! Goal: rows of distances that are made from each other are those of each pair.

    use super::*;

    #[test]
    fn distances_are_those_of_each_pair() {
        // Three threads a core, also where a number comes back after others.
        let cpu = |number: u32| scenario::machine::Cpu {
            core: number / 3 % 20,
            cache: number / 12 % 5,
            node: number / 30 % 2,
            speed_permille: 1000,
        };
        let made = scenario::random_scenario(1).0;
        for bus in [None, Some(scenario::machine::Bus { caches: 2, mb_per_s: 1 })] {
            let cpus = (0..150).map(cpu).collect();
            let machine = Machine { cpus, bus, ..made.clone() };
            let pairs = (0..150).flat_map(|a| (0..150).map(move |b| (a, b)));
            let expected: Vec<u8> = pairs.map(|(a, b)| machine.distance(a, b) as u8).collect();
            assert_eq!(distances(&machine), expected);
        }
    }
}
