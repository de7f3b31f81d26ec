//! Goal: the traps that exact order is lost in, one by one.
//!
//! Method: each test drives the queue into the state that is the trap, says from inside that it
//! got there, and compares every pop with a sorted model; in each form that this processor has.

use super::tiers::RUN_MIN;
use super::*;
use crate::RedBlackTree;
use crate::hold::{Increments, Keys, Random};
use std::collections::BTreeMap;

/// Runs a test in all forms.
pub(super) fn in_each_form(test: impl Fn(Lanes)) {
    [Lanes::Scalar, Lanes::Avx2, Lanes::Avx512]
        .into_iter()
        .filter(|form| form.is_here())
        .for_each(test);
}

#[test]
fn memory_is_what_the_first_page_says() {
    in_each_form(|form| {
        let few = [1, 10, 32, 33, 64, 97, 128, 129, 1_000_000];
        // There are more slots from three times a power of two on.
        for capacity in few.into_iter().chain((5..16).map(|power| (3 << power) + 3)) {
            let held = ExactTimeRing::new(capacity, form).memory_bytes();
            let small = capacity <= packed::places(form);
            let (least, each) = if small { (6 << 10, 144) } else { (20 << 10, 328) };
            assert!(held <= least + each * capacity, "{form:?}, {capacity}: {held}");
        }
    });
}

/// A queue beside its model: key's distance from `ORIGIN` and arrival give the item.
pub(super) struct Checked {
    pub queue: ExactTimeRing,
    model: BTreeMap<(i64, u64), u32>,
    pub place: Vec<(i64, u64)>,
    arrivals: u64,
}

/// Keys begin shortly before the wrap-around.
const ORIGIN: u64 = 0u64.wrapping_sub(1000);

impl Checked {
    pub fn new(form: Lanes, capacity: usize) -> Self {
        Checked {
            queue: ExactTimeRing::new(capacity, form),
            model: BTreeMap::new(),
            place: vec![(0, 0); capacity],
            arrivals: 0,
        }
    }

    pub fn push(&mut self, item: u32, distance: i64) {
        self.arrivals += 1;
        self.place[item as usize] = (distance, self.arrivals);
        self.model.insert((distance, self.arrivals), item);
        self.queue.push(item, ORIGIN.wrapping_add(distance as u64));
    }

    pub fn remove(&mut self, item: u32) {
        self.model.remove(&self.place[item as usize]);
        self.queue.remove(item);
    }

    /// Pops and says which item it was and its distance.
    pub fn pop(&mut self) -> Option<(u32, i64)> {
        let first = self.model.pop_first().map(|((distance, _), item)| (item, distance));
        assert_eq!(self.queue.pop(), first.map(|(item, _)| item));
        assert_eq!(self.queue.len(), self.model.len());
        first
    }

    pub fn pop_all(&mut self) {
        while self.pop().is_some() {}
    }
}

#[test]
fn one_item_and_two_are_kept_and_a_third_finds_room_however_far_away() {
    const DISTANCES: [i64; 7] = [0, 1, -1, 1 << 50, -(1 << 50), 1 << 61, -(1 << 61)];
    in_each_form(|form| {
        for (capacity, removed) in [(3, 0), (3, 1), (1000, 0), (1000, 1)] {
            let mut checked = Checked::new(form, capacity);
            for (distance, third) in DISTANCES.iter().flat_map(|d| DISTANCES.map(|t| (*d, t))) {
                checked.push(0, 7);
                assert_eq!((checked.queue.lone, checked.queue.peek()), (0, Some(0)));
                checked.remove(0);
                assert_eq!((checked.queue.len(), checked.queue.peek()), (0, None));
                checked.push(0, 7);
                checked.push(1, 7 + distance);
                let first = u32::from(distance < 0);
                let kept = |queue: &ExactTimeRing| (queue.lone, queue.second, queue.len());
                assert_eq!(kept(&checked.queue), (first, 1 - first, 2));
                assert_eq!(checked.queue.peek(), Some(first));
                let mut walked = vec![];
                checked.queue.for_each(&mut |item, _| walked.push(item));
                assert_eq!(walked, [first, 1 - first]);
                checked.remove(removed);
                assert_eq!(kept(&checked.queue), (1 - removed, NONE, 1));
                checked.push(removed, 7 + distance);
                checked.push(2, 7 + third);
                assert_eq!(kept(&checked.queue), (NONE, NONE, 3));
                checked.pop_all();
            }
        }
    });
}

