//! Goal: the digest covers all that can influence a run, and no more. Method: one change at a time.

#![allow(clippy::unwrap_used)]

use crate::meaning::{PAIRS, machine, workload};
use scenario::machine::{Interrupts, Linux, Machine, Release, SpeedStep};
use scenario::workload::{Amount, Cgroup, Change, ChangeKind, Op, Quantiles, Repeat, Workload};
use scenario::{parse_machine, parse_workload};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn names_and_descriptions_leave_the_digest_alone() {
    let pairs = workload(PAIRS, &[]);
    let renamed = PAIRS.replace("description = \"d\"", "description = \"other\"");
    let renamed = parse_workload("v.toml", &renamed, &BTreeMap::new()).unwrap();
    assert_eq!(pairs.digest, renamed.digest);
    assert_eq!(pairs.digest, workload(PAIRS, &[("pairs", "2")]).digest, "given or default");
    let laptop = machine(str::to_string);
    assert_eq!(laptop.digest, machine(|text| text.replace("laptop of today", "x")).digest);
}

/// Digests must all differ from each other and from the first.
pub(crate) fn assert_all_differ(digests: Vec<String>) {
    let distinct: BTreeSet<&String> = digests.iter().collect();
    assert_eq!(distinct.len(), digests.len());
}

fn digest_of_changed(workload: &Workload, edit: &dyn Fn(&mut Workload)) -> String {
    let mut changed = workload.clone();
    edit(&mut changed);
    changed.with_digest().digest
}

#[test]
fn each_field_of_a_workload_changes_the_digest() {
    let first = workload(PAIRS, &[]);
    let change = |edit: &dyn Fn(&mut Workload)| digest_of_changed(&first, edit);
    assert_eq!(change(&|_| ()), first.digest);
    let mut digests = vec![
        first.digest.clone(),
        change(&|w| w.initial[1].start_at_ns += 1),
        change(&|w| w.initial[1].template = 0),
        change(&|w| w.channels[1].capacity_bytes += 1),
        change(&|w| w.channels[1].overhead_bytes += 1),
        change(&|w| w.channels[1].wake_senders_at_bytes += 1),
        change(&|w| w.channels[1].sync_wakeups = false),
        change(&|w| w.nr_gates += 1),
        change(&|w| w.stop_at_ns = Some(0)),
        change(&|w| w.stop_at_ns = Some(1)),
        change(&|w| w.starts_everywhere = true),
        change(&|w| w.templates[2].name = "other".to_string()),
        change(&|w| w.templates[2].nice += 1),
        change(&|w| w.templates[2].cpus = None),
        change(&|w| w.templates[2].cpus = Some([0].into())),
        change(&|w| w.templates[2].address_space = Some(0)),
        change(&|w| w.templates[2].footprint_kib += 1),
    ];
    let hotplug = |at_ns, cpu, online| Change { at_ns, what: ChangeKind::Hotplug { cpu, online } };
    let affinity = |task: &str, cpus: &[u32]| {
        let what = ChangeKind::Affinity { task: task.to_string(), cpus: Some(cpus.into()) };
        Change { at_ns: 1, what }
    };
    let changes =
        [hotplug(1, 1, false), hotplug(2, 1, false), hotplug(1, 2, false), hotplug(1, 1, true)]
            .into_iter()
            .chain([affinity("a", &[0]), affinity("b", &[0]), affinity("a", &[1])]);
    digests.extend(changes.map(|one| change(&|w| w.changes = vec![one.clone()])));
    for cpus in [None, Some([0].into()), Some([1].into())] {
        digests.push(change(&|w| {
            w.cpu_sets = vec![cpus.clone()];
            w.templates[2].program = [Op::Affinity { set: 0 }].into();
        }));
    }
    let amounts = [
        Amount::Fixed(1),
        Amount::Uniform { low: 1, high: 0 },
        Amount::Exponential { mean: 1 },
        Amount::Normal { mean: 1, sd: 0 },
        Amount::LogNormal { median: 1, sigma_permille: 0 },
        Amount::Recorded(Quantiles { at: [1; 9], unit: 1, permille: 1000 }),
        Amount::Recorded(Quantiles { at: [1, 1, 1, 1, 1, 1, 1, 1, 2], unit: 1, permille: 1000 }),
        Amount::Recorded(Quantiles { at: [1; 9], unit: 2, permille: 1000 }),
        Amount::Recorded(Quantiles { at: [1; 9], unit: 1, permille: 1001 }),
    ];
    let mut ops: Vec<Op> = Vec::new();
    for amount in amounts {
        let repeat = Repeat::Times(amount);
        ops.extend([Op::Run(amount), Op::Sleep(amount), Op::Loop { repeat, end: 1 }]);
        ops.push(Op::Release { every: amount, deadline_ns: 5 });
    }
    ops.extend([Op::Loop { repeat: Repeat::Forever, end: 1 }, Op::End { start: 1 }]);
    ops.extend([Op::Loop { repeat: Repeat::WhileChildren, end: 1 }, Op::Fork { template: 1 }]);
    ops.extend([Op::Send { channel: 1, bytes: 2 }, Op::Send { channel: 2, bytes: 1 }]);
    ops.extend([Op::Recv { channel: 1, bytes: 2 }, Op::Nice(1), Op::Nice(-1), Op::Exit]);
    ops.extend([Op::Wake { gate: 1 }, Op::WakeAll { gate: 1 }, Op::Wait { gate: 1 }]);
    ops.extend([Op::Yield, Op::Join, Op::Mark, Op::Tare, Op::Done]);
    ops.push(Op::Release { every: Amount::Fixed(1), deadline_ns: 6 });
    digests.extend(ops.iter().map(|op| change(&|w| w.templates[2].program = [*op].into())));
    assert_all_differ(digests);
}

