//! Goal: the engine against facts that have a closed form.
//! Method: machines on which nothing takes time but work, or nothing but work and one kernel
//! operation; what that operation costs must appear as often as it happens, to the nanosecond.

use crate::support::*;
use scenario::builder::ProgramBuilder;
use scenario::draw::Random;
use scenario::machine::{Costs, Machine};
use scenario::workload::{Amount, InitialTask, Op, Repeat, TaskTemplate, Workload};
use simulator::{RunResult, Status};
use std::collections::BTreeSet;
use std::process::Command;

const HZ: u32 = 1000;
const TICK_NS: u64 = MS;
/// The least that the simulator lets a system call take.
const CALL_NS: u64 = 1;

/// A run under fifo, on a machine where only work and what `change` sets takes time.
fn with_costs(nr_cpus: usize, workload: &Workload, change: impl Fn(&mut Costs)) -> RunResult {
    let mut machine = costless(nr_cpus, HZ);
    change(&mut machine.costs);
    let result = outcome("fifo", &machine, workload, None, &[]);
    assert_eq!(result.status, Status::Completed);
    result
}

/// A task with an address space of its own.
fn process(name: &str, ops: &[Op]) -> TaskTemplate {
    TaskTemplate { address_space: None, ..task(name, 0, once(ops)) }
}

fn total_ns(ns: impl IntoIterator<Item = u64>) -> u64 {
    ns.into_iter().sum()
}

// ---- time ---------------------------------------------------------------------------------------

#[test]
fn cpu_time_is_conserved_and_work_is_what_programs_ask_for() {
    let amounts_us = [30_000, 1, 12_345, 77, 40_000, 999];
    let jobs = amounts_us.map(|us| process("job", &[run(us * US), sleep(3 * MS), run(us * US)]));
    let workload = together(jobs.into());
    for machine_name in ["osdl-1", "osdl-4", "osdl-8"] {
        for policy in POLICIES {
            let machine = shipped_machine(machine_name);
            let result = outcome(policy, &machine, &workload, None, &[]);
            let spent = result.cpu_time_ns;
            assert_eq!(spent.total(), result.elapsed_ns * result.nr_cpus, "{policy}");
            assert_eq!(spent.work, total_ns(amounts_us) * US * 2, "{policy} on {machine_name}");
        }
    }
}

#[test]
fn on_a_costless_machine_only_work_and_system_calls_take_time() {
    let workload = shipped_workload("hackbench", &[("groups", "2"), ("loops", "5")]);
    for policy in POLICIES {
        let result = attempt(&shipped(policy), &costless(4, HZ), &workload, 1);
        let spent = result.cpu_time_ns;
        assert_eq!((spent.scheduler, spent.lock_wait), (0, 0), "{policy}");
        assert!(spent.kernel <= result.events * CALL_NS, "{policy}: {spent:?}");
    }
}

#[test]
fn under_fifo_n_equal_jobs_on_m_cpus_take_n_over_m_rounded_up() {
    let work_ns = 7 * MS;
    for nr_cpus in 1..=4 {
        for n in 1..=9_u64 {
            let result = with_costs(nr_cpus, &burners(n, work_ns), |_| {});
            let rounds = n.div_ceil(nr_cpus as u64);
            assert_eq!(result.makespan_ns, rounds * (work_ns + CALL_NS), "{n} on {nr_cpus}");
        }
    }
}

#[test]
fn under_round_robin_a_multiple_of_m_equal_jobs_on_m_cpus_waste_nothing() {
    let (slice_ns, slices) = (3 * MS, 4);
    let work_ns = slices * slice_ns + slice_ns / 2;
    for nr_cpus in 1..=4 {
        for per_cpu in 1..=3 {
            let machine = costless(nr_cpus, HZ);
            let workload = burners(per_cpu * nr_cpus as u64, work_ns);
            let result = outcome("round_robin", &machine, &workload, None, &[]);
            let expected_ns = per_cpu * (work_ns + CALL_NS);
            assert_eq!(result.makespan_ns, expected_ns, "{per_cpu} each on {nr_cpus}");
        }
    }
}

// ---- what one operation costs -------------------------------------------------------------------

const ROUNDS: u64 = 100;

