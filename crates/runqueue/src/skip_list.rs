//! The skip list with a fixed number of levels: what BFS's successor MuQSS queues tasks in.
//!
//! Idea: a sorted list with express lanes; an item is in each higher lane with a probability of
//! one quarter, so a search skips most items without any rebalancing.
//!
//! Cost: pop O(levels), remove O(levels), push O(log n) as long as n is below 4^levels, and O(n)
//! beyond. Two lines an item: links both ways in every lane. MuQSS draws its levels so that only
//! the lower four of its eight lanes are used in practice; `LANES` lets one measure either.
//!
//! Choose it where few items come and go and most are removed by hand; its fixed levels are what
//! stops it from scaling.
//!
//! Source: W. Pugh, "Skip lists: a probabilistic alternative to balanced trees", 1990; fixed
//! lanes and back links as in C. Kolivas's MuQSS, 2016.

use crate::arena::Arena;
use crate::before;
use crate::run_queue::{NONE, RunQueue};

/// How many lanes there are memory for.
pub const LANES_MAX: usize = 8;
/// `height` of an item that is not queued.
const NOT_QUEUED: u32 = 0;

#[derive(Clone, Debug)]
struct Node {
    key: u64,
    height: u32,
    next: [u32; LANES_MAX],
    previous: [u32; LANES_MAX],
}

/// A skip list of `LANES` lanes, of which every item is in the lowest.
#[derive(Clone, Debug)]
pub struct SkipListOf<const LANES: usize> {
    nodes: Arena<Node>,
    /// First and last item of every lane.
    heads: [u32; LANES_MAX],
    tails: [u32; LANES_MAX],
    /// State of the generator that draws heights; the same in every run.
    random: u64,
    len: usize,
}

/// As many lanes as there is memory for.
pub type SkipList = SkipListOf<LANES_MAX>;
/// As many lanes as MuQSS comes to use.
pub type SkipListMuqss = SkipListOf<4>;

impl<const LANES: usize> SkipListOf<LANES> {
    /// Draws a height: 1 with probability 3/4, each further lane with 1/4.
    fn draw_height(&mut self) -> usize {
        // xorshift64 (G. Marsaglia, 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (1 + self.random.trailing_zeros() as usize / 2).min(LANES)
    }

    /// Links `item` behind `previous` (`NONE`: in front) in one lane.
    #[inline(always)]
    fn link(&mut self, lane: usize, previous: u32, item: u32) {
        let next =
            if previous == NONE { self.heads[lane] } else { self.nodes[previous].next[lane] };
        self.nodes[item].next[lane] = next;
        self.nodes[item].previous[lane] = previous;
        self.set_next(lane, previous, item);
        self.set_previous(lane, next, item);
    }

    #[inline(always)]
    fn set_next(&mut self, lane: usize, item: u32, next: u32) {
        if item == NONE {
            self.heads[lane] = next;
        } else {
            self.nodes[item].next[lane] = next;
        }
    }

    #[inline(always)]
    fn set_previous(&mut self, lane: usize, item: u32, previous: u32) {
        if item == NONE {
            self.tails[lane] = previous;
        } else {
            self.nodes[item].previous[lane] = previous;
        }
    }
}

impl<const LANES: usize> RunQueue for SkipListOf<LANES> {
    const NAME: &'static str = if LANES == LANES_MAX { "skip_list" } else { "skip_list_muqss" };

    fn with_capacity(capacity: usize) -> Self {
        let node = Node {
            key: 0,
            height: NOT_QUEUED,
            next: [NONE; LANES_MAX],
            previous: [NONE; LANES_MAX],
        };
        SkipListOf {
            nodes: Arena::new(capacity, node),
            heads: [NONE; LANES_MAX],
            tails: [NONE; LANES_MAX],
            random: 0x9e37_79b9_7f4a_7c15,
            len: 0,
        }
    }

    #[inline]
    fn push(&mut self, item: u32, key: u64) {
        assert_eq!(self.nodes[item].height, NOT_QUEUED, "item {item} is queued already");
        let height = self.draw_height();
        self.nodes[item].key = key;
        self.nodes[item].height = height as u32;
        let mut at = NONE;
        for lane in (0..LANES).rev() {
            let mut next = if at == NONE { self.heads[lane] } else { self.nodes[at].next[lane] };
            while next != NONE && !before(key, self.nodes[next].key) {
                at = next;
                next = self.nodes[at].next[lane];
            }
            if lane < height {
                self.link(lane, at, item);
            }
        }
        self.len += 1;
    }

    #[inline]
    fn pop(&mut self) -> Option<u32> {
        let item = self.peek()?;
        self.remove(item);
        Some(item)
    }

    #[inline]
    fn peek(&mut self) -> Option<u32> {
        (self.heads[0] != NONE).then_some(self.heads[0])
    }

    #[inline]
    fn remove(&mut self, item: u32) {
        let height = self.nodes[item].height;
        assert_ne!(height, NOT_QUEUED, "item {item} is not queued");
        for lane in 0..height as usize {
            let (next, previous) = (self.nodes[item].next[lane], self.nodes[item].previous[lane]);
            self.set_next(lane, previous, next);
            self.set_previous(lane, next, previous);
        }
        self.nodes[item].height = NOT_QUEUED;
        self.len -= 1;
    }

    #[inline]
    fn key(&self, item: u32) -> u64 {
        self.nodes[item].key
    }

    fn contains(&self, item: u32) -> bool {
        self.nodes[item].height != NOT_QUEUED
    }

    fn len(&self) -> usize {
        self.len
    }

    fn for_each(&mut self, visit: &mut dyn FnMut(u32, u64)) {
        let mut item = self.heads[0];
        while item != NONE {
            visit(item, self.nodes[item].key);
            item = self.nodes[item].next[0];
        }
    }

    fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes()
    }
}