#[test]
fn rungs_nest() {
    in_each_form(|form| {
        // Each power of two ten times: whatever is split, nearly all fall into the first bucket.
        let mut queue = Checked::new(form, 5000);
        let mut random = Random::new(1);
        for item in 0..4500u32 {
            let power = item % 45;
            queue.push(item, (1 << power) + random.below(1 << (power / 2)) as i64);
        }
        let mut deepest = 0;
        while let Some((item, distance)) = queue.pop() {
            deepest = deepest.max(queue.queue.ring.depth());
            if distance < 1 << 20 && item.is_multiple_of(3) {
                queue.push(item, distance * 2 + 1);
            }
        }
        assert!(deepest >= 2, "{deepest} rungs at once");
    });
}

#[test]
fn a_rung_ends_where_the_slot_that_it_divides_ends() {
    in_each_form(|form| {
        for (seed, items) in (0..80).zip((80..).step_by(7)) {
            let mut queue = Checked::new(form, items as usize);
            let increments = Increments::new(Keys::Weighted, seed + 7);
            let mut keys = RedBlackTree::with_capacity(items as usize);
            increments.fill(&mut keys, items, 0, 3);
            // A slot that reached past the end of its rung would take the keys of the next one of
            // the outer rung, but only those that come from now on.
            (0..items).for_each(|item| queue.push(item, keys.key(item) as i64 - (1 << 24)));
            let mut random = Random::new(4);
            for round in 0..1000 {
                let Some((item, distance)) = queue.pop() else { break };
                queue.push(item, distance + increments.of::<false>(round, item) as i64);
                let item = random.below(u64::from(items)) as u32;
                let distance = queue.place[item as usize].0;
                queue.remove(item);
                queue.push(item, distance);
            }
        }
    });
}

#[test]
fn thousands_of_equal_keys_stay_in_order_of_arrival() {
    in_each_form(|form| {
        let mut queue = Checked::new(form, 5000);
        (0..4000).for_each(|item| queue.push(item, 5000));
        (4000..5000).for_each(|item| queue.push(item, i64::from(item)));
        // Half are queued again with the same key, behind all the others.
        for round in 0..6000 {
            let Some((item, distance)) = queue.pop() else { break };
            if distance == 5000 && round % 2 == 0 {
                queue.push(item, 5000);
            }
        }
        queue.pop_all();
    });
}

#[test]
fn a_front_that_overflows_keeps_ties_with_what_was_spilled_before() {
    in_each_form(|form| {
        let mut queue = Checked::new(form, 8000);
        (0..1000).for_each(|item| queue.push(item, 1 << 30));
        // Storms: ever lower keys, in pairs that tie, more than the front can hold.
        let mut next = 1000;
        for storm in 0..14 {
            for number in 0..500i64 {
                queue.push(next, (1 << 29) - storm * 250 - number / 2);
                next += 1;
            }
            assert_ne!(queue.queue.current.head, NONE, "the front was cut");
            (0..100).for_each(|_| assert!(queue.pop().is_some()));
        }
        queue.pop_all();
    });
}

#[test]
fn equal_keys_at_the_limit_stay_in_order_when_the_front_overflows_twice() {
    in_each_form(|form| {
        let mut queue = Checked::new(form, 3000);
        (0..500).for_each(|item| queue.push(item, 1 << 20));
        for item in 500..2500 {
            queue.push(item, i64::from(item % 3));
        }
        assert_ne!(queue.queue.current.head, NONE, "the front was cut");
        queue.pop_all();
    });
}

#[test]
fn far_keys_come_down_level_by_level() {
    in_each_form(|form| {
        let mut queue = Checked::new(form, 2000);
        let mut random = Random::new(3);
        for item in 0..2000 {
            let power = random.below(61);
            queue.push(item, random.below(1 << power) as i64);
        }
        // Each pop queues an equal key again, on whatever level it is by now.
        for round in 0..6000u64 {
            let Some((item, distance)) = queue.pop() else { break };
            let target = queue.model.keys().nth(round as usize % 50).map_or(distance, |key| key.0);
            queue.push(item, target.max(distance));
        }
        queue.pop_all();
    });
}