#[test]
fn each_cost_and_each_number_of_a_machine_changes_the_digest() {
    let laptop = machine(str::to_string);
    let mut digests = vec![laptop.digest.clone()];
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines/laptop.toml");
    let text = std::fs::read_to_string(path).unwrap();
    for (at, _) in text.match_indices("\nvalue = ") {
        let digits = text[at..].find(|c: char| c.is_ascii_digit()).unwrap() + at;
        // 7 in front of a number makes it another one within its bounds, save for a percentage.
        let end = text[digits..].find(|c: char| !c.is_ascii_digit()).unwrap() + digits;
        let number = &text[digits..end];
        let other = if number == "62" { "63".to_string() } else { format!("7{number}") };
        let changed = format!("{}{other}{}", &text[..digits], &text[end..]);
        digests.push(parse_machine("m.toml", &changed).unwrap().digest);
    }
    assert_eq!(digests.len(), 1 + 27);
    let change = |change: &dyn Fn(&mut Machine)| {
        let mut machine = laptop.clone();
        change(&mut machine);
        machine.with_digest().digest
    };
    let interrupts = |cpu, every_ns, takes_ns| {
        let name = "n".to_string();
        Interrupts { name, cpus: vec![cpu], every_ns, takes_ns }
    };
    digests.extend([
        change(&|m| m.hz += 1),
        change(&|m| m.watchdog_ns += 1),
        change(&|m| m.release = Some(Release::Linux6_12)),
        change(&|m| m.release = Some(Release::Linux7_3)),
        change(&|m| m.sync_wakeups ^= true),
        change(&|m| m.linux = Linux::named("2.6.31")),
        change(&|m| m.linux = Linux::named("2.6.32")),
        change(&|m| m.sync_wakeups_by_policy = BTreeMap::from([("o1".to_string(), true)])),
        change(&|m| m.hz_by_policy = BTreeMap::from([("o1".to_string(), 100)])),
        change(&|m| m.costs.cold_write_ns_per_kib = 1),
        change(&|m| m.costs.allocator.objects = 1),
        change(&|m| m.costs.allocator.kept = 1),
        change(&|m| m.one_lock = BTreeSet::from(["o1".to_string()])),
        change(&|m| m.costs_by_policy = BTreeMap::from([("o1".to_string(), m.costs.clone())])),
        change(&|m| m.interrupts = vec![interrupts(0, 2_000, 7)]),
        change(&|m| m.interrupts = vec![interrupts(1, 2_000, 7)]),
        change(&|m| m.interrupts = vec![interrupts(0, 2_001, 7)]),
        change(&|m| m.interrupts = vec![interrupts(0, 2_000, 8)]),
        change(&|m| m.interrupts = vec![interrupts(0, 2_000, 7), interrupts(0, 2_000, 7)]),
        change(&|m| m.speeds = vec![SpeedStep { at_ns: 5, cpus: vec![0], permille: 7 }]),
        change(&|m| m.speeds = vec![SpeedStep { at_ns: 6, cpus: vec![0], permille: 7 }]),
        change(&|m| m.speeds = vec![SpeedStep { at_ns: 5, cpus: vec![0, 1], permille: 7 }]),
        change(&|m| m.speeds = vec![SpeedStep { at_ns: 5, cpus: vec![0], permille: 8 }]),
        change(&|m| m.cpus[3].core += 1),
        change(&|m| m.cpus[3].cache += 1),
        change(&|m| m.cpus[3].node += 1),
        change(&|m| m.cpus[3].speed_permille += 1),
        change(&|m| m.costs.line_transfer_ns[4] += 1),
        change(&|m| m.costs.line_bytes += 1),
        change(&|m| m.costs.message_lines += 1),
        change(&|m| m.costs.channel_lines += 1),
        change(&|m| m.costs.refill_ns_per_kib[4] += 1),
        change(&|m| m.costs.cold_switch_ns = 1),
        change(&|m| m.costs.vtime_op_ns = 1),
        change(&|m| m.costs.memory_ns = 1),
        change(&|m| m.costs.policy.instruction_ps = 1),
        change(&|m| m.costs.policy.division_ps = 1),
        change(&|m| m.costs.policy.call_ps = 1),
        change(&|m| m.costs.policy.wide_ps = 1),
        change(&|m| m.cpus.truncate(3)),
    ]);
    assert_all_differ(digests);
}

