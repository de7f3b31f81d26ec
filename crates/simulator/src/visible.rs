//! What the policy sees: structures and values in one memory, at places that never change.

use bytecode::{Full, MEMORY_BEGIN, Memory};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes that policies only read: tasks, masks, queues. Source of the sum of both: the most that a
/// translated program can address.
const READ_ONLY_BYTES: usize = 1000 << 20;
/// Bytes that are theirs: values of maps, variables.
const WRITABLE_BYTES: usize = 1047 << 20;

/// The memory that a policy sees, as long as its machine.
#[derive(Debug)]
pub struct Visible {
    /// The memory itself.
    pub memory: Memory,
    first: *mut u8,
    /// How addresses are shown.
    pub shift: Shift,
}

/// From this process's addresses to those that the policy is shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shift(usize);

impl Shift {
    /// What the policy is shown for an address.
    pub fn show<T>(self, at: *const T) -> *mut T {
        if at.is_null() { at.cast_mut() } else { at.wrapping_byte_sub(self.0).cast_mut() }
    }

    /// The address that the policy was shown so.
    pub fn find<T>(self, shown: *const T) -> *mut T {
        if shown.is_null() { shown.cast_mut() } else { shown.wrapping_byte_add(self.0).cast_mut() }
    }
}

/// Something in the visible memory, which must not be used longer than that.
///
/// No reference to it may live across a call of the policy.
#[derive(Debug)]
pub struct Placed<T>(NonNull<T>);

impl<T> Placed<T> {
    /// Where it lies.
    pub fn address(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T> Deref for Placed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `Visible::place` wrote a value there that nobody else owns, and the policy
        // writes only while it is called.
        unsafe { self.0.as_ref() }
    }
}

impl<T> DerefMut for Placed<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { self.0.as_mut() }
    }
}

impl Visible {
    /// Empty memory; `natively` for a policy of this machine's own code.
    pub fn new(natively: bool) -> Visible {
        let mut memory = Memory::new(READ_ONLY_BYTES, WRITABLE_BYTES);
        let first = memory.first();
        let shift = if natively { 0 } else { first.addr().wrapping_sub(MEMORY_BEGIN as usize) };
        Visible { memory, first, shift: Shift(shift) }
    }

    fn pointer(&self, address: u64) -> *mut u8 {
        self.first.wrapping_add((address - MEMORY_BEGIN) as usize)
    }

    /// Puts a structure where the policy may only read it. It is never dropped.
    ///
    /// # Panics
    ///
    /// If there is no room; all that is placed so is limited in number.
    pub fn place<T: Copy>(&mut self, value: T) -> Placed<T> {
        let address = self.memory.add_read_only(size_of::<T>(), align_of::<T>());
        let place = self.pointer(address.expect("room for what is limited")).cast::<T>();
        // SAFETY: the room was just taken, is large enough and aligned, since the memory begins
        // with a page and its first address too.
        unsafe { place.write(value) };
        Placed(NonNull::new(place).expect("memory is not at 0"))
    }

    /// Takes room that the policy may write, of zeros.
    ///
    /// # Errors
    ///
    /// [`Full`] if there is no room.
    pub fn take(&mut self, bytes: usize, alignment: usize) -> Result<*mut u8, Full> {
        let address = self.memory.add_writable(bytes, alignment)?;
        Ok(self.pointer(address))
    }
}
