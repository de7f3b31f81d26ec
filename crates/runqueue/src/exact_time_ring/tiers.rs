//! Where items move from tier to tier, from base to base, and holes are swept: what happens seldom.

use super::chunks::{Bucket, HOLE};
use super::packed::NEAR;
use super::{ExactTimeRing, FAR, Tier, ring};
use crate::before;
use crate::run_queue::{NONE, RunQueue};

/// More items than this that come in order are better off as a run.
pub(super) const RUN_MIN: usize = 48;
/// Refills after which keys that were too far apart for the first tier may be closer together.
const PATIENCE: u32 = 64;

impl ExactTimeRing {
    /// The first tier is full, or needs new slots for this entry; then it also sees whether items
    /// come in order.
    #[cold]
    #[inline(never)]
    pub(super) fn make_room_for(&mut self, key: i64, tag: u64) {
        let near = self.near as usize;
        if near > self.packed.places()
            || (self.packed.number_anew(&mut self.nodes) && near > RUN_MIN)
        {
            self.leave_packed();
        }
        if self.tier == Tier::Packed {
            self.packed.push(&mut self.nodes, key, tag as u32);
        } else {
            self.push_run(key, tag);
        }
    }

    /// The first entries become the front, the others a run behind it.
    #[cold]
    #[inline(never)]
    fn leave_packed(&mut self) {
        let (chunks, nodes) = (&mut self.chunks, &mut self.nodes);
        let mut all = Bucket::EMPTY;
        self.packed.take_all(|key, item| {
            nodes[item].place = chunks.push(&mut all, key, u64::from(item));
        });
        (self.current, self.current_end) = (all, HOLE);
        self.limit = -(FAR as i64);
        self.tier = Tier::Run;
        if self.current.head != NONE {
            self.serve_current();
        }
    }

    /// An entry came out of order: all behind the front go into the ring, or everything into the
    /// first tier if there is room, or if there is no ring.
    #[cold]
    #[inline(never)]
    pub(super) fn leave_run(&mut self) {
        let (low, high) = ring::bounds(&self.chunks, self.current.head);
        let low = self.front.keys().first().map_or(low, |first| low.min(*first));
        let far = if self.beyond.is_empty() { low } else { 0 };
        let is_near = low.abs_diff(far).max(high.abs_diff(far)) < NEAR;
        // Items that are queued again have the room for their order: they go into the ring.
        let has_room = self.order.capacity() > 0;
        debug_assert!(has_room || !self.small, "a small queue queues again without a run");
        if !self.small && (self.near as usize > self.packed.places() || !is_near || !has_room) {
            let all = std::mem::replace(&mut self.current, Bucket::EMPTY);
            self.build(all);
            return;
        }
        // Equal keys are in order, and no more is needed.
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        while !self.front.is_empty() {
            order.push(self.front.pop() as u32);
        }
        while let Some(chunk) = self.chunks.take_first(&mut self.current) {
            order.extend(chunk.entries().map(|entry| entry.1 as u32));
        }
        self.near = 0;
        self.tier = Tier::Packed;
        self.base = self.base.wrapping_add(far as u64);
        self.refill_from(order);
    }

    /// Keys are too far apart for the first tier.
    #[cold]
    #[inline(never)]
    fn widen(&mut self) {
        let wide = &mut self.wide;
        self.packed.take_all(|key, item| wide.push(key, item));
        self.tier = Tier::Wide;
        // All keys are below it.
        self.limit = HOLE;
    }

    /// Refills the front, or leaves it for the first tier if few items are left.
    #[cold]
    #[inline(never)]
    pub(super) fn refill_or_leave(&mut self) {
        // Half of what it takes to come here, so that a queue whose length sways does not move to
        // and fro.
        let near = self.near as usize;
        let few = match self.tier {
            Tier::Run => RUN_MIN / 2,
            Tier::Wide => near,
            _ => self.packed.places() / 2,
        };
        self.patience = self.patience.saturating_sub(1);
        if near <= few && self.patience == 0 {
            self.pack();
            // Keys too far apart remain so for a while.
            self.patience = if self.tier == Tier::Packed { 0 } else { PATIENCE };
        }
        if matches!(self.tier, Tier::Run | Tier::Ring) && self.front.is_empty() {
            let filled = self.refill();
            debug_assert!(filled, "items are queued");
        }
    }

