//! Variables of the kernel of which each CPU has one.

use super::{Calling, keep_place_of_failure, shown};
use crate::abi::RunQueue;
use crate::failure::FailureKind;
use crate::operations::Operation;
use crate::place::TaskId;
use crate::visible::{FACTS, Facts};
use bytecode::{Size, Stop};
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

/// `scx_bpf_locked_rq`. Source: Linux 7.3, kernel/sched/ext/ext.c, what `SCX_CALL_OP` and alike
/// are given.
pub(super) fn locked(run: &mut Calling<'_, '_>, _: [u64; 5]) -> Result<u64, Stop> {
    let Some(cpu) = cpu_of_locked(run) else {
        let message = "accessing rq without holding rq lock".to_owned();
        run.host.fail(FailureKind::BadCall, message);
        keep_place_of_failure(run);
        return Ok(0);
    };
    Ok(of(run, cpu))
}

/// The CPU whose run queue is locked while the operation runs; `None` if none is.
fn cpu_of_locked(run: &Calling<'_, '_>) -> Option<usize> {
    use Operation::{
        CgroupMove, Dequeue, Disable, Dispatch, DumpCpu, DumpTask, Enable, Enqueue, ExitTask,
        Quiescent, Runnable, Running, SetCpumask, SetWeight, Stopping, Tick, UpdateIdle, Yield,
    };
    let kernel = &*run.host;
    let argument = |number: u64| {
        let at = kernel.policy.arguments_at() + 8 * number;
        run.memory().load(at, Size::Double).unwrap_or(0)
    };
    let home = |task: u64| {
        let number = kernel.visible.task_number(task)?;
        Some(kernel.tasks.seen(number as TaskId).cpu as usize)
    };
    match kernel.policy.given.operation {
        Dispatch | Tick | UpdateIdle | Yield => Some(kernel.here()),
        Enqueue | Dequeue | Runnable | Running | Stopping | Quiescent | Enable | Disable
        | SetWeight | SetCpumask | ExitTask | CgroupMove => home(argument(0)),
        DumpTask => home(argument(1)),
        DumpCpu if kernel.policy.takes_cids() => kernel.policy.given.cids.cpu(argument(1) as i32),
        DumpCpu => Some(argument(1) as usize),
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
