//! Reads a machine from its TOML file and refuses everything that is not clearly right.
//!
//! A number without a source is a guess that nobody can check, so every cost must say where it
//! comes from (`source = "assumed: why"` if from nowhere).

use crate::file::disturbances::{read_interrupts, read_speed_steps};
use crate::file::sourced::sourced;
use crate::model::error::ScenarioError;
use crate::model::machine::{
    Bus, CPUS_MAX, Costs, Cpu, DISTANCES, Distance, Linux, Machine, PolicyCosts, Release,
    WATCHDOG_DEFAULT_NS,
};
use crate::reading::{Document, Node, TableNode, parse_table, read_table, stem};
use std::collections::BTreeMap;
use std::path::Path;
use toml::Table;

/// The highest tick rate a machine may have.
pub const HZ_MAX: u32 = 10_000;
/// The largest cost in nanoseconds: a second.
pub const COST_NS_MAX: u64 = 1_000_000_000;
/// The most that an instruction of a policy may cost in picoseconds: a microsecond.
pub const INSTRUCTION_PS_MAX: u64 = 1_000_000;
/// The largest cache in KiB (1 TiB), and the longest scan that fits in one.
pub const CACHE_KIB_MAX: u64 = 1 << 30;
/// The longest cache line in bytes.
pub const LINE_BYTES_MAX: u64 = 4096;
/// The most cache lines that a message's header or a channel's state may have.
pub const LINES_MAX: u64 = 1024;
/// The fastest CPU: a thousand times the reference CPU.
pub const SPEED_PERMILLE_MAX: u32 = 1_000_000;
/// The most that turbo may speed a CPU up: ten times.
pub const TURBO_PERMILLE_MAX: u32 = 10_000;

/// The longest time that the watchdog may be given, in seconds: a day.
pub const WATCHDOG_S_MAX: u32 = 86_400;

/// The most that a bus may carry: 10 TB a second.
pub const BUS_MB_PER_S_MAX: u64 = 10_000_000;

const ROOT_KEYS: [&str; 16] = [
    "description",
    "source",
    "hz",
    "hz_by_policy",
    "sync_wakeups",
    "sync_wakeups_by_policy",
    "linux",
    "watchdog_s",
    "sched_ext",
    "topology",
    "speed_permille",
    "turbo_permille",
    "costs",
    "bus",
    "interrupts",
    "speeds",
];
const BUS_KEYS: [&str; 2] = ["caches", "mb_per_s"];
const TOPOLOGY_KEYS: [&str; 5] =
    ["numa_nodes", "sockets", "caches_per_socket", "cores_per_cache", "threads_per_core"];
const COST_KEYS: [&str; 31] = [
    "context_switch_ns",
    "thread_switch_ns",
    "cold_switch_ns",
    "syscall_ns",
    "message_ns",
    "copy_ns_per_kib",
    "wakeup_ns",
    "ipi_send_ns",
    "ipi_ns",
    "idle_exit_ns",
    "tick_ns",
    "timer_ns",
    "fork_ns",
    "exit_ns",
    "hook_ns",
    "dsq_op_ns",
    "scan_step_ns",
    "scan_miss_ns",
    "scan_cached_tasks",
    "lock_ns",
    "line_transfer_ns",
    "line_bytes",
    "message_lines",
    "channel_lines",
    "migration_ns",
    "refill_ns_per_kib",
    "cache_kib",
    "smt_percent",
    "instruction_ps",
    "division_ps",
    "call_ps",
];
const DISTANCE_KEYS: [&str; DISTANCES] = ["same", "smt", "cache", "node", "remote"];

/// Reads the machine in the file at `path`; its name is the file's without `.toml`.
///
/// # Errors
/// If the file cannot be read, is not TOML, or says something that a machine cannot be.
pub fn load_machine(path: &Path) -> Result<Machine, ScenarioError> {
    let (file, table) = read_table(path)?;
    machine_of(file, &table)
}

/// The machine that `text` describes; `file` names it in errors and gives it its name.
///
/// # Errors
/// As [`load_machine`].
pub fn parse_machine(file: &str, text: &str) -> Result<Machine, ScenarioError> {
    machine_of(file.to_string(), &parse_table(file, text)?)
}