/// Two tasks on CPU 0 that wake each other in turn.
fn gate_ping_pong(address_space: Option<u32>) -> Workload {
    let player = |name, own, other| {
        let ops = [Op::Wait { gate: own }, run(10 * US), Op::Wake { gate: other }];
        pinned(TaskTemplate { address_space, ..task(name, 0, times(ROUNDS, &ops)) }, 0)
    };
    let start = process("start", &[Op::Wake { gate: 0 }]);
    together(vec![player("ping", 0, 1), player("pong", 1, 0), pinned(start, 0)])
}

type Change = fn(&mut Costs);

#[test]
fn what_a_cost_adds_is_told_apart() {
    let workload = shipped_workload("hackbench", &[("groups", "1"), ("loops", "5")]);
    let machine = costless(4, HZ);
    let parts = |name: &str, change: Change| {
        let mut machine = machine.clone();
        change(&mut machine.costs);
        let result = attempt(&shipped(name), &machine, &workload, 1);
        let (all, of) = (result.cpu_time_ns, result.overhead_ns);
        assert_eq!(of.scheduler(), all.scheduler);
        assert!(of.switch + of.refill <= all.kernel);
        let scheduler = [of.wakeup, of.operation, of.queue, of.scan, of.lock, of.interrupt];
        let scheduler = [scheduler.as_slice(), &[of.instructions]].concat();
        [[of.switch, of.refill].as_slice(), &scheduler].concat()
    };
    let costs: [(&str, Change); 9] = [
        ("fifo", |c| c.context_switch_ns = 100),
        ("fifo", |c| c.migration_ns = [100; 5]),
        ("fifo", |c| c.wakeup_ns = 100),
        ("fifo", |c| c.hook_ns = 100),
        ("fifo", |c| c.dsq_op_ns = 100),
        ("linux_2_4", |c| (c.scan_step_ns, c.scan_miss_ns) = (100, 100)),
        ("linux_2_4", |c| c.lock_ns = 100),
        ("fifo", |c| c.ipi_send_ns = 100),
        ("fifo", |c| c.policy.instruction_ps = 1000),
    ];
    for (part, (policy, change)) in costs.into_iter().enumerate() {
        let ns = parts(policy, change);
        for (other, &ns) in ns.iter().enumerate() {
            assert_eq!(ns > 0, other == part, "cost {part} is seen in part {other}");
        }
    }
}

#[test]
fn a_switch_costs_what_it_costs_as_often_as_there_are_switches() {
    for cost_ns in [1, 1_000, 123_457] {
        let free = with_costs(1, &gate_ping_pong(None), |_| {});
        let paid = with_costs(1, &gate_ping_pong(None), |c| c.context_switch_ns = cost_ns);
        assert!(free.switches > 2 * ROUNDS);
        assert_eq!(paid.switches, free.switches);
        assert_eq!(paid.elapsed_ns - free.elapsed_ns, free.switches * cost_ns);
        assert_eq!(paid.cpu_time_ns.kernel - free.cpu_time_ns.kernel, free.switches * cost_ns);
    }
}

#[test]
fn a_switch_within_an_address_space_costs_the_switch_of_a_thread() {
    let change = |c: &mut Costs| (c.context_switch_ns, c.thread_switch_ns) = (10_000, 7);
    let free = with_costs(1, &gate_ping_pong(Some(0)), |_| {});
    let paid = with_costs(1, &gate_ping_pong(Some(0)), change);
    // In order: ping and pong find their gates shut, start lets ping go and exits.
    let between_spaces = 3;
    let within = free.switches - between_spaces;
    let expected_ns = between_spaces * 10_000 + within * 7;
    assert_eq!(paid.cpu_time_ns.kernel - free.cpu_time_ns.kernel, expected_ns);
}

#[test]
fn a_switch_costs_more_once_more_than_four_others_were_there_since() {
    for (players, cold) in [(2, 0), (4, 4), (5, 5 * ROUNDS)] {
        // Each finds its gate shut before the last lets the first go, so all were away for one
        // switch more than there are players once.
        let gate = |number: usize| (number % players) as u32;
        let player = |own: usize| {
            let ops =
                [Op::Wait { gate: gate(own) }, run(10 * US), Op::Wake { gate: gate(own + 1) }];
            pinned(task("player", 0, times(ROUNDS, &ops)), 0)
        };
        let start = pinned(process("start", &[Op::Wake { gate: 0 }]), 0);
        let workload = together((0..players).map(player).chain([start]).collect());
        let free = with_costs(1, &workload, |_| {});
        let paid = with_costs(1, &workload, |c| c.cold_switch_ns = 321);
        assert_eq!(paid.switches, free.switches);
        assert_eq!(paid.cpu_time_ns.kernel - free.cpu_time_ns.kernel, cold * 321, "{players}");
    }
}

