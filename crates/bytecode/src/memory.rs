//! The one range of addresses that a program may touch.
//!
//! Addresses are numbers from [`MEMORY_BEGIN`] on, never those of this process: a program that
//! prints or compares addresses does the same in every process, and a NULL with an offset of a
//! field is outside. The lower part may only be read by programs, the upper part is theirs.

use crate::arena::Arena;
use crate::instruction::Size;
use crate::mapping::{COPIED, NoAddresses, clear_from, mapped};
use memmap2::MmapMut;

/// The first address. What lies below is NULL and all that a field's offset can make of it.
pub const MEMORY_BEGIN: u64 = 1 << 16;

/// Bytes of a function's frame, and how many may be in use. Source: Linux, include/linux/filter.h
/// (`MAX_BPF_STACK`) and include/linux/bpf_verifier.h (`MAX_CALL_FRAMES`).
pub const FRAME_BYTES: u64 = 512;
/// Functions that may be in each other.
pub const FRAMES_MAX: u64 = 8;

/// All that a program may touch. What it holds never moves, also when the memory itself does.
#[derive(Debug)]
pub struct Memory {
    bytes: MmapMut,
    /// Where the upper part begins, as an index.
    writable: usize,
    /// How much of each part is taken.
    taken: [usize; 2],
    /// What its program shares with user space. It has addresses of its own.
    arena: Option<Box<Arena>>,
}

/// How large the parts of a memory are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of both parts.
    pub(crate) bytes: u64,
    /// Where the upper part begins, from the first byte.
    pub(crate) writable: u64,
}

impl Layout {
    /// The end of the first frame.
    pub(crate) fn outermost_frame(self) -> u64 {
        MEMORY_BEGIN + self.writable + FRAME_BYTES
    }

    /// The end of the last frame: no function may be deeper.
    pub(crate) fn deepest_frame(self) -> u64 {
        MEMORY_BEGIN + self.writable + FRAME_BYTES * FRAMES_MAX
    }
}

/// There is no room for what should be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory is full: {wanted} bytes more do not fit into {bytes}")]
pub struct Full {
    wanted: usize,
    bytes: usize,
}

impl Clone for Memory {
    fn clone(&self) -> Memory {
        let mut bytes = mapped(self.bytes.len()).expect(COPIED);
        bytes.copy_from_slice(&self.bytes);
        Memory { bytes, arena: self.arena.clone(), ..*self }
    }
}

impl PartialEq for Memory {
    fn eq(&self, other: &Memory) -> bool {
        self.layout() == other.layout()
            && self.taken == other.taken
            && self.arena == other.arena
            && *self.bytes == *other.bytes
    }
}

impl Memory {
    /// Memory of this many bytes that can only be read, and that can be written too, besides the
    /// frames of functions. All are 0. Bytes that are never touched cost nothing.
    ///
    /// # Errors
    ///
    /// [`NoAddresses`] if this process may not have as many.
    pub fn new(read_only: usize, writable: usize) -> Result<Memory, NoAddresses> {
        let frames = (FRAME_BYTES * FRAMES_MAX) as usize;
        let read_only = read_only.next_multiple_of(16);
        let bytes = mapped(read_only + frames + writable)?;
        Ok(Memory { bytes, writable: read_only, taken: [0, read_only + frames], arena: None })
    }

    /// How large its parts are.
    pub fn layout(&self) -> Layout {
        Layout { bytes: self.bytes.len() as u64, writable: self.writable as u64 }
    }

