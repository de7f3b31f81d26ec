//! What a strict run knows beside its values: where pointers come from, which bytes of the stack
//! were written, what the program holds.

use std::collections::{BTreeMap, BTreeSet};

use crate::arena::ARENA_BEGIN;
use crate::fault::FaultKind;
use crate::memory::{FRAME_BYTES, FRAMES_MAX};
use crate::program::Holding;

/// Bytes of all frames, and words of 8 bytes.
const STACK_BYTES: usize = (FRAME_BYTES * FRAMES_MAX) as usize;
const STACK_WORDS: usize = STACK_BYTES / 8;

/// The object that a pointer was derived from; [`Origin::NONE`] of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// Its first byte; 0 for no object.
    pub(super) begin: u64,
    /// Its size.
    pub(super) bytes: u32,
    /// Which holding it is, if it must be given back; else 0.
    pub(super) held: u32,
}

impl Origin {
    /// That of a number.
    pub(super) const NONE: Origin = Origin { begin: 0, bytes: 0, held: 0 };

    /// That of an address that a cast made for an arena, NULL included.
    pub(super) const ARENA: Origin = Origin { begin: ARENA_BEGIN, bytes: u32::MAX, held: 0 };

    /// Whether it is of a number.
    pub(super) fn is_none(self) -> bool {
        self.begin == 0
    }

    /// This one if a value is an address of its object, or that of its end; else none.
    pub(super) fn if_at(self, value: u64) -> Origin {
        let is_at = value.wrapping_sub(self.begin) <= self.bytes.into();
        if is_at && !self.is_none() { self } else { Origin::NONE }
    }

    /// That of whoever is one, the other being none.
    pub(super) fn or(self, other: Origin) -> Origin {
        if self.is_none() { other } else { self }
    }
}

/// What a call reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Reads a structure, of whose bytes somebody must have written one.
    Read,
    /// Reads bytes of which all count, such as a key.
    ReadAll,
    /// Writes.
    Write,
}

/// Origins of what memory holds, and what was written. One run of a program is known at a time.
#[derive(Debug)]
pub(super) struct Shadow {
    stack_begin: u64,
    /// Whether instructions are of their functions' own files.
    pub(super) own_lines: Vec<bool>,
    /// Variables that hold pointers of the kernel's.
    pub(super) pointers: BTreeSet<u64>,
    /// Whether what C leaves open and BPF does not is refused.
    pub(super) refuses_open: bool,
    /// Where the present call came from, see [`Fault::own`](crate::Fault::own).
    pub(super) calls_own: Option<usize>,
    /// Origins of words of the stack.
    words: Box<[Origin; STACK_WORDS]>,
    /// Bytes of the stack that were written.
    written: Box<[bool; STACK_BYTES]>,
    /// Words of the program's own memory in which a call put a pointer.
    kept: BTreeSet<u64>,
    /// What the present call was given, and where it comes from.
    pub(super) given: [u64; 5],
    pub(super) given_origins: [Origin; 5],
    /// Origins of the arguments of a function that is entered now, if its caller is the program.
    pub(super) passed: Option<[Origin; 5]>,
    /// The origin of the answer of the function that returned last.
    pub(super) answer: Origin,
    /// What must be given back, by number, and the instruction that got it.
    held: BTreeMap<u32, usize>,
    /// What may be used as long as the lock is held.
    lent: BTreeSet<u32>,
    last_held: u32,
    /// Iterators that were begun, by address, and where.
    begun: BTreeMap<u64, usize>,
    /// The lock that is held, and where it was taken.
    locked: Option<(u64, usize)>,
}

impl Shadow {
    /// Of a machine whose first frame begins there.
    pub(super) fn new(stack_begin: u64, own_lines: Vec<bool>) -> Shadow {
        Shadow {
            stack_begin,
            own_lines,
            pointers: BTreeSet::new(),
            refuses_open: true,
            calls_own: None,
            words: Box::new([Origin::NONE; STACK_WORDS]),
            written: Box::new([false; STACK_BYTES]),
            kept: BTreeSet::new(),
            given: [0; 5],
            given_origins: [Origin::NONE; 5],
            passed: None,
            answer: Origin::NONE,
            held: BTreeMap::new(),
            lent: BTreeSet::new(),
            last_held: 0,
            begun: BTreeMap::new(),
            locked: None,
        }
    }

    /// Forgets what a run that is over held.
    pub(super) fn begin_run(&mut self) {
        self.held.clear();
        self.lent.clear();
        self.begun.clear();
        (self.locked, self.passed) = (None, None);
    }

    /// A function begins: nobody has written its frame.
    pub(super) fn begin_frame(&mut self, frame_end: u64) {
        let end = (frame_end - self.stack_begin) as usize;
        let begin = end - FRAME_BYTES as usize;
        self.written[begin..end].fill(false);
        self.words[begin / 8..end / 8].fill(Origin::NONE);
    }

    /// Which bytes of the stack these are, if they are.
    fn in_stack(&self, address: u64, bytes: u64) -> Option<std::ops::Range<usize>> {
        let begin = address.checked_sub(self.stack_begin)?;
        let end = begin.checked_add(bytes)?;
        (end <= STACK_BYTES as u64).then_some(begin as usize..end as usize)
    }

    /// Whether this is an address of the stack.
    pub(super) fn has_on_stack(&self, address: u64) -> bool {
        self.in_stack(address, 1).is_some()
    }

