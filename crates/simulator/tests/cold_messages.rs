//! Goal: a message that has left its cache costs what memory does, and one that has not does not;
//! kernels of another age have costs of their own.
//! Method: closed forms of one sender and one receiver on one CPU, with a cache of a few messages.

use crate::support::*;
use scenario::machine::{AllocatorCosts, Bus, Machine};
use scenario::workload::{Channel, Op, Workload};
use std::collections::BTreeMap;

const NR_MESSAGES: u64 = 40;
const READ_NS_PER_KIB: u64 = 2048;
const WRITE_NS_PER_KIB: u64 = 4096;
/// What a message takes up, all told: two lines of header, two of content.
const MESSAGE_BYTES: u64 = 256;

/// One CPU with a cache of so many KiB, where nothing but memory takes time.
fn machine(cache_kib: u64) -> Machine {
    machine_of(1, cache_kib)
}

/// The same with so many CPUs.
fn machine_of(nr_cpus: usize, cache_kib: u64) -> Machine {
    let mut machine = costless(nr_cpus, 1000);
    let costs = &mut machine.costs;
    (costs.line_bytes, costs.message_lines, costs.cache_kib) = (64, 2, cache_kib);
    costs.refill_ns_per_kib = [READ_NS_PER_KIB; 5];
    costs.cold_write_ns_per_kib = WRITE_NS_PER_KIB;
    machine.with_digest()
}

/// One that writes all messages and then computes, and one that reads them after it.
fn all_at_once() -> Workload {
    let send = Op::Send { channel: 0, bytes: 100 };
    let receive = Op::Recv { channel: 0, bytes: 100 };
    let writes = once(&vec![send; NR_MESSAGES as usize]);
    // On a CPU of its own it would not be the second.
    let reads = once(&[&[run(MS)][..], &vec![receive; NR_MESSAGES as usize]].concat());
    let mut workload = together(vec![task("writes", 0, writes), task("reads", 0, reads)]);
    workload.channels = vec![Channel { capacity_bytes: 1 << 20, ..Channel::default() }];
    workload.with_digest()
}

fn kernel_ns(machine: &Machine) -> u64 {
    outcome("fifo", machine, &all_at_once(), None, &[]).cpu_time_ns.kernel
}

/// Operations that take no time take a ns each.
fn warm_ns() -> u64 {
    let mut warm = machine(1 << 20);
    warm.costs.cold_write_ns_per_kib = 0;
    kernel_ns(&warm.with_digest())
}

fn cold_ns(ns_per_kib: u64, nr: u64) -> u64 {
    nr * (MESSAGE_BYTES * ns_per_kib / 1024 - 1)
}

#[test]
fn memory_that_nobody_has_used_is_cold_and_what_fits_the_cache_is_read_warm() {
    let written_ns = kernel_ns(&machine(MESSAGE_BYTES * NR_MESSAGES / 1024)) - warm_ns();
    assert_eq!(written_ns, cold_ns(WRITE_NS_PER_KIB, NR_MESSAGES));
}

#[test]
fn of_messages_that_do_not_fit_the_cache_each_is_read_from_memory() {
    // As the first is read, the last that the cache still held leaves it, and so on.
    let took_ns = kernel_ns(&machine(MESSAGE_BYTES * NR_MESSAGES / 2 / 1024)) - warm_ns();
    let read_ns = cold_ns(READ_NS_PER_KIB, NR_MESSAGES);
    assert_eq!(took_ns, cold_ns(WRITE_NS_PER_KIB, NR_MESSAGES) + read_ns);
}

#[test]
fn memory_is_used_again_while_it_is_warm() {
    // A token goes round: the first message's memory serves them all.
    let hop = [Op::Send { channel: 0, bytes: 100 }, Op::Recv { channel: 0, bytes: 100 }];
    let mut workload = together(vec![task("alone", 0, once(&hop.repeat(NR_MESSAGES as usize)))]);
    workload.channels = vec![Channel { capacity_bytes: 1 << 20, ..Channel::default() }];
    let workload = workload.with_digest();
    let of = |machine: &Machine| outcome("fifo", machine, &workload, None, &[]).cpu_time_ns.kernel;
    let mut warm = machine(1);
    warm.costs.cold_write_ns_per_kib = 0;
    assert_eq!(of(&machine(1)) - of(&warm.with_digest()), cold_ns(WRITE_NS_PER_KIB, 1));
}

const LINE_NS: u64 = 100;

/// With a cache of so many KiB, memory comes from slabs, and goes back.
fn with_allocator(cache_kib: u64, allocator: AllocatorCosts) -> u64 {
    let mut machine = machine(cache_kib);
    (machine.costs.allocator, machine.costs.line_transfer_ns) = (allocator, [0, 0, 0, LINE_NS, 0]);
    kernel_ns(&machine.with_digest())
}