fn machine_of(file: String, table: &Table) -> Result<Machine, ScenarioError> {
    let document = Document { file, parameters: BTreeMap::new() };
    let root = TableNode::root(&document, table);
    root.check_keys(&ROOT_KEYS)?;
    root.need("source", "say where the topology and the tick rate come from")?.text()?;
    let mut cpus = read_topology(&root)?;
    read_speeds(&root, &mut cpus)?;
    let costs_node = root.need("costs", "add a [costs] section")?;
    let costs = read_costs(&costs_node)?;
    let nr_cpus = cpus.len();
    let linux = root.get("linux")?.map(|version| read_linux(&version)).transpose()?;
    let machine = Machine {
        name: stem(&document.file),
        description: root
            .need("description", "say in a sentence what this machine is")?
            .text()?
            .to_string(),
        cpus,
        hz: root
            .need("hz", "say how many timer ticks a second, such as hz = 250")?
            .unsigned_32(1, HZ_MAX)?,
        hz_by_policy: read_hz_by_policy(&root)?,
        sync_wakeups: match root.get("sync_wakeups")? {
            Some(sync) => sync.boolean()?,
            None => linux.is_some_and(Linux::wakes_synchronously),
        },
        sync_wakeups_by_policy: read_sync_wakeups_by_policy(&root)?,
        watchdog_ns: match root.get("watchdog_s")? {
            Some(seconds) => u64::from(seconds.unsigned_32(1, WATCHDOG_S_MAX)?) * 1_000_000_000,
            None => WATCHDOG_DEFAULT_NS,
        },
        release: root.get("sched_ext")?.map(|release| read_release(&release)).transpose()?,
        linux,
        turbo_permille: read_turbo(&root)?,
        bus: read_bus(&root, &costs)?,
        costs,
        interrupts: read_interrupts(&root, nr_cpus)?,
        speeds: read_speed_steps(&root, nr_cpus)?,
        digest: String::new(),
    };
    check_ticks(&costs_node, &machine)?;
    Ok(machine.with_digest())
}

fn read_linux(node: &Node) -> Result<Linux, ScenarioError> {
    Linux::named(node.text()?).ok_or_else(|| {
        let hint = "write it as in \"2.6.31\" or \"6.12\", or leave it out for pipes of today, \
                    and say sync_wakeups";
        node.bad("no version of Linux", hint)
    })
}

fn read_release(node: &Node) -> Result<Release, ScenarioError> {
    Release::named(node.text()?).ok_or_else(|| {
        let hint = format!("write one of {}, in quotes, or leave it out", Release::names());
        node.bad("a release of Linux whose sched_ext is not known here", hint)
    })
}

/// A tick is over before the next one is due: a machine that is late for its own ticks is a slip of
/// the pen, such as microseconds for nanoseconds.
fn check_ticks(costs: &Node, machine: &Machine) -> Result<(), ScenarioError> {
    let hz = machine.hz_by_policy.values().copied().fold(machine.hz, u32::max);
    let period_ns = 1_000_000_000 / u64::from(hz);
    if machine.costs.tick_ns < period_ns {
        return Ok(());
    }
    let tick = sourced(&costs.table(&COST_KEYS)?, "tick_ns")?;
    Err(tick.bad(
        format!("with {hz} ticks a second the next tick comes after {period_ns} ns"),
        format!("write less than {period_ns}, or lower `hz` and `hz_by_policy`"),
    ))
}

fn read_hz_by_policy(root: &TableNode) -> Result<BTreeMap<String, u32>, ScenarioError> {
    let Some(table) = root.get("hz_by_policy")? else { return Ok(BTreeMap::new()) };
    let entries = table.any_table()?.entries()?;
    entries
        .into_iter()
        .map(|(policy, hz)| Ok((policy.to_string(), hz.unsigned_32(1, HZ_MAX)?)))
        .collect()
}

fn read_sync_wakeups_by_policy(root: &TableNode) -> Result<BTreeMap<String, bool>, ScenarioError> {
    let Some(table) = root.get("sync_wakeups_by_policy")? else { return Ok(BTreeMap::new()) };
    let entries = table.any_table()?.entries()?;
    entries.into_iter().map(|(policy, sync)| Ok((policy.to_string(), sync.boolean()?))).collect()
}

