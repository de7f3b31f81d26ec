//! Recorded operations of a run queue: a text, one operation a line.
//!
//! ```text
//! # an item is a number, a key another one
//! push 3 1000
//! push 7 1500
//! pop
//! remove 7
//! ```
//!
//! What comes after `#` is a comment. A trace is checked as a whole before it is raced: an exact
//! queue could do every operation of it, and keys stay where everybody can compare them: those of
//! items queued together are less than 2^61 apart, and all, replays included, below 2^62.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use runqueue::{RedBlackTree, RunQueue, before};

use crate::RaceError;
use crate::spec::ITEMS_MAX;

/// Keys of items that are queued together are less than this apart.
const APART_MAX: u64 = 1 << 61;
/// Keys are less than this away from 0, replays included.
const KEY_MAX: u64 = 1 << 62;

/// What was done to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `item` was queued with `key`.
    Push {
        /// Which one.
        item: u32,
        /// Its key.
        key: u64,
    },
    /// The first item left.
    Pop,
    /// `item` left, wherever it stood.
    Remove {
        /// Which one.
        item: u32,
    },
}

/// A recording that an exact queue can repeat.
#[derive(Clone, Debug)]
pub struct Trace {
    /// What was done, in this order.
    pub operations: Vec<Operation>,
    /// By how much keys must move on for a repetition to begin where the recording ends.
    pub span: u64,
    /// Items 0 to here - 1 are named.
    pub items: u32,
    path: PathBuf,
    /// The line with the largest key, and that key.
    largest: Option<(usize, i64)>,
}

impl Trace {
    /// Reads the trace at `path` for a queue of `capacity` items; `None`: as many as it names.
    ///
    /// # Errors
    ///
    /// [`RaceError::Io`] if it cannot be read, [`RaceError::TraceEmpty`] if it says nothing,
    /// [`RaceError::Trace`] with the line if that is no operation or was impossible.
    pub fn read(path: &Path, capacity: Option<u32>) -> Result<Self, RaceError> {
        let text = fs::read_to_string(path).map_err(|cause| RaceError::Io {
            action: "read",
            path: path.to_owned(),
            cause,
        })?;
        let mut lines = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let said = line.split('#').next().unwrap_or_default().trim();
            if said.is_empty() {
                continue;
            }
            let fail = |wrong: Wrong| wrong.at(path, number + 1, said);
            let operation = parse(said).map_err(fail)?;
            within(operation, capacity).map_err(fail)?;
            lines.push((number + 1, said, operation));
        }
        let items = lines.iter().filter_map(|&(_, _, operation)| item_of(operation)).max();
        // A trace that names no item can only pop from an empty queue, which is told below.
        let items = items.map_or(1, |item| item + 1);
        let mut queue = RedBlackTree::with_capacity(items as usize);
        let mut keys = BTreeSet::new();
        let mut largest: Option<(usize, i64)> = None;
        for &(number, said, operation) in &lines {
            let at = |wrong: Wrong| wrong.at(path, number, said);
            let left = repeat(&mut queue, operation).map_err(at)?;
            if let Some(item) = left {
                keys.remove(&(queue.key(item) as i64, item));
            }
            if let Operation::Push { item, key } = operation {
                keys.insert((key as i64, item));
                together(&keys).map_err(at)?;
                if largest.is_none_or(|(_, most)| most < key as i64) {
                    largest = Some((number, key as i64));
                }
            }
        }
        let operations: Vec<_> = lines.into_iter().map(|(_, _, operation)| operation).collect();
        if operations.is_empty() {
            return Err(RaceError::TraceEmpty { path: path.to_owned() });
        }
        let path = path.to_owned();
        Ok(Trace { span: span(&operations), operations, items, path, largest })
    }

    /// Whether keys stay below 2^62 if a round of so many operations is replayed `runs` times.
    ///
    /// # Errors
    ///
    /// [`RaceError::Trace`] with the line of the largest key.
    pub(crate) fn stays_near(&self, operations: u64, runs: u64) -> Result<(), RaceError> {
        let Some((line, key)) = self.largest else { return Ok(()) };
        let replays = u128::from((operations / self.operations.len() as u64).max(1) * runs);
        let last = i128::from(key) + (u128::from(self.span) * replays) as i128;
        if last < i128::from(KEY_MAX) {
            return Ok(());
        }
        let hint = "race fewer loops or rounds, or divide all keys by what their clock cannot tell";
        let problem = format!(
            "after {replays} replays, each {} further, this key passes 2^62, and not everybody \
             can compare it any more",
            self.span
        );
        Err(Wrong::new(problem, hint).at(&self.path, line, &format!("key {key}")))
    }

    /// Whether items leave from where they stand.
    pub fn removes(&self) -> bool {
        self.operations.iter().any(|operation| matches!(operation, Operation::Remove { .. }))
    }
}

