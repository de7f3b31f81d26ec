//! Goal: a message that has left its cache costs what memory does, and one that has not does not;
//! kernels of another age have costs of their own.
//! Method: closed forms of one sender and one receiver on one CPU, with a cache of a few messages.

use crate::support::*;
use scenario::machine::{AllocatorCosts, Machine};
use scenario::workload::{Channel, Op, Workload};
use std::collections::BTreeMap;

const NR_MESSAGES: u64 = 40;
const READ_NS_PER_KIB: u64 = 2048;
const WRITE_NS_PER_KIB: u64 = 4096;
/// What a message takes up, all told: two lines of header, two of content.
const MESSAGE_BYTES: u64 = 256;

/// One CPU with a cache of so many KiB, where nothing but memory takes time.
fn machine(cache_kib: u64) -> Machine {
    let mut machine = costless(1, 1000);
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
    let reads = once(&vec![receive; NR_MESSAGES as usize]);
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

/// On the same machine, with a cache for all messages, memory comes from slabs, and goes back.
fn with_allocator(allocator: AllocatorCosts) -> u64 {
    let mut machine = machine(1 << 20);
    (machine.costs.allocator, machine.costs.line_transfer_ns) = (allocator, [0, 0, 0, LINE_NS, 0]);
    kernel_ns(&machine.with_digest())
}

const LINE_NS: u64 = 100;

#[test]
fn memory_of_slabs_costs_lines_for_each_object() {
    let none = with_allocator(AllocatorCosts::default());
    let one = AllocatorCosts {
        objects: 2,
        batch: 1,
        get_lines: 3,
        free_lines: 5,
        ..AllocatorCosts::default()
    };
    assert_eq!(with_allocator(one) - none, NR_MESSAGES * 2 * (3 + 5) * LINE_NS);
    // What a CPU keeps is not given back, and all that is got comes in whole batches.
    let kept = AllocatorCosts { kept: 24, batch: 12, ..one };
    let got = NR_MESSAGES.div_ceil(12) * 12;
    let freed = (got - 24).div_ceil(12) * 12;
    assert_eq!(with_allocator(kept) - none, 2 * (got * 3 + freed * 5) * LINE_NS);
    // With room in the shared array nothing goes back at all.
    let shared = AllocatorCosts { shared: 1000, ..kept };
    assert_eq!(with_allocator(shared) - none, 2 * got * 3 * LINE_NS);
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