#[test]
fn the_widest_and_the_narrowest_slots_work() {
    in_each_form(|form| {
        for (spread, slot_bits) in [(6, 0..=1), (61, 40..=60)] {
            let mut queue = Checked::new(form, 1000);
            let mut random = Random::new(4);
            (0..1000).for_each(|item| queue.push(item, random.below(1 << spread) as i64));
            // Slots get their length when one is opened and nothing is divided.
            for _ in 0..4000 {
                if let Some((item, distance)) = queue.pop() {
                    queue.push(item, distance + random.below(1 << spread) as i64);
                }
            }
            let shift = queue.queue.ring.slot_bits();
            assert!(slot_bits.contains(&shift), "2^{shift}");
            queue.pop_all();
        }
    });
}

#[test]
fn the_width_of_slots_is_tuned_when_keys_change_their_scale() {
    in_each_form(|form| {
        let mut queue = Checked::new(form, 2000);
        (0..2000).for_each(|item| queue.push(item, 0));
        let mut random = Random::new(5);
        let mut widest = 0;
        for _ in 0..60_000 {
            if let Some((item, distance)) = queue.pop() {
                queue.push(item, distance + random.below(1 << 40) as i64);
                widest = widest.max(queue.queue.ring.slot_bits());
            }
        }
        assert!(widest > 30, "{widest}");
        queue.pop_all();
    });
}

#[test]
fn slots_grow_wide_again_when_only_few_keys_are_left_and_they_are_far_apart() {
    in_each_form(|form| {
        let mut queue = Checked::new(form, 1000);
        let mut random = Random::new(8);
        (0..1000).for_each(|item| queue.push(item, random.below(4096) as i64));
        let mut turn = |queue: &mut Checked, turns: u32, from: u64, below: u64, unit: u64| {
            for _ in 0..turns {
                if let Some((item, distance)) = queue.pop() {
                    let ahead = (from + random.below(below)) * unit;
                    queue.push(item, (distance as u64 / unit * unit + ahead) as i64);
                }
            }
            queue.queue.ring.slot_bits()
        };
        let narrow = turn(&mut queue, 5000, 0, 4096, 1);
        assert!(narrow < 10, "2^{narrow}");
        // 125 items a tick of 2^19: many entries in each slot, but of one key.
        let wide = turn(&mut queue, 20_000, 1, 8, 1 << 19);
        assert!((15..=20).contains(&wide), "2^{wide}");
        queue.pop_all();
    });
}

#[test]
fn keys_go_past_the_wrap_around_on_every_level() {
    in_each_form(|form| {
        for scale in [4, 10, 20, 30, 45, 58] {
            let mut queue = Checked::new(form, 700);
            let mut random = Random::new(scale);
            (0..700).for_each(|item| queue.push(item, random.below(1 << scale) as i64));
            // Items enough pass the wrap-around at a distance of 1000; the widest go round it.
            for _ in 0..5000 {
                let Some((item, distance)) = queue.pop() else { break };
                queue.push(item, distance + random.below(1 << scale) as i64);
            }
            queue.pop_all();
        }
    });
}

#[test]
fn keys_go_all_the_way_round() {
    in_each_form(|form| {
        let mut queue = Checked::new(form, 300);
        let mut random = Random::new(6);
        let mut model: BTreeMap<u128, u32> = BTreeMap::new();
        let mut passed: u128 = 0;
        for item in 0..300 {
            let ahead = u128::from(random.below(1 << 59)) << 10 | u128::from(item);
            model.insert(ahead, item);
            queue.queue.push(item, (ahead >> 10) as u64);
        }
        // Some times around 2^64, with 128-bit keys in the model.
        for round in 300u128..200_000 {
            let Some((key, item)) = model.pop_first() else { break };
            assert_eq!(queue.queue.pop(), Some(item));
            passed = key >> 10;
            let ahead = passed + u128::from(random.below(1 << 59));
            model.insert(ahead << 10 | (round % 1024), item);
            queue.queue.push(item, ahead as u64);
            if model.len() < 300 {
                break;
            }
        }
        assert!(passed >> 64 >= 8, "went round {} times", passed >> 64);
    });
}