#[test]
fn a_system_call_a_message_and_a_copy_cost_what_they_cost() {
    let send = Op::Send { channel: 0, bytes: 1536 };
    let recv = Op::Recv { channel: 0, bytes: 1536 };
    let pair = [send, recv];
    // To itself, so that nothing ever waits.
    let workload = together(vec![task("solo", 0, times(ROUNDS, &pair))]);
    let nr_calls = 2 * ROUNDS;
    let kernel_ns =
        |change: &dyn Fn(&mut Costs)| with_costs(1, &workload, change).cpu_time_ns.kernel;
    assert_eq!(kernel_ns(&|_| {}), (nr_calls + 1) * CALL_NS);
    assert_eq!(kernel_ns(&|c| c.syscall_ns = 500), nr_calls * 500 + CALL_NS);
    assert_eq!(kernel_ns(&|c| c.message_ns = 70), nr_calls * 70 + CALL_NS);
    assert_eq!(kernel_ns(&|c| c.copy_ns_per_kib = 300), nr_calls * 450 + CALL_NS);
    assert_eq!(kernel_ns(&|c| c.exit_ns = 90), nr_calls * CALL_NS + 90);
}

#[test]
fn a_fork_costs_its_parent_what_it_costs() {
    let ops = vec![Op::Fork { template: 1 }; 10];
    let workload = workload_of(vec![process("parent", &ops), process("child", &[run(US)])], 1);
    let free = with_costs(1, &workload, |_| {});
    let paid = with_costs(1, &workload, |c| c.fork_ns = 60_000);
    let expected_ns = 10 * (60_000 - CALL_NS);
    assert_eq!(paid.cpu_time_ns.kernel - free.cpu_time_ns.kernel, expected_ns);
    let more_ns = group(&paid, "parent").run_ns - group(&free, "parent").run_ns;
    assert_eq!(more_ns, expected_ns);
}

#[test]
fn a_loop_while_there_are_children_asks_before_each_round() {
    let mut parent = ProgramBuilder::new();
    parent.begin(Repeat::Times(Amount::Fixed(2)));
    parent.push(Op::Fork { template: 1 });
    parent.begin(Repeat::WhileChildren).push(run(300 * US)).end();
    parent.end();
    let parent = TaskTemplate { address_space: None, ..task("parent", 0, parent.build()) };
    let workload = workload_of(vec![parent, process("child", &[run(MS)])], 1);
    // The child still runs on the other CPU when 900 us are over, and not when 1200 are.
    let result = with_costs(2, &workload, |_| {});
    assert_eq!(group(&result, "parent").run_ns / (300 * US), 2 * 4);
}

#[test]
fn a_wake_up_costs_the_waker_what_it_costs() {
    let free = with_costs(1, &gate_ping_pong(None), |_| {});
    let paid = with_costs(1, &gate_ping_pong(None), |c| c.wakeup_ns = 2_000);
    assert_eq!(paid.wakeups, free.wakeups);
    assert_eq!(paid.cpu_time_ns.scheduler, free.wakeups * 2_000);
    assert_eq!(paid.elapsed_ns - free.elapsed_ns, free.wakeups * 2_000);
}

/// A task on CPU 0 that wakes one on CPU 1, which by then is idle.
fn across() -> Workload {
    let waker = process("waker", &[run(50 * US), Op::Wake { gate: 0 }, run(50 * US)]);
    let woken = process("woken", &[Op::Wait { gate: 0 }, run(10 * US)]);
    together(vec![pinned(waker, 0), pinned(woken, 1)])
}

