//! The structures schedulers queue tasks in. They know nothing of scheduling: they hold
//! numbers, in an order.
//!
//! # One trait
//!
//! [`RunQueue`] is what a scheduler asks of a queue of runnable tasks: push, pop, peek, remove
//! any task (it went to sleep), requeue (its key changed), and a walk in order.
//!
//! - **Items are numbers** below a capacity that the queue is told once. All memory is taken
//!   then; a queue has room for every item there is, so it can never run full, and nothing is
//!   allocated while it is used.
//! - **Links live in a line of the item.** Each structure keeps an array with one 64-byte line for
//!   each item that holds its key and links, as a kernel embeds an `rb_node` in a task. So what a
//!   structure costs in cache misses here is what it costs in a kernel, and no structure is
//!   faster in a race because its nodes happen to lie close together.
//! - **Keys are `u64` and wrap**, compared as the kernel compares times ([`before`]).
//! - **Order is exact**; equal keys leave in order of arrival. The three structures that do not
//!   promise this by design say so ([`RunQueue::EXACT`]).
//! - **Wrong books are caught**: pushing a queued item or removing one that is not queued panics.
//!
//! # Which one
//!
//! | structure | push | pop | remove | choose it |
//! | --- | --- | --- | --- | --- |
//! | [`FifoList`] | O(1) | O(1) | O(1) | for turns; ignores keys |
//! | [`BitmapLevels`] | O(1) | O(1) | O(1) | for 140 classes |
//! | [`TimeRing`] | O(1) | O(slots/64) | O(1) | where one granularity of error is allowed |
//! | [`RedBlackTree`] | O(log n) | O(log n) | O(log n) | for short worst cases |
//! | [`GavlTree`] | O(log n) | O(1) average | O(log n) | as the tree above, mostly popped |
//! | [`BinaryHeap`] | O(1) average | O(log n) | O(log n) | as a reference |
//! | [`FourAryHeap`] | O(1) average | O(log n) | O(log n) | for 8 to 100 items |
//! | [`PairingHeap`] | O(1) | O(log n) amortised | O(log n) amortised | for up to 4 items |
//! | [`SkipList`] | O(log n) to its lanes' limit | O(1) | O(1) | for few items, often removed |
//! | [`CalendarQueue`] | O(1) amortised | O(1) amortised | O(1) | for steady keys without ties |
//! | [`RadixWheel`] | O(1) | O(1) amortised | O(1) | for dense keys and ties |
//! | [`ExactTimeRing`] | O(1) | O(1) amortised | O(1) amortised | where its code can be afforded |
//!
//! [`Fifo`], [`Ordered`] and [`Tournament`] are the simulator's: the first two hand out positions
//! and cursors, which a scan of a dispatch queue needs and a run queue does not; the last holds one
//! key a CPU. `examples/simulator_queues.rs` compares them with others at their jobs.
//!
//! # What is checked, and what is not
//!
//! Exact order, by random operations against a sorted list and by hashes of long loops
//! (`tests/exact_order.rs`, `make test-race`, `make fuzz`). `make test-sanitized` runs all tests
//! under the address sanitizer, and the ring's under valgrind's memcheck.
//!
//! Memory is only touched in safe Rust, vectors included: they are arrays that are cast whole. What
//! is unsafe touches none: calls of functions for processors that were asked for them, and asking
//! for a cache line. So there is no aliasing, no bound and no alignment that the compiler does not
//! check, and nothing for Miri to look at but the casts of `bytemuck`.

#![deny(unsafe_code)]

mod arena;
mod binary_heap;
mod binary_tree;
mod bitmap_levels;
mod calendar_queue;
mod entry;
mod exact_time_ring;
mod fifo;
mod fifo_list;
mod four_ary_heap;
mod gavl_tree;
pub mod hold;
mod lists;
mod ordered;
mod pairing_heap;
mod radix_wheel;
mod red_black_tree;
mod run_queue;
mod skip_list;
mod time_ring;
mod tournament;

pub use binary_heap::BinaryHeap;
pub use bitmap_levels::{BitmapLevels, LEVELS};
pub use calendar_queue::CalendarQueue;
pub use exact_time_ring::{
    ExactTimeRing, ExactTimeRingAvx2, ExactTimeRingAvx512, ExactTimeRingScalar, Lanes,
};
pub use fifo::{Fifo, Reached};
pub use fifo_list::FifoList;
pub use four_ary_heap::FourAryHeap;
pub use gavl_tree::{GavlTree, GavlTreeDelete, GavlTreeOf, GavlTreePublished, avl_height_max};
pub use ordered::{Key, Ordered};
pub use pairing_heap::PairingHeap;
pub use radix_wheel::RadixWheel;
pub use red_black_tree::RedBlackTree;
pub use run_queue::{RunQueue, before};
pub use skip_list::{LANES_MAX, SkipList, SkipListMuqss, SkipListOf};
pub use time_ring::TimeRing;
pub use tournament::Tournament;
