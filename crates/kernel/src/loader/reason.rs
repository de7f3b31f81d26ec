//! The one reason in all that a kernel says when it refuses a policy.
//!
//! A verifier's log is the whole way it went through the program; its reason is the last thing it
//! says, and the place in the source is the last line it quoted before.

use std::fmt;

use libbpf_rs::Error;

use super::status::Status;
use crate::ways_out::way_out;

/// A program that was refused, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reason {
    /// The C function; empty if the refusal is not about one.
    program: String,
    /// The kernel's words.
    words: String,
    /// `file:line`, empty if unknown.
    place: String,
    /// The line of source, empty if unknown.
    source_line: String,
    /// The kernel's own advice, which it gives since Linux 7.3; empty if none.
    suggestion: String,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.program.as_str() {
            "" => write!(f, "the kernel refused the policy: {}", self.words)?,
            program => write!(f, "the verifier refused {program}: {}", self.words)?,
        }
        match (self.place.as_str(), self.source_line.as_str()) {
            ("", "") => Ok(()),
            ("", line) => write!(f, " (near `{line}`)"),
            (place, line) => write!(f, " (near {place}: `{line}`)"),
        }
    }
}

impl Reason {
    /// A way out, or nothing where none is known: ours, which it has in the simulator too, before
    /// the kernel's own, which is for who knows the verifier.
    pub fn hint(&self) -> &str {
        way_out(&self.words).unwrap_or(&self.suggestion)
    }
}

/// The reason in what libbpf said while it loaded an object.
pub(super) fn of_load(log: &str) -> Option<Reason> {
    verifier_reason(log).or_else(|| loader_reason(log))
}

const LOG_BEGINS: &str = "-- BEGIN PROG LOAD LOG --";
const LOG_ENDS: &str = "-- END PROG LOAD LOG --";

fn verifier_reason(log: &str) -> Option<Reason> {
    let (before, rest) = log.split_once(LOG_BEGINS)?;
    let (verifier, _) = rest.split_once(LOG_ENDS).unwrap_or((rest, ""));
    let program = before.rsplit_once("prog '").and_then(|(_, name)| name.split('\'').next());
    let program = program.unwrap_or_default().to_owned();
    if let Some(reported) = reported_reason(verifier) {
        return Some(Reason { program, ..reported });
    }
    let mut lines = verifier.lines().rev().map(str::trim).skip_while(|line| !is_verdict(line));
    let mut words: Vec<&str> = lines.by_ref().take_while(|line| is_verdict(line)).collect();
    if words.is_empty() {
        return None;
    }
    words.reverse();
    let (source_line, place) = lines.find_map(quoted_source).unwrap_or_default();
    Some(Reason { program, words: words.join("; "), place, source_line, suggestion: String::new() })
}

/// The report that verifiers since Linux 7.3 write for people: headings, each with a paragraph.
fn reported_reason(verifier: &str) -> Option<Reason> {
    let words = paragraph_under(verifier, "Reason:")?;
    let at = paragraph_under(verifier, "At:").unwrap_or_default();
    let place = at.split_once(" @ ").and_then(|(_, rest)| rest.split(' ').next());
    let marked = verifier.lines().find_map(|line| line.trim().strip_prefix(">>> "));
    let source_line = marked.and_then(|line| line.split_once(" | ")).map_or("", |(_, text)| text);
    Some(Reason {
        words,
        place: place.unwrap_or_default().to_owned(),
        source_line: source_line.trim().to_owned(),
        suggestion: paragraph_under(verifier, "Suggestion:").unwrap_or_default(),
        ..Reason::default()
    })
}

/// The lines after a heading up to an empty one, as one.
fn paragraph_under(text: &str, heading: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| *line == heading)?;
    let paragraph: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    Some(paragraph.join(" "))
}

/// Whether a line of the log is the verifier's verdict: neither statistics, an instruction, a
/// quoted line of source, nor the state of registers.
fn is_verdict(line: &str) -> bool {
    let statistics = ["processed ", "verification time", "stack depth", "mark_precise", "arg#"];
    let first = line.split([' ', ':']).next().unwrap_or_default();
    !(line.is_empty()
        || line.starts_with(';')
        || statistics.iter().any(|start| line.starts_with(start))
        || first.parse::<u64>().is_ok()
        || line.starts_with("from ")
        || line.starts_with("cur state:")
        || line.starts_with("old state:")
        || line.starts_with("frame"))
}

/// `; source text @ file.c:12` as text and place.
fn quoted_source(line: &str) -> Option<(String, String)> {
    let quoted = line.strip_prefix("; ")?;
    let (text, place) = quoted.rsplit_once(" @ ").unwrap_or((quoted, ""));
    Some((text.trim().to_owned(), place.to_owned()))
}

/// A reason of the loader itself, which resolves names before the kernel sees a program.
fn loader_reason(log: &str) -> Option<Reason> {
    let telling =
        ["extern ", "failed to find", "failed to create", "relo #", "struct_ops", "system Kconfig"];
    // What a newer object has to say to newer kernels only, and the loader leaves out.
    let is_left_out = |line: &str| line.contains("skipping it as it's set to zero");
    let tells = |line: &str| telling.iter().any(|word| line.contains(word));
    let line = log.lines().find(|line| tells(line) && !is_left_out(line))?;
    let words = line.trim().trim_start_matches("libbpf: ").to_owned();
    Some(Reason { words, ..Reason::default() })
}

/// The reason where nothing but the error's number is told: a program that has no end for the
/// verifier fills its log before it says so.
pub(super) fn of_length(error: &Error) -> Option<Reason> {
    let words = "BPF program is too large for the verifier, or a loop of it too long".to_owned();
    (errno_of(error) == Some(E2BIG)).then(|| Reason { words, ..Reason::default() })
}

