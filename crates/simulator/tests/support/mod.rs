//! What the simulator's tests share: policies of the repository, small machines and workloads.
#![allow(dead_code)] // Every test file uses another part of it.

use policy::Policy;
use scenario::machine::Machine;
use scenario::workload::{InitialTask, Program, TaskTemplate, Workload};
use simulator::{Options, RunResult, simulate};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Every policy the repository ships.
pub const POLICIES: [&str; 7] =
    ["fifo", "round_robin", "linux_2_4", "o1", "cfs", "bfs", "eevdf"];

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles a C file, relative to the repository.
pub fn compile(source: &str) -> Policy {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("policies");
    let include = [root().join("policies/include")];
    policy::compile(&root().join(source), &include, &cache)
        .unwrap_or_else(|error| panic!("{source}: {error}"))
}

pub fn shipped(name: &str) -> Policy {
    compile(&format!("policies/{name}.bpf.c"))
}

pub fn machine(name: &str) -> Machine {
    let path = root().join("machines").join(format!("{name}.toml"));
    scenario::load_machine(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A machine on which no kernel operation takes any time, so that only decisions show.
pub fn costless(nr_cpus: usize, hz: u32) -> Machine {
    let mut machine = machine("osdl-8");
    let mut costs = machine.costs.clone();
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
    machine.cpus = (0..nr_cpus as u32)
        .map(|number| scenario::machine::Cpu { core: number, cache: 0, node: 0, ..cpu })
        .collect();
    machine.costs = costs;
    machine.hz = hz;
    machine.watchdog_ns = scenario::machine::WATCHDOG_DEFAULT_NS;
    machine.hz_by_policy = BTreeMap::new();
    machine.sync_wakeups = false;
    machine.sync_wakeups_by_policy = BTreeMap::new();
    machine.name = format!("costless-{nr_cpus}");
    machine
}

pub fn shipped_workload(name: &str, parameters: &[(&str, &str)]) -> Workload {
    let path = root().join("workloads").join(format!("{name}.toml"));
    let parameters =
        parameters.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    scenario::load_workload(&path, &parameters).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A workload from the text of a workload file.
pub fn workload(text: &str) -> Workload {
    scenario::parse_workload("test", text, &BTreeMap::new())
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

pub fn template(name: &str, nice: i8, program: Program) -> TaskTemplate {
    TaskTemplate {
        name: name.to_owned(),
        program,
        nice,
        cpus: None,
        address_space: None,
        footprint_kib: 0,
    }
}

/// A workload of tasks that all begin at 0 and talk to nobody.
pub fn tasks(templates: Vec<TaskTemplate>, stop_at_ns: Option<u64>) -> Workload {
    Workload {
        name: "test".to_owned(),
        description: String::new(),
        parameters: Vec::new(),
        initial: (0..templates.len() as u32)
            .map(|template| InitialTask { template, start_at_ns: 0 })
            .collect(),
        templates,
        channels: Vec::new(),
        nr_gates: 0,
        stop_at_ns,
        digest: String::new(),
    }
}

pub fn run(policy: &Policy, machine: &Machine, workload: &Workload, seed: u64) -> RunResult {
    let options = Options { seed, ..Options::default() };
    simulate(policy, machine, workload, &options).unwrap_or_else(|error| panic!("{error}"))
}

/// The run as one line a CPU: every character is `cell_ns` long and shows who ran longest in it.
/// Tasks are shown by the last character of their names, idle time by a dot.
pub fn timeline(result: &RunResult, cell_ns: u64) -> String {
    let stays = result.timeline.as_ref().expect("the run was asked for its timeline");
    let names = result.timeline_names.as_ref().expect("names come with the timeline");
    let cells = result.elapsed_ns.div_ceil(cell_ns) as usize;
    let mut text = String::new();
    for cpu in 0..result.nr_cpus as u32 {
        let mut shares: Vec<BTreeMap<char, u64>> = vec![BTreeMap::new(); cells];
        for &(start, end, on, pid) in stays.iter().filter(|stay| stay.2 == cpu) {
            debug_assert_eq!(on, cpu);
            let sign = names[&pid].chars().last().unwrap_or('?');
            for cell in start / cell_ns..end.div_ceil(cell_ns) {
                let from = start.max(cell * cell_ns);
                let to = end.min((cell + 1) * cell_ns);
                *shares[cell as usize].entry(sign).or_default() += to.saturating_sub(from);
            }
        }
        let sign = |share: &BTreeMap<char, u64>| {
            let longest = share.iter().max_by_key(|(_, ns)| **ns);
            longest.filter(|(_, ns)| 2 * **ns >= cell_ns).map_or('.', |(&sign, _)| sign)
        };
        text += &format!("cpu{cpu} |{}|\n", shares.iter().map(sign).collect::<String>());
    }
    text
}