#[test]
fn an_item_that_comes_and_goes_uses_no_place_up() {
    in_each_form(|form| {
        let mut queue = Checked::new(form, 400);
        (0..400).for_each(|item| queue.push(item, i64::from(item * 37 % 400) << 20));
        // Far more often than there are places.
        for round in 0..50_000 {
            queue.remove(399);
            queue.push(399, (300 + round % 7) << 20);
        }
        queue.pop_all();
    });
}

#[test]
fn what_was_removed_from_the_middle_of_a_run_stays_away() {
    in_each_form(|form| {
        let mut queue = Checked::new(form, 200);
        (0..200).for_each(|item| queue.push(item, i64::from(item / 3)));
        assert_eq!(queue.queue.tier, Tier::Run);
        (0..200).filter(|item| item % 5 == 2).for_each(|item| queue.remove(item));
        queue.pop_all();
    });
}

#[test]
fn removals_leave_a_bounded_number_of_entries() {
    in_each_form(|form| {
        let mut queue = Checked::new(form, 1000);
        let mut random = Random::new(7);
        (0..1000).for_each(|item| queue.push(item, random.below(1 << 30) as i64));
        // Slots get the length that suits so many.
        let mut now = 0;
        for _ in 0..20_000 {
            let (item, key) = queue.pop().expect("items are queued");
            now = key;
            queue.push(item, now + 1 + random.below(1 << 30) as i64);
        }
        let (mut moved, mut holes) = (0, 0);
        while moved < 50_000 || holes < 1500 {
            let item = random.below(1000) as u32;
            queue.remove(item);
            queue.push(item, now + 1 + random.below(1 << 30) as i64);
            (moved, holes) = (moved + 1, queue.queue.chunks.holes());
            assert!(holes <= HOLES_PER_ITEM * 1000 + 64);
        }
        while queue.pop().is_some() {
            // Few entries among many holes are no reason to divide a slot.
            assert!(!queue.queue.ring.has_rungs());
        }
    });
}

#[test]
fn a_queue_that_grows_and_shrinks_changes_its_form_and_keeps_order() {
    in_each_form(|form| {
        let mut queue = Checked::new(form, 1000);
        let mut random = Random::new(8);
        let (mut changes, mut tier) = (0, Tier::Packed);
        for round in 0..40_000u64 {
            let growing = (round / 800).is_multiple_of(2);
            let item = random.below(1000) as u32;
            if growing && !queue.queue.contains(item) {
                let now = queue.model.keys().next().map_or(0, |key| key.0);
                queue.push(item, now + random.below(1 << 12) as i64);
            } else {
                queue.pop();
            }
            changes += usize::from(queue.queue.tier != tier);
            tier = queue.queue.tier;
        }
        assert!(changes > 20, "{changes}");
    });
}

#[test]
fn a_push_before_the_next_bucket_is_not_lost() {
    in_each_form(|form| {
        let mut queue = Checked::new(form, 3000);
        // A slot that is split, with a wide gap between its keys.
        (0..1000).for_each(|item| queue.push(item, i64::from(item % 40)));
        (1000..2000).for_each(|item| queue.push(item, 100_000 + i64::from(item)));
        for item in 2000..3000 {
            queue.pop();
            queue.push(item, 500 + i64::from(item) * 30);
        }
        queue.pop_all();
    });
}

/// Items that are in the first tier in every form.
const FEW: u32 = 30;

#[test]
fn ties_stay_in_order_when_slots_run_out_amid_them() {
    in_each_form(|form| {
        let mut queue = Checked::new(form, FEW as usize);
        let mut random = Random::new(9);
        (0..FEW).for_each(|item| queue.push(item, random.below(3) as i64));
        let mut renewals = 0;
        for _ in 0..40_000 {
            renewals += usize::from(queue.queue.packed.is_out_of_slots());
            let Some((item, distance)) = queue.pop() else { break };
            queue.push(item, distance + random.below(3) as i64);
            assert_eq!(queue.queue.tier, Tier::Packed);
        }
        assert!(renewals > 10, "{renewals}");
        queue.pop_all();
    });
}

