//! Calls that name CPUs by their cids. Source: Linux 7.3, kernel/sched/ext/cid.c, ext.c and sub.c.

use super::{CPUPERF_ONE, Calling, at, keep_place_of_failure, shown};
use crate::cids::{Topology, mask_at, put_bit};
use crate::failure::FailureKind;
use crate::operations::Operation;
use bytecode::{Arena, Size, Stop, Touch, errno};

/// All of `SCX_CAP_*`.
const CAPS_ALL: u64 = 0xf;

/// The CPU of a cid, or a negative error number for the policy.
fn cpu_of(run: &mut Calling<'_, '_>, cid: u64) -> Result<usize, u64> {
    let found = run.host.cpu_of_cid(cid as i32);
    keep_place_of_failure(run);
    found.map_err(|errno| errno as u64)
}

/// Ends the run by what the kernel says of a call.
fn fail(run: &mut Calling<'_, '_>, message: String) {
    run.host.fail(FailureKind::BadCall, message);
    keep_place_of_failure(run);
}

pub(super) fn to_cpu(run: &mut Calling<'_, '_>, [cid, ..]: [u64; 5]) -> Result<u64, Stop> {
    Ok(cpu_of(run, cid).map_or_else(|errno| errno, |cpu| cpu as u64))
}

pub(super) fn of_cpu(run: &mut Calling<'_, '_>, [cpu, ..]: [u64; 5]) -> Result<u64, Stop> {
    let nr = run.host.nr_cpu_ids();
    if cpu as u32 >= nr {
        fail(run, format!("invalid CPU {} in scx_bpf_cpu_to_cid()", cpu as i32));
        return Ok(-errno::EINVAL as u64);
    }
    Ok(known(run, cpu as usize))
}

/// The cid of a CPU of the machine; an error number as long as there are none.
fn known(run: &Calling<'_, '_>, cpu: usize) -> u64 {
    let cids = &run.host.policy.given.cids;
    if cids.is_published { cids.cid(cpu) as u64 } else { -errno::EINVAL as u64 }
}

pub(super) fn of_this(run: &mut Calling<'_, '_>, _: [u64; 5]) -> Result<u64, Stop> {
    Ok(known(run, run.host.here()))
}

pub(super) fn of_task(run: &mut Calling<'_, '_>, [p, ..]: [u64; 5]) -> Result<u64, Stop> {
    let task = super::some_task(run, p)?;
    // SAFETY: a task, which is not null.
    let cpu = unsafe { (*task).cpu };
    Ok(known(run, cpu as usize))
}

/// Fields that the policy's structure has and the kernel's lacks are -1, as all are after an error.
pub(super) fn topology(
    run: &mut Calling<'_, '_>,
    [cid, to, bytes, ..]: [u64; 5],
) -> Result<u64, Stop> {
    let place = at(run, to, bytes as usize, 1, Touch::Write)?;
    let found = cpu_of(run, cid).map(|cpu| run.host.policy.given.cids.topology(cpu));
    let known: Topology = found.unwrap_or([-1; 8]);
    let known = known.into_iter().flat_map(i32::to_le_bytes).chain(std::iter::repeat(0xff));
    for (offset, byte) in known.take(bytes as usize).enumerate() {
        // SAFETY: so many bytes are there, and the policy's own.
        unsafe { place.add(offset).write(byte) };
    }
    Ok(0)
}

fn numbers(arena: &Arena, begin: u64, count: u64) -> Vec<i32> {
    let each = (0..count).map(|at| arena.read(begin.wrapping_add(4 * at), Size::Word));
    each.map(|number| number as i32).collect()
}

pub(super) fn replace(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [cids, nr_cids, shards, nr_shards, _] = given;
    let (nr_cids, nr_shards) = (nr_cids as u32, nr_shards as u32);
    let (nr_cpus, operation) = (run.host.nr_cpu_ids(), run.host.policy.given.operation);
    if operation != Operation::InitCids {
        let message = "scx_bpf_cid_override() called from outside ops.init_cids()".to_owned();
        fail(run, message);
        return Ok(0);
    }
    let what = "scx_bpf_cid_override";
    if nr_cids != nr_cpus {
        fail(run, format!("{what}: cpu_to_cid expected {nr_cpus} entries, got {nr_cids}"));
        return Ok(0);
    }
    if nr_shards > nr_cpus {
        fail(run, format!("{what}: invalid shard_start count {nr_shards}"));
        return Ok(0);
    }
    let (memory, host) = run.memory_and_host();
    let Some(arena) = memory.arena() else { return Ok(0) };
    let cids = numbers(arena, cids, nr_cids.into());
    let shards = numbers(arena, shards, nr_shards.into());
    if let Err(message) = host.policy.given.cids.replace(&cids, &shards) {
        fail(run, message);
    }
    Ok(0)
}

