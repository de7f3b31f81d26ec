//! The scenarios that are shipped: those made to ask a policy one question each, and small ones.
//!
//! They are workload files like any other, in `workloads/check/`, on machines with the costs of
//! the laptop of `machines/` or with none.

use scenario::machine::{AllocatorCosts, Costs, Cpu, DISTANCES, Machine, PolicyCosts};
use scenario::workload::Workload;
use std::collections::BTreeMap;

/// A machine and what its tasks do.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The machine.
    pub machine: Machine,
    /// The workload.
    pub workload: Workload,
}

/// A figure that is measured in a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The longest wait of a runnable task.
    Wait,
    /// The longest wait of a light task after a wake-up, once policies know that it is one.
    Wakeup,
    /// The longest time that a CPU idles while a task that it may run waits.
    Idle,
    /// How far the share of a hog is from what its nice value is due, at the most, from this time
    /// on: in percent of what it is due. Due is what the kernel's weights say, or the policy.
    Share {
        /// The time, in ns.
        from_ns: u64,
    },
}

impl Ask {
    /// Its name in tables and files of promises, which ends in its unit.
    pub const fn property(self) -> &'static str {
        match self {
            Ask::Wait => "wait_ms_max",
            Ask::Wakeup => "wakeup_ms_max",
            Ask::Idle => "idle_ms_max",
            Ask::Share { .. } => "share_error_percent_max",
        }
    }
}

/// A scenario and what is measured in it.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Its name, that of its file.
    pub name: &'static str,
    /// CPUs of its machine.
    pub nr_cpus: u32,
    /// What is measured.
    pub asks: &'static [Ask],
    text: &'static str,
}

const SHARE: Ask = Ask::Share { from_ns: 0 };

macro_rules! check {
    ($name:literal, $nr_cpus:literal, $asks:expr) => {
        Check {
            name: $name,
            nr_cpus: $nr_cpus,
            asks: &$asks,
            text: include_str!(concat!("../../../workloads/check/", $name, ".toml")),
        }
    };
}

/// Every scenario that asks a question, in the order in which they are shown.
pub const CHECKS: [Check; 18] = [
    check!("crowd", 1, [Ask::Wait, SHARE]),
    check!("shares", 1, [Ask::Wait, SHARE]),
    check!("shares_smp", 2, [Ask::Wait, SHARE]),
    check!("extreme", 1, [Ask::Wait]),
    check!("renice", 1, [Ask::Wait, Ask::Share { from_ns: 2_000_000_000 }]),
    check!("light", 1, [Ask::Wait, Ask::Wakeup]),
    check!("urgent", 1, [Ask::Wait, Ask::Wakeup]),
    check!("light_smp", 4, [Ask::Wait, Ask::Wakeup, Ask::Idle]),
    check!("idle", 4, [Ask::Wait, Ask::Idle]),
    check!("leftover", 4, [Ask::Wait, Ask::Idle]),
    check!("masks", 3, [Ask::Wait, Ask::Idle]),
    check!("pinned", 4, [Ask::Wait, SHARE]),
    check!("sleepers", 4, [Ask::Wait, Ask::Idle]),
    check!("pipes", 2, [Ask::Wait, Ask::Idle]),
    check!("yields", 1, [Ask::Wait]),
    check!("fork_bomb", 2, [Ask::Wait, Ask::Idle]),
    check!("hotplug", 3, [Ask::Wait, Ask::Idle]),
    check!("affinity", 3, [Ask::Wait, Ask::Idle]),
];

/// A small scenario.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Its name, that of its file.
    pub name: &'static str,
    /// CPUs of its machine.
    pub nr_cpus: u32,
    text: &'static str,
}

macro_rules! scope {
    ($name:literal, $nr_cpus:literal) => {
        Scope {
            name: $name,
            nr_cpus: $nr_cpus,
            text: include_str!(concat!("../../../workloads/check/", $name, ".toml")),
        }
    };
}

/// Every small scenario, in the order in which they are shown.
pub const SMALL: [Scope; 7] = [
    scope!("small_turns", 2),
    scope!("small_sleeps", 2),
    scope!("small_gates", 2),
    scope!("small_pipes", 2),
    scope!("small_masks", 3),
    scope!("small_forks", 3),
    scope!("small_hotplug", 2),
];

impl Check {
    /// Its machine and workload.
    pub fn scenario(&self) -> Scenario {
        Scenario { machine: machine(self.nr_cpus), workload: workload(self.name, self.text) }
    }
}

impl Scope {
    /// Its machine, on which nothing but the tasks' own work takes time, and its workload.
    pub fn scenario(&self) -> Scenario {
        let mut machine = machine(self.nr_cpus);
        machine.name = format!("costless-{}", self.nr_cpus);
        machine.description = "a machine on which no kernel operation takes time".to_owned();
        machine.hz = 100;
        machine.costs = no_costs(&machine.costs);
        machine.costs_by_policy.clear();
        Scenario { machine: machine.with_digest(), workload: workload(self.name, self.text) }
    }
}

/// The workload of a shipped file.
fn workload(name: &str, text: &str) -> Workload {
    let workload = scenario::parse_workload(&format!("{name}.toml"), text, &BTreeMap::new());
    workload.unwrap_or_else(|error| unreachable!("a shipped workload: {error}"))
}

/// A machine with the costs of a laptop of today and cores that share one cache.
pub fn machine(nr_cpus: u32) -> Machine {
    let text = include_str!("../../../machines/laptop.toml");
    let laptop = scenario::parse_machine("laptop.toml", text);
    let mut machine = laptop.unwrap_or_else(|error| unreachable!("a shipped machine: {error}"));
    machine.name = format!("check-{nr_cpus}");
    machine.description = format!("the laptop with {nr_cpus} cores of one thread");
    let core = |core| Cpu { core, cache: 0, node: 0, speed_permille: 1000 };
    machine.cpus = (0..nr_cpus).map(core).collect();
    // Fine enough for turns of 3 ms; the policies that count ticks know how long theirs are.
    machine.hz = 1000;
    machine.with_digest()
}

/// The same costs, all of them 0; sizes stay, and threads of a core do not slow each other down.
pub fn no_costs(costs: &Costs) -> Costs {
    Costs {
        context_switch_ns: 0,
        thread_switch_ns: 0,
        cold_switch_ns: 0,
        syscall_ns: 0,
        message_ns: 0,
        copy_ns_per_kib: 0,
        cold_write_ns_per_kib: 0,
        memory_ns: 0,
        allocator: AllocatorCosts::default(),
        wakeup_ns: 0,
        ipi_send_ns: 0,
        ipi_ns: 0,
        idle_exit_ns: 0,
        tick_ns: 0,
        timer_ns: 0,
        fork_ns: 0,
        exit_ns: 0,
        hook_ns: 0,
        dsq_op_ns: 0,
        vtime_op_ns: 0,
        scan_step_ns: 0,
        scan_miss_ns: 0,
        lock_ns: 0,
        line_transfer_ns: [0; DISTANCES],
        migration_ns: [0; DISTANCES],
        refill_ns_per_kib: [0; DISTANCES],
        smt_percent: 100,
        policy: PolicyCosts::default(),
        ..costs.clone()
    }
}
