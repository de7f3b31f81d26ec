//! Goal: the structures that are not exact keep what they promise instead.
//!
//! Method: random pushes, pops and removals beside a plain vector.

use runqueue::hold::Random;
use runqueue::{BitmapLevels, FifoList, LEVELS, RunQueue, TimeRing, before};

const ITEMS: u32 = 200;

/// Drives a queue with keys that `draw` gives and shows every pop to `check`: the queued items in
/// order of arrival, with keys, and the place of the popped one.
fn drive<Q: RunQueue>(
    mut queue: Q,
    mut draw: impl FnMut(&mut Random, u64) -> u64,
    mut check: impl FnMut(&[(u64, u32)], usize),
) {
    let mut random = Random::new(11);
    let (mut queued, mut now) = (Vec::new(), 0u64.wrapping_sub(1 << 20));
    // The present begins with the first key that there is.
    queue.push(0, now);
    assert_eq!(queue.pop(), Some(0));
    for _ in 0..20_000 {
        let item = random.below(u64::from(ITEMS)) as u32;
        let place = queued.iter().position(|&(_, other)| other == item);
        match (random.below(4), place) {
            (0 | 1, None) => {
                let key = draw(&mut random, now);
                queue.push(item, key);
                queued.push((key, item));
            }
            (2, Some(place)) => {
                queue.remove(item);
                queued.remove(place);
            }
            _ => {
                let popped = queue.pop();
                let place = queued.iter().position(|&(_, other)| Some(other) == popped);
                assert_eq!(popped.is_none(), queued.is_empty());
                if let Some(place) = place {
                    check(&queued, place);
                    let key = queued.remove(place).0;
                    now = if before(now, key) { key } else { now };
                }
            }
        }
        assert_eq!(queue.len(), queued.len());
    }
}

#[test]
fn a_list_keeps_the_order_of_arrival() {
    let draw = |random: &mut Random, _| random.next();
    drive(FifoList::with_capacity(ITEMS as usize), draw, |_, place| assert_eq!(place, 0));
}

#[test]
fn levels_are_exact_for_their_classes() {
    let draw = |random: &mut Random, _| random.below(LEVELS as u64);
    drive(BitmapLevels::with_capacity(ITEMS as usize), draw, |queued, place| {
        let first = queued.iter().enumerate().min_by_key(|&(place, &(key, _))| (key, place));
        assert_eq!(first.map(|(place, _)| place), Some(place));
    });
}

#[test]
fn a_time_ring_is_less_than_one_granularity_off_inside_its_window() {
    for (slots, granularity) in [(16, 1000), (64, 4096), (256, 777), (1024, 1)] {
        let window = (slots as u64 - 2) * granularity;
        let draw = |random: &mut Random, now: u64| now.wrapping_add(random.below(window));
        let mut off = 0;
        drive(TimeRing::new(ITEMS as usize, slots, granularity), draw, |queued, place| {
            let key = queued[place].0;
            for &(other, _) in queued {
                if before(other, key) {
                    off += 1;
                    let late = key.wrapping_sub(other);
                    assert!(late < granularity, "{late} with slots of {granularity}");
                }
            }
        });
        assert_eq!(off == 0, granularity == 1, "{slots} slots of {granularity}: {off} inversions");
    }
}
