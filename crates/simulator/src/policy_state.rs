//! What a policy was given and holds: arguments, walks over dispatch queues, sets of CPUs.

use crate::visible::{Placed, Visible};
use policy::abi::{CpuMask, DsqIterator, ExitTaskArgs, ITERATOR_CHUNK, InitTaskArgs};
use std::collections::BTreeMap;

/// What a policy was given and holds.
#[derive(Debug)]
pub struct Given {
    /// What `init_task` is given.
    pub init_task: Placed<InitTaskArgs>,
    /// What `exit_task` is given.
    pub exit_task: Placed<ExitTaskArgs>,
    /// What stands for a run queue: its task.
    pub rq: Placed<u64>,
    /// Whether an object is interpreted.
    pub interpreted: bool,
    /// Walks of an object's.
    pub walks: Walks,
    /// Sets of CPUs of an object's.
    pub masks: OwnMasks,
}

impl Given {
    /// Nothing yet.
    pub fn new(visible: &mut Visible, interpreted: bool) -> Given {
        Given {
            init_task: visible.place(InitTaskArgs { fork: false, cgroup: std::ptr::null_mut() }),
            exit_task: visible.place(ExitTaskArgs { cancelled: false }),
            rq: visible.place(0),
            interpreted,
            walks: Walks::default(),
            masks: OwnMasks::default(),
        }
    }
}

/// Walks that are open, by their numbers less one, and those that were, to be used again.
#[derive(Debug, Default)]
pub struct Walks {
    open: Vec<Option<Box<DsqIterator>>>,
    #[expect(clippy::vec_box, reason = "they go from one list to the other")]
    free: Vec<Box<DsqIterator>>,
}

impl Walks {
    /// Ends all of them.
    pub fn clear(&mut self) {
        self.open.clear();
    }

    /// The walk with this number less one, if it is open.
    pub fn get(&mut self, at: usize) -> Option<&mut DsqIterator> {
        self.open.get_mut(at)?.as_deref_mut()
    }

    /// A walk that is yet to begin.
    pub fn take(&mut self) -> Box<DsqIterator> {
        self.free.pop().unwrap_or_else(new_walk)
    }

    /// Gives back a walk that did not begin.
    pub fn give_back(&mut self, walk: Box<DsqIterator>) {
        self.free.push(walk);
    }

    /// Ends the walk with this number less one.
    pub fn end(&mut self, at: usize) {
        self.free.extend(self.open[at].take());
    }

    /// Keeps a walk and gives its number.
    pub fn add(&mut self, walk: Box<DsqIterator>) -> u64 {
        let free = self.open.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        });
        self.open[at] = Some(walk);
        at as u64 + 1
    }
}

fn new_walk() -> Box<DsqIterator> {
    Box::new(DsqIterator {
        dsq: std::ptr::null_mut(),
        seq: 0,
        steps: 0,
        flags: 0,
        cursor: [0; 2],
        pending_slice: 0,
        pending_vtime: 0,
        next: 0,
        filled: 0,
        chunk: [std::ptr::null_mut(); ITERATOR_CHUNK],
    })
}

/// Sets of CPUs that the policy made.
#[derive(Debug, Default)]
pub struct OwnMasks {
    /// How many hold each, by its address.
    pub users: BTreeMap<u64, u32>,
    /// Those that nobody holds.
    pub free: Vec<Placed<CpuMask>>,
    /// Those that somebody holds.
    pub used: BTreeMap<u64, Placed<CpuMask>>,
}