/// Objects of two kinds that come one by one, each from a slab of its own.
const ONE_BY_ONE: AllocatorCosts = AllocatorCosts {
    objects: 2,
    kept: 0,
    batch: 1,
    shared: 0,
    slab: 1,
    get_lines: 3,
    free_lines: 5,
    free_writes: 0,
};

#[test]
fn slabs_that_have_left_the_cache_cost_lines_for_each_object() {
    let none = with_allocator(1, AllocatorCosts::default());
    let cost = |allocator| with_allocator(1, allocator) - none;
    assert_eq!(cost(ONE_BY_ONE), NR_MESSAGES * 2 * (3 + 5) * LINE_NS);
    let also_written = AllocatorCosts { free_writes: 7, ..ONE_BY_ONE };
    assert_eq!(cost(also_written), cost(ONE_BY_ONE), "nobody waits for a write");
    // What a CPU keeps is not given back, and all that is got comes in whole batches.
    let kept = AllocatorCosts { kept: 24, batch: 12, ..ONE_BY_ONE };
    let got = NR_MESSAGES.div_ceil(12) * 12;
    let freed = (got - 24).div_ceil(12) * 12;
    assert_eq!(cost(kept), 2 * (got * 3 + freed * 5) * LINE_NS);
    // With room in the shared array nothing goes back at all.
    let shared = AllocatorCosts { shared: 1000, ..kept };
    assert_eq!(cost(shared), 2 * got * 3 * LINE_NS);
}

#[test]
fn a_slab_that_is_in_the_cache_is_looked_at_in_no_time() {
    let none = with_allocator(1 << 20, AllocatorCosts::default());
    let of_eight = AllocatorCosts { slab: 8, ..ONE_BY_ONE };
    let cost_ns = with_allocator(1 << 20, of_eight) - none;
    assert_eq!(cost_ns, 2 * NR_MESSAGES / 8 * 3 * LINE_NS);
    // The locks are taken all the same, for each message twice of each kind.
    let with_lock = |allocator| {
        let mut machine = machine(1 << 20);
        (machine.costs.allocator, machine.costs.lock_ns) = (allocator, 50);
        kernel_ns(&machine.with_digest())
    };
    let locks_ns = with_lock(of_eight) - with_lock(AllocatorCosts::default());
    assert_eq!(locks_ns, NR_MESSAGES * 2 * 2 * 50);
}

/// What the kernel takes, and waits for a bus, where one writes all messages on CPU 0, and another
/// reads them after it or, with a cache of its own, on CPU 1.
fn on_two(bus: Option<Bus>, reader: u32, allocator: AllocatorCosts) -> (u64, u64) {
    let mut machine = Machine { bus, ..machine_of(2, 1 << (20 * reader)) };
    machine.cpus[1].cache = 1;
    (machine.costs.allocator, machine.costs.line_transfer_ns) = (allocator, [0, 0, 0, LINE_NS, 0]);
    let mut workload = all_at_once();
    for (template, cpu) in workload.templates.iter_mut().zip([0, reader]) {
        *template = pinned(template.clone(), cpu);
    }
    let outcome = outcome("fifo", &machine.with_digest(), &workload.with_digest(), None, &[]);
    (outcome.cpu_time_ns.kernel, outcome.cpu_time_ns.bus_wait)
}

#[test]
fn a_slab_comes_from_the_cpu_that_looked_last() {
    let kernel_ns = |free_lines| {
        let kept = AllocatorCosts { kept: 24, batch: 8, slab: 8, get_lines: 0, ..ONE_BY_ONE };
        on_two(None, 1, AllocatorCosts { free_lines, ..kept }).0
    };
    // Of 40 messages the reader's CPU gives two batches back, each a slab of the writer's CPU.
    assert_eq!(kernel_ns(5) - kernel_ns(1), 2 * 2 * (5 - 1) * LINE_NS);
}

#[test]
fn lines_of_slabs_come_over_the_bus_and_go_back() {
    let bus = Some(Bus { caches: 2, mb_per_s: 1280 });
    let wait_ns = |free_writes| {
        let one = AllocatorCosts { objects: 1, get_lines: 0, free_lines: 1, ..ONE_BY_ONE };
        on_two(bus, 0, AllocatorCosts { free_writes, ..one }).1
    };
    // Of ten lines, there and back, each has the bus for 50 ns, and the CPU asks for one in 10.
    let more_ns = (wait_ns(4) - wait_ns(0)) / NR_MESSAGES;
    assert!((9 * 40..=9 * 40 + 50).contains(&more_ns), "{more_ns} ns a message");
}

#[test]
fn kernels_of_another_age_have_costs_of_their_own() {
    let mut usual = costless(1, 1000);
    let mut old = usual.costs.clone();
    old.message_ns = 501;
    usual.costs_by_policy = BTreeMap::from([("fifo".to_owned(), old)]);
    let usual = usual.with_digest();
    let of = |policy| outcome(policy, &usual, &all_at_once(), None, &[]).cpu_time_ns.kernel;
    assert_eq!(of("fifo") - of("round_robin"), 2 * NR_MESSAGES * 500);
}
