//! Goal: pipes are those of the machine's kernel.
//! Method: tasks that find no room, on machines of several versions of Linux where nothing takes
//! time; how often writers switch and how much they write is counted by hand.

use crate::support::*;
use scenario::machine::{Linux, Machine};
use scenario::workload::{Channel, Op, TaskTemplate};

const HZ: u32 = 1000;

/// A task with an address space of its own.
fn process(name: &str, ops: &[Op]) -> TaskTemplate {
    TaskTemplate { address_space: None, ..task(name, 0, once(ops)) }
}

/// Ten tasks write a byte each into a pipe that holds one, and one task reads them.
fn switches_at_a_full_pipe(linux: Option<&str>) -> u64 {
    let writers = vec![process("writer", &[Op::Send { channel: 0, bytes: 1 }]); 10];
    let reader = process("reader", &[Op::Recv { channel: 0, bytes: 10 }]);
    let mut workload = together([writers, vec![reader]].concat());
    workload.channels[0] = Channel { capacity_bytes: 1, ..Channel::default() };
    let mut machine = costless(1, HZ);
    machine.linux = linux.and_then(Linux::named);
    group(&outcome("fifo", &machine, &workload, None, &[]), "writer").switches
}

#[test]
fn a_pipe_wakes_all_its_writers_until_linux_5_5_and_then_one() {
    // All run at first, and nine wait. Then each byte that is read wakes all who wait, or one.
    let all = 10 + (1..=9).sum::<u64>();
    assert_eq!(switches_at_a_full_pipe(Some("2.6.0")), all);
    assert_eq!(switches_at_a_full_pipe(Some("5.5")), all);
    assert_eq!(switches_at_a_full_pipe(Some("5.6")), 10 + 9);
    assert_eq!(switches_at_a_full_pipe(None), 10 + 9);
}

/// Two bytes are read at once: the writer that is woken for the first wakes the next one.
#[test]
fn a_writer_that_was_woken_wakes_the_next_while_there_is_room() {
    let writers = vec![process("writer", &[Op::Send { channel: 0, bytes: 1 }]); 6];
    let reader = process("reader", &[Op::Recv { channel: 0, bytes: 2 }, sleep(MS)]);
    let rest = process("rest", &[sleep(5 * MS), Op::Recv { channel: 0, bytes: 4 }]);
    let mut workload = together([writers, vec![reader, rest]].concat());
    workload.channels[0] = Channel { capacity_bytes: 2, ..Channel::default() };
    let machine = Machine { linux: None, ..costless(1, HZ) };
    let result = outcome("fifo", &machine, &workload, None, &[]);
    // Two wrote, and four waited: two of them until the first read, two until the second.
    let ends: Vec<u64> = stays(&result, "writer").iter().map(|stay| stay.1 / MS).collect();
    assert_eq!(ends.len(), 6 + 4);
    assert_eq!(ends.iter().filter(|&&at_ms| at_ms >= 5).count(), 2);
}

#[test]
fn a_pipe_holds_what_pipes_of_its_kernel_hold() {
    let page = [Op::Send { channel: 0, bytes: 4096 }, run(MS)];
    let mut workload = together(vec![task("writer", 0, times(20, &page))]);
    workload.channels[0] = Channel::default();
    for (linux, pages) in [(Some("2.4"), 1), (Some("2.6.11"), 16), (None, 16)] {
        let mut machine = costless(1, HZ);
        machine.linux = linux.and_then(Linux::named);
        let result = outcome("fifo", &machine, &workload, S, &[]);
        // It waits for ever with the one that finds no room.
        assert_eq!(group(&result, "writer").run_ns / MS, pages, "{linux:?}");
    }
}
