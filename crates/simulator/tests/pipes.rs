//! Goal: pipes are those of the machine's kernel.
//! Method: a writer that nobody reads, on machines of several versions of Linux where nothing takes
//! time.

use crate::support::*;
use scenario::machine::Linux;
use scenario::workload::{Channel, Op};

const HZ: u32 = 1000;

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