#[test]
fn an_interrupt_costs_its_sender_and_delays_its_receiver() {
    let free = with_costs(2, &across(), |_| {});
    let begins_ns = |result: &RunResult| stays(result, "woken").last().expect("it runs").0;
    let ends_ns = |result: &RunResult| group(result, "waker").last_exit_ns;
    // Each CPU interrupts itself for the start of its task; the third interrupt crosses over.
    let delayed = with_costs(2, &across(), |c| c.ipi_ns = 4_000);
    assert_eq!(delayed.interrupts, 3);
    assert_eq!(begins_ns(&delayed) - begins_ns(&free), 4_000);
    assert_eq!(group(&delayed, "woken").wait_ns, 4_000);
    assert_eq!(ends_ns(&delayed), ends_ns(&free));

    let sent = with_costs(2, &across(), |c| c.ipi_send_ns = 900);
    assert_eq!(sent.cpu_time_ns.scheduler, 900);
    assert_eq!(ends_ns(&sent) - ends_ns(&free), 900);

    // Both leave their idle loops for the starts, CPU 1 also when it is interrupted.
    let left_idle = with_costs(2, &across(), |c| c.idle_exit_ns = 3_000);
    assert_eq!(left_idle.cpu_time_ns.kernel - free.cpu_time_ns.kernel, 3 * 3_000);
    assert_eq!(group(&left_idle, "woken").wait_ns, 3_000);
}

#[test]
fn a_tick_costs_what_it_costs_on_busy_cpus_only() {
    let (work_ns, cost_ns) = (50 * MS, 10_000);
    let program = [run(work_ns), sleep(20 * MS), run(work_ns)];
    let workload = together(vec![process("hog", &program)]);
    let result = with_costs(2, &workload, |c| c.tick_ns = cost_ns);
    // A tick each ms of being on the CPU, ticks included.
    let busy_ns = result.elapsed_ns - 20 * MS;
    assert_eq!(result.ticks, busy_ns / TICK_NS);
    assert_eq!(busy_ns, 2 * work_ns + 2 * CALL_NS + result.ticks * cost_ns);
    assert_eq!(result.cpu_time_ns.kernel, 2 * CALL_NS + result.ticks * cost_ns);
}

#[test]
fn a_sleep_costs_arming_a_timer_and_its_expiry() {
    let workload = together(vec![task("sleeper", 0, times(ROUNDS, &[sleep(2 * MS), run(US)]))]);
    let free = with_costs(1, &workload, |_| {});
    let paid = with_costs(1, &workload, |c| c.timer_ns = 800);
    // A call that arms a timer takes no extra ns; the start of the task is a timer, too.
    let expected_ns = ROUNDS * (800 - CALL_NS) + (ROUNDS + 1) * 800;
    assert_eq!(paid.elapsed_ns - free.elapsed_ns, expected_ns);
}

#[test]
fn tasks_are_started_on_the_first_cpu_or_on_each_in_turn() {
    let own = pinned(process("own", &[run(MS)]), 2);
    let mut workload = together(vec![own]);
    workload.templates.insert(0, process("free", &[run(MS)]));
    workload.initial = [0, 0, 0, 1].map(|template| InitialTask { template, start_at_ns: 0 }).into();
    let begins = |workload: &Workload| {
        let result = with_costs(3, workload, |c| c.timer_ns = 500);
        let begins = all_stays(&result).into_iter().map(|(at_ns, _, cpu, _)| (at_ns, cpu));
        begins.collect::<BTreeSet<_>>().into_iter().take(3).collect::<Vec<_>>()
    };
    // One after the other, but for the one that is the third CPU's own, whose timer is there.
    let [first, second] = [(500, 0), (1_000, 1)];
    assert_eq!(begins(&workload), [first, (500, 2), second]);
    workload.starts_everywhere = true;
    assert_eq!(begins(&workload), [(500, 0), (500, 1), (500, 2)]);
}

// ---- hardware -----------------------------------------------------------------------------------

/// Two hardware threads of one core.
fn two_threads(smt_percent: u64) -> Machine {
    let mut machine = costless(2, HZ);
    machine.cpus[1].core = machine.cpus[0].core;
    machine.costs.smt_percent = smt_percent;
    machine
}

#[test]
fn two_hogs_on_one_core_slow_each_other_down() {
    let work_ns = 60 * MS;
    let workload = together(vec![process("a", &[run(work_ns)]), process("b", &[run(work_ns)])]);
    for percent in [100, 80, 60, 50, 25] {
        let result = outcome("fifo", &two_threads(percent), &workload, None, &[]);
        assert_eq!(result.makespan_ns, work_ns * 100 / percent + CALL_NS, "{percent} %");
    }
}

