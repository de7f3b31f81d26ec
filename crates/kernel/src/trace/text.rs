//! What a scheduler did, from the text of other programs: `perf script`, the `trace` file of
//! ftrace, `trace-cmd report`.
//!
//! A line is what stands before the event (who ran, `[CPU]`, `SECONDS.FRACTION:`), the event's
//! name, and its fields, as the kernel prints them (`prev_pid=7`) or as trace-cmd's plug-ins do
//! (`bash:7 [120] S ==> …`). Names of tasks may hold anything, so lines are read from what is
//! behind names. Other events are passed over.
//!
//! Sources: Linux Documentation/trace/ftrace.rst; include/trace/events/sched.h; libtraceevent,
//! plugins/plugin_sched_switch.c.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Event, Kind, Trace};

/// How the text that is read here is made, for messages.
pub const HOW: &str = "perf script --ns -F comm,pid,tid,cpu,time,event,trace";
const SWITCH: &str = "sched_switch";
const WAKEUP: &str = "sched_wakeup";
const WAKEUP_NEW: &str = "sched_wakeup_new";
const WAKING: &str = "sched_waking";
const NAMES: [&str; 4] = [SWITCH, WAKEUP, WAKEUP_NEW, WAKING];

/// A recording that came as text.
#[derive(Clone, Debug, Default)]
pub struct TextTrace {
    /// Its events.
    pub trace: Trace,
    /// The priority that each task had last, as the kernel counts: 120 is nice 0, below 100 is
    /// real time.
    pub priorities: BTreeMap<i32, i32>,
}

/// Why a text is no recording.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// The file cannot be read.
    #[error("cannot read {}: {cause}\nhint: give the path of a file that can be", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// An event that is written in another way.
    #[error(
        "{}:{line}: {problem}\n  {text}\nhint: make the text with: {HOW}\nhint: or take the file \
         `trace` of ftrace as it is", path.display()
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        problem: &'static str,
        /// The line.
        text: String,
    },
    /// Half of what a run queue needs is not there.
    #[error("{}: no {missing} in it\nhint: record {}", path.display(), NAMES.join(", "))]
    Missing {
        /// The file.
        path: PathBuf,
        /// The events that are needed too.
        missing: &'static str,
    },
}

impl TextTrace {
    /// Reads the recording at `path`. Where both are there a task became runnable at its
    /// `sched_wakeup`, when it was queued, and not at the `sched_waking` before.
    ///
    /// # Errors
    /// [`TextError`].
    pub fn read(path: &Path) -> Result<TextTrace, TextError> {
        let bytes = fs::read(path);
        let bytes = bytes.map_err(|cause| TextError::Io { path: path.to_owned(), cause })?;
        let mut found = TextTrace::default();
        let (mut switches, mut wakeups, mut waking) = (0u64, 0u64, Vec::new());
        // A task's name is any bytes.
        for (number, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
            found.trace.lost += lost(line);
            let Some(event) = event_of(line) else { continue };
            let failed = |problem| TextError::Line {
                path: path.to_owned(),
                line: number + 1,
                problem,
                text: line.trim().to_owned(),
            };
            let Written { cpu, at_ns, name, fields } = event.map_err(failed)?;
            let read = if name == SWITCH { switch } else { wakeup };
            let (kind, priorities) = read(fields).ok_or_else(|| failed(NO_FIELDS))?;
            found.priorities.extend(priorities);
            found.trace.nr_cpus = found.trace.nr_cpus.max(cpu.saturating_add(1));
            let event = Event { at_ns, cpu, kind: told_by(name, kind) };
            match name {
                WAKING => waking.push(event),
                _ => found.trace.events.push(event),
            }
            switches += u64::from(name == SWITCH);
            wakeups += u64::from(name == WAKEUP);
        }
        let missing = |missing| TextError::Missing { path: path.to_owned(), missing };
        if switches == 0 {
            return Err(missing(SWITCH));
        }
        if wakeups == 0 {
            if waking.is_empty() {
                return Err(missing("sched_wakeup and no sched_waking"));
            }
            found.trace.events.append(&mut waking);
        }
        // Stable: what one CPU wrote in one nanosecond, or microsecond, keeps its order.
        found.trace.events.sort_by_key(|event| event.at_ns);
        Ok(found)
    }
}

const NO_TIME: &str = "no [CPU] and SECONDS.FRACTION: before the event";
const NO_FIELDS: &str = "fields that are not known";