#[test]
fn an_item_removed_and_queued_again_stands_behind_its_equals() {
    in_each_form(|form| {
        let mut queue = Checked::new(form, FEW as usize);
        let mut random = Random::new(10);
        (0..FEW).for_each(|item| queue.push(item, i64::from(item % 4)));
        for round in 0..20_000 {
            // Now and then the one that is pending, and now and then the first.
            let item = random.below(u64::from(FEW)) as u32;
            let distance = queue.place[item as usize].0;
            queue.remove(item);
            queue.push(item, distance);
            if round % 3 == 0 {
                queue.remove(item);
                queue.push(item, distance);
            }
            if let Some((item, distance)) = queue.pop() {
                queue.push(item, distance + random.below(4) as i64);
            }
        }
        assert_eq!(queue.queue.tier, Tier::Packed);
        for item in 0..FEW {
            queue.remove(item);
        }
        assert!(queue.pop().is_none());
        queue.push(7, -5);
        queue.push(3, -5);
        queue.pop_all();
    });
}

#[test]
fn the_first_tier_goes_all_the_way_round() {
    in_each_form(|form| {
        let mut queue = ExactTimeRing::new(8, form);
        let mut random = Random::new(11);
        let mut model: BTreeMap<(u128, u32), u32> = BTreeMap::new();
        for item in 0..8 {
            model.insert((u128::from(item), item), item);
            queue.push(item, u64::from(item));
        }
        let mut passed = 0;
        for arrival in 8..1_600_000 {
            let Some(((key, _), item)) = model.pop_first() else { break };
            assert_eq!(queue.pop(), Some(item));
            passed = key;
            // Multiples, so that keys tie at times.
            let ahead = key + u128::from(random.below(1 << 10) << 39);
            model.insert((ahead, arrival), item);
            queue.push(item, ahead as u64);
            assert_eq!(queue.tier, Tier::Packed);
        }
        assert!(passed >> 64 >= 2, "went round {} times", passed >> 64);
    });
}

#[test]
fn keys_too_far_apart_leave_the_first_tier_and_come_back() {
    in_each_form(|form| {
        let mut queue = Checked::new(form, FEW as usize);
        let mut random = Random::new(12);
        (0..FEW).for_each(|item| queue.push(item, i64::from(item % 5)));
        assert_eq!(queue.queue.tier, Tier::Packed);
        // One that is far behind, one that is far ahead, and equals of both.
        for far in [1 << 53, -(1 << 53), 1 << 53, 1 << 61, -(1 << 53)] {
            if let Some((item, _)) = queue.pop() {
                queue.push(item, far);
            }
        }
        assert_ne!(queue.queue.tier, Tier::Packed);
        for round in 0..40_000 {
            let Some((item, distance)) = queue.pop() else { break };
            let step = if round < 2000 { 1 << 48 } else { 1 << 20 };
            queue.push(item, distance + random.below(step) as i64);
        }
        // The one at 2^61 is beyond or too far: without it all are near each other.
        let (&(last, _), &item) = queue.model.last_key_value().expect("items are queued");
        assert_eq!(last, 1 << 61);
        queue.remove(item);
        (0..FEW * 2 / 3).for_each(|_| assert!(queue.pop().is_some()));
        for _ in 0..40_000 {
            let Some((item, distance)) = queue.pop() else { break };
            queue.push(item, distance + random.below(1 << 48) as i64);
        }
        assert_eq!(queue.queue.tier, Tier::Packed);
        queue.pop_all();
    });
}

