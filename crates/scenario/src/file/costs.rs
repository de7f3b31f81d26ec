//! What operations cost: `[costs]` of a machine's file, and `[costs_by_policy.NAME]`.

use crate::file::sourced::sourced;
use crate::model::error::ScenarioError;
use crate::model::machine::{Costs, DISTANCES};
use crate::reading::{Node, TableNode};
use std::collections::BTreeMap;

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

/// The longest that computing may wait for a line from memory: ten microseconds.
pub const MEMORY_NS_MAX: u64 = 10_000;

/// The most objects that an allocator may keep, and lines that it may look at.
pub const ALLOCATOR_MAX: u64 = 1024;

const DISTANCE_KEYS: [&str; DISTANCES] = ["same", "smt", "cache", "node", "remote"];

/// A cost, as a file has it.
struct Cost {
    key: &'static str,
    place: Place,
    /// The smallest and the largest that it may be.
    range: (u64, u64),
    /// What a machine need not say; it is 0 then.
    is_optional: bool,
}

enum Place {
    One(fn(&mut Costs) -> &mut u64),
    ByDistance(fn(&mut Costs) -> &mut [u64; DISTANCES]),
}

const fn of(key: &'static str, place: fn(&mut Costs) -> &mut u64) -> Cost {
    Cost { key, place: Place::One(place), range: (0, COST_NS_MAX), is_optional: false }
}

const fn within(mut cost: Cost, least: u64, most: u64) -> Cost {
    cost.range = (least, most);
    cost
}

const fn optional(mut cost: Cost) -> Cost {
    cost.is_optional = true;
    cost
}

const fn by_distance(key: &'static str, place: fn(&mut Costs) -> &mut [u64; DISTANCES]) -> Cost {
    Cost { key, place: Place::ByDistance(place), range: (0, COST_NS_MAX), is_optional: false }
}

const COSTS: [Cost; 43] = [
    of("context_switch_ns", |costs| &mut costs.context_switch_ns),
    of("thread_switch_ns", |costs| &mut costs.thread_switch_ns),
    optional(of("cold_switch_ns", |costs| &mut costs.cold_switch_ns)),
    of("syscall_ns", |costs| &mut costs.syscall_ns),
    of("message_ns", |costs| &mut costs.message_ns),
    of("copy_ns_per_kib", |costs| &mut costs.copy_ns_per_kib),
    optional(of("cold_write_ns_per_kib", |costs| &mut costs.cold_write_ns_per_kib)),
    of("wakeup_ns", |costs| &mut costs.wakeup_ns),
    of("ipi_send_ns", |costs| &mut costs.ipi_send_ns),
    of("ipi_ns", |costs| &mut costs.ipi_ns),
    of("idle_exit_ns", |costs| &mut costs.idle_exit_ns),
    of("tick_ns", |costs| &mut costs.tick_ns),
    of("timer_ns", |costs| &mut costs.timer_ns),
    of("fork_ns", |costs| &mut costs.fork_ns),
    of("exit_ns", |costs| &mut costs.exit_ns),
    of("hook_ns", |costs| &mut costs.hook_ns),
    of("dsq_op_ns", |costs| &mut costs.dsq_op_ns),
    optional(of("vtime_op_ns", |costs| &mut costs.vtime_op_ns)),
    of("scan_step_ns", |costs| &mut costs.scan_step_ns),
    of("scan_miss_ns", |costs| &mut costs.scan_miss_ns),
    within(of("scan_cached_tasks", |costs| &mut costs.scan_cached_tasks), 0, CACHE_KIB_MAX),
    of("lock_ns", |costs| &mut costs.lock_ns),
    by_distance("line_transfer_ns", |costs| &mut costs.line_transfer_ns),
    within(of("line_bytes", |costs| &mut costs.line_bytes), 1, LINE_BYTES_MAX),
    within(of("message_lines", |costs| &mut costs.message_lines), 0, LINES_MAX),
    within(of("channel_lines", |costs| &mut costs.channel_lines), 0, LINES_MAX),
    by_distance("migration_ns", |costs| &mut costs.migration_ns),
    by_distance("refill_ns_per_kib", |costs| &mut costs.refill_ns_per_kib),
    within(of("cache_kib", |costs| &mut costs.cache_kib), 0, CACHE_KIB_MAX),
    optional(within(of("memory_ns", |costs| &mut costs.memory_ns), 0, MEMORY_NS_MAX)),
    within(of("smt_percent", |costs| &mut costs.smt_percent), 1, 100),
    of_allocator("allocator_objects", |costs| &mut costs.allocator.objects),
    of_allocator("allocator_kept", |costs| &mut costs.allocator.kept),
    of_allocator("allocator_batch", |costs| &mut costs.allocator.batch),
    of_allocator("allocator_shared", |costs| &mut costs.allocator.shared),
    of_allocator("allocator_slab", |costs| &mut costs.allocator.slab),
    of_allocator("allocator_get_lines", |costs| &mut costs.allocator.get_lines),
    of_allocator("allocator_free_lines", |costs| &mut costs.allocator.free_lines),
    of_allocator("allocator_free_writes", |costs| &mut costs.allocator.free_writes),
    of_policy("instruction_ps", |costs| &mut costs.policy.instruction_ps),
    of_policy("division_ps", |costs| &mut costs.policy.division_ps),
    of_policy("call_ps", |costs| &mut costs.policy.call_ps),
    of_policy("wide_ps", |costs| &mut costs.policy.wide_ps),
];

