//! Pieces of memory that a program asks for while it runs: records of ring buffers, objects of its
//! own types; and what links such objects, lists and trees.
//!
//! What a list or a tree holds is known by the addresses of its nodes. Source: Linux,
//! kernel/bpf/ringbuf.c and kernel/bpf/helpers.c.

use super::{DELETED_SPARED, Maps, errno};
use crate::memory::Memory;
use crate::room::Room;
use std::collections::{BTreeMap, VecDeque};

/// Bytes before a record. Source: Linux, include/uapi/linux/bpf.h, `BPF_RINGBUF_HDR_SZ`.
const HEADER_BYTES: u64 = 8;
/// Pieces that there may be at once, and nodes in lists and trees.
const OBJECTS_MAX: usize = 1 << 20;
/// Objects that one list or tree may hold.
const LINKED_MAX: usize = 1 << 16;
/// Where an object begins.
const ALIGNMENT: usize = 16;

/// What a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// A record that is being written.
    Record,
    /// An object, and how many hold it.
    Object(u32),
    /// An object of each CPU's own.
    PerCpu,
}

#[derive(Debug)]
struct Piece {
    /// Its size; of what is each CPU's own, that of one.
    bytes: u64,
    is: Use,
}

/// What a program asked for and has not given back, by its address.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    used: BTreeMap<u64, Piece>,
    /// What was given back, by its size: the oldest are used again, when there are so many that no
    /// pointer to them is still looked at.
    free: BTreeMap<u64, VecDeque<u64>>,
    /// The nodes of lists and trees in their order, by the address of the list's head or the
    /// tree's root.
    linked: BTreeMap<u64, VecDeque<u64>>,
    /// The head or root of each node.
    owners: BTreeMap<u64, u64>,
}

impl Pieces {
    /// Room for an object, which keeps what it had in it.
    fn place(&mut self, room: &mut Room, bytes: u64) -> Option<u64> {
        let free = self.free.entry(bytes).or_default();
        let again = if free.len() > DELETED_SPARED { free.pop_front() } else { None };
        let place = again.or_else(|| room.take(bytes as usize, ALIGNMENT, false));
        place.or_else(|| free.pop_front())
    }
}

impl Maps {
    // ---- records of ring buffers --------------------------------------------------------------

    /// Room for a record in a ring buffer; 0 if there is none. Nobody reads it, so that no room
    /// comes back.
    pub fn reserve(&mut self, map: usize, bytes: u64) -> u64 {
        let map = &mut self.maps[map];
        let size = u64::from(map.view.max_entries);
        if bytes > size || self.pieces.used.len() >= OBJECTS_MAX {
            return 0;
        }
        let taken = (bytes + HEADER_BYTES).next_multiple_of(8);
        // As in a kernel, the last byte stays free.
        if map.ring.count + taken >= size {
            return 0;
        }
        let record = map.view.values + map.ring.count + HEADER_BYTES;
        map.ring.count += taken;
        self.pieces.used.insert(record, Piece { bytes, is: Use::Record });
        record
    }

    /// A record is written, or is not to be read; its size, or `None` if none begins there.
    pub fn submit(&mut self, record: u64) -> Option<u64> {
        let is_record = self.pieces.used.get(&record)?.is == Use::Record;
        is_record.then(|| self.pieces.used.remove(&record).map(|piece| piece.bytes))?
    }

    /// How many bytes of a ring buffer are taken.
    pub fn taken(&self, map: usize) -> u64 {
        self.maps[map].ring.count
    }

    // ---- objects of a program's own types -----------------------------------------------------