    /// Moves all items into the first tier, or as many into a run as are too far from the first.
    #[cold]
    #[inline(never)]
    fn pack(&mut self) {
        let order = self.drain();
        if let Some(&first) = order.first().filter(|_| self.beyond.is_empty()) {
            self.base = self.nodes[first].key;
        }
        self.refill_from(order);
    }

    /// Queues an item whose key is far from the base, or for which the base says nothing.
    #[cold]
    #[inline(never)]
    pub(super) fn push_far(&mut self, item: u32, key: u64) {
        if let Some(first) = self.peek() {
            let first = self.nodes[first].key;
            let sooner = before(key, first);
            let reach = self.reach();
            let moved = first.wrapping_sub(self.base).wrapping_add(reach / 2) > reach;
            if sooner || moved {
                self.rebase(if sooner { key } else { first });
            }
        } else {
            self.base = key;
        }
        self.place(item, key);
    }

    /// How far from the base a key may be for now.
    #[inline(always)]
    pub(super) fn reach(&self) -> u64 {
        if self.tier == Tier::Packed { NEAR } else { FAR }
    }

    fn place(&mut self, item: u32, key: u64) {
        let place = key.wrapping_sub(self.base);
        if place.wrapping_add(FAR) > 2 * FAR {
            self.beyond.push(item);
            return;
        }
        if self.tier == Tier::Packed && place.wrapping_add(NEAR) > 2 * NEAR {
            if self.small {
                self.widen();
            } else {
                self.leave_packed();
            }
        }
        self.near += 1;
        self.push_near(place as i64, u64::from(item));
    }

    /// Takes out all items that are near, in order, and all holes; the first tier is next.
    fn drain(&mut self) -> Vec<u32> {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        if self.tier == Tier::Packed {
            self.packed.take_all(|_, item| order.push(item));
        } else if self.tier == Tier::Wide {
            order.extend(std::iter::from_fn(|| self.wide.pop()));
        } else {
            loop {
                while !self.front.is_empty() {
                    order.push(self.front.pop() as u32);
                }
                if !self.refill() {
                    break;
                }
            }
        }
        self.near = 0;
        self.tier = Tier::Packed;
        order
    }

    /// Queues items again that `drain` took out.
    fn refill_from(&mut self, order: Vec<u32>) {
        for &item in &order {
            self.place(item, self.nodes[item].key);
        }
        self.order = order;
    }

    /// Measures all keys from another base.
    #[cold]
    #[inline(never)]
    fn rebase(&mut self, base: u64) {
        let mut order = self.drain();
        order.append(&mut self.beyond);
        self.base = base;
        self.refill_from(order);
    }

    /// Nothing is near: measures from the first key beyond.
    #[cold]
    #[inline(never)]
    pub(super) fn go_beyond(&mut self) -> bool {
        let keys = self.beyond.iter().map(|item| self.nodes[*item].key);
        let first = keys.reduce(|first, key| if before(key, first) { key } else { first });
        let Some(first) = first else { return false };
        self.rebase(first);
        true
    }

    /// Holes are too many: makes their places free.
    #[cold]
    #[inline(never)]
    pub(super) fn sweep(&mut self) {
        if self.tier == Tier::Ring {
            self.ring.sweep(&mut self.chunks, &mut self.nodes);
        }
        // In what is being served there are few, as a rule.
        if self.chunks.holes() > self.near as usize / 2 + 32 {
            let order = self.drain();
            self.refill_from(order);
        }
    }
}
