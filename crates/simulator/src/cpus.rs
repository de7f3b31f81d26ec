//! The CPUs of the machine, how far apart they are, and what things cost there.

use crate::cpu::Cpu;
use scenario::machine::{Costs, Machine};
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
    /// Those of a machine, all online and idle.
    pub fn new(machine: &'a Machine) -> Self {
        let alone = |cpu: &scenario::machine::Cpu| Cpu::new(u64::from(cpu.speed_permille));
        Cpus {
            cpus: machine.cpus.iter().map(alone).collect(),
            machine,
            costs: machine.costs.clone(),
            distances: distances(machine),
            siblings: siblings(machine),
            distributed: 0,
        }
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
        nr_nodes(self.machine)
    }

    /// How far apart two CPUs are, as an index into costs by distance.
    pub fn distance(&self, a: usize, b: usize) -> usize {
        usize::from(self.distances[a * self.cpus.len() + b])
    }

    /// The other CPUs of a core.
    pub fn siblings(&self, cpu: usize) -> &[u32] {
        &self.siblings[cpu]
    }

    /// One of the online CPUs that are wanted, each in turn (`cpumask_any_and_distribute`).
    pub fn any_online(&mut self, is_wanted: impl Fn(usize) -> bool) -> Option<usize> {
        let is_one = |cpu: &usize| is_wanted(*cpu) && self.cpus[*cpu].is_online;
        let behind = self.distributed + 1..self.cpus.len();
        let found = behind.chain(0..=self.distributed).find(is_one)?;
        self.distributed = found;
        Some(found)
    }

    /// How fast a CPU computes: slower where another one of its core has a task.
    pub fn speed_of(&self, cpu: usize) -> u64 {
        let alone = u64::from(self.machine.cpus[cpu].speed_permille);
        let busy = |&sibling: &u32| self.cpus[sibling as usize].current.is_some();
        if self.siblings[cpu].iter().any(busy) {
            (alone * self.costs.smt_percent / 100).max(1)
        } else {
            alone
        }
    }
}

fn nr_nodes(machine: &Machine) -> usize {
    machine.cpus.iter().map(|cpu| cpu.node as usize + 1).max().unwrap_or(1)
}

/// Distance of each pair of CPUs, row by row.
fn distances(machine: &Machine) -> Vec<u8> {
    let nr_cpus = machine.cpus.len();
    let pairs = (0..nr_cpus).flat_map(|a| (0..nr_cpus).map(move |b| (a, b)));
    pairs.map(|(a, b)| machine.distance(a, b) as u8).collect()
}

/// For each CPU the other threads of its core.
fn siblings(machine: &Machine) -> Vec<Vec<u32>> {
    let core = |cpu: usize| machine.cpus[cpu].core;
    let all = 0..machine.cpus.len();
    let others = |a| all.clone().filter(move |&b| b != a && core(b) == core(a));
    all.clone().map(|cpu| others(cpu).map(|other| other as u32).collect()).collect()
}