    /// Makes an object of zeros; for `copies`, one for each of so many CPUs. Its address, 0 if
    /// there is no room.
    pub fn new_object(
        &mut self,
        (memory, room): (&mut Memory, &mut Room),
        bytes: u64,
        copies: Option<u64>,
    ) -> u64 {
        // One behind the other they begin as they would alone.
        let stride = bytes.next_multiple_of(ALIGNMENT as u64);
        let (all, is) = match copies {
            None => (stride, Use::Object(1)),
            Some(copies) => (stride * copies, Use::PerCpu),
        };
        if self.pieces.used.len() >= OBJECTS_MAX {
            return 0;
        }
        let Some(address) = self.pieces.place(room, all) else { return 0 };
        memory.bytes_mut(address, all).expect("room that was taken").fill(0);
        let bytes = if copies.is_some() { stride } else { bytes };
        self.pieces.used.insert(address, Piece { bytes, is });
        address
    }

    /// One holds an object more; `None` if none begins there.
    pub fn hold_object(&mut self, address: u64) -> Option<()> {
        match &mut self.pieces.used.get_mut(&address)?.is {
            Use::Object(holders) => *holders += 1,
            _ => return None,
        }
        Some(())
    }

    /// Somebody who held an object does not any more; with the last one it is gone, and what is in
    /// lists and trees that begin in it is held by one less. `None` if none begins there.
    pub fn drop_object(&mut self, address: u64, nr_cpus: u64) -> Option<()> {
        if self.pieces.used.get(&address)?.is == Use::Record {
            return None;
        }
        let mut dropped = vec![address];
        while let Some(address) = dropped.pop() {
            let Some(all) = self.let_go(address, nr_cpus) else { continue };
            while let Some((&owner, _)) = self.pieces.linked.range(address..address + all).next() {
                for node in self.pieces.linked.remove(&owner).unwrap_or_default() {
                    self.pieces.owners.remove(&node);
                    dropped.extend(self.object_with(node));
                }
            }
        }
        Some(())
    }

    /// An object is held by one less; its size with all copies if that was the last.
    fn let_go(&mut self, address: u64, nr_cpus: u64) -> Option<u64> {
        let piece = self.pieces.used.get_mut(&address)?;
        let stride = piece.bytes.next_multiple_of(ALIGNMENT as u64);
        let all = match &mut piece.is {
            Use::Object(holders @ 2..) => {
                *holders -= 1;
                return None;
            }
            Use::Object(_) => stride,
            Use::PerCpu => stride * nr_cpus,
            Use::Record => return None,
        };
        self.pieces.used.remove(&address);
        self.pieces.free.entry(all).or_default().push_back(address);
        Some(all)
    }

    /// A CPU's copy of an object that each has of its own; `None` if none begins there.
    pub fn copy_of_cpu(&self, address: u64, cpu: u64) -> Option<u64> {
        let piece = self.pieces.used.get(&address)?;
        (piece.is == Use::PerCpu).then(|| address + cpu * piece.bytes)
    }

    /// Begin, size and name of the piece that has the byte at an address.
    pub fn piece_with(&self, address: u64, nr_cpus: u64) -> Option<(u64, u64, &'static str)> {
        let (&begin, piece) = self.pieces.used.range(..=address).next_back()?;
        let within = address - begin;
        let (copies, name) = match piece.is {
            Use::Record => (1, "a record of a ring buffer"),
            Use::Object(_) => (1, "an object of its own"),
            Use::PerCpu => (nr_cpus, "a CPU's copy of an object of its own"),
        };
        let number = within.checked_div(piece.bytes)?;
        (number < copies).then(|| (begin + number * piece.bytes, piece.bytes, name))
    }

    /// Where the object begins that has a node at this address; `None` if no object has.
    pub fn object_with(&self, node: u64) -> Option<u64> {
        let (&begin, piece) = self.pieces.used.range(..=node).next_back()?;
        let is_object = matches!(piece.is, Use::Object(_)) && node - begin < piece.bytes;
        is_object.then_some(begin)
    }

    // ---- lists and trees ----------------------------------------------------------------------

    /// How many nodes a list or tree has.
    pub fn nr_linked(&self, owner: u64) -> usize {
        self.pieces.linked.get(&owner).map_or(0, VecDeque::len)
    }

    /// The node with this number in a list or tree, 0 if there is none.
    pub fn linked(&self, owner: u64, number: usize) -> u64 {
        let nodes = self.pieces.linked.get(&owner);
        nodes.and_then(|nodes| nodes.get(number)).copied().unwrap_or(0)
    }