/// An event as it is written.
struct Written<'t> {
    cpu: u32,
    at_ns: u64,
    name: &'static str,
    fields: &'t str,
}

/// The event of a line, if one is named; `Err` if nothing before it says when it was. A task may be
/// called like an event, so what is said before counts.
fn event_of(line: &str) -> Option<Result<Written<'_>, &'static str>> {
    if line.starts_with('#') {
        return None;
    }
    let is_event = |at: usize, name: &str| {
        line[..at].ends_with([' ', ':']) && line[at + name.len()..].starts_with(": ")
    };
    let mut named: Vec<(usize, &'static str)> = NAMES
        .iter()
        .flat_map(|&name| line.match_indices(name).map(move |(at, _)| (at, name)))
        .filter(|&(at, name)| is_event(at, name))
        .collect();
    named.sort_unstable();
    let found = named.iter().find_map(|&(at, name)| {
        let (cpu, at_ns) = when(&line[..at])?;
        Some(Written { cpu, at_ns, name, fields: &line[at + name.len() + 2..] })
    });
    match found {
        None if named.is_empty() => None,
        found => Some(found.ok_or(NO_TIME)),
    }
}

/// The CPU and the time in ns of a line like `bash-7 [001] d..2. 12.345678: sched:`.
fn when(head: &str) -> Option<(u32, u64)> {
    let head = head.trim_end();
    let head = head.strip_suffix("sched:").unwrap_or(head).trim_end();
    let (before, time) = head.strip_suffix(':')?.rsplit_once(char::is_whitespace)?;
    let cpu = before
        .split_whitespace()
        .rev()
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']')?.parse().ok())?;
    let (seconds, fraction) = time.split_once('.')?;
    let nr_digits = u32::try_from(fraction.len()).ok()?;
    let scale = 10u64.checked_pow(9u32.checked_sub(nr_digits)?)?;
    let ns = fraction.parse::<u64>().ok()?.checked_mul(scale)?;
    Some((cpu, seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(ns)?))
}

/// A task and its priority.
type Named = (i32, i32);

/// An event, and what is said of the tasks in it.
type Told = (Kind, Vec<Named>);

fn switch(fields: &str) -> Option<Told> {
    let (left, right) = fields.rsplit_once(" ==> ")?;
    let (previous, state) = match field(left, "prev_pid=") {
        Some(task) => {
            ((number(task)?, number(field(left, "prev_prio=")?)?), field(left, "prev_state=")?)
        }
        None => {
            let (task, state) = left.trim().rsplit_once(' ')?;
            (named(task)?, state)
        }
    };
    let next = match field(right, "next_pid=") {
        Some(task) => (number(task)?, number(field(right, "next_prio=")?)?),
        None => named(right)?,
    };
    // R+ is who was preempted; all other states are some kind of sleep, or the end.
    let voluntarily = !state.starts_with('R');
    Some((Kind::Switch { previous: previous.0, voluntarily, next: next.0 }, vec![previous, next]))
}

fn wakeup(fields: &str) -> Option<Told> {
    let (task, cpu) = match field(fields, "target_cpu=") {
        Some(cpu) => ((number(field(fields, "pid=")?)?, number(field(fields, "prio=")?)?), cpu),
        None => {
            let priority_end = fields.rfind(']')?;
            (named(&fields[..=priority_end])?, field(&fields[priority_end..], "CPU:")?)
        }
    };
    let target_cpu = cpu.parse().ok()?;
    Some((Kind::Wakeup { task: task.0, target_cpu, is_new: false }, vec![task]))
}

/// The event, with what its name says.
fn told_by(name: &str, kind: Kind) -> Kind {
    match kind {
        Kind::Wakeup { task, target_cpu, .. } => {
            Kind::Wakeup { task, target_cpu, is_new: name == WAKEUP_NEW }
        }
        other => other,
    }
}

/// What stands after the last `key`, up to a blank.
fn field<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let at = text.rfind(key)? + key.len();
    text[at..].split_whitespace().next()
}

fn number(text: &str) -> Option<i32> {
    text.parse().ok()
}

/// `bash:7 [120]`.
fn named(text: &str) -> Option<Named> {
    let (task, priority) = text.trim().rsplit_once(' ')?;
    let priority = priority.strip_prefix('[')?.strip_suffix(']')?;
    Some((number(task.rsplit_once(':')?.1)?, number(priority)?))
}

