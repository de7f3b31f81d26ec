//! An arena: pages that a program takes and gives back, whose addresses user space has, too.
//!
//! A program keeps addresses of user space and casts one when it follows it. What a cast gives here
//! has an upper half of its own, so that it is never taken for an address of the [`Memory`]; only
//! NULL stays 0. Whatever a program does by such an address ends in the arena: a page that is not
//! there is read as 0, and what is written to it is lost. Source: Linux, kernel/bpf/arena.c and
//! arch/x86/net/bpf_jit_comp.c (`BPF_PROBE_MEM32`).
//!
//! [`Memory`]: crate::Memory

mod free;

use crate::instruction::{ARENA_UPPER, Size};
use crate::mapping::{COPIED, NoAddresses, mapped};
use free::Free;
use memmap2::MmapMut;
use std::ops::Range;

/// The first of the addresses by which a program reaches into an arena.
pub(crate) const ARENA_BEGIN: u64 = (ARENA_UPPER as u64) << 32;
/// Bytes of a page, as a power of two.
pub(crate) const PAGE_BITS: u32 = 12;
/// Bytes of a page.
pub const PAGE_BYTES: u64 = 1 << PAGE_BITS;
/// Pages that lower halves of addresses tell apart.
pub(crate) const PAGES_ADDRESSED: usize = 1 << (32 - PAGE_BITS);
/// Bytes of all of them.
pub(crate) const BYTES_ADDRESSED: u64 = 1 << 32;
/// Pages that may be there at once: 1 GiB.
const PAGES_THERE_MAX: u32 = 1 << 18;
/// How far an instruction reaches beyond an address.
const REACH: u64 = 1 << 15;
/// Where user space has an arena that says nothing of it.
const USER_BEGIN: u64 = 1 << 44;

/// The arena of an object. Pages that were never taken cost nothing but addresses.
#[derive(Debug)]
pub struct Arena {
    /// By the lower halves of addresses.
    bytes: MmapMut,
    /// Whether each page is there, 1 or 0, by its number among all.
    there: MmapMut,
    nr_there: u32,
    user_begin: u64,
    /// Pages that it may have.
    pages: u32,
    /// Pages that nobody took, counted from its first.
    free: Free,
}

/// What became of pages that should be kept from being taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// Nobody can take them.
    Done,
    /// Some are not the arena's.
    Outside,
    /// Somebody has some of them.
    Taken,
}

impl Clone for Arena {
    fn clone(&self) -> Arena {
        let [mut bytes, mut there] =
            [BYTES_ADDRESSED as usize, PAGES_ADDRESSED].map(|len| mapped(len).expect(COPIED));
        for page in self.pages_there() {
            there[page.start >> PAGE_BITS] = 1;
            bytes[page.clone()].copy_from_slice(&self.bytes[page]);
        }
        Arena { bytes, there, free: self.free.clone(), ..*self }
    }
}

impl PartialEq for Arena {
    fn eq(&self, other: &Arena) -> bool {
        self.user_begin == other.user_begin
            && self.free == other.free
            && self.pages_there().eq(other.pages_there())
            && self.pages_there().all(|page| self.bytes[page.clone()] == other.bytes[page])
    }
}

impl Arena {
    /// One of so many pages, none of which is there, at an address of user space; 0 for any.
    ///
    /// # Errors
    ///
    /// [`NoAddresses`] if this process may not have as many as an arena takes.
    pub fn new(user_begin: u64, pages: u32) -> Result<Arena, NoAddresses> {
        Ok(Arena {
            bytes: mapped(BYTES_ADDRESSED as usize)?,
            there: mapped(PAGES_ADDRESSED)?,
            nr_there: 0,
            user_begin: if user_begin == 0 { USER_BEGIN } else { user_begin },
            pages,
            free: Free::new(pages),
        })
    }

    /// Where user space has its first page.
    pub fn user_begin(&self) -> u64 {
        self.user_begin
    }

    /// Puts so many bytes of variables, the first of which are these and the others 0, on the last
    /// pages; the address of the first, or `None` if there is no room.
    /// Source: libbpf, `bpf_object__load`, of 7.3; it put them on the first pages before.
    pub fn place(&mut self, wanted: usize, bytes: &[u8]) -> Option<u64> {
        assert!(bytes.len() <= wanted, "{} bytes are to be {wanted}", bytes.len());
        let pages = u32::try_from((wanted as u64).div_ceil(PAGE_BYTES)).ok()?;
        let first = self.pages.checked_sub(pages).filter(|&first| self.put(first, pages))?;
        let begin = self.address(first);
        let at = begin as u32 as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        Some(begin)
    }

    /// Takes pages of 0, those at an address for user space if it is not 0; the address of the
    /// first, or 0. Source: `arena_alloc_pages`.
    pub fn allocate(&mut self, address: u64, pages: u32) -> u64 {
        let first = match address {
            0 => self.free.find(pages),
            _ => self.whole_page(address),
        };
        match first.filter(|_| pages != 0) {
            Some(first) if self.put(first, pages) => self.address(first),
            _ => 0,
        }
    }

    /// Gives pages back, whoever has them; how many were looked at. Source: `arena_free_pages`.
    pub fn give_back(&mut self, address: u64, pages: u32) -> u32 {
        let first = self.page(address);
        let pages = pages.min(self.pages.saturating_sub(first));
        if address == 0 || pages == 0 {
            return 0;
        }
        self.free.give(first, pages);
        let mut nr = 0;
        for page in first..first + pages {
            let at = self.address(page) as u32 as usize;
            if std::mem::take(&mut self.there[at >> PAGE_BITS]) != 0 {
                self.bytes[at..at + PAGE_BYTES as usize].fill(0);
                nr += 1;
            }
        }
        self.nr_there -= nr;
        pages
    }