    /// These bytes were written; what they were derived from is not known.
    pub(super) fn note_write(&mut self, address: u64, bytes: u64) {
        let Some(range) = self.in_stack(address, bytes) else {
            if !self.kept.is_empty() {
                self.kept.remove(&(address & !7));
            }
            return;
        };
        if !range.is_empty() {
            self.words[range.start / 8..range.end.div_ceil(8)].fill(Origin::NONE);
        }
        self.written[range].fill(true);
    }

    /// A word was written whose origin is known.
    pub(super) fn note_word(&mut self, address: u64, origin: Origin) {
        self.note_write(address, 8);
        if let Some(range) = self.in_stack(address, 8).filter(|range| range.start % 8 == 0) {
            self.words[range.start / 8] = origin;
        }
    }

    /// The origin of a word of the stack.
    pub(super) fn word(&self, address: u64) -> Origin {
        let range = self.in_stack(address, 8).filter(|range| range.start % 8 == 0);
        range.map_or(Origin::NONE, |range| self.words[range.start / 8])
    }

    /// A call put a pointer in a word of the program's own memory.
    pub(super) fn keep(&mut self, address: u64) {
        self.kept.insert(address);
    }

    /// Whether a call put a pointer there, or the type there is that of a kernel's pointer.
    pub(super) fn keeps(&self, address: u64) -> bool {
        self.kept.contains(&address) || self.pointers.contains(&address)
    }

    /// Refuses to read bytes of the stack that nobody wrote: any of them, or all.
    pub(super) fn check_written(
        &self,
        address: u64,
        bytes: u64,
        touch: Touch,
    ) -> Result<(), FaultKind> {
        let Some(range) = self.in_stack(address, bytes) else { return Ok(()) };
        let written = self.written[range].iter().filter(|&&written| written).count() as u64;
        let is_fine = match touch {
            Touch::Read => written > 0 || bytes == 0,
            Touch::ReadAll => written == bytes,
            Touch::Write => true,
        };
        if is_fine || !self.refuses_open {
            Ok(())
        } else {
            Err(FaultKind::Unwritten { bytes, written })
        }
    }

    /// The origins of what the present call was given and is this value.
    pub(super) fn origins_of_given(&self, value: u64) -> impl Iterator<Item = Origin> {
        let given = self.given.into_iter().zip(self.given_origins);
        given.filter_map(move |(one, origin)| (one == value).then_some(origin))
    }

    /// Whether what was held is still, or is lent.
    pub(super) fn is_held(&self, origin: Origin) -> bool {
        let held = origin.held;
        held == 0 || self.held.contains_key(&held) || self.lent.contains(&held)
    }

    /// Something may be used from here on, as long as the lock is held.
    pub(super) fn lend(&mut self) -> u32 {
        self.last_held += 1;
        self.lent.insert(self.last_held);
        self.last_held
    }

    /// Something is held from here on, by the call at this instruction.
    pub(super) fn hold(&mut self, at: usize) -> u32 {
        self.last_held += 1;
        self.held.insert(self.last_held, at);
        self.last_held
    }

    /// What a call, at this instruction, may not do to what is held.
    pub(super) fn before_call(
        &mut self,
        at: usize,
        holding: Option<Holding>,
    ) -> Result<(), FaultKind> {
        let first = self.given[0];
        let refused = |why| Err(FaultKind::Holding(why));
        let is_begun = self.begun.contains_key(&first);
        if self.locked.is_some() && !holding.is_some_and(Holding::is_allowed_with_lock) {
            return refused("it calls something while it holds a lock");
        }
        match holding {
            None
            | Some(
                Holding::Gives
                | Holding::GivesLinked
                | Holding::Lends
                | Holding::Asks
                | Holding::Pages,
            ) => {}
            Some(Holding::Takes) => return self.give_back(0),
            Some(Holding::Links) => {
                self.give_back(1)?;
                self.lent.insert(self.given_origins[1].held);
            }
            // Nothing is put there where the second argument is NULL.
            Some(Holding::Exchanges) if self.given[1] == 0 => {}
            Some(Holding::Exchanges) => return self.give_back(1),
            Some(Holding::Begins) if is_begun => {
                return refused("it begins an iterator that was begun and not destroyed");
            }
            Some(Holding::Begins) => drop(self.begun.insert(first, at)),
            Some(Holding::Goes | Holding::Ends) if !is_begun => {
                return refused("it uses an iterator that was not begun, or is destroyed");
            }
            Some(Holding::Goes) => {}
            Some(Holding::Ends) => drop(self.begun.remove(&first)),
            Some(Holding::Locks) => self.locked = Some((first, at)),
            Some(Holding::Unlocks) => {
                if self.locked.take().is_none_or(|(lock, _)| lock != first) {
                    return refused("it gives up a lock that it does not hold");
                }
                self.lent.clear();
            }
        }
        Ok(())
    }

    fn give_back(&mut self, argument: usize) -> Result<(), FaultKind> {
        let held = self.given_origins[argument].held;
        let was_held = self.held.remove(&held).is_some();
        let why = "it gives back what it did not get, or gave back before";
        if was_held { Ok(()) } else { Err(FaultKind::Holding(why)) }
    }

    /// What is still held where the program returns, and the instruction that got it.
    pub(super) fn left(&self) -> Option<(&'static str, usize)> {
        let held = self.held.values().next();
        let held = held.map(|&at| ("what it gets here is never given back", at));
        let begun = self.begun.values().next();
        let begun = begun.map(|&at| ("the iterator that begins here is never destroyed", at));
        let locked =
            self.locked.map(|(_, at)| ("the lock that it takes here is never given up", at));
        held.or(begun).or(locked)
    }
}
