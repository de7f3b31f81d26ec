//! Goal: a queue allocates nothing after it was made, wherever keys go.
//!
//! Method: an allocator that counts, and keys near, far, and so far that they wait beyond the rest;
//! they come in no order, so that whoever puts many in order at once has to.

use runqueue::hold::Random;
use runqueue::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Allocations of this thread: other tests have their own.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: the system's allocator does the work; that it was asked is counted beside.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocates_nothing<Q: RunQueue>() {
    if !Q::is_here() {
        return;
    }
    for capacity in [1, 20, 33, 60, 97, 130, 200, 1000] {
        for seed in 0..20 {
            let mut queue = Q::with_capacity(capacity as usize);
            let mut random = Random::new(seed);
            let mut now = 0u64;
            let before = ALLOCATIONS.get();
            for _ in 0..20 {
                // So near that they fit a fine tier, from here, from afar, and from farther still.
                let far = 1u64 << (50 + random.below(12));
                let places = [0, far, far + (1 << (40 + random.below(20)))];
                let (near, least) = (1 << (1 + random.below(30)), now);
                for item in 0..capacity {
                    if queue.contains(item) {
                        continue;
                    }
                    let away = places[random.below(3) as usize];
                    queue.push(item, least.wrapping_add(away).wrapping_add(random.below(near)));
                }
                for _ in 0..1 + random.below(u64::from(capacity)) {
                    let Some(item) = queue.pop() else { break };
                    now = queue.key(item);
                }
                queue.for_each(&mut |_, _| {});
            }
            let after = ALLOCATIONS.get();
            assert_eq!(after, before, "{}, capacity {capacity}, seed {seed}", Q::NAME);
        }
    }
}

macro_rules! nothing {
    ($($name:ident: $queue:ty;)*) => { $(
        #[test]
        fn $name() {
            allocates_nothing::<$queue>();
        }
    )* };
}

nothing! {
    fifo: FifoList;
    bitmap_levels: BitmapLevels;
    time_ring: TimeRing;
    red_black_tree: RedBlackTree;
    gavl_tree: GavlTree;
    binary_heap: BinaryHeap;
    four_ary_heap: FourAryHeap;
    pairing_heap: PairingHeap;
    skip_list: SkipList;
    calendar_queue: CalendarQueue;
    radix_wheel: RadixWheel;
    exact_time_ring: ExactTimeRing;
    exact_time_ring_scalar: ExactTimeRingScalar;
    exact_time_ring_avx2: ExactTimeRingAvx2;
    exact_time_ring_avx512: ExactTimeRingAvx512;
}