/// CPUs in the order in which Linux usually numbers them: the first hardware thread of every
/// core, then the second ones.
fn read_topology(root: &TableNode) -> Result<Vec<Cpu>, ScenarioError> {
    let node =
        root.need("topology", "add a [topology] section with sockets, cores_per_cache...")?;
    let table = node.table(&TOPOLOGY_KEYS)?;
    let mut counts = [1_usize; TOPOLOGY_KEYS.len()];
    for (count, key) in counts.iter_mut().zip(TOPOLOGY_KEYS) {
        if let Some(value) = table.get(key)? {
            *count = value.unsigned_32(1, CPUS_MAX as u32)? as usize;
        }
    }
    let [nodes, sockets, caches_per_socket, cores_per_cache, threads] = counts;
    if sockets % nodes != 0 {
        return Err(node.bad(
            format!("{sockets} sockets cannot be shared evenly by {nodes} NUMA nodes"),
            "make `sockets` a multiple of `numa_nodes`",
        ));
    }
    let nr_cores = sockets * caches_per_socket * cores_per_cache;
    let nr_cpus = nr_cores.saturating_mul(threads);
    if nr_cpus > CPUS_MAX {
        return Err(node.bad(
            format!("{nr_cpus} CPUs are more than {CPUS_MAX}"),
            format!("lower sockets, caches, cores or threads to {CPUS_MAX} CPUs in all"),
        ));
    }
    let cpu = |number: usize| {
        let core = number % nr_cores;
        let cache = core / cores_per_cache;
        let node = cache / caches_per_socket / (sockets / nodes);
        Cpu { core: core as u32, cache: cache as u32, node: node as u32, speed_permille: 1000 }
    };
    Ok((0..nr_cpus).map(cpu).collect())
}

fn read_speeds(root: &TableNode, cpus: &mut [Cpu]) -> Result<(), ScenarioError> {
    let Some(node) = root.get("speed_permille")? else { return Ok(()) };
    let node = if node.value().is_table() { sourced(root, "speed_permille")? } else { node };
    if node.value().is_array() {
        let speeds = node.elements()?;
        if speeds.len() != cpus.len() {
            return Err(node.bad(
                format!("{} speeds for {} CPUs", speeds.len(), cpus.len()),
                "write one number for all CPUs, or one for each",
            ));
        }
        for (cpu, speed) in cpus.iter_mut().zip(speeds) {
            cpu.speed_permille = speed.unsigned_32(1, SPEED_PERMILLE_MAX)?;
        }
    } else {
        let speed = node.unsigned_32(1, SPEED_PERMILLE_MAX)?;
        cpus.iter_mut().for_each(|cpu| cpu.speed_permille = speed);
    }
    Ok(())
}

/// Speeds with one, two and more busy cores, which fall as more cores need power.
fn read_turbo(root: &TableNode) -> Result<Vec<u32>, ScenarioError> {
    if !root.has("turbo_permille") {
        return Ok(Vec::new());
    }
    let node = sourced(root, "turbo_permille")?;
    let elements = node.elements()?;
    let turbo = elements
        .iter()
        .map(|speed| speed.unsigned_32(1000, TURBO_PERMILLE_MAX))
        .collect::<Result<Vec<u32>, _>>()?;
    let hint = "write a speed for one busy core, for two ...; the last one is that of all";
    if turbo.is_empty() {
        return Err(node.bad("turbo without a speed", hint));
    }
    match turbo.windows(2).position(|pair| pair[0] < pair[1]) {
        Some(place) => Err(elements[place + 1].bad("more busy cores are not faster", hint)),
        None => Ok(turbo),
    }
}