#[test]
fn a_hog_speeds_up_when_its_sibling_goes_idle() {
    let (short_ns, long_ns, percent) = (12 * MS, 60 * MS, 60);
    let workload = together(vec![process("a", &[run(short_ns)]), process("b", &[run(long_ns)])]);
    let result = outcome("fifo", &two_threads(percent), &workload, None, &[]);
    let both_ns = short_ns * 100 / percent;
    let expected_ns = both_ns + (long_ns - short_ns);
    // What the short one's exit and rounding take.
    assert!(result.makespan_ns.abs_diff(expected_ns) <= 2, "{}", result.makespan_ns);
    assert_eq!(group(&result, "a").last_exit_ns, both_ns + CALL_NS);
}

#[test]
fn turbo_lasts_as_long_as_other_cores_of_the_cache_are_idle() {
    // Two threads of one core, and a core of the same cache and of another one.
    for (core, cache, with_both) in [(0, 0, 1500), (1, 0, 1200), (1, 1, 1500)] {
        let mut machine = two_threads(100);
        (machine.cpus[1].core, machine.cpus[1].cache) = (core, cache);
        machine.turbo_permille = vec![1500, 1200];
        let (short_ns, long_ns) = (12 * MS, 60 * MS);
        let programs = [process("a", &[run(short_ns)]), process("b", &[run(long_ns)])];
        let result = outcome("fifo", &machine, &together(programs.to_vec()), None, &[]);
        let both_ns = short_ns * 1000 / with_both;
        let expected_ns = both_ns + (long_ns - short_ns) * 1000 / 1500;
        assert!(result.makespan_ns.abs_diff(expected_ns) <= 2, "{}", result.makespan_ns);
    }
    let mut machine = costless(1, HZ);
    machine.turbo_permille = vec![1500, 1200];
    let alone = together(vec![process("a", &[run(60 * MS)])]);
    let result = outcome("fifo", &machine, &alone, None, &[]);
    assert_eq!(result.makespan_ns, 40 * MS + CALL_NS, "a machine of one CPU");
}

#[test]
fn computing_waits_for_memory_and_longer_where_a_cache_is_shared() {
    let lines_per_ms = vec![(1024, 4_000), (2048, 1_500)];
    let (short_ns, long_ns) = (12 * MS, 60 * MS);
    // On one cache, and on a cache each.
    for (cache, beside_lines) in [(0, 4_000), (1, 1_500)] {
        let mut machine = costless(2, HZ);
        (machine.cpus[1].core, machine.cpus[1].cache) = (1, cache);
        machine.cpus.iter_mut().for_each(|cpu| cpu.speed_permille = 2000);
        (machine.costs.cache_kib, machine.costs.memory_ns) = (2048, 100);
        let programs = vec![process("a", &[run(short_ns)]), process("b", &[run(long_ns)])];
        let workload = Workload { lines_per_ms: lines_per_ms.clone(), ..together(programs) };
        let result = outcome("fifo", &machine, &workload, None, &[]);
        // A ms of the reference CPU's computing takes half a ms and 0.1 us for each line.
        let takes = |ns: u64, lines: u64| (ns as f64 * (0.5 + lines as f64 / 10_000.0)) as u64;
        let beside = takes(short_ns, beside_lines);
        assert!(group(&result, "a").last_exit_ns.abs_diff(beside + CALL_NS) <= 10_000);
        let expected_ns = beside + takes(long_ns - short_ns, 1_500);
        assert!(result.makespan_ns.abs_diff(expected_ns) <= 50_000, "{}", result.makespan_ns);
        // The wait is the tasks' own time.
        let work_ns = beside + expected_ns;
        assert!(result.cpu_time_ns.work.abs_diff(work_ns) <= 60_000, "{work_ns}");
    }
}

#[test]
fn a_migration_and_its_refill_cost_by_distance() {
    const FOOTPRINT_KIB: u64 = 48;
    let places = [((0, 0, 0), 1), ((1, 0, 0), 2), ((1, 1, 0), 3), ((1, 1, 1), 4)];
    for ((core, cache, node), distance) in places {
        let mut machine = costless(2, HZ);
        (machine.cpus[1].core, machine.cpus[1].cache, machine.cpus[1].node) = (core, cache, node);
        machine.costs.smt_percent = 100;
        machine.costs.migration_ns = [3, 500, 700, 1_100, 1_300];
        machine.costs.refill_ns_per_kib = [5, 11, 13, 17, 19];
        let mover = TaskTemplate {
            footprint_kib: FOOTPRINT_KIB as u32,
            ..process("mover", &[run(MS), sleep(MS), run(MS)])
        };
        // It holds CPU 0 when the other one wakes up.
        let holder = pinned(process("holder", &[run(20 * MS)]), 0);
        let result = outcome("fifo", &machine, &together(vec![mover, holder]), None, &[]);
        assert_eq!(group(&result, "mover").migrations, 1, "distance {distance}");
        let calls_ns = 3 * CALL_NS;
        let stays_ns = 2 * machine.costs.migration_ns[0];
        let first_load_ns = FOOTPRINT_KIB * machine.costs.refill_ns_per_kib[0];
        let moves_ns = machine.costs.migration_ns[distance]
            + FOOTPRINT_KIB * machine.costs.refill_ns_per_kib[distance];
        let kernel_ns = result.cpu_time_ns.kernel;
        let expected_ns = calls_ns + stays_ns + first_load_ns + moves_ns;
        assert_eq!(kernel_ns, expected_ns, "distance {distance}");
    }
}