    /// Where its first byte, that of [`MEMORY_BEGIN`], lies in this process. Whoever goes beyond
    /// this module by that pointer sees to it that nobody else uses the same bytes meanwhile.
    pub fn first(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    /// The arena of the program that runs in it, if it has one.
    pub fn arena(&mut self) -> Option<&mut Arena> {
        self.arena.as_deref_mut()
    }

    /// Gives it the arena of a program, instead of another's. A machine that has the memory knows
    /// where its arena lies, so nobody does so then.
    pub fn set_arena(&mut self, arena: Option<Arena>) {
        self.arena = arena.map(Box::new);
    }

    /// Whether it has an arena.
    pub fn has_arena(&self) -> bool {
        self.arena.is_some()
    }

    /// The arena, to be read.
    pub(crate) fn arena_to_read(&self) -> Option<&Arena> {
        self.arena.as_deref()
    }

    /// Takes room that programs may only read, and gives its address.
    ///
    /// # Errors
    ///
    /// [`Full`] if there is not as much left.
    pub fn add_read_only(&mut self, bytes: usize, alignment: usize) -> Result<u64, Full> {
        self.add(0, self.writable, bytes, alignment)
    }

    /// Takes room that programs may write, and gives its address.
    ///
    /// # Errors
    ///
    /// [`Full`] if there is not as much left.
    pub fn add_writable(&mut self, bytes: usize, alignment: usize) -> Result<u64, Full> {
        self.add(1, self.bytes.len(), bytes, alignment)
    }

    fn add(&mut self, part: usize, end: usize, bytes: usize, align: usize) -> Result<u64, Full> {
        let at = self.taken[part].next_multiple_of(align);
        let after = at.checked_add(bytes).filter(|&after| after <= end);
        self.taken[part] = after.ok_or(Full { wanted: bytes, bytes: end })?;
        Ok(MEMORY_BEGIN + at as u64)
    }

    /// Where the frame of the outermost function begins.
    pub(crate) fn frames_begin(&self) -> u64 {
        MEMORY_BEGIN + self.writable as u64
    }

    /// The bytes at an address, if all of them are there.
    pub fn bytes(&self, address: u64, bytes: u64) -> Option<&[u8]> {
        let at = usize::try_from(address.checked_sub(MEMORY_BEGIN)?).ok()?;
        self.bytes.get(at..at.checked_add(usize::try_from(bytes).ok()?)?)
    }

    /// As [`Memory::bytes`], where an address of user space means the arena's bytes there.
    pub fn shown(&self, address: u64, bytes: u64) -> Option<&[u8]> {
        let arena = || self.arena.as_ref()?.shown(address, bytes);
        self.bytes(address, bytes).or_else(arena)
    }

    /// As [`Memory::bytes`], for whoever may write everything.
    pub fn bytes_mut(&mut self, address: u64, bytes: u64) -> Option<&mut [u8]> {
        let at = usize::try_from(address.checked_sub(MEMORY_BEGIN)?).ok()?;
        self.bytes.get_mut(at..at.checked_add(usize::try_from(bytes).ok()?)?)
    }

    /// Makes all bytes from an address on 0 again. Costs what was touched.
    ///
    /// # Panics
    ///
    /// If it has no such address.
    pub(crate) fn clear_from(&mut self, address: u64) {
        clear_from(&mut self.bytes, (address - MEMORY_BEGIN) as usize);
    }

    /// Copies bytes, which may overlap, for whoever may write everything.
    pub fn copy(&mut self, to: u64, from: u64, bytes: u64) -> Option<()> {
        self.bytes(to, bytes)?;
        self.bytes(from, bytes)?;
        let [to, from] = [to, from].map(|address| (address - MEMORY_BEGIN) as usize);
        self.bytes.copy_within(from..from + bytes as usize, to);
        Some(())
    }

    /// Whether a program may write these bytes.
    pub fn is_writable(&self, address: u64, bytes: u64) -> bool {
        let begin = MEMORY_BEGIN + self.writable as u64;
        let size = (self.bytes.len() - self.writable) as u64;
        address.checked_sub(begin).is_some_and(|at| at < size && size - at >= bytes)
    }

    /// The number at an address.
    pub fn load(&self, address: u64, size: Size) -> Option<u64> {
        let mut word = [0; 8];
        let bytes = self.bytes(address, size.bytes())?;
        word[..bytes.len()].copy_from_slice(bytes);
        Some(u64::from_le_bytes(word))
    }

    /// Writes the lower bytes of a number, for whoever may write everything.
    pub fn store(&mut self, address: u64, size: Size, value: u64) -> Option<()> {
        let bytes = self.bytes_mut(address, size.bytes())?;
        let count = bytes.len();
        bytes.copy_from_slice(&value.to_le_bytes()[..count]);
        Some(())
    }
}
