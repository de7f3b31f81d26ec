//! What a loader's file may ask of a machine: numbers, and groups of CPUs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The most capable CPU's capacity. Source: Linux, include/linux/sched.h, `SCHED_CAPACITY_SCALE`.
const CAPACITY_MAX: u64 = 1024;

/// A CPU: which core, last-level cache and node it shares with others of the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Its core.
    pub core: u32,
    /// Its last-level cache.
    pub llc: u32,
    /// Its node.
    pub node: u32,
    /// How fast it is, compared with others.
    pub speed: u32,
}

/// The CPUs of a machine. Cores, caches and nodes are numbered from 0 in the order of their CPUs.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    cpus: Vec<Processor>,
    fastest: u32,
}

/// What has a value here, by name, and the CPUs that it is about.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    pub names: BTreeMap<&'static str, i128>,
    pub cpus: Vec<usize>,
}

/// What can be gone through.
pub(super) const GROUPS: [&str; 5] = ["cpu", "core", "llc", "node", "sibling"];

impl Topology {
    /// Of these CPUs, in the order of their numbers.
    pub fn new(mut cpus: Vec<Processor>) -> Topology {
        let parts: [fn(&mut Processor) -> &mut u32; 3] =
            [|cpu| &mut cpu.core, |cpu| &mut cpu.llc, |cpu| &mut cpu.node];
        for part in parts {
            let mut numbers = BTreeMap::new();
            for cpu in &mut cpus {
                let next = numbers.len() as u32;
                let place = part(cpu);
                *place = *numbers.entry(*place).or_insert(next);
            }
        }
        let fastest = cpus.iter().map(|cpu| cpu.speed).max().unwrap_or(0);
        Topology { cpus, fastest }
    }

    /// What holds for the whole machine.
    pub(super) fn whole(&self) -> Scope {
        let count = |part: fn(&Processor) -> u32| {
            self.cpus.iter().map(part).max().map_or(0, |most| i128::from(most) + 1)
        };
        let nr_cpus = self.cpus.len() as i128;
        let (nr_cores, nr_nodes) = (count(|cpu| cpu.core), count(|cpu| cpu.node));
        let is_slow = |cpu: &Processor| cpu.speed < self.fastest;
        let names = [
            ("nr_cpus", nr_cpus),
            ("nr_cores", nr_cores),
            ("nr_llcs", count(|cpu| cpu.llc)),
            ("nr_nodes", nr_nodes),
            ("has_smt", (nr_cores < nr_cpus).into()),
            ("has_numa", (nr_nodes > 1).into()),
            ("has_little_cpus", self.cpus.iter().any(is_slow).into()),
            ("total_capacity", (0..self.cpus.len()).map(|cpu| self.capacity(cpu)).sum()),
            ("cpus_per_core", self.most(|_, number| number, |cpu| cpu.core)),
            ("cpus_per_llc", self.most(|_, number| number, |cpu| cpu.llc)),
            ("cores_per_llc", self.most(|cpu, _| cpu.core, |cpu| cpu.llc)),
            ("llcs_per_node", self.most(|cpu, _| cpu.llc, |cpu| cpu.node)),
        ];
        Scope { names: names.into(), cpus: (0..self.cpus.len()).collect() }
    }

    /// How many parts the whole has that has most of them.
    fn most(&self, part: fn(&Processor, u32) -> u32, whole: fn(&Processor) -> u32) -> i128 {
        let mut parts: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for (cpu, number) in self.cpus.iter().zip(0..) {
            parts.entry(whole(cpu)).or_default().insert(part(cpu, number));
        }
        parts.values().map(BTreeSet::len).max().unwrap_or(0) as i128
    }

    /// What holds for each of a kind of group, in its order; `None` if there is no such kind.
    pub(super) fn each(&self, group: &str) -> Option<Vec<Scope>> {
        let whole = self.whole();
        let all = 0..self.cpus.len();
        let part: fn(&Processor) -> u32 = match group {
            "cpu" => return Some(all.map(|cpu| self.cpu(cpu, &whole)).collect()),
            "sibling" => {
                let with_one = all.filter(|&cpu| self.sibling(cpu).is_some());
                return Some(with_one.map(|cpu| self.cpu(cpu, &whole)).collect());
            }
            "core" => |cpu| cpu.core,
            "llc" => |cpu| cpu.llc,
            "node" => |cpu| cpu.node,
            _ => return None,
        };
        let mut groups: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (number, cpu) in self.cpus.iter().enumerate() {
            groups.entry(part(cpu)).or_default().push(number);
        }
        let scope = |cpus: Vec<usize>| {
            let first = self.cpu(cpus[0], &whole);
            Scope { cpus, ..first }
        };
        Some(groups.into_values().map(scope).collect())
    }