#[test]
fn ties_at_the_border_of_the_first_tier_stay_in_order() {
    in_each_form(|form| {
        let mut queue = Checked::new(form, 400);
        let mut random = Random::new(13);
        let places = queue.queue.packed.places() as u32;
        let (mut next, mut changes, mut tier) = (0, 0, Tier::Packed);
        for round in 0..800 {
            // Up past the border, down past where the first tier takes over again.
            let target = if round % 2 == 0 { places + 1 + round % 17 } else { places / 3 };
            while queue.model.len() != target as usize {
                if queue.model.len() < target as usize {
                    let now = queue.model.keys().next().map_or(0, |key| key.0);
                    queue.push(next % 400, now + random.below(3) as i64);
                    next += 1;
                    while queue.queue.contains(next % 400) {
                        next += 1;
                    }
                } else if random.below(4) == 0 {
                    let first = queue.model.values().nth(3).copied().expect("items are queued");
                    queue.remove(first);
                } else {
                    queue.pop();
                }
                changes += usize::from(queue.queue.tier != tier);
                tier = queue.queue.tier;
            }
        }
        assert!(changes >= 100, "{changes}");
        queue.pop_all();
    });
}

#[test]
fn items_that_come_in_order_become_a_run_and_leave_it() {
    in_each_form(|form| {
        let count = FEW.max(form_places(form) - 1);
        let mut queue = Checked::new(form, count as usize);
        (0..count).for_each(|item| queue.push(item, i64::from(item / 2)));
        for _ in 0..6000 {
            let Some((item, distance)) = queue.pop() else { break };
            queue.push(item, distance + 100);
        }
        assert_eq!(queue.queue.tier == Tier::Run, count as usize > RUN_MIN);
        // One out of order, behind an equal one.
        if let Some((item, distance)) = queue.pop() {
            queue.push(item, distance + 40);
        }
        assert_eq!(queue.queue.tier, Tier::Packed);
        queue.pop_all();
    });
}

fn form_places(form: Lanes) -> u32 {
    ExactTimeRing::new(1, form).packed.places() as u32
}

#[test]
#[should_panic(expected = "item 3 is queued already")]
fn pushing_a_queued_item_panics() {
    let mut queue = ExactTimeRing::new(4, Lanes::Scalar);
    queue.push(3, 1);
    queue.push(3, 2);
}

#[test]
#[should_panic(expected = "item 3 is not queued")]
fn removing_an_item_that_is_not_queued_panics() {
    ExactTimeRing::new(4, Lanes::Scalar).remove(3);
}

#[test]
fn a_slot_that_was_divided_too_often_is_served_all_the_same() {
    in_each_form(|form| {
        let mut queue = Checked::new(form, 500);
        let mut random = Random::new(14);
        (0..250).for_each(|item| queue.push(item, random.below(1 << 30) as i64));
        assert!(queue.pop().is_some());
        // Eight keys of each distance from one point: most are in the first slot of each rung.
        (250..450).for_each(|item| queue.push(item, (1 << 28) + (1 << (item % 25))));
        let mut peeled = 0;
        while let Some((item, distance)) = queue.pop() {
            peeled += usize::from(queue.queue.ring.rung_for(SORTED_MAX).is_none());
            if item.is_multiple_of(3) && distance < 1 << 29 {
                queue.push(item, distance + 1 + random.below(1 << 12) as i64);
            }
        }
        assert!(peeled > 0, "there was always room for another rung");
    });
}

#[test]
fn the_pool_lasts_when_every_slot_is_begun_and_all_that_was_removed_is_still_there() {
    in_each_form(|form| {
        for capacity in [33, 97, 129, 150, 300, 1000, 3000] {
            let mut queue = Checked::new(form, capacity as usize);
            let mut random = Random::new(u64::from(capacity));
            for scale in [1 << 24, 1 << 50, 1 << 12] {
                for item in 0..capacity {
                    if queue.queue.contains(item) {
                        queue.remove(item);
                    }
                    let now = queue.model.keys().next().map_or(0, |key| key.0);
                    queue.push(item, now + random.below(scale) as i64);
                }
                for _ in 0..6 * capacity {
                    let item = random.below(u64::from(capacity)) as u32;
                    queue.remove(item);
                    let now = queue.model.keys().next().map_or(0, |key| key.0);
                    queue.push(item, now + random.below(scale) as i64);
                    if let Some((item, distance)) = queue.pop() {
                        queue.push(item, distance + random.below(scale) as i64);
                    }
                }
            }
            queue.pop_all();
        }
    });
}