#[test]
fn footprints_evict_each_other_once_they_do_not_fit_together() {
    const CACHE_KIB: u64 = 256;
    let refilled_kib = |footprint_kib: u64| {
        let mut machine = costless(1, HZ);
        machine.costs.cache_kib = CACHE_KIB;
        machine.costs.refill_ns_per_kib = [1; 5];
        let task = |name| TaskTemplate {
            footprint_kib: footprint_kib as u32,
            ..process(name, &[run(30 * MS)])
        };
        let workload = together(["a", "b", "c", "d"].map(task).into());
        let result = outcome("round_robin", &machine, &workload, None, &[]);
        (result.cpu_time_ns.kernel - 4 * CALL_NS, result.switches)
    };
    // Four times 64 KiB fit: each is loaded once. Four times 128 do not: the three others have
    // pushed all of a task's 128 KiB out by its next turn.
    let (fits_kib, _) = refilled_kib(CACHE_KIB / 4);
    assert_eq!(fits_kib, CACHE_KIB);
    let (over_kib, turns) = refilled_kib(CACHE_KIB / 2);
    assert_eq!(over_kib, turns * CACHE_KIB / 2, "{turns} turns, everything evicted in between");
}

// ---- locks --------------------------------------------------------------------------------------

/// Work of the tasks that CPUs 0 and 1 have in the queue, in order; long at first, so that all
/// others are there before the second one is picked.
fn works_ns(cpu: u32) -> Vec<u64> {
    let factor = [7_919, 6_007][cpu as usize];
    (0..20).map(|place| if place == 0 { MS } else { (place * factor % 40 + 5) * US }).collect()
}

#[test]
fn cpus_that_scan_one_queue_take_turns() {
    let (nr_others, step_ns) = (50, 100);
    let policy = compile("crates/simulator/tests/closed_forms/scans.bpf.c");
    // Tasks of CPU 2, which is busy: CPUs 0 and 1 look at all of them before their own.
    let others = (0..nr_others).map(|_| pinned(process("other", &[run(US)]), 2));
    let of_cpu =
        |cpu| works_ns(cpu).into_iter().map(move |ns| pinned(process("own", &[run(ns)]), cpu));
    let holder = pinned(process("holder", &[run(S)]), 2);
    let tasks = [holder].into_iter().chain(others).chain(of_cpu(0)).chain(of_cpu(1));
    let mut machine = costless(3, HZ);
    (machine.costs.scan_step_ns, machine.costs.scan_miss_ns) = (step_ns, step_ns);
    let mut workload = together(tasks.collect());
    for (place, initial) in workload.initial.iter_mut().enumerate().skip(1 + nr_others as usize) {
        let is_first = (place - 1 - nr_others as usize).is_multiple_of(works_ns(0).len());
        initial.start_at_ns = if is_first { 0 } else { MS / 2 };
    }
    let result = outcome_of(&policy, &machine, &workload, 100 * MS, [].into());

    // Each CPU picks at 0 and at the end of each stay; its next stay begins when it has picked.
    let of_cpu: Vec<Vec<_>> = [0, 1]
        .map(|cpu| all_stays(&result).into_iter().filter(|stay| stay.2 == cpu).collect())
        .into();
    let mut picks: Vec<(u64, usize, u64)> = Vec::new();
    for (cpu, stays) in of_cpu.iter().enumerate() {
        assert_eq!(stays.len(), works_ns(0).len());
        picks.push((0, cpu, stays[0].0));
        picks.extend(stays.windows(2).map(|pair| (pair[0].1, cpu, pair[1].0)));
    }
    picks.sort_unstable();
    // CPU 1 also looks at those tasks of CPU 0 that are there and still wait.
    let mut left_of_0 = works_ns(0).len() as u64;
    let (mut free_at_ns, mut waited_ns, mut waits) = (0, 0, 0);
    for (asked_ns, cpu, began_ns) in picks {
        let looks = nr_others + if cpu == 1 && asked_ns > 0 { left_of_0 } else { 0 };
        let locked_ns = asked_ns.max(free_at_ns);
        free_at_ns = locked_ns + looks * step_ns;
        assert_eq!(began_ns, free_at_ns, "CPU {cpu} after {asked_ns} ns");
        waited_ns += locked_ns - asked_ns;
        waits += u64::from(locked_ns > asked_ns);
        left_of_0 -= u64::from(cpu == 0);
    }
    assert!(waits > 3, "{waits}: the two hardly met");
    assert_eq!(result.cpu_time_ns.lock_wait, waited_ns);
}