const fn of_policy(key: &'static str, place: fn(&mut Costs) -> &mut u64) -> Cost {
    optional(within(of(key, place), 0, INSTRUCTION_PS_MAX))
}

const fn of_allocator(key: &'static str, place: fn(&mut Costs) -> &mut u64) -> Cost {
    optional(within(of(key, place), 0, ALLOCATOR_MAX))
}

// ---- reading ------------------------------------------------------------------------------------

/// The costs in `node`, all of them.
pub(crate) fn read_costs(node: &Node) -> Result<Costs, ScenarioError> {
    let table = costs_table(node)?;
    let mut costs = Costs::default();
    for cost in &COSTS {
        if table.has(cost.key) || !cost.is_optional {
            read_cost(&table, cost, &mut costs)?;
        }
    }
    check_allocator(&table, &costs)?;
    Ok(costs)
}

/// The costs of kernels of another age, by policy: those in the file, all others as `usual`.
pub(crate) fn read_costs_by_policy(
    root: &TableNode,
    usual: &Costs,
) -> Result<BTreeMap<String, Costs>, ScenarioError> {
    let Some(node) = root.get("costs_by_policy")? else { return Ok(BTreeMap::new()) };
    let read = |(policy, node): (&str, Node)| {
        let (table, mut costs) = (costs_table(&node)?, usual.clone());
        for cost in COSTS.iter().filter(|cost| table.has(cost.key)) {
            read_cost(&table, cost, &mut costs)?;
        }
        check_allocator(&table, &costs)?;
        Ok((policy.to_string(), costs))
    };
    node.any_table()?.entries()?.into_iter().map(read).collect()
}

/// An allocator with objects hands them out in batches, and only where messages leave caches.
fn check_allocator(table: &TableNode, costs: &Costs) -> Result<(), ScenarioError> {
    let allocator = &costs.allocator;
    let keys = ["allocator_objects", "allocator_batch", "allocator_slab", "cold_write_ns_per_kib"];
    let key = keys.into_iter().find(|key| table.has(key));
    let Some(key) = key.filter(|_| allocator.objects > 0) else { return Ok(()) };
    if allocator.batch == 0 {
        let hint = "set `allocator_batch` to 1 or more, or `allocator_objects` to 0";
        return Err(sourced(table, key)?.bad("objects without a batch in which they come", hint));
    }
    if allocator.slab == 0 {
        let hint = "set `allocator_slab` to 1 or more, or `allocator_objects` to 0";
        return Err(sourced(table, key)?.bad("objects without a slab of which they are", hint));
    }
    if costs.cold_write_ns_per_kib == 0 {
        let hint = "set `cold_write_ns_per_kib`, or `allocator_objects` to 0";
        return Err(
            sourced(table, key)?.bad("an allocator where messages never leave caches", hint)
        );
    }
    Ok(())
}

/// The table in `node`, which has nothing but costs.
pub(crate) fn costs_table<'a>(node: &Node<'a>) -> Result<TableNode<'a>, ScenarioError> {
    node.table(&COSTS.map(|cost| cost.key))
}

fn read_cost(table: &TableNode, cost: &Cost, costs: &mut Costs) -> Result<(), ScenarioError> {
    let (node, (least, most)) = (sourced(table, cost.key)?, cost.range);
    match cost.place {
        Place::One(place) => *place(costs) = node.unsigned(least, most)?,
        Place::ByDistance(place) => {
            let table = node.table(&DISTANCE_KEYS)?;
            for (ns, key) in place(costs).iter_mut().zip(DISTANCE_KEYS) {
                let hint = "give a cost for each distance: same, smt, cache, node, remote";
                *ns = table.need(key, hint)?.unsigned(least, most)?;
            }
        }
    }
    Ok(())
}

// ---- writing ------------------------------------------------------------------------------------

/// Every cost with the text of its value, but for those that a machine need not say and that are 0.
pub(crate) fn costs_text(costs: &Costs) -> Vec<(&'static str, String)> {
    let is_needed = |cost: &&Cost| !cost.is_optional || cost.text(costs) != "0";
    COSTS.iter().filter(is_needed).map(|cost| (cost.key, cost.text(costs))).collect()
}

/// Those costs that are not as usual, with the text of their value.
pub(crate) fn other_costs_text(costs: &Costs, usual: &Costs) -> Vec<(&'static str, String)> {
    let is_other = |cost: &&Cost| cost.text(costs) != cost.text(usual);
    COSTS.iter().filter(is_other).map(|cost| (cost.key, cost.text(costs))).collect()
}

impl Cost {
    /// Its value in a file.
    fn text(&self, costs: &Costs) -> String {
        let mut costs = costs.clone();
        match self.place {
            Place::One(place) => place(&mut costs).to_string(),
            Place::ByDistance(place) => {
                let each = DISTANCE_KEYS.iter().zip(place(&mut costs));
                let each: Vec<String> = each.map(|(key, ns)| format!("{key} = {ns}")).collect();
                format!("{{ {} }}", each.join(", "))
            }
        }
    }
}
