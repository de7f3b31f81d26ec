//! Reads a machine from its TOML file and refuses everything that is not clearly right.
//!
//! A number without a source is a guess that nobody can check, so every cost must say where it
//! comes from (`source = "assumed: why"` if from nowhere).

use crate::file::costs::{COST_NS_MAX, costs_table, read_costs, read_costs_by_policy};
use crate::file::disturbances::{read_interrupts, read_speed_steps};
use crate::file::sourced::sourced;
use crate::model::error::ScenarioError;
use crate::model::machine::{
    Bus, CPUS_MAX, Costs, Cpu, Distance, Linux, Machine, Release, WATCHDOG_DEFAULT_NS,
};
use crate::reading::{Document, Node, TableNode, parse_table, read_table, stem};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toml::Table;

/// The highest tick rate a machine may have.
pub const HZ_MAX: u32 = 10_000;
/// The fastest CPU: a thousand times the reference CPU.
pub const SPEED_PERMILLE_MAX: u32 = 1_000_000;
/// The most that turbo may speed a CPU up: ten times.
pub const TURBO_PERMILLE_MAX: u32 = 10_000;

/// The longest time that the watchdog may be given, in seconds: a day.
pub const WATCHDOG_S_MAX: u32 = 86_400;

/// The most that a bus may carry: 10 TB a second.
pub const BUS_MB_PER_S_MAX: u64 = 10_000_000;

const ROOT_KEYS: [&str; 19] = [
    "description",
    "source",
    "hz",
    "hz_by_policy",
    "skew_tick",
    "sync_wakeups",
    "sync_wakeups_by_policy",
    "one_lock",
    "linux",
    "watchdog_s",
    "sched_ext",
    "topology",
    "speed_permille",
    "turbo_permille",
    "costs",
    "costs_by_policy",
    "bus",
    "interrupts",
    "speeds",
];
const BUS_KEYS: [&str; 2] = ["caches", "mb_per_s"];
const TOPOLOGY_KEYS: [&str; 5] =
    ["numa_nodes", "sockets", "caches_per_socket", "cores_per_cache", "threads_per_core"];
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
    let costs = read_costs(&root.need("costs", "add a [costs] section")?)?;
    let costs_by_policy = read_costs_by_policy(&root, &costs)?;
    let nr_cpus = cpus.len();
    let bus = read_bus(&root, &cpus, costs_by_policy.values().chain([&costs]))?;
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
        skew_tick: root.get("skew_tick")?.map_or(Ok(false), |skew| skew.boolean())?,
        sync_wakeups: match root.get("sync_wakeups")? {
            Some(sync) => sync.boolean()?,
            None => linux.is_some_and(Linux::wakes_synchronously),
        },
        sync_wakeups_by_policy: read_sync_wakeups_by_policy(&root)?,
        one_lock: read_one_lock(&root)?,
        watchdog_ns: match root.get("watchdog_s")? {
            Some(seconds) => u64::from(seconds.unsigned_32(1, WATCHDOG_S_MAX)?) * 1_000_000_000,
            None => WATCHDOG_DEFAULT_NS,
        },
        release: root.get("sched_ext")?.map(|release| read_release(&release)).transpose()?,
        linux,
        turbo_permille: read_turbo(&root)?,
        bus,
        costs_by_policy,
        costs,
        interrupts: read_interrupts(&root, nr_cpus)?,
        speeds: read_speed_steps(&root, nr_cpus)?,
        digest: String::new(),
    };
    check_ticks(&root, &machine)?;
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
fn check_ticks(root: &TableNode, machine: &Machine) -> Result<(), ScenarioError> {
    let hz = machine.hz_by_policy.values().copied().fold(machine.hz, u32::max);
    let period_ns = 1_000_000_000 / u64::from(hz);
    let by_policy = match root.get("costs_by_policy")? {
        Some(node) => node.any_table()?.entries()?,
        None => Vec::new(),
    };
    for costs in root.get("costs")?.into_iter().chain(by_policy.into_iter().map(|(_, node)| node)) {
        let costs = costs_table(&costs)?;
        if costs.has("tick_ns") {
            let tick = sourced(&costs, "tick_ns")?;
            if tick.unsigned(0, COST_NS_MAX)? >= period_ns {
                return Err(tick.bad(
                    format!("with {hz} ticks a second the next tick comes after {period_ns} ns"),
                    format!("write less than {period_ns}, or lower `hz` and `hz_by_policy`"),
                ));
            }
        }
    }
    Ok(())
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

fn read_one_lock(root: &TableNode) -> Result<BTreeSet<String>, ScenarioError> {
    let Some(policies) = root.get("one_lock")? else { return Ok(BTreeSet::new()) };
    policies.elements()?.iter().map(|policy| Ok(policy.text()?.to_string())).collect()
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

fn read_bus<'a>(
    root: &TableNode,
    cpus: &[Cpu],
    mut all_costs: impl Iterator<Item = &'a Costs>,
) -> Result<Option<Bus>, ScenarioError> {
    let Some(node) = root.get("bus")? else { return Ok(None) };
    let table = node.table(&BUS_KEYS)?;
    let sharing = sourced(&table, "caches")?;
    let caches = sharing.unsigned_32(1, CPUS_MAX as u32)?;
    let capacity = sourced(&table, "mb_per_s")?;
    let mb_per_s = capacity.unsigned(1, BUS_MB_PER_S_MAX)?;
    let nr_buses = cpus.iter().map(|cpu| cpu.cache / caches).max().map_or(0, |last| last + 1);
    all_costs.try_for_each(|costs| {
        check_bus(&capacity, mb_per_s, costs)?;
        check_buses(&sharing, nr_buses, costs)
    })?;
    Ok(Some(Bus { caches, mb_per_s }))
}

/// CPUs of another bus are as far away as those of another node, also within one, where files that
/// know no second node may have left out what that costs.
fn check_buses(sharing: &Node, nr_buses: u32, costs: &Costs) -> Result<(), ScenarioError> {
    let all = [
        ("line_transfer_ns", costs.line_transfer_ns),
        ("refill_ns_per_kib", costs.refill_ns_per_kib),
    ];
    for (cost, ns) in all {
        let [near, far] = [Distance::Node, Distance::Remote].map(|at| ns[at as usize]);
        if nr_buses > 1 && near > 0 && far == 0 {
            return Err(sharing.bad(
                format!(
                    "there are {nr_buses} buses, and `costs.{cost}.remote`, which is for CPUs of \
                     another one, is 0"
                ),
                "say what it takes from there, or let all caches share one bus",
            ));
        }
    }
    Ok(())
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
    // What is written is fetched, and written back.
    let write = ("cold_write_ns_per_kib".to_owned(), costs.cold_write_ns_per_kib, 2048);
    let all = refills.into_iter().chain(lines).chain([scan, write]);
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
