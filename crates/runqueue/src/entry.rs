//! What heaps compare: key, serial number and item in one 128-bit number.

pub(crate) type Entry = u128;

/// Highest bits first: the key, then the serial number that keeps ties in order, then the item.
#[inline(always)]
pub(crate) fn entry(key: u64, serial: u32, item: u32) -> Entry {
    u128::from(key) << 64 | u128::from(serial) << 32 | u128::from(item)
}

/// Wrap-safe as [`before`](crate::before) for the keys, then by serial number; without a branch.
#[inline(always)]
pub(crate) fn earlier(a: Entry, b: Entry) -> bool {
    (a.wrapping_sub(b) as i128) < 0
}
