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
//! queue could do every operation of it, and those keys that are queued together are less than 2^62
//! apart, so that everybody can compare them although keys wrap.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;

use runqueue::{RedBlackTree, RunQueue};

use crate::RaceError;
use crate::spec::ITEMS_MAX;

/// Keys of items that are queued together are less than this apart.
const APART_MAX: i128 = 1 << 62;

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

impl fmt::Display for Operation {
    /// The operation's line.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Push { item, key } => write!(formatter, "push {item} {key}"),
            Operation::Pop => write!(formatter, "pop"),
            Operation::Remove { item } => write!(formatter, "remove {item}"),
        }
    }
}

/// Operations as the text of a trace. Items get the numbers from 0 on, in the order in which they
/// first came, so that whoever races it has room for those that are named and for no others.
pub fn trace_text(operations: impl IntoIterator<Item = Operation>) -> String {
    let mut numbers = BTreeMap::new();
    let mut lines = String::new();
    for operation in operations {
        let mut renumbered = |item| {
            let next = numbers.len() as u32;
            *numbers.entry(item).or_insert(next)
        };
        let operation = match operation {
            Operation::Push { item, key } => Operation::Push { item: renumbered(item), key },
            Operation::Pop => Operation::Pop,
            Operation::Remove { item } => Operation::Remove { item: renumbered(item) },
        };
        lines.push_str(&operation.to_string());
        lines.push('\n');
    }
    lines
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
        let mut keys = QueuedKeys::default();
        for &(number, said, operation) in &lines {
            let at = |wrong: Wrong| wrong.at(path, number, said);
            let left = repeat(&mut queue, operation).map_err(at)?;
            if let Some(item) = left {
                keys.remove(item);
            }
            if let Operation::Push { item, key } = operation {
                keys.insert(item, key).map_err(at)?;
            }
        }
        let operations: Vec<_> = lines.into_iter().map(|(_, _, operation)| operation).collect();
        if operations.is_empty() {
            return Err(RaceError::TraceEmpty { path: path.to_owned() });
        }
        Ok(Trace { span: keys.span(), operations, items })
    }

    /// The key that was pushed halfway; 0 if none was.
    pub(crate) fn middle_key(&self) -> u64 {
        let keys: Vec<u64> = self.operations.iter().filter_map(pushed_key).collect();
        keys.get(keys.len() / 2).copied().unwrap_or(0)
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
        ["push", item, key] => Ok(Operation::Push { item: number(item)?, key: number(key)? }),
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

/// The keys of a trace as if they did not wrap: each is the one that is nearest to those queued.
#[derive(Default)]
struct QueuedKeys {
    queued: BTreeSet<(i128, u32)>,
    of_items: BTreeMap<u32, i128>,
    /// The last key, which the next one is near to if nothing is queued.
    last: i128,
    /// The smallest and the largest of all so far.
    ends: Option<(i128, i128)>,
}

impl QueuedKeys {
    fn insert(&mut self, item: u32, key: u64) -> Result<(), Wrong> {
        let near = self.queued.first().map_or(self.last, |&(least, _)| least);
        let place = near + i128::from(key.wrapping_sub(near as u64) as i64);
        self.queued.insert((place, item));
        self.of_items.insert(item, place);
        self.last = place;
        let (least, most) = self.ends.unwrap_or((place, place));
        self.ends = Some((least.min(place), most.max(place)));
        self.together()
    }

    fn remove(&mut self, item: u32) {
        if let Some(place) = self.of_items.remove(&item) {
            self.queued.remove(&(place, item));
        }
    }

    /// Whether all that is queued can be compared by everybody.
    fn together(&self) -> Result<(), Wrong> {
        let (Some(&(least, _)), Some(&(most, item))) = (self.queued.first(), self.queued.last())
        else {
            return Ok(());
        };
        if most - least < APART_MAX {
            return Ok(());
        }
        let (least, most) = (least as u64, most as u64);
        let problem =
            format!("item {item} has key {most} while another one has {least}: 2^62 apart or more");
        Err(Wrong::new(problem, "queue only items together whose keys are less than 2^62 apart"))
    }

    /// How far all keys are apart, and one more.
    fn span(&self) -> u64 {
        self.ends.map_or(0, |(least, most)| (most - least + 1) as u64)
    }
}

fn pushed_key(operation: &Operation) -> Option<u64> {
    match operation {
        Operation::Push { key, .. } => Some(*key),
        _ => None,
    }
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
    fn what_was_done_is_read_as_it_was_written() {
        let push = |item, key| Operation::Push { item, key };
        let done = [push(70, 5), push(7, u64::MAX), Operation::Remove { item: 70 }, push(9, 4)];
        let text = trace_text(done.into_iter().chain([Operation::Pop, push(70, 6)]));
        assert_eq!(
            text,
            format!("push 0 5\npush 1 {}\nremove 0\npush 2 4\npop\npush 0 6\n", u64::MAX)
        );
        let trace = read(&text, None).expect("a trace");
        assert_eq!((trace.items, trace_text(trace.operations)), (3, text));
    }

    #[test]
    fn keys_may_be_anywhere_and_wrap_again_and_again() {
        let around = |key: u64| format!("push 1 {key}\npop\n");
        let text: String = (0..9).map(|turn| around(turn << 62)).collect();
        let trace = read(&text, None).expect("a trace");
        assert_eq!(trace.span, (8u64 << 62) + 1, "eight quarters of the numbers further");
        let text = format!("push 1 {}\npush 2 {}\npop\npop", i64::MAX, (1u64 << 63) + 5);
        assert_eq!(read(&text, None).expect("a trace").span, 7);
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
            (
                "push 1 7\npop\npush 2 4611686018427387904\npush 1 0",
                None,
                4,
                "item 2 has key 4611686018427387904 while another one has 0: 2^62 apart",
            ),
        ] {
            let error = read(text, capacity).expect_err(text);
            assert!(error.contains(&format!("wrong.trace:{line}: {problem}")), "{error}");
            assert!(error.contains("hint: "), "{error}");
        }
        assert!(read("# nothing\n", None).expect_err("empty").contains("no operation in it"));
    }
}