    /// Adds a node to a list or tree, in front of the one with this number or behind the last; 0,
    /// or a negative error number if it is in one already, where it stays, or there is no room.
    pub fn link(&mut self, owner: u64, node: u64, number: usize) -> i32 {
        let Pieces { linked, owners, .. } = &mut self.pieces;
        if owners.contains_key(&node) || owners.len() >= OBJECTS_MAX {
            return -errno::EINVAL;
        }
        let nodes = linked.entry(owner).or_default();
        if nodes.len() >= LINKED_MAX {
            return -errno::EINVAL;
        }
        // Who was asked where it belongs may have taken nodes out meanwhile.
        nodes.insert(number.min(nodes.len()), node);
        owners.insert(node, owner);
        0
    }

    /// Takes a node out of its list or tree, by its number there; 0 if there is none.
    pub fn unlink(&mut self, owner: u64, number: usize) -> u64 {
        let Some(nodes) = self.pieces.linked.get_mut(&owner) else { return 0 };
        let Some(node) = nodes.remove(number) else { return 0 };
        if nodes.is_empty() {
            self.pieces.linked.remove(&owner);
        }
        self.pieces.owners.remove(&node);
        node
    }

    /// Which number a node has in this list or tree, if it is in it.
    pub fn number_of_linked(&self, owner: u64, node: u64) -> Option<usize> {
        let is_here = self.pieces.owners.get(&node) == Some(&owner);
        is_here.then(|| self.pieces.linked[&owner].iter().position(|&one| one == node))?
    }
}

#[cfg(test)]
mod tests {
    //! Goal: what a hostile program does to its objects ends, and reaches nothing else. Method:
    //! examples.

    use super::*;

    const NODE_AT: u64 = 16;

    fn room() -> (Room, Box<Memory>) {
        Room::new(4096, 64 << 20).expect("few addresses")
    }

    #[test]
    fn objects_that_hold_each_other_very_deep_are_dropped_one_after_the_other() {
        let (mut room, mut memory) = room();
        let mut maps = Maps::default();
        let mut outer = maps.new_object((&mut memory, &mut room), 48, None);
        for _ in 0..200_000 {
            let inner = outer;
            outer = maps.new_object((&mut memory, &mut room), 48, None);
            assert_eq!(maps.link(outer, inner + NODE_AT, 0), 0);
        }
        assert_eq!(maps.drop_object(outer, 1), Some(()));
        assert!(maps.pieces.used.is_empty() && maps.pieces.owners.is_empty());
    }

    #[test]
    fn a_node_goes_behind_the_last_where_others_were_taken_out_meanwhile() {
        let (mut room, mut memory) = room();
        let mut maps = Maps::default();
        let root = maps.new_object((&mut memory, &mut room), 16, None);
        let nodes: Vec<u64> =
            (0..3).map(|_| maps.new_object((&mut memory, &mut room), 48, None)).collect();
        assert_eq!(maps.link(root, nodes[0], 0), 0);
        assert_eq!(maps.link(root, nodes[1], 1), 0);
        assert_eq!((maps.unlink(root, 0), maps.unlink(root, 0)), (nodes[0], nodes[1]));
        assert_eq!(maps.link(root, nodes[2], 2), 0);
        assert_eq!((maps.nr_linked(root), maps.linked(root, 0)), (1, nodes[2]));
    }

    #[test]
    fn a_list_without_nodes_takes_no_room() {
        let (mut room, mut memory) = room();
        let mut maps = Maps::default();
        let node = maps.new_object((&mut memory, &mut room), 48, None);
        for owner in (0..1000).map(|number| (number + 1) << 16) {
            assert_eq!(maps.link(owner, node, 0), 0);
            assert_eq!(maps.link(owner + 8, node, 0), -errno::EINVAL);
            assert_eq!(maps.unlink(owner, 0), node);
        }
        assert!(maps.pieces.linked.is_empty());
    }
}
