//! What every run queue can do: one trait for all structures, so that they can be raced.

/// No item: the end of a list, an empty place in a tree.
pub(crate) const NONE: u32 = u32::MAX;

/// Whether key `a` comes before key `b`, wrap-safe, as the kernel's `time_before64`.
///
/// Keys may run past 2^64 and start again at 0. The answer is right as long as the two are less
/// than 2^63 apart.
#[inline(always)]
#[must_use]
pub fn before(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) < 0
}

/// A queue of items in the order of their keys; among equal keys the one queued first is first.
///
/// An item is a number below the capacity that the queue was made with, and is queued at most
/// once. Keys are compared with [`before`], so all keys queued at one time must be less than
/// 2^62 apart. Nothing is allocated after [`with_capacity`](Self::with_capacity), and a queue
/// takes every item there is: it never runs full.
///
/// # Panics
/// Every operation panics if the caller's books are wrong: an item at or above the capacity, a
/// push of a queued item, a removal of one that is not queued.
pub trait RunQueue {
    /// The structure's name in tables, as its file is called.
    const NAME: &'static str;

    /// Whether items leave in exact order. `false`: the structure trades order for speed, and its
    /// documentation says what it still promises.
    const EXACT: bool = true;

    /// Whether this processor can run it; [`with_capacity`](Self::with_capacity) panics where it
    /// cannot.
    fn is_here() -> bool
    where
        Self: Sized,
    {
        true
    }

    /// An empty queue for items `0..capacity`. All memory is allocated here.
    fn with_capacity(capacity: usize) -> Self
    where
        Self: Sized;

    /// Queues `item` with `key`, behind all items with an equal key.
    fn push(&mut self, item: u32, key: u64);

    /// Removes the first item and returns it.
    fn pop(&mut self) -> Option<u32>;

    /// The first item. Not `&self`: a structure may put its house in order when asked.
    fn peek(&mut self) -> Option<u32>;

    /// Removes a queued item, wherever it stands.
    fn remove(&mut self, item: u32);

    /// Gives a queued item a new key; it stands behind all items with an equal key.
    fn requeue(&mut self, item: u32, key: u64) {
        self.remove(item);
        self.push(item, key);
    }

    /// The key that `item` was last pushed with; it stays readable after the item left.
    fn key(&self, item: u32) -> u64;

    /// Whether `item` is queued.
    fn contains(&self, item: u32) -> bool;

    /// How many items are queued.
    fn len(&self) -> usize;

    /// Whether nothing is queued.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Shows every item and its key to `visit`, in the order in which they would be popped.
    ///
    /// Costs O(n) where the structure is sorted anyway, otherwise n times pop and push.
    fn for_each(&mut self, visit: &mut dyn FnMut(u32, u64));

    /// Bytes that the queue holds, per item of its capacity included, for tables.
    fn memory_bytes(&self) -> usize;
}

/// Walks an exact queue in order by popping everything and pushing it again in that order.
///
/// Equal keys go back in the order they came out, so nothing changes. `order` must have room for
/// all items, so that nothing is allocated.
pub(crate) fn walk_by_popping<Q: RunQueue>(
    queue: &mut Q,
    order: &mut Vec<u32>,
    visit: &mut dyn FnMut(u32, u64),
) {
    order.clear();
    while let Some(item) = queue.pop() {
        order.push(item);
        visit(item, queue.key(item));
    }
    for &item in order.iter() {
        let key = queue.key(item);
        queue.push(item, key);
    }
}
