//! Calls that call functions of the program back.

use super::values::{map, view};
use super::{Calling, function, refused};
use bytecode::{FaultKind, Stop, errno};

/// Most turns of `bpf_loop`. Source: Linux, include/linux/bpf.h, `BPF_MAX_LOOPS`.
const LOOPS_MAX: u32 = 8 << 20;

/// Calls a function back, and catches up with what it spent by itself.
pub(super) fn call_back(
    run: &mut Calling<'_, '_>,
    function: usize,
    arguments: [u64; 5],
) -> Result<u64, Stop> {
    let answer = run.function(function, arguments).map_err(|mut fault| {
        // Source: Linux, kernel/bpf/verifier.c, `check_max_stack_depth_subprog`.
        if matches!(fault.kind, FaultKind::Thrown(_)) {
            fault.kind = FaultKind::Refused(fault.kind.to_string());
        }
        fault
    });
    let answer = answer?;
    run.host.catch_up();
    Ok(answer)
}

/// `bpf_loop`: how often the callback was called, which ends it by an answer that is not 0.
pub(super) fn repeat(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [count, callback, context, flags, _] = given;
    let (count, function) = (count as u32, function(run, callback)?);
    if flags != 0 {
        return Ok(-errno::EINVAL as u64);
    }
    if count > LOOPS_MAX {
        // A kernel puts the loop in place of such a call, with an error of 32 bits
        // (kernel/bpf/verifier.c, `inline_bpf_loop`).
        return Ok((-errno::E2BIG as u32).into());
    }
    for turn in 0..u64::from(count) {
        if call_back(run, function, [turn, context, 0, 0, 0])? != 0 {
            return Ok(turn + 1);
        }
    }
    Ok(count.into())
}

/// `bpf_for_each_map_elem`: the same with each entry of a map. Source: Linux,
/// kernel/bpf/arraymap.c, `bpf_for_each_array_elem`, and kernel/bpf/hashtab.c,
/// `bpf_for_each_hash_elem`.
pub(super) fn for_each(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [token, callback, context, flags, _] = given;
    let (map, function) = (map(run, token)?, function(run, callback)?);
    if !view(run, map).is_hash() && !view(run, map).is_array() {
        let why = "bpf_for_each_map_elem() of a map that is neither an array nor a hash";
        return Err(refused(why.to_owned()));
    }
    if flags != 0 {
        return Ok(-errno::EINVAL as u64);
    }
    let kernel = &mut *run.host;
    let cpu = kernel.here() as u64;
    let mut place = kernel.policy.given.key_place(&mut kernel.visible);
    let shown = kernel.visible.room.address(place.address());
    let (mut count, mut last): (u64, Option<Vec<u8>>) = (0, None);
    while let Some((key, value)) = run.host.policy.maps.entry_behind(map, last.as_deref(), cpu) {
        place[..key.len()].copy_from_slice(&key);
        count += 1;
        last = Some(key);
        if call_back(run, function, [token, shown, value, context, 0])? != 0 {
            break;
        }
    }
    run.host.policy.given.keys.push(place);
    Ok(count)
}
