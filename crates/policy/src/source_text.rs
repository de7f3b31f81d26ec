//! What only the text of a policy says: its idea, and what each tunable is for.
//!
//! Comments do not reach the object, so they are read from the source. This is a reader of
//! lines, not of C: it understands a comment above a definition and one at its line's end.

/// A policy's source, alone or with its headers behind it, cut into lines.
pub(crate) struct SourceText<'a> {
    lines: Vec<&'a str>,
    /// The lines that begin as a `const volatile` definition does, of thousands.
    definitions: Vec<usize>,
}

impl<'a> SourceText<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let definitions = (0..lines.len()).filter(|&line| is_qualified(lines[line])).collect();
        SourceText { lines, definitions }
    }

    /// The idea of the policy: what follows ` - ` in the first comment line that looks like
    /// `/* name - idea`. Empty if there is none.
    pub(crate) fn description(&self) -> String {
        let Some(line) = self.description_line() else { return String::new() };
        let (_, idea) = self.lines[line].split_once(" - ").unwrap_or_default();
        idea.trim().trim_end_matches("*/").trim_end().to_owned()
    }

    /// The line on which `const volatile TYPE name` is defined, for sorting.
    pub(crate) fn definition_line(&self, name: &str) -> Option<usize> {
        self.definitions.iter().copied().find(|&line| defines(self.lines[line], name))
    }

    /// The comment directly above the definition of `name`, or else at its line's end. Empty if
    /// there is neither.
    pub(crate) fn doc(&self, name: &str) -> String {
        let Some(line) = self.definition_line(name) else { return String::new() };
        let above = self.comment_above(line);
        if above.is_empty() { comment_at_end(self.lines[line]) } else { above }
    }

    fn description_line(&self) -> Option<usize> {
        self.lines.iter().position(|line| {
            let start = line.trim_start();
            start.starts_with("/*") && start.contains(" - ") && !start.contains("SPDX-")
        })
    }

    fn comment_above(&self, definition: usize) -> String {
        let above = &self.lines[..definition];
        let last = above.last().map(|line| line.trim()).unwrap_or_default();
        let first = if last.starts_with("//") {
            let before = above.iter().rposition(|line| !line.trim_start().starts_with("//"));
            before.map_or(0, |line| line + 1)
        } else if last.ends_with("*/") {
            let Some(first) = above.iter().rposition(|line| line.contains("/*")) else {
                return String::new();
            };
            first
        } else {
            return String::new();
        };
        let start = self.lines[first].trim_start();
        let is_comment = start.starts_with("/*") || start.starts_with("//");
        if !is_comment || Some(first) == self.description_line() {
            return String::new(); // The end of another line, or the policy's own header.
        }
        joined(&above[first..])
    }
}

/// Whether `line` begins with `const volatile`, in either order.
fn is_qualified(line: &str) -> bool {
    let code = line.trim_start();
    if !code.starts_with("const") && !code.starts_with("volatile") {
        return false;
    }
    let mut words = code.split_whitespace();
    matches!(
        (words.next(), words.next()),
        (Some("const"), Some("volatile")) | (Some("volatile"), Some("const"))
    )
}

/// Whether `line`, which is qualified, holds a definition of `name`.
fn defines(line: &str, name: &str) -> bool {
    let code = line.split("/*").next().unwrap_or_default().split("//").next().unwrap_or_default();
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + name.len()..].trim_start().chars().next();
        before.is_some_and(|c| !is_word(c)) && matches!(after, None | Some('=' | ';' | '[' | ','))
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn comment_at_end(line: &str) -> String {
    let start = line.find("/*").or_else(|| line.find("//"));
    start.map(|at| joined(&[&line[at..]])).unwrap_or_default()
}

/// The words of a comment without its marks.
fn joined(lines: &[&str]) -> String {
    let words = lines.iter().flat_map(|line| {
        let text = line.trim().trim_start_matches('/').trim_start_matches('*');
        text.trim_end_matches("*/").split_whitespace()
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* rota - every task - even yours - gets a turn.
 *
 * More about it.
 */
const volatile u64 first_ns = 1;

/* How long a turn lasts,
 * at most. */
const volatile u64 slice_ns = 3;
const volatile u64 bare_ns = 4;
const volatile bool fair = true; /* Weights count. */
const volatile s32 after_a_comment_at_the_end;
// Two lines
// of another kind.
volatile const u32 depth[4];
/* A word about slice. */
const volatile u32 slice =
	5;
";

    /// Goal: each comment reaches the definition it belongs to and no other. Method: one text
    /// with every position a comment may take.
    #[test]
    fn comments_find_their_definitions() {
        let text = SourceText::new(TEXT);
        let expected = [
            ("first_ns", ""),
            ("slice_ns", "How long a turn lasts, at most."),
            ("bare_ns", ""),
            ("fair", "Weights count."),
            ("after_a_comment_at_the_end", ""),
            ("depth", "Two lines of another kind."),
            ("slice", "A word about slice."),
            ("absent", ""),
        ];
        for (name, doc) in expected {
            assert_eq!(text.doc(name), doc, "{name}");
        }
    }

    #[test]
    fn the_idea_follows_the_first_dash_of_the_header() {
        assert_eq!(SourceText::new(TEXT).description(), "every task - even yours - gets a turn.");
        assert_eq!(SourceText::new("/* a - one line. */").description(), "one line.");
        assert_eq!(SourceText::new("int x; // a - b").description(), "");
    }
}