#[test]
fn who_waits_for_a_lock_beyond_the_stop_lets_nobody_else_do_anything_there() {
    let (nr_others, step_ns) = (20, S);
    let policy = compile("crates/simulator/tests/closed_forms/scans.bpf.c");
    // CPUs 0 and 1 look at all tasks of CPU 2, which is busy, when their own have ended; then CPU 3
    // is still at the end of its own.
    let own = |name, ns, cpu| pinned(process(name, &[run(ns)]), cpu);
    let mut tasks = vec![own("first", 7_500 * US, 0), own("second", 7_600 * US, 1)];
    tasks.extend([own("holder", 100 * S, 2), own("leaver", 9 * MS, 3)]);
    tasks.extend((0..nr_others).map(|_| own("other", US, 2)));
    let mut workload = together(tasks);
    for (place, initial) in workload.initial.iter_mut().enumerate() {
        initial.start_at_ns = if place < 4 { place as u64 * US } else { MS };
    }
    let stop_ns = 10 * MS;
    workload.stop_at_ns = Some(stop_ns);
    let mut machine = costless(4, HZ);
    (machine.costs.scan_step_ns, machine.costs.scan_miss_ns) = (step_ns, step_ns);
    machine.costs.exit_ns = 2 * MS;
    let result = outcome_of(&policy, &machine, &workload, None, [].into());

    let spent = result.cpu_time_ns;
    let exits = ["first", "second"].map(|name| group(&result, name).last_exit_ns);
    assert!(exits[0] < exits[1] && exits[1] < stop_ns, "{exits:?}");
    // A step leads from one to the next.
    let scan_ns = (nr_others - 1) * step_ns;
    let free_at_ns = exits[0] + scan_ns;
    assert_eq!(result.elapsed_ns, free_at_ns + scan_ns);
    assert_eq!(spent.lock_wait, free_at_ns - exits[1]);
    assert_eq!(spent.total(), result.elapsed_ns * result.nr_cpus);
    // Three exits, and a few calls.
    assert!((6 * MS..6 * MS + 50 * US).contains(&spent.kernel), "{spent:?}");
}

// ---- queues in the long run ---------------------------------------------------------------------

/// Jobs that come at exponentially distributed times and compute for such times.
fn exponential_jobs(nr: u32, gap_ns: u64, work_ns: u64) -> Workload {
    let mut random = Random::new(2003, 7);
    let mut at_ns = 0;
    let job = task("job", 0, once(&[Op::Run(Amount::Exponential { mean: work_ns })]));
    let mut workload = together(vec![job]);
    workload.stop_at_ns = None;
    workload.initial = (0..nr)
        .map(|_| {
            at_ns += Amount::Exponential { mean: gap_ns }.draw(&mut random);
            InitialTask { template: 0, start_at_ns: at_ns }
        })
        .collect();
    workload
}

/// Mean wait in an M/M/c queue in units of the mean service time: Erlang's C formula.
fn mean_wait_in_services(servers: u32, load: f64) -> f64 {
    let offered = load * f64::from(servers);
    let mut term = 1.0; // offered^k / k!
    let mut sum = 0.0;
    for k in 0..servers {
        sum += term;
        term *= offered / f64::from(k + 1);
    }
    let waiting = term / (1.0 - load);
    waiting / (sum + waiting) / (f64::from(servers) * (1.0 - load))
}

