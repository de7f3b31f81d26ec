//! Goal: what `schedlab check` must find, it finds, at the line where it is. Method: policies with
//! one mistake each, of a kind that a person makes, whose line is marked `//!`; each is run
//! strictly. They stand in the files of `mistakes/`: behind `===` what is said of one, or why it is
//! known not to be found; behind `---` what follows is of a part of it.

use crate::support::*;
use policy::Policy;
use simulator::Options;
use std::fmt::Write;

/// Of the mistakes, how many percent must be found.
const FOUND_PERCENT_MIN: usize = 95;

/// The files.
const FILES: [&str; 5] = [
    include_str!("mistakes/objects.txt"),
    include_str!("mistakes/stack.txt"),
    include_str!("mistakes/loops.txt"),
    include_str!("mistakes/calls.txt"),
    include_str!("mistakes/pieces.txt"),
];
/// What is no mistake, and is not told.
const RIGHT: &str = include_str!("mistakes/right.txt");
/// What is behind `===` where a mistake is known not to be found.
const NOT_FOUND: &str = "not found: ";

/// A mistake.
struct Mistake {
    /// What is said of it; empty if it is known not to be found.
    said: String,
    /// Its parts: what stands before the operations is called `before`, what an operation does has
    /// its name and, except that of `enqueue`, its parameters.
    parts: Vec<(String, String)>,
}

impl Mistake {
    /// All in a file.
    fn read(text: &str) -> Vec<Mistake> {
        let mistakes = text.split("\n=== ").skip(1);
        let read = |text: &str| {
            let mut parts = text.split("\n--- ");
            let said = parts.next().expect("a first line");
            let part = |part: &str| {
                let (name, text) = part.split_once('\n').expect("lines");
                (name.to_owned(), text.trim_end().to_owned())
            };
            let said = if said.starts_with(NOT_FOUND) { "" } else { said };
            Mistake { said: said.to_owned(), parts: parts.map(part).collect() }
        };
        mistakes.map(read).collect()
    }

    fn part(&self, name: &str) -> &str {
        let part = self.parts.iter().find(|(known, _)| known == name);
        part.map_or("", |(_, text)| text)
    }
}

const MAPS: &str = "
struct load { u64 runs, waits; u32 cpu; };
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 4);
	__type(key, u32); __type(value, struct load); } loads SEC(\".maps\");
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, 1);
	__type(key, u32); __type(value, struct load); } here SEC(\".maps\");
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 64);
	__type(key, u64); __type(value, u64); } by_number SEC(\".maps\");
struct { __uint(type, BPF_MAP_TYPE_TASK_STORAGE); __uint(map_flags, 1);
	__type(key, int); __type(value, struct load); } of_tasks SEC(\".maps\");
";

/// A policy with a mistake, and the mistake's line; 0 if none is marked.
fn text_of(mistake: &Mistake) -> (String, usize) {
    let mut text = format!(
        "#include <scx/common.bpf.h>
char _license[] SEC(\"license\") = \"GPL\";
volatile u64 total, zero, one = 1, two = 2, four = 4, eight = 8;
{MAPS}
{}
void BPF_STRUCT_OPS(wrong_enqueue, struct task_struct *p, u64 enq_flags)
{{
{}
\tscx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}}
",
        mistake.part("before"),
        mistake.part("enqueue"),
    );
    let mut members = String::from(".enqueue = (void *)wrong_enqueue,");
    let others = mistake.parts.iter().filter(|(name, _)| name != "before" && name != "enqueue");
    for (declared, body) in others {
        let name = declared.split(',').next().unwrap_or_default();
        let returns = if ["init", "init_task"].contains(&name) { "s32" } else { "void" };
        let _ = writeln!(text, "{returns} BPF_STRUCT_OPS(wrong_{declared})\n{{\n{body}\n}}");
        let _ = write!(members, " .{name} = (void *)wrong_{name},");
    }
    let _ = writeln!(text, "SCX_OPS_DEFINE(wrong_ops, {members} .name = \"wrong\");");
    let line = text.lines().position(|line| line.contains("//!"));
    (text, line.map_or(0, |line| line + 1))
}

/// What a strict run of two tasks on one CPU ends with.
fn said(policy: &Policy) -> String {
    let options = Options { strict: true, ..Options::default() };
    said_at_end(policy, &[run(MS), sleep(3 * MS), run(MS)], &options)
}

#[test]
fn mistakes_are_found_at_their_lines() {
    let all: Vec<Mistake> = FILES.into_iter().flat_map(Mistake::read).collect();
    let outcomes: Vec<_> = all.iter().map(is_found).collect();
    let wrong: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.clone().err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let found = outcomes.into_iter().filter(|outcome| *outcome == Ok(true)).count();
    println!("{found} of {} mistakes are found at their lines", all.len());
    assert!(100 * found >= FOUND_PERCENT_MIN * all.len(), "only {found} of {}", all.len());
}

#[test]
fn what_is_right_is_left_alone() {
    for right in Mistake::read(RIGHT) {
        let (text, _) = text_of(&right);
        let end = "\tscx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL";
        let text = text.replacen(end, &format!("\tscx_bpf_error(\"so far\");\n{end}"), 1);
        assert_eq!(said(&compile_text(&text)), "scx_bpf_error (so far)", "{}", right.said);
    }
}

/// Whether a mistake is found at its line; an error if that is not what is expected.
fn is_found(mistake: &Mistake) -> Result<bool, String> {
    let (text, line) = text_of(mistake);
    let said = said(&compile_text(&text));
    let is_here = said.contains(&format!("wrong.bpf.c:{line}: "));
    match &*mistake.said {
        "" if said.is_empty() => Ok(false),
        words if !words.is_empty() && said.contains(words) && is_here => Ok(true),
        _ => {
            let place = text.lines().nth(line - 1).unwrap_or_default();
            Err(format!("line {line}: {place}\n  {said}"))
        }
    }
}