fn read_costs(node: &Node) -> Result<Costs, ScenarioError> {
    let table = node.table(&COST_KEYS)?;
    let ns = |key: &str| sourced(&table, key)?.unsigned(0, COST_NS_MAX);
    let by_distance = |key: &str| read_distances(&sourced(&table, key)?);
    Ok(Costs {
        context_switch_ns: ns("context_switch_ns")?,
        thread_switch_ns: ns("thread_switch_ns")?,
        cold_switch_ns: match table.get("cold_switch_ns")? {
            Some(_) => ns("cold_switch_ns")?,
            None => 0,
        },
        syscall_ns: ns("syscall_ns")?,
        message_ns: ns("message_ns")?,
        copy_ns_per_kib: ns("copy_ns_per_kib")?,
        wakeup_ns: ns("wakeup_ns")?,
        ipi_send_ns: ns("ipi_send_ns")?,
        ipi_ns: ns("ipi_ns")?,
        idle_exit_ns: ns("idle_exit_ns")?,
        tick_ns: ns("tick_ns")?,
        timer_ns: ns("timer_ns")?,
        fork_ns: ns("fork_ns")?,
        exit_ns: ns("exit_ns")?,
        hook_ns: ns("hook_ns")?,
        dsq_op_ns: ns("dsq_op_ns")?,
        scan_step_ns: ns("scan_step_ns")?,
        scan_miss_ns: ns("scan_miss_ns")?,
        scan_cached_tasks: sourced(&table, "scan_cached_tasks")?.unsigned(0, CACHE_KIB_MAX)?,
        lock_ns: ns("lock_ns")?,
        line_transfer_ns: by_distance("line_transfer_ns")?,
        line_bytes: sourced(&table, "line_bytes")?.unsigned(1, LINE_BYTES_MAX)?,
        message_lines: sourced(&table, "message_lines")?.unsigned(0, LINES_MAX)?,
        channel_lines: sourced(&table, "channel_lines")?.unsigned(0, LINES_MAX)?,
        migration_ns: by_distance("migration_ns")?,
        refill_ns_per_kib: by_distance("refill_ns_per_kib")?,
        cache_kib: sourced(&table, "cache_kib")?.unsigned(0, CACHE_KIB_MAX)?,
        smt_percent: sourced(&table, "smt_percent")?.unsigned(1, 100)?,
        policy: read_policy_costs(&table)?,
    })
}

/// What a policy's instructions cost; nothing where the machine does not say it.
fn read_policy_costs(costs: &TableNode) -> Result<PolicyCosts, ScenarioError> {
    let ps = |key: &str| match costs.get(key)? {
        Some(_) => sourced(costs, key)?.unsigned(0, INSTRUCTION_PS_MAX),
        None => Ok(0),
    };
    Ok(PolicyCosts {
        instruction_ps: ps("instruction_ps")?,
        division_ps: ps("division_ps")?,
        call_ps: ps("call_ps")?,
    })
}

fn read_bus(root: &TableNode, costs: &Costs) -> Result<Option<Bus>, ScenarioError> {
    let Some(node) = root.get("bus")? else { return Ok(None) };
    let table = node.table(&BUS_KEYS)?;
    let caches = sourced(&table, "caches")?.unsigned_32(1, CPUS_MAX as u32)?;
    let capacity = sourced(&table, "mb_per_s")?;
    let mb_per_s = capacity.unsigned(1, BUS_MB_PER_S_MAX)?;
    check_bus(&capacity, mb_per_s, costs)?;
    Ok(Some(Bus { caches, mb_per_s }))
}

/// What comes over a bus takes at least as long as the bus is busy with it, unless the machine does
/// without the cost: costs are those of a bus that nobody else uses.
fn check_bus(capacity: &Node, mb_per_s: u64, costs: &Costs) -> Result<(), ScenarioError> {
    let [same, node, remote] = [Distance::Same, Distance::Node, Distance::Remote];
    let refills = [("same", same), ("node", node), ("remote", remote)].map(|(name, at)| {
        (format!("refill_ns_per_kib.{name}"), costs.refill_ns_per_kib[at as usize], 1024)
    });
    let lines = [("node", node), ("remote", remote)].map(|(name, at)| {
        (format!("line_transfer_ns.{name}"), costs.line_transfer_ns[at as usize], costs.line_bytes)
    });
    let scan = ("scan_miss_ns".to_owned(), costs.scan_miss_ns, costs.line_bytes);
    let all = refills.into_iter().chain(lines).chain([scan]);
    for (cost, ns, bytes) in all {
        if ns > 0 && ns * mb_per_s < bytes * 1000 {
            return Err(capacity.bad(
                format!(
"a bus is busy with {bytes} bytes for longer than `costs.{cost}`, which is {ns} ns"),
                "raise one of them: a cost contains the transfer on a bus that nobody else uses",
            ));
        }
    }
    Ok(())
}

fn read_distances(node: &Node) -> Result<[u64; DISTANCES], ScenarioError> {
    let table = node.table(&DISTANCE_KEYS)?;
    let mut costs = [0; DISTANCES];
    for (cost, key) in costs.iter_mut().zip(DISTANCE_KEYS) {
        let hint = "give a cost for each distance: same, smt, cache, node, remote";
        *cost = table.need(key, hint)?.unsigned(0, COST_NS_MAX)?;
    }
    Ok(costs)
}
