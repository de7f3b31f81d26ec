//! When a machine's CPUs are interrupted beside what its tasks do.
//!
//! Each CPU draws the times of each kind of interrupts from a stream of its own, so that nothing
//! that is drawn elsewhere changes with them.

use scenario::draw::Random;
use scenario::machine::Machine;
use scenario::workload::Amount;

/// The first stream of these draws. Initial tasks and their children have streams below it. Each
/// later task has any from here on ([`scenario::draw::Lineage`]), so that it shares one with a
/// given source with a probability of 2^-63: of a million tasks and 10,000 sources any two do with
/// 10^-9.
const STREAMS: u64 = 1 << 63;

/// What interrupts the CPUs of a machine.
#[derive(Debug)]
pub struct Background {
    sources: Vec<Source>,
}

/// Interrupts of one kind on one CPU.
#[derive(Debug)]
struct Source {
    cpu: u32,
    every: Amount,
    takes_ns: u64,
    random: Random,
}

impl Background {
    /// What interrupts the CPUs of this machine, none of which has come.
    pub fn new(machine: &Machine, seed: u64) -> Background {
        let source = |kind: usize, cpu: u32| {
            let interrupts = &machine.interrupts[kind];
            let stream = STREAMS | (kind as u64) << 32 | u64::from(cpu);
            Source {
                cpu,
                every: Amount::Exponential { mean: interrupts.every_ns },
                takes_ns: interrupts.takes_ns,
                random: Random::new(seed, stream),
            }
        };
        let kinds = machine.interrupts.iter().enumerate();
        let all = kinds.flat_map(|(kind, one)| one.cpus.iter().map(move |&cpu| (kind, cpu)));
        Background { sources: all.map(|(kind, cpu)| source(kind, cpu)).collect() }
    }

    /// The numbers of all sources.
    pub fn sources(&self) -> std::ops::Range<u32> {
        0..self.sources.len() as u32
    }

    /// The CPU that a source interrupts.
    pub fn cpu(&self, source: u32) -> usize {
        self.sources[source as usize].cpu as usize
    }

    /// How long an interrupt of a source takes.
    pub fn takes_ns(&self, source: u32) -> u64 {
        self.sources[source as usize].takes_ns
    }

    /// When a source interrupts next, after it has at `last_ns`.
    pub fn next_ns(&mut self, source: u32, last_ns: u64) -> u64 {
        let Source { every, random, .. } = &mut self.sources[source as usize];
        last_ns.saturating_add(every.draw(random))
    }
}
