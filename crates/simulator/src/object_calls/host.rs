//! How a program that runs finds the kernel: its calls, and what its pointers lead to.

use super::{CALLS, keep_place_of_failure};
use crate::abi;
use crate::core::Core;
use crate::failure::Failure;
use crate::place::TaskId;
use crate::shown::written_fields;
use crate::visible::TASK_MASK_AT;
use bytecode::{FaultKind, Host, Run, Size, Stop};

/// Makes a call with CPUs in the place of cids, which in strict runs the kernel may forbid, at the
/// time at which the instructions before it have been executed. It is given the arguments one by
/// one, so that other calls leave them in their registers.
#[cold]
#[inline(never)]
fn looked_at(
    mut run: Run<'_, Core<'_>>,
    number: usize,
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
) -> Result<u64, Stop> {
    let (name, _) = CALLS[number];
    if run.host.policy.time.is_taken() {
        let taken = run.taken();
        run.host.charge_instructions(taken);
    }
    let mut arguments = [a, b, c, d, e];
    let goes_on = !run.host.policy.takes_cids() || run.host.take_cid_of_queue(name, &mut arguments);
    match (goes_on, run.host.policy.is_strict()) {
        (true, true) => strictly(&mut run, number, arguments),
        (true, false) => CALLS[number].1(&mut run, arguments),
        (false, _) => {
            keep_place_of_failure(&mut run);
            Ok(0)
        }
    }
}

/// Makes a call that the kernel may forbid, and names the line where it ends the run.
fn strictly(run: &mut Run<'_, Core<'_>>, number: usize, arguments: [u64; 5]) -> Result<u64, Stop> {
    let (name, answer) = CALLS[number];
    if let Some(why) = run.host.forbidden(name) {
        return Err(FaultKind::Refused(why).into());
    }
    let had_failed = run.host.recorder.has_failed();
    let answer = answer(run, arguments)?;
    let is_placed = run.host.policy.given.failed_at.is_some();
    if let Some(failure) = run.host.recorder.take_failure() {
        let is_new = !had_failed && failure.kind.is_of_calls() && !is_placed;
        let message = if is_new { run.told(&failure.message) } else { failure.message };
        run.host.recorder.fail(Failure { message, ..failure });
    }
    Ok(answer)
}

/// What a reader calls something of which a policy has the address.
enum Called<'k> {
    Task(TaskId),
    MaskOf(TaskId),
    Part(&'static str),
    ValueOf(&'k str),
}

impl Core<'_> {
    /// The task, or idle task, whose structure is at an address that the policy gave.
    pub fn task_at(&self, shown: u64) -> Option<*mut abi::Task> {
        if let Some(number) = self.visible.task_number(shown) {
            return Some(self.tasks.address(number as u32));
        }
        self.tasks.idle_at(|task| self.visible.room.address(task) == shown)
    }

    /// What is at an address, where it begins, and its size in bytes.
    fn seen_at(&self, address: u64) -> Option<(Called<'_>, (u64, u64))> {
        self.visible.room.find(address, 1, false)?;
        let width = self.visible.width();
        if let Some(task) = self.visible.task_number(address) {
            return Some((Called::Task(task as TaskId), (address, width.task_bytes() as u64)));
        }
        let mask = address.wrapping_sub(TASK_MASK_AT as u64);
        if let Some(task) = self.visible.task_number(mask) {
            return Some((Called::MaskOf(task as TaskId), (address, width.bytes() as u64)));
        }
        if let Some(part) = self.visible.part_at(address) {
            let (arguments, bytes) = self.policy.given.arguments;
            let bytes = if address == arguments { bytes } else { part.bytes as u64 };
            return Some((Called::Part(part.name), (address, bytes)));
        }
        let nr_cpus = self.nr_cpu_ids().into();
        if let Some((begin, bytes, name)) = self.policy.maps.piece_with(address, nr_cpus) {
            return Some((Called::Part(name), (begin, bytes)));
        }
        let (map, bytes) = self.policy.maps.value_at(address)?;
        Some((Called::ValueOf(map), (address, bytes.into())))
    }
}

impl Host for Core<'_> {
    // Where the number is known, so is what answers, and it becomes a part of its caller.
    #[inline(always)]
    fn call(run: &mut Run<'_, Self>, number: usize, arguments: [u64; 5]) -> Result<u64, Stop> {
        run.host.catch_up();
        let answer = if run.host.policy.given.calls_as_is {
            let (_, answer) = CALLS[number];
            answer(run, arguments)
        } else {
            let [a, b, c, d, e] = arguments;
            looked_at(run.again(), number, a, b, c, d, e)
        };
        // What the call took: the program finds the clock there.
        run.host.visible.facts.now_ns = run.host.now_ns();
        answer
    }

    fn object_at(&self, address: u64) -> Option<(u64, u64)> {
        self.seen_at(address).map(|(_, extent)| extent)
    }

    fn object_name(&self, address: u64) -> String {
        match self.seen_at(address) {
            Some((Called::Task(task), _)) => format!("task {}", self.tasks.label(task)),
            Some((Called::MaskOf(task), _)) => {
                format!("the mask of task {}", self.tasks.label(task))
            }
            Some((Called::Part(name), _)) => name.to_owned(),
            Some((Called::ValueOf(map), _)) => format!("a value of map {map}"),
            None => "an object".to_owned(),
        }
    }

    /// The fields of an idle task, which is in no row.
    fn may_write(&self, address: u64, size: Size) -> bool {
        written_fields(self.policy.takes_cids()).iter().any(|&(at, of)| {
            let task = address.checked_sub(at as u64).filter(|_| size == of);
            task.is_some_and(|task| self.task_at(task).is_some())
        })
    }
}
