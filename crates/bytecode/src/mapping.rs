//! Memory of this process that never moves.

use memmap2::{MmapMut, MmapOptions, UncheckedAdvice};
use std::io;

/// Bytes of the largest pages that kernels have: a multiple of those of all others.
const PAGE_BYTES_MAX: usize = 1 << 16;
/// What copies of a memory, which only tests make, cannot do without.
pub(crate) const COPIED: &str = "addresses for a copy of a memory";

/// This process may not have as many addresses as a memory takes.
#[derive(Debug, thiserror::Error)]
#[error(
    "a simulation's memory takes {} MiB of addresses, which this process may not have: {source}\n\
     hint: raise its limit (`ulimit -v`), or let fewer run at once",
    bytes >> 20
)]
pub struct NoAddresses {
    bytes: usize,
    source: io::Error,
}

/// So many bytes of 0, which cost nothing but addresses until they are touched.
pub(crate) fn mapped(bytes: usize) -> Result<MmapMut, NoAddresses> {
    let mapped = MmapOptions::new().len(bytes).no_reserve_swap().map_anon();
    mapped.map_err(|source| NoAddresses { bytes, source })
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
