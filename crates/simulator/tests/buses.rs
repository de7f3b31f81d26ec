//! Goal: what comes over a bus that others use comes later, and only then.
//! Method: closed forms of two tasks whose data come at once, the same runs on machines with and
//! without a bus, and shipped and random scenarios under all policies.

use crate::support::*;
use scenario::machine::{Bus, Machine};
use scenario::random_scenario;
use scenario::workload::{Channel, Op, TaskTemplate};
use simulator::RunResult;

/// The same machine with a bus for so many caches.
fn with_bus(machine: &Machine, caches: u32, mb_per_s: u64) -> Machine {
    Machine { bus: Some(Bus { caches, mb_per_s }), ..machine.clone() }.with_digest()
}

const FOOTPRINT_KIB: u32 = 160;
const REFILL_NS_PER_KIB: u64 = 4000;

/// Two tasks that begin at once on CPUs of their own and compute for a ms, on a machine where only
/// that and fetching their data takes time.
fn two_refills(mb_per_s: Option<u64>) -> RunResult {
    let mut machine = costless(2, 1000);
    machine.costs.refill_ns_per_kib = [REFILL_NS_PER_KIB; 5];
    if let Some(mb_per_s) = mb_per_s {
        machine = with_bus(&machine, 1, mb_per_s);
    }
    let on = |cpu| {
        let fetching =
            TaskTemplate { footprint_kib: FOOTPRINT_KIB, ..task("fetches", 0, once(&[run(MS)])) };
        pinned(fetching, cpu)
    };
    outcome("fifo", &machine, &together(vec![on(0), on(1)]), None, &[])
}

#[test]
fn two_that_fetch_at_once_share_the_bus() {
    let alone = two_refills(None);
    assert_eq!(alone.cpu_time_ns.bus_wait, 0);
    let own_ns = u64::from(FOOTPRINT_KIB) * REFILL_NS_PER_KIB;
    let of = |mb_per_s| {
        let took_ns = two_refills(Some(mb_per_s)).makespan_ns - alone.makespan_ns + own_ns;
        (took_ns, u64::from(FOOTPRINT_KIB) * 1024 * 1000 / mb_per_s)
    };
    for (took_ns, busy_ns) in [512, 1024, 2048, 4096].map(of) {
        assert_eq!(took_ns, own_ns + busy_ns / 16, "behind the other's first part they alternate");
    }
    for (took_ns, busy_ns) in [260, 320, 400].map(of) {
        let bounds_ns = 2 * busy_ns..=own_ns + busy_ns;
        assert!(bounds_ns.contains(&took_ns), "{took_ns} ns, not {bounds_ns:?}");
    }
}

#[test]
fn on_a_bus_twice_as_fast_one_waits_half_as_long() {
    let waits_ns = [1024, 2048, 4096].map(|mb| two_refills(Some(mb)).cpu_time_ns.bus_wait);
    assert_eq!(waits_ns[0], u64::from(FOOTPRINT_KIB) * 1000 / 16);
    assert_eq!([waits_ns[1] * 2, waits_ns[2] * 4], [waits_ns[0]; 2]);
}

#[test]
fn with_one_cpu_nothing_changes() {
    let workload = shipped_workload("hackbench", &[("groups", "2"), ("loops", "5")]);
    let machine = Machine { bus: None, ..shipped_machine("osdl-1") };
    for policy in POLICIES {
        let [without, with] = [machine.clone(), with_bus(&machine, 4, 1)]
            .map(|machine| attempt(&shipped(policy), &machine, &workload, 1));
        assert_eq!(without, with, "{policy}");
    }
}

#[test]
fn messages_wait_for_the_bus_where_they_go_from_cache_to_cache() {
    let channel =
        |_| Channel { capacity_bytes: 4096, wake_senders_at_bytes: 4095, ..Channel::default() };
    let program = |channel, sends| {
        let op =
            if sends { Op::Send { channel, bytes: 100 } } else { Op::Recv { channel, bytes: 100 } };
        times(200, &[op])
    };
    let waits_ns = |cpus: [u32; 4], cores_per_cache: u32| {
        let mut machine = Machine { bus: None, ..shipped_machine("osdl-4") };
        for cpu in &mut machine.cpus {
            cpu.cache = cpu.core / cores_per_cache;
        }
        let machine = with_bus(&machine, 4, 373);
        let tasks = [(0, true), (0, false), (1, true), (1, false)];
        let tasks = tasks
            .iter()
            .zip(cpus)
            .map(|(&(channel, sends), cpu)| pinned(task("talks", 0, program(channel, sends)), cpu));
        let mut workload = together(tasks.collect());
        workload.channels = (0..2).map(channel).collect();
        attempt(&shipped("fifo"), &machine, &workload.with_digest(), 1).cpu_time_ns.bus_wait
    };
    assert!(waits_ns([0, 1, 2, 3], 1) > 0);
    assert_eq!(waits_ns([0, 0, 2, 2], 1), 0, "what stays on a CPU needs no bus");
    assert_eq!(waits_ns([0, 1, 2, 3], 2), 0, "what stays in a cache needs no bus");
}

#[test]
fn who_has_the_bus_alone_does_not_wait_for_it() {
    let machine = with_bus(&shipped_machine("osdl-2"), 4, 373);
    assert!(machine.costs.channel_lines > 0 && machine.costs.message_lines > 0);
    let (send, recv) = (Op::Send { channel: 0, bytes: 100 }, Op::Recv { channel: 0, bytes: 100 });
    // What was sent long ago is fetched from the sender's CPU: the channel, then the message.
    let sends = task("sends", 0, times(5, &[send]));
    let receives = task("receives", 0, times(5, &[recv]));
    let mut workload = together(vec![pinned(sends, 0), pinned(receives, 1)]);
    workload.initial[1].start_at_ns = 10 * MS;
    workload.channels = vec![Channel { capacity_bytes: 4096, ..Channel::default() }];
    let result = attempt(&shipped("fifo"), &machine, &workload.with_digest(), 1);
    assert_eq!((result.messages, result.cpu_time_ns.bus_wait), (5, 0));
}

#[test]
fn waits_are_a_part_of_the_time_under_every_policy() {
    let workload = shipped_workload("hackbench", &[("groups", "2"), ("loops", "5")]);
    let machine = with_bus(&shipped_machine("osdl-8"), 4, 373);
    for policy in POLICIES {
        let [result, again] = [(); 2].map(|()| attempt(&shipped(policy), &machine, &workload, 1));
        assert_eq!(result, again, "{policy}");
        let spent = result.cpu_time_ns;
        assert_eq!(spent.total(), result.elapsed_ns * result.nr_cpus, "{policy}");
        assert!(spent.bus_wait > 0, "{policy}");
    }
}

#[test]
fn random_scenarios_end_on_machines_with_buses() {
    for seed in 0..40 {
        let (machine, workload) = random_scenario(seed);
        let machine = with_bus(&machine, 1 + seed as u32 % 3, 1 + 50 * (seed % 7));
        for policy in ["linux_2_4", "o1", "cfs"] {
            let result = attempt(&shipped(policy), &machine, &workload, seed);
            assert_eq!(result.error, None, "seed {seed}, {policy}");
            let spent = result.cpu_time_ns;
            assert_eq!(spent.total(), result.elapsed_ns * result.nr_cpus, "seed {seed}, {policy}");
        }
    }
}
