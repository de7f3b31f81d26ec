//! How large keys, values and maps may be, and get.

use super::storage::{is_storage, owner};
use super::{LINE_BYTES, forgets, is_array, is_hash, is_of_maps, is_queue, is_ring, kind};
use crate::object_file::MapDefinition;

/// Bytes of a hash's key. Source: Linux, kernel/bpf/hashtab.c, `htab_map_alloc_check`.
pub const KEY_BYTES_MAX: u32 = 512;
/// Bytes of any other map's key. Source: Linux, kernel/bpf/arraymap.c, `array_map_alloc_check`, and
/// kernel/bpf/bpf_local_storage.c, `bpf_local_storage_map_alloc_check`.
const INDEX_BYTES: u32 = 4;
/// Bytes of a value. Source: as for indices.
const VALUE_BYTES_MAX: u32 = i32::MAX as u32;
/// Bytes of a value of storage. Source: Linux, include/linux/bpf_local_storage.h,
/// `BPF_LOCAL_STORAGE_MAX_VALUE_SIZE`, less what a kernel puts before it.
const STORAGE_BYTES_MAX: u32 = u16::MAX as u32;
/// `BPF_F_NO_PREALLOC`
const NO_PREALLOC: u32 = 1;
/// What the size of a ring buffer is a multiple of, by a power of 2.
const PAGE_BYTES: u32 = 4096;

/// Bytes from one value to the next: arrays are dense, the values of tasks have lines of their own
/// as soon as they are longer than half of one.
pub(super) fn stride_of(kind: u32, value_size: usize) -> usize {
    match kind {
        kind if is_storage(kind) && value_size > LINE_BYTES / 2 => {
            value_size.next_multiple_of(LINE_BYTES)
        }
        // Its entries are bytes.
        kind::RINGBUF => 1,
        _ => value_size.next_multiple_of(8),
    }
}

/// The size that a ring buffer gets where it is to have so many bytes.
pub(super) fn ring_bytes(wanted: u32) -> Option<u32> {
    wanted.checked_next_power_of_two().map(|bytes| bytes.max(PAGE_BYTES))
}

/// What is wrong with the sizes of a map of a kind that is known here.
pub(super) fn what_no_kernel_makes(declaration: &MapDefinition) -> Option<String> {
    let &MapDefinition { kind, key_bytes: key_size, value_bytes: value_size, .. } = declaration;
    let (entries, flags) = (declaration.entries_max, declaration.flags);
    if is_hash(kind) && !(1..=KEY_BYTES_MAX).contains(&key_size) {
        let range = format!("1 to {KEY_BYTES_MAX}");
        return Some(format!("keys of {key_size} bytes; as in a kernel, a hash's have {range}"));
    }
    let is_indexed = is_array(kind) || is_storage(kind);
    if is_of_maps(kind) {
        let why = "here a map of maps has keys of 4 and at least one";
        return (key_size != INDEX_BYTES || entries == 0)
            .then(|| format!("keys of {key_size} bytes and {entries} entries; {why}"));
    }
    if is_indexed && key_size != INDEX_BYTES {
        return Some(format!("keys of {key_size} bytes; as in a kernel, only a hash's have not 4"));
    }
    if is_queue(kind) && key_size != 0 {
        return Some(format!("keys of {key_size} bytes; as in a kernel, a queue has none"));
    }
    if is_ring(kind) && (key_size != 0 || value_size != 0 || entries == 0) {
        let why = "as in a kernel, a ring buffer has neither, and max_entries is its size";
        return Some(format!("keys of {key_size} bytes and values of {value_size}; {why}"));
    }
    if kind == kind::PERF_EVENT_ARRAY && (key_size != INDEX_BYTES || value_size != INDEX_BYTES) {
        let why = "as in a kernel, those of perf events have 4";
        return Some(format!("keys of {key_size} bytes and values of {value_size}; {why}"));
    }
    if forgets(kind) && flags & NO_PREALLOC != 0 {
        let why = "as in a kernel, a hash that forgets is made without BPF_F_NO_PREALLOC";
        return Some(format!("flags {flags:#x}; {why}"));
    }
    let is_known = is_indexed || is_hash(kind) || is_queue(kind);
    if is_storage(kind) && value_size > STORAGE_BYTES_MAX {
        let owner = owner(kind);
        let most = format!("as in a kernel, those of {owner} have {STORAGE_BYTES_MAX} at the most");
        return Some(format!("values of {value_size} bytes; {most}"));
    }
    if is_storage(kind) && (entries != 0 || flags & NO_PREALLOC == 0) {
        let why = "as in a kernel, storage has map_flags BPF_F_NO_PREALLOC and no max_entries";
        return Some(format!("{entries} entries and flags {flags:#x}; {why}"));
    }
    if !is_storage(kind) && is_known && entries == 0 {
        return Some("no entries; as in a kernel, max_entries says how many it has".to_owned());
    }
    (is_known && !(1..=VALUE_BYTES_MAX).contains(&value_size)).then(|| {
        format!("values of {value_size} bytes; as in a kernel, they have 1 to {VALUE_BYTES_MAX}")
    })
}
