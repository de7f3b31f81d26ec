//! Memory of this process that never moves.

use memmap2::{MmapMut, MmapOptions, UncheckedAdvice};
use std::ops::Range;

/// Bytes of the largest pages that kernels have: a multiple of those of all others.
const PAGE_BYTES_MAX: usize = 1 << 16;

/// So many bytes of 0, which cost nothing but addresses until they are touched.
///
/// # Panics
///
/// If this process may not have as many addresses.
pub(crate) fn mapped(bytes: usize) -> MmapMut {
    let mapped = MmapOptions::new().len(bytes).no_reserve_swap().map_anon();
    mapped.expect("addresses for a memory")
}

/// Makes bytes 0 again. Whole pages go back to the kernel, so that this costs what was touched of
/// them and no more. What is behind the last byte, to the end of its page, must be 0.
pub(crate) fn clear(mapped: &mut MmapMut, bytes: Range<usize>) {
    let pages = bytes.start.next_multiple_of(PAGE_BYTES_MAX).min(bytes.end);
    mapped[bytes.start..pages].fill(0);
    let advice = UncheckedAdvice::DontNeed;
    // SAFETY: they are private pages of no file, which then read as 0, and `mapped` is borrowed
    // exclusively. They begin with a page of the kernel's, so that none before them is lost.
    let are_gone = unsafe { mapped.unchecked_advise_range(advice, pages, bytes.end - pages) };
    if are_gone.is_err() {
        // Those that were locked to stay, for one.
        mapped[pages..bytes.end].fill(0);
    }
}
