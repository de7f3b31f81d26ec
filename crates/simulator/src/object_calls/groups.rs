//! Groups of tasks: who is in which, the tree, walks over it.
//!
//! Groups stay as long as the run, so nothing counts who holds one.

use super::{Calling, refused, some_task, task, writable};
use crate::abi::{Group, Task};
use crate::failure::FailureKind;
use crate::groups::{GroupId, ROOT, WALK_BACK, WALK_DOWN, WALK_UP};
use crate::operations::Operation;
use bytecode::{Size, Stop, Touch, errno};

/// The group at an address; `None` for NULL.
pub(super) fn group(run: &mut Calling<'_, '_>, address: u64) -> Result<Option<GroupId>, Stop> {
    if address == 0 {
        return Ok(None);
    }
    let found = some_group(run, address)?;
    run.check(address, 0, size_of::<Group>() as u64, Touch::Read)?;
    Ok(Some(found))
}

fn some_group(run: &Calling<'_, '_>, address: u64) -> Result<GroupId, Stop> {
    let none = || refused(format!("{address:#x} is given for a cgroup and is none"));
    run.host.groups.at(address).ok_or_else(none)
}

/// The group that a task is in.
fn of_task(run: &Calling<'_, '_>, p: *const Task) -> GroupId {
    // SAFETY: a task.
    seen(run, unsafe { (*p).cgroups })
}

/// The group that the structure of a task names.
fn seen(run: &Calling<'_, '_>, group: *const Group) -> GroupId {
    run.host.groups.at(group.addr() as u64).unwrap_or(ROOT)
}

fn given(run: &Calling<'_, '_>, group: Option<GroupId>) -> u64 {
    group.map_or(0, |group| run.host.groups.shown(group))
}

/// As in a kernel only of a task that the operation is for, whose run queue it holds, else it ends
/// the policy. Source: Linux, kernel/sched/ext.c, `scx_bpf_task_cgroup` and `SCX_CALL_OP_TASK`.
pub(super) fn of(run: &mut Calling<'_, '_>, [p, ..]: [u64; 5]) -> Result<u64, Stop> {
    let task = some_task(run, p)?;
    let arguments = run.host.policy.arguments_at();
    let subject = run.memory().load(arguments, Size::Double);
    if !holds_task(run.host.policy.given.operation) || subject != Some(p) {
        let message = "scx_bpf_task_cgroup() called on a task not being operated on".to_owned();
        run.host.fail(FailureKind::BadCall, message);
        super::keep_place_of_failure(run);
        return Ok(given(run, Some(ROOT)));
    }
    // SAFETY: a task.
    let group = seen(run, unsafe { (*task).task_group });
    Ok(given(run, Some(group)))
}

/// Whether the kernel knows of an operation which task it is for.
fn holds_task(operation: Operation) -> bool {
    !matches!(
        operation,
        Operation::Init
            | Operation::Exit
            | Operation::InitTask
            | Operation::ExitTask
            | Operation::Dispatch
            | Operation::UpdateIdle
            | Operation::CpuOnline
            | Operation::CpuOffline
            | Operation::InitCids
            | Operation::CgroupInit
            | Operation::CgroupExit
            | Operation::CgroupPrepMove
            | Operation::CgroupCancelMove
            | Operation::CgroupSetWeight
            | Operation::CgroupSetBandwidth
            | Operation::CgroupSetIdle
            | Operation::Timer
            | Operation::Syscall
            | Operation::Dump
            | Operation::DumpCpu
            | Operation::DumpTask
    )
}

pub(super) fn of_id(run: &mut Calling<'_, '_>, [id, ..]: [u64; 5]) -> Result<u64, Stop> {
    Ok(given(run, run.host.groups.of_id(id)))
}

pub(super) fn current_id(run: &mut Calling<'_, '_>, _: [u64; 5]) -> Result<u64, Stop> {
    let current = run.host.current_of(run.host.here());
    Ok(run.host.groups.id(of_task(run, current)))
}

