//! Room in a memory, taken also while a program runs in it, and where it lies in this process.

use crate::mapping::NoAddresses;
use crate::memory::{FRAME_BYTES, FRAMES_MAX, MEMORY_BEGIN, Memory};
use std::ops::Range;

/// From this process's addresses to those that a program is shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shift(usize);

impl Shift {
    /// What a program is shown for an address.
    pub fn show<T>(self, at: *const T) -> *mut T {
        if at.is_null() { at.cast_mut() } else { at.wrapping_byte_sub(self.0).cast_mut() }
    }

    /// The address that a program was shown so.
    pub fn find<T>(self, shown: *const T) -> *mut T {
        if shown.is_null() { shown.cast_mut() } else { shown.wrapping_byte_add(self.0).cast_mut() }
    }
}

/// All room of a memory that nobody had taken.
#[derive(Debug)]
pub struct Room {
    first: *mut u8,
    /// What is not taken, the part that programs only read first.
    free: [Range<u64>; 2],
    /// Where the frames of functions begin, which programs may write as what follows, and its end.
    /// Constants lie before them.
    frames: u64,
    end: u64,
    /// How addresses are shown.
    pub shift: Shift,
}

impl Room {
    /// Room of this many bytes that programs only read, and of so many that they may write, in a
    /// memory of its own, which must live as long as what is taken of it is used.
    ///
    /// # Errors
    ///
    /// [`NoAddresses`] if this process may not have as many.
    pub fn new(read_only: usize, writable: usize) -> Result<(Room, Box<Memory>), NoAddresses> {
        let mut memory = Box::new(Memory::new(read_only, writable)?);
        let first = memory.first();
        let shift = Shift(first.addr().wrapping_sub(MEMORY_BEGIN as usize));
        // All is taken at once: what of it is given away is noted here, since the memory belongs
        // to the machine that runs programs in it.
        let below = memory.add_read_only(read_only, 1).expect("all of it");
        let above = memory.add_writable(writable, 1).expect("all of it");
        let (frames, end) = (memory.frames_begin(), above + writable as u64);
        Ok((Room { first, free: [below..frames, above..end], frames, end, shift }, memory))
    }

    /// Takes bytes of 0 and gives their address; `None` if there are not as many left.
    pub fn take(&mut self, bytes: usize, alignment: usize, read_only: bool) -> Option<u64> {
        let free = &mut self.free[usize::from(!read_only)];
        let begin = free.start.checked_next_multiple_of(alignment as u64)?;
        free.start = begin.checked_add(bytes as u64).filter(|&end| end <= free.end)?;
        Some(begin)
    }

    /// The same of what programs only read as long as they are there: it is taken back.
    pub fn take_constant(&mut self, bytes: usize, alignment: usize) -> Option<u64> {
        let free = &mut self.free[0];
        let begin = free.end.checked_sub(bytes as u64)?;
        let begin = begin - begin % alignment as u64;
        free.end = Some(begin).filter(|&begin| begin >= free.start)?;
        Some(begin)
    }

    /// Takes back all constants and all that programs may write, which nobody uses any more; where
    /// that begins.
    pub fn take_back(&mut self, memory: &mut Memory) -> u64 {
        let [read_only, written] = &mut self.free;
        let begin = read_only.end;
        // A program that is not strict may have written behind what it took.
        memory.clear_from(begin);
        read_only.end = self.frames;
        written.start = self.frames + FRAME_BYTES * FRAMES_MAX;
        begin
    }

    /// How many bytes that programs only read are left.
    pub fn read_only_left(&self) -> u64 {
        self.free[0].end - self.free[0].start
    }

    /// The address, as a program has it, of something in the memory.
    pub fn address<T>(&self, at: *const T) -> u64 {
        (at.addr().wrapping_sub(self.first.addr())) as u64 + MEMORY_BEGIN
    }

    /// What lies at an address of the memory.
    pub fn pointer(&self, address: u64) -> *mut u8 {
        self.first.wrapping_add(address.wrapping_sub(MEMORY_BEGIN) as usize)
    }

    /// Where so many bytes from an address lie, if the memory has them, and if a program may write
    /// them where they are `to_write`.
    pub fn find(&self, address: u64, bytes: usize, to_write: bool) -> Option<*mut u8> {
        let begin = if to_write { self.frames } else { MEMORY_BEGIN };
        let is_inside = begin <= address && address.checked_add(bytes as u64)? <= self.end;
        is_inside.then(|| self.pointer(address))
    }
}

#[cfg(test)]
mod tests {
    //! Goal: room that was taken back is as new, and nothing else changes. Method: an example.

    use super::*;

    #[test]
    fn room_that_is_taken_back_is_0_and_begins_anew() {
        // Not a multiple of a page of any kernel, and more than the largest.
        let bytes = (1 << 17) + 40;
        let (mut room, mut memory) = Room::new(1000 + bytes, bytes).expect("few addresses");
        let read = room.take(8, 8, true).expect("room");
        let places = |room: &mut Room| {
            assert_eq!(room.take(bytes + 1, 1, false), None);
            assert_eq!(room.take_constant(bytes + 1000, 1), None);
            [room.take(bytes, 1, false), room.take_constant(bytes, 64)].map(|at| at.expect("room"))
        };
        let mut taken = None;
        for byte in [3, 5] {
            let now = places(&mut room);
            assert_eq!(*taken.get_or_insert(now), now);
            for at in now {
                let place = memory.bytes_mut(at, bytes as u64).expect("that room");
                assert!(place.iter().all(|&one| one == 0));
                place.fill(byte);
            }
            memory.bytes_mut(read, 8).expect("that room").fill(byte);
            assert_eq!(room.take_back(&mut memory), now[1]);
            assert_eq!(memory.bytes(read, 8), Some(&[byte; 8][..]));
        }
        assert!(room.take(8, 8, true).is_some_and(|next| next == read + 8));
    }

    #[test]
    fn more_addresses_than_a_process_may_have_are_an_error_with_a_way_out() {
        let error = Room::new(1 << 56, 0).expect_err("no machine has as many").to_string();
        let said = "a simulation's memory takes 68719476736 MiB of addresses, which this process";
        assert!(error.starts_with(said) && error.contains("\nhint: raise its limit"), "{error}");
    }

    #[test]
    fn all_that_a_program_may_write_is_0_and_nothing_before_its_constants_is_lost() {
        // Both ends within one page of any kernel, and not.
        for bytes in [100, 9_000, (1 << 17) + 40] {
            let (mut room, mut memory) = Room::new(1000, bytes).expect("few addresses");
            let constant = room.take_constant(8, 1).expect("room");
            let (before, behind) = (constant - 8, room.end - 8);
            for place in [before, constant, behind] {
                memory.bytes_mut(place, 8).expect("that room").fill(7);
            }
            room.take_back(&mut memory);
            assert_eq!(memory.bytes(before, 8), Some(&[7; 8][..]), "{bytes}");
            for place in [constant, behind] {
                assert_eq!(memory.bytes(place, 8), Some(&[0; 8][..]), "{bytes}");
            }
        }
    }
}