/// What is wrong with a line, and what would be right.
struct Wrong {
    problem: String,
    hint: String,
}

impl Wrong {
    fn new(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Wrong { problem: problem.into(), hint: hint.into() }
    }

    fn at(self, path: &Path, line: usize, said: &str) -> RaceError {
        let Wrong { problem, hint } = self;
        RaceError::Trace { path: path.to_owned(), line, problem, text: said.to_owned(), hint }
    }
}

fn parse(said: &str) -> Result<Operation, Wrong> {
    let words: Vec<&str> = said.split_whitespace().collect();
    match words[..] {
        ["push", item, key] => Ok(Operation::Push { item: number(item)?, key: near(key)? }),
        ["pop"] => Ok(Operation::Pop),
        ["remove", item] => Ok(Operation::Remove { item: number(item)? }),
        _ => Err(Wrong::new("no operation", "a line is `push ITEM KEY`, `pop` or `remove ITEM`")),
    }
}

fn number<T: std::str::FromStr>(word: &str) -> Result<T, Wrong> {
    let bits = 8 * size_of::<T>();
    let hint = format!("items and keys are whole numbers; this one has up to {bits} bits");
    word.parse().map_err(|_| Wrong::new(format!("{word} is no such number"), hint))
}

/// A key that is not too far from 0; keys wrap, so the last ones are those shortly before it.
fn near(word: &str) -> Result<u64, Wrong> {
    let key: u64 = number(word)?;
    if (key as i64).unsigned_abs() < KEY_MAX {
        return Ok(key);
    }
    let hint = "take the smallest key of the trace from all keys: only their differences matter";
    Err(Wrong::new(format!("key {key} is 2^62 or more away from 0"), hint))
}

/// Whether all of `keys`, which are queued together, can be compared by everybody.
fn together(keys: &BTreeSet<(i64, u32)>) -> Result<(), Wrong> {
    let (Some(&(least, _)), Some(&(most, item))) = (keys.first(), keys.last()) else {
        return Ok(());
    };
    if most.abs_diff(least) < APART_MAX {
        return Ok(());
    }
    let problem = format!("item {item} has key {most} while another one has {least}: 2^61 apart");
    Err(Wrong::new(problem, "queue only items together whose keys are less than 2^61 apart"))
}

fn item_of(operation: Operation) -> Option<u32> {
    match operation {
        Operation::Push { item, .. } | Operation::Remove { item } => Some(item),
        Operation::Pop => None,
    }
}

fn within(operation: Operation, capacity: Option<u32>) -> Result<(), Wrong> {
    let capacity = u64::from(capacity.unwrap_or(u32::MAX)).min(ITEMS_MAX);
    match item_of(operation) {
        Some(item) if u64::from(item) >= capacity => Err(Wrong::new(
            format!("item {item} is above the capacity of {capacity}"),
            if capacity == ITEMS_MAX {
                "number items from 0 on".to_owned()
            } else {
                format!("race with n = {} or more, or with none to follow the trace", item + 1)
            },
        )),
        _ => Ok(()),
    }
}

