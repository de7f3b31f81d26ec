//! Pages that nobody took. Source: Linux, kernel/bpf/range_tree.c, whose choice this is.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Ranges of pages, none of which is next to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Free {
    /// How long each is, and its number, by its first page.
    ranges: BTreeMap<u32, (u32, u64)>,
    /// The same: the shortest first, of equal ones the newest.
    by_size: BTreeSet<(u32, Reverse<u64>, u32)>,
    /// Ranges that there were.
    nr: u64,
}

impl Free {
    /// So many pages, from 0 on.
    pub(super) fn new(pages: u32) -> Free {
        let mut free = Free { ranges: BTreeMap::new(), by_size: BTreeSet::new(), nr: 0 };
        free.add(0, pages);
        free
    }

    /// The begin of the range that fits so many pages best.
    pub(super) fn find(&self, pages: u32) -> Option<u32> {
        let fitting = self.by_size.range((pages, Reverse(u64::MAX), 0)..).next();
        fitting.map(|&(_, _, first)| first)
    }

    /// Whether all of these are free.
    pub(super) fn has(&self, first: u32, pages: u32) -> bool {
        let range = self.ranges.range(..=first).next_back();
        range.is_some_and(|(&begin, &(count, _))| {
            u64::from(first) + u64::from(pages) <= u64::from(begin) + u64::from(count)
        })
    }

    /// Takes those of these pages that are free.
    pub(super) fn take(&mut self, first: u32, pages: u32) {
        let end = first + pages;
        while let Some((begin, count)) = self.last_before(end).filter(|(b, c)| b + c > first) {
            self.remove(begin);
            self.add(begin, first.saturating_sub(begin));
            self.add(end, (begin + count).saturating_sub(end));
        }
    }

    /// These pages are free.
    pub(super) fn give(&mut self, first: u32, pages: u32) {
        if self.has(first, pages) {
            return;
        }
        self.take(first, pages);
        let (mut begin, mut end) = (first, first + pages);
        if let Some((before, _)) = self.last_before(first).filter(|(b, c)| b + c == first) {
            begin = before;
            self.remove(before);
        }
        if let Some(&(count, _)) = self.ranges.get(&end) {
            self.remove(end);
            end += count;
        }
        self.add(begin, end - begin);
    }

    /// The last range that begins before a page.
    fn last_before(&self, page: u32) -> Option<(u32, u32)> {
        self.ranges.range(..page).next_back().map(|(&begin, &(count, _))| (begin, count))
    }

    fn add(&mut self, first: u32, pages: u32) {
        if pages > 0 {
            self.nr += 1;
            self.ranges.insert(first, (pages, self.nr));
            self.by_size.insert((pages, Reverse(self.nr), first));
        }
    }

    fn remove(&mut self, first: u32) {
        if let Some((pages, number)) = self.ranges.remove(&first) {
            self.by_size.remove(&(pages, Reverse(number), first));
        }
    }
}