pub(super) fn acquire(run: &mut Calling<'_, '_>, [at, ..]: [u64; 5]) -> Result<u64, Stop> {
    let group = group(run, at)?;
    Ok(given(run, group))
}

pub(super) fn release(run: &mut Calling<'_, '_>, [at, ..]: [u64; 5]) -> Result<u64, Stop> {
    some_group(run, at).map(|_| 0)
}

pub(super) fn ancestor(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [at, level, ..] = given;
    let group = group(run, at)?;
    let found = group.and_then(|group| run.host.groups.ancestor(group, level as i32));
    Ok(self::given(run, found))
}

pub(super) fn has_task(run: &mut Calling<'_, '_>, [p, at, ..]: [u64; 5]) -> Result<u64, Stop> {
    let (p, group) = (task(run, p)?, group(run, at)?);
    let Some(group) = group.filter(|_| !p.is_null()) else { return Ok(0) };
    let groups = &run.host.groups;
    let level = groups.level(group);
    Ok((groups.ancestor(of_task(run, p), level) == Some(group)).into())
}

/// An iterator over the tasks of a group, not of those below it: one word, of which the upper half
/// is one more than the group and the lower one the pid that is next. Processes are tasks. Source:
/// Linux, kernel/bpf/task_iter.c, `bpf_iter_css_task_new`.
pub(super) fn tasks_begin(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    const OF_PROCESSES: u32 = 1;
    const OF_PROCESSES_AND_THREADS: u32 = 3;
    let [iterator, start, flags, ..] = given;
    let state = writable::<u64>(run, iterator)?;
    let group = group(run, start)?;
    let is_known = matches!(flags as u32, 0 | OF_PROCESSES | OF_PROCESSES_AND_THREADS);
    let word = group.filter(|_| is_known).map_or(0, |group| (group as u64 + 1) << 32 | 1);
    // SAFETY: a word of the policy's own.
    unsafe { *state = word };
    Ok(if is_known { 0 } else { -errno::EINVAL as u64 })
}

pub(super) fn tasks_next(run: &mut Calling<'_, '_>, [iterator, ..]: [u64; 5]) -> Result<u64, Stop> {
    let state = writable::<u64>(run, iterator)?;
    // SAFETY: a word of the policy's own, to which nobody else holds a reference.
    let word = unsafe { &mut *state };
    let Some(group) = (*word >> 32).checked_sub(1) else { return Ok(0) };
    let found = (*word as u32 as i32..=run.host.tasks.len() as i32).find_map(|pid| {
        let task = run.host.task_of_walk(pid);
        (!task.is_null() && of_task(run, task) as u64 == group).then_some((pid, task))
    });
    *word = found.map_or(0, |(pid, _)| (group + 1) << 32 | (pid as u64 + 1));
    Ok(found.map_or(0, |(_, task)| super::shown(run, task)))
}

/// An iterator: the group where it began, the one that it gave last, and its order. Source: Linux,
/// kernel/bpf/cgroup_iter.c, `bpf_iter_css_new`.
pub(super) fn begin(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [iterator, start, order, ..] = given;
    let state = writable::<[u64; 3]>(run, iterator)?;
    group(run, start)?;
    let order = u64::from(order as u32);
    let is_known = [WALK_DOWN, WALK_BACK, WALK_UP].contains(&order);
    // SAFETY: words of the policy's own.
    unsafe { *state = [if is_known { start } else { 0 }, 0, order] };
    Ok(if is_known { 0 } else { -errno::EINVAL as u64 })
}

pub(super) fn next(run: &mut Calling<'_, '_>, [iterator, ..]: [u64; 5]) -> Result<u64, Stop> {
    let state = writable::<[u64; 3]>(run, iterator)?;
    // SAFETY: words of the policy's own, to which nobody else holds a reference.
    let [start, last, order] = unsafe { &mut *state };
    let groups = &run.host.groups;
    let Some(start) = groups.at(*start) else { return Ok(0) };
    let next = groups.next(start, groups.at(*last), *order);
    *last = next.map_or(0, |group| groups.shown(group));
    Ok(*last)
}
