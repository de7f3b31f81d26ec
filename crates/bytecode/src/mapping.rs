//! Memory of this process that never moves.

use memmap2::{MmapMut, MmapOptions};

/// So many bytes of 0, which cost nothing but addresses until they are touched.
///
/// # Panics
///
/// If this process may not have as many addresses.
pub(crate) fn mapped(bytes: usize) -> MmapMut {
    let mapped = MmapOptions::new().len(bytes).no_reserve_swap().map_anon();
    mapped.expect("addresses for a memory")
}