/// Events that did not fit into the buffer, as ftrace says: `CPU:1 [LOST 300 EVENTS]`.
fn lost(line: &str) -> u64 {
    let counted = || {
        let (_, rest) = line.strip_prefix("CPU:")?.split_once(" [LOST ")?;
        rest.strip_suffix(" EVENTS]")?.parse().ok()
    };
    counted().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    //! Goal: what three programs print is one recording. Method: lines as they print them, each of
    //! the same events, and lines that nobody prints.
    use super::*;

    /// As a kernel of version 6.18 and perf 6.1 printed it, the tasks renamed.
    const PERF: &str = include_str!("../../tests/traces/perf.txt");
    const FTRACE: &str = include_str!("../../tests/traces/ftrace.txt");
    /// With the plug-ins of libtraceevent.
    const TRACE_CMD: &str = include_str!("../../tests/traces/trace_cmd.txt");

    fn read(text: &str) -> Result<TextTrace, TextError> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("recorded.txt");
        fs::write(&path, text).expect("written");
        TextTrace::read(&path)
    }

    fn kinds(text: &str) -> Vec<(u32, Kind)> {
        let trace = read(text).expect("a recording").trace;
        trace.events.iter().map(|event| (event.cpu, event.kind)).collect()
    }

    #[test]
    fn three_programs_say_the_same() {
        let switch = |previous, voluntarily, next| Kind::Switch { previous, voluntarily, next };
        let woken = |task, is_new| Kind::Wakeup { task, target_cpu: 1, is_new };
        let expected = [
            (0, woken(7, false)),
            (0, switch(18, true, 9)),
            (1, woken(11, true)),
            (1, switch(7, false, 0)),
        ];
        for text in [PERF, FTRACE, TRACE_CMD] {
            assert_eq!(kinds(text), expected, "{text}");
            let found = read(text).expect("a recording");
            let priorities = [(0, 120), (7, 120), (9, 139), (11, 125), (18, 0)];
            assert_eq!(found.priorities, BTreeMap::from(priorities), "{text}");
            assert_eq!(found.trace.nr_cpus, 2);
        }
        let times = |text| {
            let events = read(text).expect("a recording").trace.events;
            events.iter().map(|event| event.at_ns).collect::<Vec<_>>()
        };
        assert_eq!(times(PERF), times(TRACE_CMD));
        assert_eq!(times(PERF)[0], 1_582_974_404_910);
        assert_eq!(times(FTRACE)[0], 1_582_974_404_000);
        assert_eq!(read(FTRACE).expect("a recording").trace.lost, 300);
    }

    #[test]
    fn where_nothing_says_queued_a_waking_task_is_runnable() {
        let only: String = PERF
            .lines()
            .filter(|line| !line.contains("sched:sched_wakeup: "))
            .map(|line| {
                format!(
                    "{line}
"
                )
            })
            .collect();
        let first = read(&only).expect("a recording").trace.events[0];
        assert_eq!(first.at_ns, 1_582_974_398_921);
        assert_eq!(first.kind, Kind::Wakeup { task: 7, target_cpu: 0, is_new: false });
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_line() {
        let error = |text: &str| read(text).expect_err(text).to_string();
        let without = |word: &str| PERF.replacen(word, "", 1);
        for (text, line, problem) in [
            (without("[000]"), 1, NO_TIME),
            (without("1582.974410268:"), 3, NO_TIME),
            (without("974404910"), 2, NO_TIME),
            (without("next_pid=9"), 3, NO_FIELDS),
            (without("target_cpu=000"), 1, NO_FIELDS),
            (without("pid=11"), 4, NO_FIELDS),
        ] {
            let found = error(&text);
            assert!(found.contains(&format!("recorded.txt:{line}: {problem}")), "{found}");
            assert!(found.contains("hint: "), "{found}");
        }
        let lines = |wanted: &str| -> String {
            PERF.lines()
                .filter(|line| line.contains(wanted))
                .map(|one| {
                    format!(
                        "{one}
"
                    )
                })
                .collect()
        };
        assert!(error(&lines("sched:sched_wak")).contains("no sched_switch in it"));
        assert!(
            error(&lines("sched:sched_switch")).contains("no sched_wakeup and no sched_waking")
        );
        assert!(error("").contains("no sched_switch"));
        let missing = TextTrace::read(Path::new("/nowhere/at.all")).expect_err("missing");
        assert!(missing.to_string().contains("cannot read /nowhere/at.all"), "{missing}");
    }
}
