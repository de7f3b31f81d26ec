//! Goal: every exact structure is a sorted list with ties in order of arrival.
//!
//! Method: random operations against a plain sorted model, with keys that tie, wrap, and fall
//! behind what was popped; then the order of long hold loops, as a hash, against the red-black
//! tree's for 33 sizes, eight distributions, without and with removals.

use proptest::prelude::*;
use runqueue::hold::{ALL_KEYS, Increments, Keys, Random, mix};
use runqueue::*;
use std::sync::OnceLock;

/// What a queue is: a sorted vector.
#[derive(Default)]
struct Model {
    /// Key and item, in order.
    items: Vec<(u64, u32)>,
}

impl Model {
    fn push(&mut self, item: u32, key: u64) {
        let place = self.items.partition_point(|&(other, _)| !before(key, other));
        self.items.insert(place, (key, item));
    }

    fn place(&self, item: u32) -> Option<usize> {
        self.items.iter().position(|&(_, other)| other == item)
    }
}

const ITEMS: u32 = 300;

#[derive(Clone, Debug)]
enum Operation {
    /// Pushes, or removes if it is queued, or requeues every third time.
    Touch(u32, u64),
    Pop(u8),
    /// Pops and pushes with a later key.
    Hold(u64),
    Walk,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let key = prop_oneof![
        4 => 0u64..8,
        4 => 0u64..5_000,
        2 => (0u64..40).prop_map(|power| 1 << power),
        2 => any::<u64>().prop_map(|key| key >> 3),
        1 => Just(1u64 << 61),
    ];
    let operation = prop_oneof![
        8 => (0..ITEMS, key.clone()).prop_map(|(item, key)| Operation::Touch(item, key)),
        2 => (1u8..20).prop_map(Operation::Pop),
        6 => key.prop_map(Operation::Hold),
        1 => Just(Operation::Walk),
    ];
    prop::collection::vec(operation, 1..900)
}

/// Runs operations with keys from `origin` on, which need not be 0: keys wrap.
fn agrees<Q: RunQueue>(origin: u64, operations: &[Operation]) -> Result<(), TestCaseError> {
    if !Q::is_here() {
        return Ok(());
    }
    let mut queue = Q::with_capacity(ITEMS as usize);
    let mut model = Model::default();
    for operation in operations {
        match *operation {
            Operation::Touch(item, key) => {
                let key = origin.wrapping_add(key);
                match model.place(item) {
                    Some(place) if key % 3 == 0 => {
                        model.items.remove(place);
                        model.push(item, key);
                        queue.requeue(item, key);
                    }
                    Some(place) => {
                        model.items.remove(place);
                        queue.remove(item);
                        prop_assert!(!queue.contains(item));
                    }
                    None => {
                        model.push(item, key);
                        queue.push(item, key);
                        prop_assert!(queue.contains(item));
                        prop_assert_eq!(queue.key(item), key);
                    }
                }
            }
            Operation::Pop(count) => {
                for _ in 0..count {
                    let first = (!model.items.is_empty()).then(|| model.items.remove(0).1);
                    prop_assert_eq!(queue.pop(), first);
                }
            }
            Operation::Hold(increment) if !model.items.is_empty() => {
                let (key, item) = model.items.remove(0);
                prop_assert_eq!(queue.pop(), Some(item));
                // The queue may span no more than half of all keys.
                let key = key.wrapping_add(increment);
                let key = if key.wrapping_sub(origin) << 3 >> 3 == key.wrapping_sub(origin) {
                    key
                } else {
                    origin
                };
                model.push(item, key);
                queue.push(item, key);
            }
            Operation::Hold(_) => {}
            Operation::Walk => {
                let mut walked = Vec::new();
                queue.for_each(&mut |item, key| walked.push((key, item)));
                prop_assert_eq!(&walked, &model.items);
            }
        }
        prop_assert_eq!(queue.len(), model.items.len());
        prop_assert_eq!(queue.peek(), model.items.first().map(|&(_, item)| item));
    }
    let rest: Vec<u32> = std::iter::from_fn(|| queue.pop()).collect();
    prop_assert_eq!(rest, model.items.iter().map(|&(_, item)| item).collect::<Vec<_>>());
    Ok(())
}

/// On and beside powers of two, where structures change their minds, and between.
const SIZES: [u32; 33] = [
    1, 2, 3, 4, 5, 7, 8, 9, 10, 12, 15, 16, 17, 20, 24, 28, 31, 32, 33, 48, 63, 64, 65, 100, 127,
    128, 129, 200, 256, 500, 1000, 4000, 20_000,
];
/// From here on only an optimised build is quick enough.
const LARGE: usize = 31;

