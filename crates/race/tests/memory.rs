//! Goal: what a structure says it holds is what it holds, where that can only be estimated too.
//!
//! Method: an allocator that counts, and queues that have been in use.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use race::{StdBTreeMap, StdBinaryHeap};
use runqueue::hold::{ALL_KEYS, Increments};
use runqueue::{ExactTimeRing, PairingHeap, RedBlackTree, RunQueue};

static HELD: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: the system's allocator does the work; what it was asked for is counted beside.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ITEMS: u32 = 20_000;

/// What a queue says it holds, as a share of what was allocated for it.
fn said_of_held<Q: RunQueue>(increments: &Increments) -> f64 {
    let before = HELD.load(Ordering::Relaxed);
    let mut queue = Q::with_capacity(ITEMS as usize);
    increments.fill(&mut queue, ITEMS, 0, 3);
    increments.hold(&mut queue, 0, 5 * ITEMS as usize);
    let held = HELD.load(Ordering::Relaxed) - before;
    queue.memory_bytes() as f64 / held as f64
}

// One test only: another one would allocate beside it.
#[test]
fn structures_say_what_they_hold() {
    for keys in ALL_KEYS {
        let increments = Increments::new(keys, 1);
        let exact = 0.99..1.01;
        for (name, share, right) in [
            ("tree", said_of_held::<RedBlackTree>(&increments), exact.clone()),
            ("heap", said_of_held::<PairingHeap>(&increments), exact.clone()),
            ("ring", said_of_held::<ExactTimeRing>(&increments), exact.clone()),
            ("std heap", said_of_held::<StdBinaryHeap>(&increments), exact),
            ("std tree", said_of_held::<StdBTreeMap>(&increments), 0.9..1.15),
        ] {
            assert!(right.contains(&share), "{keys:?}, {name}: {share} of what it holds");
        }
    }
}
