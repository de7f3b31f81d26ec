//! Maps that are arenas.

use super::{UnknownMap, kind};
use crate::arena::{Arena, BYTES_ADDRESSED, PAGE_BYTES};
use crate::mapping::NoAddresses;
use crate::object_file::MapDefinition;

/// `BPF_F_MMAPABLE`, `BPF_F_SEGV_ON_FAULT`, `BPF_F_NO_USER_CONV`
const MMAPABLE: u32 = 1 << 10;
const SEGV_ON_FAULT: u32 = 1 << 17;
const NO_USER_CONV: u32 = 1 << 18;

/// The arena that one of these maps is, if any is, and the upper half that its addresses have for
/// user space.
///
/// # Errors
///
/// [`NoAddresses`] if this process may not have as many as an arena takes.
pub fn arena_of(maps: &[MapDefinition]) -> Result<Option<(Arena, u32)>, NoAddresses> {
    let Some(map) = maps.iter().find(|map| map.kind == kind::ARENA) else { return Ok(None) };
    let arena = Arena::new(map.extra, map.entries_max)?;
    let is_shown = map.flags & NO_USER_CONV == 0;
    let user_upper = if is_shown { (arena.user_begin() >> 32) as u32 } else { 0 };
    Ok(Some((arena, user_upper)))
}

/// Refuses an arena that no kernel makes, and a second one, which no loader takes.
pub(super) fn check(maps: &[MapDefinition]) -> Result<(), UnknownMap> {
    let arenas = maps.iter().filter(|map| map.kind == kind::ARENA);
    for (number, map) in arenas.enumerate() {
        let second = "type BPF_MAP_TYPE_ARENA (33), as another has; no loader takes two";
        let is_second = (number > 0).then(|| second.to_owned());
        if let Some(reason) = what_no_kernel_makes(map).or(is_second) {
            return Err(UnknownMap::new(map, reason));
        }
    }
    Ok(())
}

/// What is wrong with a map that is to be an arena. Source: `arena_map_alloc`.
fn what_no_kernel_makes(map: &MapDefinition) -> Option<String> {
    let bytes = u64::from(map.entries_max) * PAGE_BYTES;
    let last = map.extra.checked_add(bytes.saturating_sub(1));
    if map.key_bytes != 0 || map.value_bytes != 0 || map.entries_max == 0 {
        return Some(
            "keys, values or no pages; as in a kernel, it has only max_entries".to_owned(),
        );
    }
    if map.flags & MMAPABLE == 0 || map.flags & !(MMAPABLE | SEGV_ON_FAULT | NO_USER_CONV) != 0 {
        let why = "as in a kernel, an arena is made with BPF_F_MMAPABLE";
        return Some(format!("flags {:#x}; {why}", map.flags));
    }
    let crosses = last.is_none_or(|last| last >> 32 != map.extra >> 32);
    (bytes > BYTES_ADDRESSED || !map.extra.is_multiple_of(PAGE_BYTES) || crosses).then(|| {
        let why = "as in a kernel, all of its addresses have one upper half";
        format!("{} pages at {:#x}; {why}", map.entries_max, map.extra)
    })
}