#[test]
fn the_mean_wait_in_an_m_m_c_queue_is_that_of_erlang() {
    // One server: load / (1 - load).
    assert!((mean_wait_in_services(1, 0.75) - 3.0).abs() < 1e-12);
    let (nr, work_ns) = (100_000, MS);
    for (servers, load) in [(1, 0.5), (1, 0.7), (2, 0.7), (4, 0.8), (8, 0.8)] {
        let gap_ns = (work_ns as f64 / load / f64::from(servers)) as u64;
        let workload = exponential_jobs(nr, gap_ns, work_ns);
        let result = attempt(&shipped("fifo"), &costless(servers as usize, HZ), &workload, 1);
        assert_eq!(result.status, Status::Completed);
        let got = group(&result, "job").wait_ns as f64 / f64::from(nr) / work_ns as f64;
        let expected = mean_wait_in_services(servers, load);
        // Neighbouring waits are alike: at these loads 100 000 jobs are worth some 1 000.
        assert!((got / expected - 1.0).abs() < 0.05, "{servers} at {load}: {got} for {expected}");
    }
}

// ---- order and memory ---------------------------------------------------------------------------

#[test]
fn what_happens_at_one_time_happens_in_the_order_in_which_it_was_scheduled() {
    let (n, work_ns, wakes_at_ns) = (9, MS, 100 * MS);
    // The last task starts and goes to sleep first, and so on; all sleeps end at one time.
    let jobs: Vec<Job> = (0..n)
        .map(|place| {
            let turn = n - 1 - place;
            let sleeps_at_ns = (turn + 1) * (work_ns + CALL_NS);
            let ops = [run(work_ns), sleep(wakes_at_ns - sleeps_at_ns), run(work_ns)];
            Job { nice: 0, cpus: None, start_at_ns: turn, program: once(&ops) }
        })
        .collect();
    let result = with_costs(1, &workload_of_jobs(&jobs), |_| {});
    let woken: Vec<u32> =
        all_stays(&result).iter().filter(|stay| stay.0 >= wakes_at_ns).map(|stay| stay.3).collect();
    assert_eq!(woken, [9, 8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(all_stays(&result)[n as usize].0, wakes_at_ns);

    let result = with_costs(1, &burners(n, work_ns), |_| {});
    let started: Vec<u32> = all_stays(&result).iter().map(|stay| stay.3).collect();
    assert_eq!(started, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

const LENGTH: &str = "SCHEDLAB_TEST_LENGTH_MS";

/// Not a test of its own: a run of some length in a process of its own, and its peak memory.
#[test]
fn print_peak_memory_of_a_run() {
    let Ok(length_ms) = std::env::var(LENGTH) else { return };
    let length_ms: u64 = length_ms.parse().expect("the other test gives a number");
    let mut workload = ping_pong(true);
    workload.stop_at_ns = Some(length_ms * MS);
    let result = attempt(&shipped("cfs"), &machine(2, HZ), &workload, 1);
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it has that");
    println!("peak {} {}", peak.trim().trim_end_matches(" kB"), result.switches);
}

/// Peak memory in KiB and switches of a run of this length.
fn peak_kib_and_switches(length_ms: u64) -> (u64, u64) {
    let output = Command::new(std::env::current_exe().expect("tests are programs"))
        .args(["--exact", "closed_forms::print_peak_memory_of_a_run", "--nocapture"])
        .env(LENGTH, length_ms.to_string())
        .output()
        .expect("the test program can be started");
    let text = String::from_utf8(output.stdout).expect("it prints text");
    let line = text.lines().find_map(|line| line.split_once("peak ")).expect("it prints a line").1;
    let (peak, switches) = line.split_once(' ').expect("two numbers");
    (peak.parse().expect("KiB"), switches.parse().expect("switches"))
}

#[test]
fn memory_does_not_grow_with_the_length_of_a_run() {
    shipped("cfs"); // Compiled here, lest the first of the two does it.
    let (short_kib, short_switches) = peak_kib_and_switches(1_000);
    let (long_kib, long_switches) = peak_kib_and_switches(10_000);
    assert!(short_switches > 10_000 && long_switches > 9 * short_switches);
    // A stay that was kept would take 24 bytes: megabytes more.
    let grew_kib = long_kib.saturating_sub(short_kib);
    assert!(grew_kib < 512, "{short_kib} KiB, then {long_kib}");
}