/// Does it, and tells who left.
fn repeat(queue: &mut RedBlackTree, operation: Operation) -> Result<Option<u32>, Wrong> {
    match operation {
        Operation::Push { item, .. } if queue.contains(item) => Err(Wrong::new(
            format!("item {item} is queued already"),
            "an item is queued once: it must be popped or removed before; pops give the smallest \
             key, among equal ones the first that came",
        )),
        Operation::Push { item, key } => {
            queue.push(item, key);
            Ok(None)
        }
        Operation::Pop => match queue.pop() {
            Some(item) => Ok(Some(item)),
            None => Err(Wrong::new("the queue is empty", "push something first")),
        },
        Operation::Remove { item } if !queue.contains(item) => Err(Wrong::new(
            format!("item {item} is not queued"),
            "an item can be removed after its push, unless it was popped; pops give the smallest \
             key, among equal ones the first that came",
        )),
        Operation::Remove { item } => {
            queue.remove(item);
            Ok(Some(item))
        }
    }
}

/// How far the keys are apart, and one more.
fn span(operations: &[Operation]) -> u64 {
    let mut keys = operations.iter().filter_map(|&operation| match operation {
        Operation::Push { key, .. } => Some(key),
        _ => None,
    });
    let Some(first) = keys.next() else { return 0 };
    let (mut least, mut most) = (first, first);
    for key in keys {
        least = if before(key, least) { key } else { least };
        most = if before(most, key) { key } else { most };
    }
    most.wrapping_sub(least).wrapping_add(1)
}

#[cfg(test)]
mod tests {
    //! Goal: a trace that could not have happened is refused with its line. Method: wrong traces.

    use super::*;

    fn read(text: &str, capacity: Option<u32>) -> Result<Trace, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("wrong.trace");
        fs::write(&path, text).expect("written");
        Trace::read(&path, capacity).map_err(|error| error.to_string())
    }

    #[test]
    fn a_trace_is_read_with_its_comments_and_blank_lines() {
        let trace =
            read("# two\npush 3 1000 # first\n\npush 7 18446744073709551615\npop\nremove 3", None);
        let trace = trace.expect("a trace");
        let (least, most) = (u64::MAX, 1000);
        assert_eq!(trace.operations.len(), 4);
        assert_eq!(trace.operations[1], Operation::Push { item: 7, key: least });
        assert_eq!(trace.span, 1002, "keys wrap: {most} comes after {least}");
        assert!(trace.removes() && trace.items == 8);
    }

    #[test]
    fn replays_may_not_move_keys_out_of_sight() {
        let trace = read("push 1 5\npush 2 1099511627780\npop\npop", None).expect("a trace");
        assert_eq!(trace.span, 1 << 40);
        assert!(trace.stays_near(4, 1 << 20).is_ok());
        let error = trace.stays_near(40, 1 << 20).expect_err("too far").to_string();
        assert!(error.contains("wrong.trace:2: after 10485760 replays"), "{error}");
        assert!(error.contains("key 1099511627780") && error.contains("fewer loops"), "{error}");
    }

    #[test]
    fn what_cannot_have_happened_is_named_with_its_line() {
        for (text, capacity, line, problem) in [
            ("push 1 5\npush 9 5\n", Some(9), 2, "item 9 is above the capacity of 9"),
            ("push 20000000 5", None, 1, "item 20000000 is above the capacity"),
            ("push 1 5\n\npush 1 6\n", None, 3, "item 1 is queued already"),
            ("push 1 5\npop\npop\n", None, 3, "the queue is empty"),
            ("pop", None, 1, "the queue is empty"),
            ("push 1 9\npush 2 8\npop\nremove 2", None, 4, "item 2 is not queued"),
            ("remove 4", None, 1, "item 4 is not queued"),
            ("push 1", None, 1, "no operation"),
            ("peek", None, 1, "no operation"),
            ("push x 1", None, 1, "x is no such number"),
            ("push 1 -1", None, 1, "-1 is no such number"),
            ("push 1 9223372036854775807", None, 1, "key 9223372036854775807 is 2^62 or more"),
            ("push 1 13835058055282163712", None, 1, "key 13835058055282163712 is 2^62 or more"),
            (
                "push 1 7\npop\npush 2 2305843009213693952\npush 1 0",
                None,
                4,
                "item 2 has key 2305843009213693952 while another one has 0: 2^61 apart",
            ),
        ] {
            let error = read(text, capacity).expect_err(text);
            assert!(error.contains(&format!("wrong.trace:{line}: {problem}")), "{error}");
            assert!(error.contains("hint: "), "{error}");
        }
        assert!(read("# nothing\n", None).expect_err("empty").contains("no operation in it"));
    }
}