    /// What a word for a list means where it is made for these CPUs; `None` if it means none.
    pub(super) fn list(&self, word: &str, of: &[usize]) -> Option<Vec<i128>> {
        let all = || 0..self.cpus.len();
        let at = *of.first()?;
        let own = self.cpus[at];
        // How far another CPU is, and which it is.
        let far = |&cpu: &usize| {
            let other = self.cpus[cpu];
            let apart = (other.node != own.node, other.llc != own.llc, other.core != own.core);
            (apart, other.core.abs_diff(own.core), cpu.abs_diff(at), cpu)
        };
        let (number, llc) = (|cpu| cpu as i128, |cpu: usize| self.cpus[cpu].llc.into());
        let llcs = || self.firsts(all(), |cpu| cpu.llc);
        let others = || llcs().filter(|&cpu| self.cpus[cpu].llc != own.llc);
        let is_near = |&cpu: &usize| self.cpus[cpu].node == own.node;
        let list = match word {
            "cpus" => all().map(number).collect(),
            "cpus_by_capacity" => {
                sorted(all(), |&cpu| Reverse(self.cpus[cpu].speed)).map(number).collect()
            }
            "cpus_by_core" => sorted(all(), |&cpu| {
                let Processor { node, llc, core, .. } = self.cpus[cpu];
                (node, llc, core)
            })
            .map(number)
            .collect(),
            "cpus_by_thread" => sorted(all(), |&cpu| {
                let Processor { node, llc, core, speed } = self.cpus[cpu];
                (self.thread(cpu), node, llc, Reverse(speed), core)
            })
            .map(number)
            .collect(),
            "other_cpus" => sorted(all().filter(|&cpu| cpu != at), far).map(number).collect(),
            "llcs" => self.firsts(of.iter().copied(), |cpu| cpu.llc).map(llc).collect(),
            "other_llcs" => sorted(others(), far).map(llc).collect(),
            "near_llcs" => sorted(others().filter(is_near), far).map(llc).collect(),
            "far_llcs" => sorted(others().filter(|cpu| !is_near(cpu)), far).map(llc).collect(),
            "other_nodes" => {
                let nodes = self.firsts(all(), |cpu| cpu.node).filter(|cpu| !is_near(cpu));
                sorted(nodes, far).map(|cpu| self.cpus[cpu].node.into()).collect()
            }
            _ => return None,
        };
        Some(list)
    }

    /// The first of these CPUs of each part that they are in.
    fn firsts(
        &self,
        cpus: impl Iterator<Item = usize>,
        part: fn(&Processor) -> u32,
    ) -> impl Iterator<Item = usize> {
        let mut firsts = BTreeMap::new();
        for cpu in cpus {
            firsts.entry(part(&self.cpus[cpu])).or_insert(cpu);
        }
        firsts.into_values()
    }

    /// Which CPU of its core it is.
    fn thread(&self, cpu: usize) -> usize {
        (0..cpu).filter(|&other| self.cpus[other].core == self.cpus[cpu].core).count()
    }

    fn capacity(&self, cpu: usize) -> i128 {
        let speed = u64::from(self.cpus[cpu].speed);
        (speed * CAPACITY_MAX / u64::from(self.fastest.max(1))).into()
    }

    fn cpu(&self, number: usize, whole: &Scope) -> Scope {
        let cpu = self.cpus[number];
        let count = |part: fn(&Processor) -> u32| {
            self.cpus.iter().filter(|other| part(other) == part(&cpu)).count() as i128
        };
        let near = (0..self.cpus.len()).filter(|&other| self.cpus[other].node == cpu.node);
        let shares = |&other: &usize| self.cpus[other].llc == cpu.llc;
        let of_llc = (0..self.cpus.len()).filter(shares);
        let mut names = whole.names.clone();
        names.extend([
            ("core_cpus", count(|cpu| cpu.core)),
            ("llc_cpus", count(|cpu| cpu.llc)),
            ("node_cpus", count(|cpu| cpu.node)),
            ("node_llcs", self.firsts(near, |cpu| cpu.llc).count() as i128),
            ("llc_mask", of_llc.take_while(|&cpu| cpu < 64).map(|cpu| 1 << cpu).sum()),
            ("cpu", number as i128),
            ("core", cpu.core.into()),
            ("llc", cpu.llc.into()),
            ("node", cpu.node.into()),
            ("sibling", self.sibling(number).map_or(-1, |other| other as i128)),
            ("capacity", self.capacity(number)),
        ]);
        Scope { names, cpus: vec![number] }
    }

    /// The first other CPU of a CPU's core.
    fn sibling(&self, number: usize) -> Option<usize> {
        let core = self.cpus[number].core;
        (0..self.cpus.len()).find(|&other| other != number && self.cpus[other].core == core)
    }
}

/// In the order of their keys.
fn sorted<Key: Ord>(
    cpus: impl Iterator<Item = usize>,
    key: impl FnMut(&usize) -> Key,
) -> impl Iterator<Item = usize> {
    let mut cpus: Vec<usize> = cpus.collect();
    // A key may take a look at all CPUs.
    cpus.sort_by_cached_key(key);
    cpus.into_iter()
}