    /// Keeps pages at an address from being taken. Source: `arena_reserve_pages`.
    pub fn reserve(&mut self, address: u64, pages: u32) -> Reserved {
        let Some(first) = self.whole_page(address).filter(|_| pages != 0) else {
            return Reserved::Done;
        };
        if u64::from(first) + u64::from(pages) > self.pages.into() {
            return Reserved::Outside;
        }
        if !self.free.has(first, pages) {
            return Reserved::Taken;
        }
        self.free.take(first, pages);
        Reserved::Done
    }

    /// Writes what user space writes at its address; `None` if there are no pages for it.
    pub fn fill(&mut self, address: u64, bytes: &[u8]) -> Option<()> {
        let begin = address.checked_sub(self.user_begin)?;
        let end = begin.checked_add(bytes.len() as u64)?;
        if end > u64::from(self.pages) * PAGE_BYTES {
            return None;
        }
        for (at, &byte) in (i64::from(address as u32)..).zip(bytes) {
            *self.is_there(at, Size::Byte).then(|| &mut self.bytes[at as usize])? = byte;
        }
        Some(())
    }

    /// The number at an address of any form, as its lower half says; 0 where no page is.
    pub fn read(&self, address: u64, size: Size) -> u64 {
        self.load(cast(address), size).unwrap_or(0)
    }

    /// Writes the lower bytes of a number at such an address, if there is a page.
    pub fn write(&mut self, address: u64, size: Size, value: u64) {
        self.store(cast(address), size, value);
    }

    /// Bytes at an address of user space, for whoever looks at them: 0 where no page is. `None` if
    /// they are not all the arena's.
    pub(crate) fn shown(&self, address: u64, bytes: u64) -> Option<&[u8]> {
        let size = u64::from(self.pages) * PAGE_BYTES;
        let behind = address.checked_sub(self.user_begin).filter(|&behind| behind < size)?;
        let at = address as u32 as usize;
        (bytes <= size - behind).then(|| &self.bytes[at..at + bytes as usize])
    }

    /// The number that a program reads at an address; `None` if that is not the arena's.
    pub(crate) fn load(&self, address: u64, size: Size) -> Option<u64> {
        let at = place_of(address)?;
        let mut word = [0; 8];
        if self.is_there(at, size) {
            let bytes = size.bytes() as usize;
            word[..bytes].copy_from_slice(&self.bytes[at as usize..at as usize + bytes]);
        }
        Some(u64::from_le_bytes(word))
    }

    /// Writes the lower bytes of a number at an address, if there is a page. `None` if the address
    /// is not the arena's.
    pub(crate) fn store(&mut self, address: u64, size: Size, value: u64) -> Option<()> {
        let at = place_of(address)?;
        if self.is_there(at, size) {
            let bytes = size.bytes() as usize;
            let place = &mut self.bytes[at as usize..at as usize + bytes];
            place.copy_from_slice(&value.to_le_bytes()[..bytes]);
        }
        Some(())
    }

    /// Where its first byte lies in this process, and that of the table of pages that are there.
    pub(crate) fn first(&mut self) -> (*mut u8, *const u8) {
        (self.bytes.as_mut_ptr(), self.there.as_ptr())
    }

    fn is_there(&self, at: i64, size: Size) -> bool {
        let last = at + size.bytes() as i64 - 1;
        [at, last].into_iter().all(|at| {
            let page = usize::try_from(at >> PAGE_BITS).ok();
            page.and_then(|page| self.there.get(page)).is_some_and(|&there| there != 0)
        })
    }

    /// Makes pages be there, if they are free and there may be as many.
    fn put(&mut self, first: u32, pages: u32) -> bool {
        let is_full = self.nr_there.saturating_add(pages) > PAGES_THERE_MAX;
        if is_full || !self.free.has(first, pages) {
            return false;
        }
        self.free.take(first, pages);
        let at = self.address(first) as u32 as usize >> PAGE_BITS;
        self.there[at..at + pages as usize].fill(1);
        self.nr_there += pages;
        true
    }

    /// The address of a page for user space.
    fn address(&self, page: u32) -> u64 {
        self.user_begin + u64::from(page) * PAGE_BYTES
    }

    /// The page with the lower half of an address.
    fn page(&self, address: u64) -> u32 {
        (address as u32).wrapping_sub(self.user_begin as u32) >> PAGE_BITS
    }

    /// The page that begins there, if one does.
    fn whole_page(&self, address: u64) -> Option<u32> {
        address.is_multiple_of(PAGE_BYTES).then(|| self.page(address))
    }

    /// The bytes of each page that is there.
    fn pages_there(&self) -> impl Iterator<Item = Range<usize>> {
        let pages = (0..self.pages).map(|page| self.address(page) as u32 as usize);
        let there = pages.filter(|at| self.there[at >> PAGE_BITS] != 0);
        there.map(|at| at..at + PAGE_BYTES as usize)
    }
}

/// What a cast gives for an address.
fn cast(address: u64) -> u64 {
    ARENA_BEGIN | address & u64::from(u32::MAX)
}

/// How far an address is behind the first that a cast gives, or behind NULL, if an instruction
/// reaches so far from there.
fn place_of(address: u64) -> Option<i64> {
    let distance = |begin: u64, bytes| {
        let behind = address.wrapping_sub(begin);
        (behind.wrapping_add(REACH) < bytes + 2 * REACH).then_some(behind as i64)
    };
    distance(ARENA_BEGIN, BYTES_ADDRESSED).or_else(|| distance(0, 1))
}

/// Whether a program that has no pointer could mean an arena's first page by this address.
pub(crate) fn is_next_to_null(address: u64) -> bool {
    address.wrapping_add(REACH) <= 2 * REACH
}
