//! Goal: every file that is shipped loads, and what it gives matches closed forms.
//! Method: load all of them; count tasks, messages and costs.

#![allow(clippy::unwrap_used)]

use scenario::workload::{Amount, Op, Repeat, Workload};
use scenario::{load_machine, load_workload, workload_parameters};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn shipped(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(root)
        .expect("the folder is there")
        .map(|entry| entry.expect("the entry can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    files
}

fn file(folder: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder).join(format!("{name}.toml"))
}

fn workload(name: &str, parameters: &[(&str, &str)]) -> Workload {
    let parameters: BTreeMap<String, String> =
        parameters.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    load_workload(&file("workloads", name), &parameters).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_shipped_machine_loads() {
    let files = shipped("machines");
    assert!(files.len() >= 4, "{files:?}");
    for path in files {
        let machine = load_machine(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(machine.name, path.file_stem().unwrap().to_str().unwrap());
        assert_eq!(machine.digest.len(), 64, "SHA-256 in hex");
    }
}

#[test]
fn every_shipped_workload_loads_and_fits_every_shipped_machine() {
    let machines = shipped("machines");
    let files = shipped("workloads");
    assert!(files.len() >= 3, "{files:?}");
    for path in files {
        let workload =
            load_workload(&path, &BTreeMap::new()).unwrap_or_else(|error| panic!("{error}"));
        workload.check().unwrap_or_else(|error| panic!("{error}"));
        for machine in &machines {
            let machine = load_machine(machine).unwrap_or_else(|error| panic!("{error}"));
            workload.check_on(&machine).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

#[test]
fn every_parameter_of_a_shipped_workload_can_be_given_its_own_default() {
    for path in shipped("workloads") {
        let parameters = workload_parameters(&path).unwrap_or_else(|error| panic!("{error}"));
        let given = parameters.iter().map(|p| (p.name.clone(), p.default.clone())).collect();
        let bare = load_workload(&path, &BTreeMap::new()).unwrap_or_else(|e| panic!("{e}"));
        let same = load_workload(&path, &given).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(bare, same);
        assert_eq!(bare.parameters.len(), parameters.len());
    }
}

#[test]
fn osdl_machines_differ_only_in_their_number_of_cpus() {
    let one = load_machine(&file("machines", "osdl-1")).unwrap();
    for nr_cpus in [2, 4, 8] {
        let many = load_machine(&file("machines", &format!("osdl-{nr_cpus}"))).unwrap();
        assert_eq!(many.cpus.len(), nr_cpus);
        assert_eq!(many.costs, one.costs);
        assert_eq!((many.hz, many.hz_for("linux_2_4")), (1000, 100));
        assert_ne!(many.digest, one.digest);
    }
}

/// An lmbench of a host: lat_ctx, null call, a round trip over AF UNIX and fork proc in
/// us, and MB/s through a pipe.
type Lmbench = [f64; 5];
const ONE_CPU: [Lmbench; 2] = [[1.0, 0.33, 8.54, 143., 806.], [0.59, 0.32, 6.98, 104., 1009.]];
const TWO_CPUS: [Lmbench; 2] = [[1.59, 0.41, 13.2, 245., 603.], [2.68, 0.39, 17.5, 344., 563.]];
/// Of another lab's host. Null calls are of one kernel.
const FOUR_CPUS: [Lmbench; 2] =
    [[1.32, 0.499, 14.25, 243., 511.3], [2.738, 0.499, 25.656, 335.7, 471.04]];

#[test]
fn hosts_of_osdl_cost_what_lmbench_measured_there_or_on_such_a_host() {
    let hosts = [("stp1", ONE_CPU), ("stp2", TWO_CPUS), ("stp4", FOUR_CPUS), ("stp8", FOUR_CPUS)];
    for (name, lmbench) in hosts {
        let machine = load_machine(&file("machines", name)).unwrap();
        assert_eq!(machine.cpus.len(), name[3..].parse::<usize>().unwrap());
        let costs = ["o1", "linux_2_4"].map(|policy| machine.costs_for(policy));
        for (costs, [switch, call, round_trip, fork, pipe]) in costs.into_iter().zip(lmbench) {
            let got = [
                costs.context_switch_ns,
                costs.wakeup_ns,
                costs.syscall_ns,
                costs.message_ns,
                costs.fork_ns,
                costs.exit_ns,
                costs.copy_ns_per_kib,
            ];
            let message = (round_trip / 2.0 - switch - 2.0 * call) / 2.0;
            let copy = 1024.0 / pipe / 2.0;
            let want = [
                switch * 2.0 / 3.0,
                switch / 3.0,
                call,
                message,
                fork * 2.0 / 3.0,
                fork / 3.0,
                copy,
            ];
            for (got, want) in got.into_iter().zip(want) {
                let want = want * 1e3;
                assert!((got as f64 - want).abs() <= 1.0, "{name}: {got} for {want}");
            }
        }
    }
}

/// Times an operation of `program` that `wanted` accepts is executed; loops must be counted.
fn executions(program: &[Op], wanted: impl Fn(&Op) -> bool) -> u64 {
    let mut rounds = vec![1];
    let mut count = 0;
    for op in program {
        match op {
            Op::Loop { repeat: Repeat::Times(scenario::workload::Amount::Fixed(n)), .. } => {
                rounds.push(rounds.last().unwrap() * n);
            }
            Op::Loop { .. } => panic!("a loop without a count"),
            Op::End { .. } => {
                rounds.pop();
            }
            op if wanted(op) => count += rounds.last().unwrap(),
            _ => {}
        }
    }
    count
}

#[test]
fn hackbench_has_40_tasks_a_group_and_400_messages_a_loop() {
    for (groups, loops) in [(1_u64, 1_u64), (10, 100), (200, 7)] {
        let (g, l) = (groups.to_string(), loops.to_string());
        let hackbench = workload("hackbench", &[("groups", &g), ("loops", &l)]);
        let main = &hackbench.templates[hackbench.initial[0].template as usize].program;
        let mut forks = vec![0; hackbench.templates.len()];
        for (template, count) in forks.iter_mut().enumerate() {
            *count = executions(main, |op| *op == Op::Fork { template: template as u32 });
        }
        assert_eq!(forks.iter().sum::<u64>(), 40 * groups);
        let total = |wanted: fn(&Op) -> bool| -> u64 {
            let of = |(i, t): (usize, &scenario::workload::TaskTemplate)| {
                forks[i] * executions(&t.program, wanted)
            };
            hackbench.templates.iter().enumerate().map(of).sum()
        };
        let sent = total(|op| matches!(op, Op::Send { channel, bytes: 100 } if *channel > 0));
        let received = total(|op| matches!(op, Op::Recv { channel, bytes: 100 } if *channel > 0));
        assert_eq!(sent, 400 * groups * loops);
        assert_eq!(received, sent);
        let ready = total(|op| matches!(op, Op::Send { channel: 0, bytes: 1 }));
        assert_eq!(ready, 40 * groups);
        assert_eq!(executions(main, |op| matches!(op, Op::Recv { channel: 0, .. })), ready);
        assert_eq!(total(|op| matches!(op, Op::Wait { gate: 0 })), 40 * groups);
        assert_eq!(hackbench.channels.len() as u64, 1 + 20 * groups);
    }
}

#[test]
fn hackbench_channels_balance_one_by_one() {
    let hackbench = workload("hackbench", &[("groups", "3"), ("loops", "5")]);
    for channel in 1..hackbench.channels.len() as u32 {
        let count = |name: &str, wanted: &dyn Fn(&Op) -> bool| -> u64 {
            let templates = hackbench.templates.iter().filter(|t| t.name == name);
            templates.map(|t| executions(&t.program, wanted)).sum()
        };
        let sent =
            count("sender", &|op| matches!(op, Op::Send { channel: c, .. } if *c == channel));
        let received =
            count("receiver", &|op| matches!(op, Op::Recv { channel: c, .. } if *c == channel));
        assert_eq!((20 * sent, received), (100, 100), "channel {channel}");
    }
}

#[test]
fn hackbench_options_change_channels_and_address_spaces() {
    let sockets = workload("hackbench", &[("groups", "1")]);
    let pipes = workload("hackbench", &[("groups", "1"), ("pipe", "true")]);
    assert_eq!(sockets.channels[1].capacity_bytes, 65535);
    assert_eq!(pipes.channels[1].capacity_bytes, 0, "as the machine's kernel makes it");
    for hackbench in [&sockets, &pipes] {
        let one = hackbench.channels[0];
        assert!(hackbench.channels.iter().all(|channel| *channel == one), "also that for reports");
    }
    let threads = workload("hackbench", &[("groups", "1"), ("threads", "true")]);
    assert!(sockets.templates.iter().all(|t| t.address_space.is_none()));
    assert!(threads.templates.iter().all(|t| t.address_space == Some(0)));
    assert_ne!(sockets.digest, pipes.digest);
    assert_ne!(sockets.digest, threads.digest);
}

#[test]
fn counter_marks_before_the_first_of_n_forks() {
    let counter = workload("counter", &[("n", "7")]);
    let parent = &counter.templates[counter.initial[0].template as usize].program;
    assert_eq!(parent[0], Op::Mark);
    let times = |program: &[Op]| -> Vec<u64> {
        let of = |op: &Op| match op {
            Op::Loop { repeat: Repeat::Times(Amount::Fixed(times)), .. } => Some(*times),
            _ => None,
        };
        program.iter().filter_map(of).collect()
    };
    assert_eq!(times(parent), [1, 7]);
    // Before three tests of seven come two of six.
    let many = [("n", "7"), ("passes", "3"), ("before", "2")];
    let counter = workload("counter", &many);
    let parent = &counter.templates[counter.initial[0].template as usize].program;
    let mark = parent.iter().position(|op| *op == Op::Mark).unwrap();
    assert_eq!(times(&parent[..mark]), [2, 6]);
    assert_eq!(times(&parent[mark..]), [3, 7]);
}

#[test]
fn lat_ctx_passes_one_token_round_the_ring() {
    let (n, rounds) = (5_u64, 11_u64);
    let lat_ctx = workload("lat_ctx", &[("n", "5"), ("rounds", "11")]);
    assert_eq!(lat_ctx.templates.len() as u64, n);
    for channel in 0..n as u32 {
        let count = |wanted: &dyn Fn(&Op) -> bool| -> u64 {
            lat_ctx.templates.iter().map(|t| executions(&t.program, wanted)).sum()
        };
        let sent = count(&|op| matches!(op, Op::Send { channel: c, bytes: 4 } if *c == channel));
        let received =
            count(&|op| matches!(op, Op::Recv { channel: c, bytes: 4 } if *c == channel));
        assert_eq!((sent, received), (rounds + 1, rounds + 1), "pipe {channel}");
    }
    let main = &lat_ctx.templates[0].program;
    let before_mark = main.iter().position(|op| *op == Op::Mark).unwrap();
    assert_eq!(executions(&main[..before_mark], |op| matches!(op, Op::Fork { .. })), n - 1);
}

/// Clock of each machine in MHz, and how many of core2-t5600's cycles it takes for what that one
/// does in one.
const BY_CLOCK: [(&str, f64, f64); 9] = [
    ("athlon-xp-3200", 2200.0, 1.0),
    ("e5200", 3330.0, 1.0),
    ("atom-330", 1600.0, 2.0),
    ("i7-2620m", 2700.0, 1.0),
    ("x3360", 3400.0, 1.0),
    ("i7-3770k", 4500.0, 1.0),
    ("dual-e5620", 2830.0, 1.0),
    ("dual-opteron-252", 2600.0, 1.0),
    ("duron-600", 600.0, 1.0),
];
const CORE2_MHZ: f64 = 1830.0;

#[test]
fn machines_without_measurements_of_their_own_cost_core2_t5600s_cycles() {
    let core2 = load_machine(&file("machines", "core2-t5600")).unwrap();
    for (name, mhz, cycles) in BY_CLOCK {
        let machine = load_machine(&file("machines", name)).unwrap();
        let of = |costs: &scenario::machine::Costs| {
            [
                costs.context_switch_ns,
                costs.thread_switch_ns,
                costs.syscall_ns,
                costs.message_ns,
                costs.copy_ns_per_kib,
                costs.wakeup_ns,
                costs.ipi_send_ns,
                costs.ipi_ns,
                costs.tick_ns,
                costs.timer_ns,
                costs.fork_ns,
                costs.exit_ns,
                costs.hook_ns,
                costs.dsq_op_ns,
                costs.scan_step_ns,
                costs.lock_ns,
                costs.line_transfer_ns[2],
                costs.refill_ns_per_kib[2],
            ]
        };
        for (got, base) in of(&machine.costs).into_iter().zip(of(&core2.costs)) {
            let want = base as f64 * CORE2_MHZ / mhz * cycles;
            assert!((got as f64 - want).abs() <= 0.5, "{name}: {got} for {want}");
        }
        // What memory and sleep states decide does not depend on the clock.
        assert_eq!(machine.costs.idle_exit_ns, core2.costs.idle_exit_ns, "{name}");
        assert_eq!(machine.costs.refill_ns_per_kib[0], core2.costs.refill_ns_per_kib[0], "{name}");
    }
}

/// Each machine of 2012, in the order of the published table; the rating of one thread of its
/// processor (PassMark's, see docs/reference/machines.md), and the clock in MHz that it was rated
/// at. Athlon XP 3200+: as a part of e5200's at the same clock, by CPU Marks of one core.
const RATINGS: [(&str, f64, f64); 7] = [
    ("athlon-xp-3200", 1006.0 * 281.0 / 406.0, 2500.0),
    ("e5200", 1006.0, 2500.0),
    ("atom-330", 168.0, 1600.0),
    ("i7-2620m", 1462.0, 3400.0),
    ("x3360", 1239.0, 2830.0),
    ("i7-3770k", 2079.0, 3900.0),
    ("dual-e5620", 1112.0, 2660.0),
];
/// Of a Core 2 Duo E6300, which has core2-t5600's core at 1.86 GHz.
const CORE2_RATING: f64 = 690.0 * CORE2_MHZ / 1860.0;

#[test]
fn machines_of_2012_have_the_published_cpus_and_clocks_and_the_speed_of_their_core() {
    let path = file("published", "seed004_machines").with_extension("csv");
    let table = std::fs::read_to_string(path).unwrap();
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|row| row.split(',').collect()).collect();
    assert_eq!(rows.len(), RATINGS.len());
    for (row, (name, rating, mhz)) in rows.iter().zip(RATINGS) {
        let machine = load_machine(&file("machines", name)).unwrap();
        assert_eq!(machine.cpus.len().to_string(), row[2], "{}", row[0]);
        let ghz: f64 = row[3].parse().unwrap();
        let speed = rating / mhz * (ghz * 1000.0) / CORE2_RATING * 1000.0;
        let got = f64::from(machine.cpus[0].speed_permille);
        assert!((got - speed).abs() <= 0.6, "{name}: {got} for {speed}");
        assert_eq!((machine.hz_for("cfs"), machine.hz_for("bfs")), (300, 1000));
        let turbo: &[u32] = if name == "i7-2620m" { &[1259, 1185] } else { &[] };
        assert_eq!(machine.turbo_permille, turbo, "3.4 and 3.2 GHz over 2.7");
    }
}

#[test]
fn servers_have_nodes_and_caches_at_every_distance() {
    use scenario::machine::Distance;
    let distances = |name: &str, cpus: &[usize]| {
        let machine = load_machine(&file("machines", name)).unwrap();
        let far: Vec<Distance> = cpus.iter().map(|&cpu| machine.distance(0, cpu)).collect();
        (machine.cpus.len(), far)
    };
    use Distance::{Cache, Node, Remote, Smt};
    assert_eq!(distances("server-96", &[48, 23, 24]), (96, vec![Smt, Cache, Remote]));
    let far = vec![Smt, Cache, Node, Node, Remote];
    assert_eq!(distances("server-256", &[128, 7, 8, 63, 64]), (256, far));
}
