//! Variables of the kernel of which each CPU has one.

use super::{Calling, shown};
use crate::abi::RunQueue;
use crate::visible::{FACTS, Facts};
use std::mem::offset_of;

/// What stands for `runqueues`. Nobody can read there.
pub const RUN_QUEUES: u64 = 0xd000_0000_0000_0000;
/// What stands for `cpufreq_cpu_data`.
pub const FREQUENCY_POLICIES: u64 = RUN_QUEUES + (1 << 32);

/// A CPU's own of such a variable; `None` for what is no variable.
pub(super) fn variable(run: &mut Calling<'_, '_>, address: u64, cpu: usize) -> Option<u64> {
    match address {
        RUN_QUEUES => Some(of(run, cpu)),
        // NULL: no driver sets a frequency.
        FREQUENCY_POLICIES => Some(FACTS + offset_of!(Facts, zero) as u64),
        _ => None,
    }
}

/// A CPU's run queue, as it is now. Another CPU's clock was last read when that one did something.
pub(super) fn of(run: &mut Calling<'_, '_>, cpu: usize) -> u64 {
    let kernel = &mut *run.host;
    let now_ns = kernel.now_ns();
    let clock = match kernel.here() == cpu {
        true => now_ns,
        false => kernel.cpus[cpu].clock_ns().min(now_ns),
    };
    let curr = kernel.visible.room.shift.show(kernel.current_of(cpu));
    let queues = &mut kernel.policy.given.run_queues;
    while queues.len() <= cpu {
        queues.push(kernel.visible.place(RunQueue::default()));
    }
    // The capacity of each CPU is that of one, so that all clocks go alike.
    *queues[cpu] = RunQueue {
        curr,
        cpu: cpu as i32,
        clock,
        clock_task: clock,
        clock_pelt: clock,
        lost_idle_time: 0,
    };
    let at = queues[cpu].address();
    shown(run, at)
}