/// Reason and hint where the kernel would not enable a policy that it had verified.
pub(super) fn of_attach(error: &Error, before: &Status, kernel_log: &str) -> (String, String) {
    let said: Vec<&str> = kernel_log.lines().map(kernel_words).collect();
    let (reason, hint) = match errno_of(error) {
        Some(EBUSY) => (
            format!("another policy schedules this machine ({})", or_unknown(before)),
            "stop the program that loaded it",
        ),
        Some(E2BIG) => {
            ("its timeout_ms is over 30,000".into(), "30 s is the most the kernel allows")
        }
        Some(EINVAL) => (
            "it takes the policy's sched_ext_ops for invalid".into(),
            "its name may have letters, digits, _ and . only; its flags may be unknown to this \
             kernel, or need an operation that the policy lacks",
        ),
        _ => (format!("{error:#}"), ""),
    };
    if said.is_empty() { (reason, hint.into()) } else { (said.join("; "), hint.into()) }
}

const E2BIG: i32 = 7;
const EBUSY: i32 = 16;
const EINVAL: i32 = 22;

/// The number of the system's error, which libbpf-rs only gives away in its text.
fn errno_of(error: &Error) -> Option<i32> {
    let text = format!("{error:#}");
    text.rsplit_once("os error ")?.1.split(')').next()?.parse().ok()
}

fn kernel_words(line: &str) -> &str {
    line.split_once("sched_ext: ").map_or(line, |(_, words)| words)
}

fn or_unknown(status: &Status) -> &str {
    status.ops.as_deref().filter(|ops| !ops.is_empty()).unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_the_verifier_finds_too_long_is_told_so_though_it_said_nothing() {
        let reason = of_length(&Error::from_raw_os_error(E2BIG)).unwrap();
        assert!(reason.to_string().contains("a loop of it too long"), "{reason}");
        assert!(reason.hint().contains("use bpf_for for loops"), "{reason:?}");
        assert_eq!(of_length(&Error::from_raw_os_error(EINVAL)), None);
    }

    /// As a kernel 6.18 writes it, shortened.
    const LOOP: &str = "\
libbpf: prog 'endless_enqueue': BPF program load failed: -EINVAL
libbpf: prog 'endless_enqueue': -- BEGIN PROG LOAD LOG --
0: R1=ctx() R10=fp0
; for (;;) @ endless.bpf.c:12
0: (b7) r1 = 0                        ; R1_w=0
infinite loop detected at insn 4
cur state: R1=0 R10=fp0
old state: R1=0 R10=fp0
processed 8 insns (limit 1000000) max_states_per_insn 0 total_states 1 peak_states 1 mark_read 1
-- END PROG LOAD LOG --
libbpf: failed to load object 'endless'
";

    #[test]
    fn a_verifiers_log_is_reduced_to_program_reason_and_place() {
        let reason = of_load(LOOP).unwrap();
        let text = reason.to_string();
        assert!(text.contains("endless_enqueue: infinite loop detected at insn 4"), "{text}");
        assert!(text.contains("endless.bpf.c:12: `for (;;)`"), "{text}");
        assert!(reason.hint().contains("bpf_for"), "{reason:?}");
    }

    /// As a kernel 7.3 writes it, shortened.
    const REPORTED: &str = "\
libbpf: prog 'careless_enqueue': -- BEGIN PROG LOAD LOG --
8: (79) r1 = *(u64 *)(r0 +0)
R0 invalid mem access 'map_value_or_null'

Reason:
  R0 may be NULL here (a nullable map value pointer). The program could
  dereference NULL on this path.

At:
  careless_enqueue @ careless.bpf.c:20:9
  Source context:
      18 |         u64 *count = f();
  >>> 20 |         *count += 1;

Suggestion:
  Add a NULL check before the access.

processed 8 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
-- END PROG LOAD LOG --
";

    #[test]
    fn a_report_that_is_written_for_people_is_passed_on() {
        let reason = of_load(REPORTED).unwrap();
        let text = reason.to_string();
        assert!(text.contains("careless_enqueue: R0 may be NULL here"), "{text}");
        assert!(text.ends_with("(near careless.bpf.c:20:9: `*count += 1;`)"), "{text}");
        assert_eq!(reason.suggestion, "Add a NULL check before the access.");
        assert!(reason.hint().contains("compare it with NULL"), "{reason:?}");
    }

    #[test]
    fn a_call_that_the_kernel_lacks_is_named() {
        let log = "libbpf: extern (func ksym) 'scx_bpf_new': not found in kernel or module BTFs\n\
                   libbpf: failed to load object 'x'\n";
        let reason = of_load(log).unwrap();
        assert!(reason.to_string().contains("scx_bpf_new"), "{reason}");
        assert!(!reason.hint().is_empty());
    }

    #[test]
    fn a_map_that_another_program_would_have_sized_is_named() {
        let log = "libbpf: struct_ops pair_ops: member cgroup_set_idle not found in kernel, \
                   skipping it as it's set to zero\n\
                   libbpf: map 'pair_ctx': failed to create: -EINVAL\n\
                   libbpf: failed to load object 'x'\n";
        let reason = of_load(log).unwrap();
        assert!(reason.to_string().contains("'pair_ctx'"), "{reason}");
        assert!(reason.hint().contains("own program"), "{reason:?}");
    }

    #[test]
    fn a_log_without_a_reason_gives_none() {
        assert_eq!(of_load("libbpf: loading object 'x'\n"), None);
    }
}