pub(super) fn kick(run: &mut Calling<'_, '_>, [cid, flags, ..]: [u64; 5]) -> Result<u64, Stop> {
    if let Ok(cpu) = cpu_of(run, cid) {
        run.host.kick_cpu(cpu as i32, flags);
        keep_place_of_failure(run);
    }
    Ok(0)
}

pub(super) fn current(run: &mut Calling<'_, '_>, [cid, ..]: [u64; 5]) -> Result<u64, Stop> {
    Ok(cpu_of(run, cid).map_or(0, |cpu| shown(run, run.host.current_of(cpu))))
}

pub(super) fn speed(run: &mut Calling<'_, '_>, [cid, ..]: [u64; 5]) -> Result<u64, Stop> {
    let _ = cpu_of(run, cid);
    Ok(CPUPERF_ONE)
}

pub(super) fn set_speed(run: &mut Calling<'_, '_>, [cid, to, ..]: [u64; 5]) -> Result<u64, Stop> {
    let cpu = match cpu_of(run, cid) {
        Ok(cpu) => cpu,
        Err(errno) => return Ok(errno),
    };
    let to = to as u32;
    if u64::from(to) > CPUPERF_ONE {
        fail(run, format!("Invalid cpuperf target {to} for CPU {cpu}"));
        return Ok(-errno::EINVAL as u64);
    }
    Ok(0)
}

pub(super) fn nr_online(run: &mut Calling<'_, '_>, _: [u64; 5]) -> Result<u64, Stop> {
    Ok(run.host.idle.masks().online.weight().into())
}

/// No scheduler is below another: there is none to be given CPUs, or to be ended.
pub(super) fn no_child(run: &mut Calling<'_, '_>, _: [u64; 5]) -> Result<u64, Stop> {
    Ok(if may_have_children(run) { -errno::ENODEV as u64 } else { -errno::EOPNOTSUPP as u64 })
}

/// Whether the policy's table has cids; a failure if not.
fn may_have_children(run: &mut Calling<'_, '_>) -> bool {
    let takes_cids = run.host.policy.takes_cids();
    if !takes_cids {
        fail(run, "sub-cap kfuncs require a cid-form scheduler".to_owned());
    }
    takes_cids
}

/// The policy itself, which is nobody's child, holds all on all cids.
pub(super) fn capabilities(
    run: &mut Calling<'_, '_>,
    [child, caps, to, ..]: [u64; 5],
) -> Result<u64, Stop> {
    if !may_have_children(run) {
        return Ok(-errno::EOPNOTSUPP as u64);
    }
    if caps & !CAPS_ALL != 0 {
        fail(run, format!("invalid caps {caps:#x}"));
        return Ok(-errno::EINVAL as u64);
    }
    if child != 0 {
        return Ok(-errno::ENODEV as u64);
    }
    if !run.host.policy.given.cids.is_published {
        fail(run, "scx_bpf_sub_caps() called before caps storage is initialized".to_owned());
        return Ok(-errno::ENODEV as u64);
    }
    let (memory, host) = run.memory_and_host();
    let (nr_cids, is_any) = (host.policy.given.cids.len() as u64, caps != 0);
    let mask = memory.arena().and_then(|arena| Some((mask_at(arena, to, nr_cids)?, arena)));
    let Some(((words, base, nr), arena)) = mask else {
        fail(run, format!("invalid out ({})", -errno::EINVAL));
        return Ok(-errno::EINVAL as u64);
    };
    (base..base + nr).for_each(|cid| put_bit(arena, words, cid, is_any));
    Ok(0)
}

/// The task of a number that `scx.tid` has.
pub(super) fn task(run: &mut Calling<'_, '_>, [tid, ..]: [u64; 5]) -> Result<u64, Stop> {
    let found = run.host.task_from_tid(tid);
    keep_place_of_failure(run);
    Ok(shown(run, found))
}
