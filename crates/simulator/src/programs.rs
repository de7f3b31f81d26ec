//! What tasks do, and by what they wait for each other.

use crate::channel::{Channel, Gate};
use crate::flags::WAKE_SYNC;
use scenario::draw::{Lineage, Random};
use scenario::machine::Machine;
use scenario::workload::Workload;

/// What tasks do, and by what they wait for each other.
#[derive(Debug)]
pub struct Programs<'a> {
    workload: &'a Workload,
    channels: Vec<Channel>,
    gates: Vec<Gate>,
    /// Whether all messages wake synchronously.
    sync_wakeups: bool,
    /// Of the tasks' draws.
    seed: u64,
}

impl<'a> Programs<'a> {
    /// Those of a workload, of which nothing has run.
    pub fn new(workload: &'a Workload, machine: &Machine, policy: &str, seed: u64) -> Self {
        Programs {
            workload,
            channels: workload.channels.iter().map(|&spec| Channel::new(spec, machine)).collect(),
            gates: vec![Gate::default(); workload.nr_gates as usize],
            sync_wakeups: machine.sync_wakeups_for(policy),
            seed,
        }
    }

    /// The workload.
    pub fn workload(&self) -> &'a Workload {
        self.workload
    }

    /// The draws of a task.
    pub fn draws_of(&self, lineage: Lineage) -> Random {
        Random::new(self.seed, lineage.stream())
    }

    /// A channel.
    pub fn channel(&self, number: u32) -> &Channel {
        &self.channels[number as usize]
    }

    /// A channel.
    pub fn channel_mut(&mut self, number: u32) -> &mut Channel {
        &mut self.channels[number as usize]
    }

    /// A gate.
    pub fn gate_mut(&mut self, number: u32) -> &mut Gate {
        &mut self.gates[number as usize]
    }

    /// `WAKE_SYNC` if this channel's messages wake synchronously.
    pub fn sync_of(&self, number: u32) -> u64 {
        let sync = self.channel(number).spec.sync_wakeups || self.sync_wakeups;
        if sync { WAKE_SYNC } else { 0 }
    }
}
