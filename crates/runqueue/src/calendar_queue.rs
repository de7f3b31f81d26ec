//! The calendar queue: a ring of days, sorted inside each day, as long as it needs to be.
//!
//! Idea: items are hung into the day of their key, whatever the year; who is due is found by
//! turning the pages and taking what belongs to this year. If days are few items long, every
//! operation is O(1). The calendar is made anew with twice or half as many days when the number
//! of items calls for it, and the length of a day is estimated from the first items.
//!
//! Cost: push, pop, remove O(1) amortised for steady key distributions; O(n) where many keys are
//! equal or the estimate misses, and at every change of size. One line an item, 8 to 32 bytes of
//! days.
//!
//! Days are powers of two long here, so that the end of the key's range closes the ring and a day
//! is found by a shift; memory for the largest calendar is taken at once.
//!
//! Choose it for thousands of items whose keys have a steady spread. It is the best of the
//! published exact structures there, and the worst of all for ties.
//!
//! Source: R. Brown, "Calendar queues: a fast O(1) priority queue implementation for the
//! simulation event set problem", CACM 31(10), 1988.

use crate::before;
use crate::lists::{EMPTY, Links, List};
use crate::run_queue::{NONE, RunQueue, walk_by_popping};

const DAYS_MIN: usize = 2;
/// From how many items the length of a day is estimated.
const SAMPLE: usize = 25;

/// A calendar queue.
#[derive(Clone, Debug)]
pub struct CalendarQueue {
    links: Links,
    /// Memory for the largest calendar; the first `days` are in use.
    lists: Box<[List]>,
    days: usize,
    /// A day is 2^shift long.
    shift: u32,
    /// The first key of the day that is open.
    today: u64,
    len: usize,
    order: Vec<u32>,
}

impl CalendarQueue {
    fn day_of(&self, key: u64) -> usize {
        (key >> self.shift) as usize & (self.days - 1)
    }

    fn day_start(&self, key: u64) -> u64 {
        key >> self.shift << self.shift
    }

    fn hang(&mut self, item: u32) {
        let day = self.day_of(self.links.key(item));
        self.links.insert_sorted(&mut self.lists[day], item);
    }

    /// Opens the calendar at the day of the first item, and returns that item.
    fn find_first(&mut self) -> u32 {
        let length = 1u64 << self.shift;
        for _ in 0..self.days {
            let head = self.lists[self.day_of(self.today)].head;
            if head != NONE && self.links.key(head).wrapping_sub(self.today) < length {
                return head;
            }
            self.today = self.today.wrapping_add(length);
        }
        // A whole year without an item: look at the first of every day.
        let mut first = NONE;
        for day in 0..self.days {
            let head = self.lists[day].head;
            if head != NONE
                && (first == NONE || before(self.links.key(head), self.links.key(first)))
            {
                first = head;
            }
        }
        self.today = self.day_start(self.links.key(first));
        first
    }

    /// Copies all pages to a new calendar of `days` days.
    fn resize(&mut self, days: usize) {
        let days = days.clamp(DAYS_MIN, self.lists.len());
        if days == self.days || self.len == 0 {
            return;
        }
        // All lists become one, the first items in front, then day by day: equal keys were in one
        // list, so their order stays.
        let mut all = self.take_sample();
        self.shift = self.estimate_shift(all);
        for day in 0..self.days {
            let list = std::mem::replace(&mut self.lists[day], EMPTY);
            self.links.concatenate(&mut all, list);
        }
        self.days = days;
        self.today = self.day_start(self.links.key(all.head));
        let mut item = all.head;
        while item != NONE {
            let next = self.links.next(item);
            self.hang(item);
            item = next;
        }
    }

    /// Takes the first items out, in order.
    fn take_sample(&mut self) -> List {
        let mut sample = EMPTY;
        for _ in 0..SAMPLE.min(self.len) {
            let item = self.find_first();
            let day = self.day_of(self.links.key(item));
            self.links.unlink(&mut self.lists[day], item);
            self.links.append(&mut sample, item);
        }
        sample
    }

    /// A day holds about three items: three times the mean distance of the sampled ones, leaving
    /// out distances above twice the mean.
    fn estimate_shift(&self, sample: List) -> u32 {
        let mut gaps = [0; SAMPLE];
        let (mut count, mut item) = (0, sample.head);
        while item != sample.tail {
            let next = self.links.next(item);
            gaps[count] = self.links.key(next).wrapping_sub(self.links.key(item));
            (item, count) = (next, count + 1);
        }
        let mean = |gaps: &mut dyn Iterator<Item = u64>| {
            let (sum, count) =
                gaps.fold((0u128, 0), |(sum, n), gap| (sum + u128::from(gap), n + 1));
            (sum / count.max(1)) as u64
        };
        let all = mean(&mut gaps[..count].iter().copied());
        let near = mean(&mut gaps[..count].iter().copied().filter(|&gap| gap <= 2 * all));
        if near == 0 {
            return self.shift;
        }
        // The longest year must fit into the range of keys.
        near.saturating_mul(3).ilog2().min(63 - self.lists.len().ilog2())
    }
}

impl RunQueue for CalendarQueue {
    const NAME: &'static str = "calendar_queue";

    fn with_capacity(capacity: usize) -> Self {
        let days_max = capacity.max(DAYS_MIN).next_power_of_two();
        CalendarQueue {
            links: Links::new(capacity),
            lists: vec![EMPTY; days_max].into_boxed_slice(),
            days: DAYS_MIN,
            shift: 0,
            today: 0,
            len: 0,
            order: Vec::with_capacity(capacity),
        }
    }

    #[inline]
    fn push(&mut self, item: u32, key: u64) {
        self.links.prepare(item, key, 0);
        self.hang(item);
        if self.len == 0 || before(key, self.today) {
            self.today = self.day_start(key);
        }
        self.len += 1;
        if self.len > 2 * self.days {
            self.resize(2 * self.days);
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<u32> {
        let item = self.peek()?;
        self.remove(item);
        Some(item)
    }

    #[inline]
    fn peek(&mut self) -> Option<u32> {
        (self.len > 0).then(|| self.find_first())
    }

    #[inline]
    fn remove(&mut self, item: u32) {
        let day = self.day_of(self.links.key(item));
        self.links.unlink(&mut self.lists[day], item);
        self.len -= 1;
        if self.len < self.days / 2 {
            self.resize(self.days / 2);
        }
    }

    #[inline]
    fn key(&self, item: u32) -> u64 {
        self.links.key(item)
    }

    fn contains(&self, item: u32) -> bool {
        self.links.is_linked(item)
    }

    fn len(&self) -> usize {
        self.len
    }

    fn for_each(&mut self, visit: &mut dyn FnMut(u32, u64)) {
        let mut order = std::mem::take(&mut self.order);
        walk_by_popping(self, &mut order, visit);
        self.order = order;
    }

    fn memory_bytes(&self) -> usize {
        self.links.memory_bytes()
            + self.lists.len() * size_of::<List>()
            + self.order.capacity() * size_of::<u32>()
    }
}
