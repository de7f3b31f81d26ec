//! Calls on arenas. Source: Linux, kernel/bpf/arena.c.

use super::{Calling, refused};
use bytecode::{Arena, PAGE_BYTES, Reserved, Stop, errno, kind};

/// `NUMA_NO_NODE`
const NO_NODE: i32 = -1;
/// Nodes that there are.
const NODES: i32 = 1;

/// The arena of a map, if the map is one.
fn arena<'r>(run: &'r mut Calling<'_, '_>, token: u64) -> Result<Option<&'r mut Arena>, Stop> {
    let map = run.host.policy.maps.number(token);
    let map = map.ok_or_else(|| refused(format!("{token:#x} is given for a map and is none")))?;
    let is_arena = run.host.policy.maps.view(map).kind == kind::ARENA;
    Ok(run.memory_and_host().0.arena().filter(|_| is_arena))
}

/// Counts what is done to pages as the instructions that would do it.
fn count(run: &mut Calling<'_, '_>, pages: u32) -> Result<(), Stop> {
    Ok(run.count(u64::from(pages) * PAGE_BYTES / 8)?)
}

pub(super) fn allocate(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [token, address, pages, node, flags] = given;
    let (pages, node) = (pages as u32, node as i32);
    let Some(arena) = arena(run, token)?.filter(|_| flags == 0) else { return Ok(0) };
    if node != NO_NODE && !(0..NODES).contains(&node) {
        return Ok(0);
    }
    let begin = arena.allocate(address, pages);
    if begin != 0 {
        count(run, pages)?;
    }
    Ok(begin)
}

pub(super) fn give_back(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [token, address, pages, ..] = given;
    let pages = arena(run, token)?.map_or(0, |arena| arena.give_back(address, pages as u32));
    run.count(pages.into())?;
    Ok(0)
}

pub(super) fn reserve(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [token, address, pages, ..] = given;
    let arena = arena(run, token)?;
    let reserved = arena.map(|arena| arena.reserve(address, pages as u32));
    let errno = match reserved {
        Some(Reserved::Done) => 0,
        Some(Reserved::Taken) => errno::EBUSY,
        Some(Reserved::Outside) | None => errno::EINVAL,
    };
    Ok(-errno as u64)
}