/// All distributions' increments, drawn once.
fn increments(keys: Keys) -> &'static Increments {
    static DRAWN: OnceLock<Vec<Increments>> = OnceLock::new();
    let drawn = DRAWN.get_or_init(|| ALL_KEYS.map(|keys| Increments::new(keys, 1)).into());
    &drawn[keys as usize]
}

/// The order of all pops of a hold loop, as a hash.
fn order<Q: RunQueue>(keys: Keys, items: u32, loops: usize, removing: bool) -> u64 {
    let increments = increments(keys);
    let mut random = Random::new(2);
    let mut queue = Q::with_capacity(items as usize);
    // Half of all runs cross the wrap-around.
    let start = if items.is_multiple_of(2) { 0 } else { 0u64.wrapping_sub(1 << 24) };
    increments.fill(&mut queue, items, start, 3);
    let mut hash = 0;
    for round in 0..loops {
        if let Some(item) = queue.peek() {
            hash = mix(hash, item, queue.key(item));
        }
        if removing {
            increments.hold_and_remove(&mut queue, items, round, 1, &mut random);
        } else {
            increments.hold(&mut queue, round, 1);
        }
    }
    while let Some(item) = queue.pop() {
        hash = mix(hash, item, queue.key(item));
    }
    hash
}

/// Orders of one structure for all these sizes, distributions, without and with removals.
fn orders<Q: RunQueue>(sizes: &[u32]) -> Vec<(u32, Keys, bool, u64)> {
    let mut orders = Vec::new();
    for &items in sizes {
        let loops = 2 * items as usize + 500;
        for keys in ALL_KEYS {
            for removing in [false, true] {
                orders.push((items, keys, removing, order::<Q>(keys, items, loops, removing)));
            }
        }
    }
    orders
}

fn orders_equal<Q: RunQueue>(sizes: &[u32]) {
    if !Q::is_here() {
        println!("skipped: this processor cannot run {}", Q::NAME);
        return;
    }
    static REFERENCE: OnceLock<Vec<(u32, Keys, bool, u64)>> = OnceLock::new();
    let reference = if sizes.len() == LARGE {
        REFERENCE.get_or_init(|| orders::<RedBlackTree>(sizes))
    } else {
        &orders::<RedBlackTree>(sizes)
    };
    for (ours, reference) in orders::<Q>(sizes).iter().zip(reference) {
        assert_eq!(ours, reference, "{}: items, keys, removing, hash of the order", Q::NAME);
    }
}

macro_rules! exact {
    ($($(#[$condition:meta])? $name:ident: $queue:ty, $cases:expr;)*) => {$(
        $(#[$condition])?
        mod $name {
            use super::*;

            proptest! {
                #![proptest_config(ProptestConfig::with_cases($cases))]
                #[test]
                fn agrees_with_a_sorted_vector(
                    origin in prop_oneof![Just(0), Just(0u64.wrapping_sub(3000)), any::<u64>()],
                    operations in operations(),
                ) {
                    agrees::<$queue>(origin, &operations)?;
                }
            }

            #[test]
            fn pops_in_the_order_of_the_red_black_tree() {
                orders_equal::<$queue>(&SIZES[..LARGE]);
            }

            #[test]
            #[ignore = "large: make test-race"]
            fn pops_in_the_order_of_the_red_black_tree_at_large_sizes() {
                orders_equal::<$queue>(&SIZES[LARGE..]);
            }

            #[test]
            #[ignore = "ten million operations: make test-race"]
            fn agrees_with_a_sorted_vector_for_ten_million_operations() {
                let mut runner = proptest::test_runner::TestRunner::new(
                    ProptestConfig::with_cases(25_000),
                );
                runner
                    .run(&(any::<u64>(), operations()), |(origin, operations)| {
                        agrees::<$queue>(origin, &operations)
                    })
                    .expect("the structure agrees with the model");
            }
        }
    )*};
}

exact! {
    red_black_tree: RedBlackTree, 60;
    gavl_tree: GavlTree, 60;
    gavl_tree_delete: GavlTreeDelete, 60;
    gavl_tree_published: GavlTreePublished, 60;
    binary_heap: BinaryHeap, 60;
    four_ary_heap: FourAryHeap, 60;
    pairing_heap: PairingHeap, 60;
    skip_list: SkipList, 60;
    skip_list_muqss: SkipListMuqss, 60;
    calendar_queue: CalendarQueue, 60;
    radix_wheel: RadixWheel, 60;
    exact_time_ring: ExactTimeRing, 200;
    exact_time_ring_scalar: ExactTimeRingScalar, 100;
    exact_time_ring_avx2: ExactTimeRingAvx2, 100;
    exact_time_ring_avx512: ExactTimeRingAvx512, 100;
}
