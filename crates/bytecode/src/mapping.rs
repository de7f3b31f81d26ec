//! Memory of this process that never moves.

use memmap2::{MmapMut, MmapOptions, UncheckedAdvice};

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

/// Makes all bytes from one on 0 again. Whole pages go back to the kernel, so that this costs what
/// was touched of them and no more.
pub(crate) fn clear_from(mapped: &mut MmapMut, first: usize) {
    let (pages, end) = (first.next_multiple_of(PAGE_BYTES_MAX), mapped.len());
    if pages >= end {
        return mapped[first..].fill(0);
    }
    mapped[first..pages].fill(0);
    let advice = UncheckedAdvice::DontNeed;
    // SAFETY: they are private pages of no file, which then read as 0, and `mapped` is borrowed
    // exclusively. They begin with a page of the kernel's, so that none before them is lost, and
    // end with the last one of `mapped`.
    let are_gone = unsafe { mapped.unchecked_advise_range(advice, pages, end - pages) };
    if are_gone.is_err() {
        // Those that were locked to stay, for one.
        mapped[pages..].fill(0);
    }
}
