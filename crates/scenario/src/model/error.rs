//! What can be wrong with a machine or workload file.
//!
//! Every error names the file, the key and the value, and ends with a way out, so that it can be
//! shown to a user as it is.

use thiserror::Error;

/// A machine or workload that cannot be used, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScenarioError {
    /// The file could not be read.
    #[error("cannot read {file}: {reason}\nhint: {hint}")]
    Unreadable {
        /// Path as it was given.
        file: String,
        /// What the operating system said.
        reason: String,
        /// The way out.
        hint: String,
    },
    /// The file is not TOML.
    #[error(
        "{file} is not valid TOML: {reason}\nhint: compare with a shipped file; text needs quotes"
    )]
    Syntax {
        /// Path as it was given.
        file: String,
        /// What the parser said, with line and column.
        reason: String,
    },
    /// A key that means nothing at this place.
    #[error("{file}: unknown key `{key}`\nhint: {hint}")]
    UnknownKey {
        /// Path as it was given.
        file: String,
        /// Path of the key inside the file.
        key: String,
        /// The nearest valid key and all valid ones.
        hint: String,
    },
    /// A key that must be there and is not.
    #[error("{file}: `{key}` is missing\nhint: {hint}")]
    MissingKey {
        /// Path as it was given.
        file: String,
        /// Path of the key inside the file.
        key: String,
        /// What to write.
        hint: String,
    },
    /// A value that this key cannot have.
    #[error("{file}: `{key}` is {value}: {problem}\nhint: {hint}")]
    BadValue {
        /// Path as it was given.
        file: String,
        /// Path of the key inside the file.
        key: String,
        /// The value as it stands in the file.
        value: String,
        /// Why it cannot be used.
        problem: String,
        /// What to write instead.
        hint: String,
    },
    /// A parameter that this workload does not have.
    #[error("{file}: this workload has no parameter `{name}` (given as {value})\nhint: {hint}")]
    UnknownParameter {
        /// Path as it was given.
        file: String,
        /// The name that was given.
        name: String,
        /// The value that was given.
        value: String,
        /// The nearest parameter and all that there are.
        hint: String,
    },
}

/// The names that are valid where `name` was found, with the nearest one first if it is near.
pub(crate) fn choices(what: &str, name: &str, known: &[&str]) -> String {
    let list = if known.is_empty() { "none".to_string() } else { known.join(", ") };
    match nearest(name, known) {
        Some(near) => format!("did you mean `{near}`? {what}: {list}"),
        None => format!("{what}: {list}"),
    }
}

/// Changes of a letter beyond which a name is no longer taken for a slip of the pen.
const SLIP_MAX: usize = 2;

/// The known name that is spelled most alike, if that can be a slip of the pen.
pub(crate) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|candidate| (edit_distance(name, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= SLIP_MAX && *distance < candidate.len())
        .min()
        .map(|(_, candidate)| candidate)
}

/// Letters to insert, delete or replace to make `b` of `a` (Levenshtein 1966). O(|a| |b|).
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    //! Goal: a slip of the pen is recognised and a different word is not. Method: examples.
    use super::*;

    #[test]
    fn edit_distance_counts_single_letter_changes() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("abc", "abc"), 0);
    }

    #[test]
    fn a_near_name_is_proposed_and_a_far_one_is_not() {
        let known = ["context_switch_ns", "hz"];
        assert_eq!(nearest("context_swich_ns", &known), Some("context_switch_ns"));
        assert_eq!(nearest("banana", &known), None);
        assert_eq!(nearest("xy", &known), None, "replacing every letter is not a slip");
    }
}
