//! Small machines.

use super::root;
use scenario::machine::{Cpu, Machine, WATCHDOG_DEFAULT_NS};

/// The shipped machine of this name.
pub fn shipped_machine(name: &str) -> Machine {
    let path = root().join("machines").join(format!("{name}.toml"));
    scenario::load_machine(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// `nr_cpus` CPUs of osdl-8 with another tick rate, and one cache for all.
pub fn machine(nr_cpus: usize, hz: u32) -> Machine {
    let mut machine = shipped_machine("osdl-8");
    machine.cpus.truncate(nr_cpus);
    for cpu in &mut machine.cpus {
        cpu.cache = 0;
    }
    machine.hz = hz;
    machine.hz_by_policy.clear();
    machine.costs_by_policy.clear();
    machine.one_lock.clear();
    machine.sync_wakeups = false; // The workload says which wake-ups are.
    machine.sync_wakeups_by_policy.clear();
    machine
}

/// A machine on which no kernel operation takes any time, so that only decisions show.
pub fn costless(nr_cpus: usize, hz: u32) -> Machine {
    let mut machine = shipped_machine("osdl-8");
    let costs = &mut machine.costs;
    for cost in [
        &mut costs.context_switch_ns,
        &mut costs.thread_switch_ns,
        &mut costs.syscall_ns,
        &mut costs.message_ns,
        &mut costs.copy_ns_per_kib,
        &mut costs.wakeup_ns,
        &mut costs.ipi_send_ns,
        &mut costs.ipi_ns,
        &mut costs.idle_exit_ns,
        &mut costs.tick_ns,
        &mut costs.timer_ns,
        &mut costs.fork_ns,
        &mut costs.exit_ns,
        &mut costs.hook_ns,
        &mut costs.dsq_op_ns,
        &mut costs.vtime_op_ns,
        &mut costs.scan_step_ns,
        &mut costs.scan_miss_ns,
        &mut costs.lock_ns,
    ] {
        *cost = 0;
    }
    costs.line_transfer_ns = [0; 5];
    costs.migration_ns = [0; 5];
    costs.refill_ns_per_kib = [0; 5];
    let cpu = machine.cpus[0];
    machine.cpus =
        (0..nr_cpus as u32).map(|number| Cpu { core: number, cache: 0, node: 0, ..cpu }).collect();
    machine.hz = hz;
    machine.watchdog_ns = WATCHDOG_DEFAULT_NS;
    machine.hz_by_policy.clear();
    machine.costs_by_policy.clear();
    machine.sync_wakeups = false;
    machine.sync_wakeups_by_policy.clear();
    machine.name = format!("costless-{nr_cpus}");
    machine
}
