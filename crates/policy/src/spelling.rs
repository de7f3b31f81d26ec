//! Which known word a mistyped one was probably meant to be.

/// The candidate nearest to `word`, if its distance is at most a third of `word`'s length (and
/// at least two edits are always forgiven). The first wins among equals.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = (word.chars().count() / 3).max(2);
    candidates
        .map(|candidate| (edits(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance: insertions, deletions and substitutions of one character.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let substituted = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: `edits` is the Levenshtein distance. Method: pairs whose distance is published or
    /// plain to see, both ways round.
    #[test]
    fn distances_of_known_pairs() {
        let pairs =
            [("kitten", "sitting", 3), ("", "abc", 3), ("same", "same", 0), ("ab", "ba", 2)];
        for (a, b, distance) in pairs {
            assert_eq!(edits(a, b), distance, "{a} {b}");
            assert_eq!(edits(b, a), distance, "{b} {a}");
        }
    }

    #[test]
    fn only_a_word_spelled_alike_is_suggested() {
        let known = ["slice_ns", "latency_ns", "wakeup_granularity_ns"];
        assert_eq!(nearest("slice_n", known.into_iter()), Some("slice_ns"));
        assert_eq!(nearest("wakeup_granlarity", known.into_iter()), Some(known[2]));
        assert_eq!(nearest("cheese", known.into_iter()), None);
    }
}