#[test]
fn each_field_of_a_cgroup_changes_the_digest() {
    let first = workload(PAIRS, &[]);
    let change = |edit: &dyn Fn(&mut Workload)| digest_of_changed(&first, edit);
    let mut digests = vec![first.digest.clone()];
    let group = |path: &str, weight, quota_ns| {
        let (path, idle, period_ns, burst_ns) = (path.to_owned(), false, 100_000_000, 0);
        Cgroup { path, weight, idle, quota_ns, period_ns, burst_ns }
    };
    let groups = [
        vec![group("/a", 100, None)],
        vec![group("/b", 100, None)],
        vec![group("/a", 200, None)],
        vec![group("/a", 100, Some(50_000_000))],
        vec![Cgroup { idle: true, ..group("/a", 100, None) }],
        vec![Cgroup { period_ns: 1_000_000_000, ..group("/a", 100, None) }],
        vec![Cgroup { burst_ns: 1_000, ..group("/a", 100, Some(50_000_000)) }],
        vec![group("/a", 100, None), group("/b", 100, None)],
    ];
    digests.extend(groups.iter().map(|groups| change(&|w| w.cgroups = groups.clone())));
    digests.push(change(&|w| {
        w.cgroups = groups[0].clone();
        w.templates[0].cgroup = Some(0);
    }));
    for to in [None, Some(0)] {
        digests.push(change(&|w| w.templates[2].program = [Op::Move { to }].into()));
        for task in ["a", "b"] {
            let what = ChangeKind::Move { task: task.to_string(), to };
            digests.push(change(&|w| w.changes = vec![Change { at_ns: 1, what: what.clone() }]));
        }
    }
    for (number, now) in [(0, &groups[0][0]), (1, &groups[0][0]), (0, &groups[2][0])] {
        let what = ChangeKind::Cgroup { number, now: now.clone() };
        digests.push(change(&|w| w.changes = vec![Change { at_ns: 1, what: what.clone() }]));
    }
    assert_all_differ(digests);
}
