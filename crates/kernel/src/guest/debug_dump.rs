//! The kernel's own dump of a policy, in the form of a simulator's.
//!
//! Source: Linux, kernel/sched/ext.c, `scx_dump_state`.

use std::collections::BTreeMap;

use bytecode::Object;
use policy::inside::{LISTED_MAX, dsq_name, heading, more};

/// `SCX_DSQ_FLAG_BUILTIN`, and the queue that all policies have. Source: Linux,
/// include/linux/sched/ext.h.
const BUILTIN_DSQ: u64 = 1 << 63;
const GLOBAL_DSQ: u64 = BUILTIN_DSQ | 1;
/// `SCX_TASK_DSQ_ON_PRIQ`
const BY_VTIME: u64 = 1;

/// A kernel's dump as a simulator's: without where tasks are in the kernel, with the time in the
/// play, and with queues, which the kernel does not list, of the tasks that say that they are in
/// them.
pub(super) fn in_form(dump: &str, object: &Object, at_ns: Option<u64>) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for line in dump.lines() {
        if is_of_stack(line) || line == "Backtrace:" {
            continue;
        }
        // What is left of a stack is the empty line before it.
        if line.is_empty() && told.last().is_some_and(String::is_empty) {
            continue;
        }
        told.push(match (line.strip_prefix("Debug dump triggered by "), at_ns) {
            (Some(_), Some(at_ns)) => {
                format!("{line} at {}.{:09} s", at_ns / 1_000_000_000, at_ns % 1_000_000_000)
            }
            _ => line.to_owned(),
        });
    }
    // Before 7.1 there is no line of the policy's own.
    let name = object.tables.iter().find_map(|table| table.values.get("name"));
    let name = name.map(|name| String::from_utf8_lossy(name).trim_end_matches('\0').to_owned());
    let head = format!("{}: root", name.as_deref().unwrap_or("policy"));
    if !told.first().is_some_and(|first| first.ends_with(": root")) {
        told.insert(0, head);
    }
    while told.last().is_some_and(String::is_empty) {
        told.pop();
    }
    if dump.is_empty() {
        return told;
    }
    let queues = queues(&told, object);
    let counters = told.iter().position(|line| line == "Event counters");
    let at = counters.map_or(told.len(), |at| at - 1);
    told.splice(at..at, queues);
    told
}

/// As `    schedule+0x41/0x120`, maybe with a module's name.
fn is_of_stack(line: &str) -> bool {
    let Some((_, offsets)) = line.split_once("+0x") else { return false };
    let place = offsets.split_once("/0x");
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_hexdigit());
    line.starts_with("  ")
        && place.is_some_and(|(offset, size)| {
            is_number(offset) && size.split(' ').next().is_some_and(is_number)
        })
}

/// A task in a dump.
#[derive(Default)]
struct Queued {
    label: String,
    waited_ms: i64,
    is_by_vtime: bool,
    numbers: String,
    vtime: u64,
}

/// The queues of a policy's own and the global one, with their tasks: those by virtual time in
/// their order, others from the one that became runnable first.
fn queues(told: &[String], object: &Object) -> Vec<String> {
    let mut queues: BTreeMap<u64, Vec<Queued>> = BTreeMap::new();
    let mut task = Queued::default();
    let mut queue = None;
    for line in told {
        if let Some((label, waited_ms)) = head_of_task(line) {
            (task, queue) = (Queued { label, waited_ms, ..Queued::default() }, None);
        } else if let Some(flags) = number_after(line, "dsq_flags=0x", 16) {
            task.is_by_vtime = flags & BY_VTIME != 0;
        } else if let Some(id) = number_after(line, "dsq_id=0x", 16) {
            queue = (id & BUILTIN_DSQ == 0 || id == GLOBAL_DSQ).then_some(id);
        } else if let Some(vtime) = number_after(line, "      dsq_vtime=", 10)
            && let Some(id) = queue.take()
        {
            (task.vtime, task.numbers) = (vtime, line.trim().to_owned());
            queues.entry(id).or_default().push(std::mem::take(&mut task));
        }
    }
    let mut lines = heading("Dispatch queues").to_vec();
    for (id, mut tasks) in queues {
        let is_by_vtime = tasks.iter().any(|task| task.is_by_vtime);
        let order = if is_by_vtime { "by dsq_vtime" } else { "the longest runnable first" };
        if is_by_vtime {
            tasks.sort_by_key(|task| task.vtime);
        } else {
            tasks.sort_by_key(|task| task.waited_ms);
        }
        let known = (id == GLOBAL_DSQ).then(|| "SCX_DSQ_GLOBAL".to_owned());
        let name = known.or_else(|| dsq_name(object, id));
        let name = name.map(|name| format!(" {name}")).unwrap_or_default();
        lines.extend([String::new(), format!("DSQ {id:#x}{name}: nr={}, {order}", tasks.len())]);
        let listed = tasks.iter().take(LISTED_MAX);
        lines.extend(listed.map(|task| format!("  {} {}", task.label, task.numbers)));
        lines.extend(more(tasks.len()));
    }
    lines
}

/// Name and pid of the task that a line like ` *R hog[7] *root -12ms` begins, and how many ms ago
/// it became runnable, negative. Before 7.1 the policy is not named.
fn head_of_task(line: &str) -> Option<(String, i64)> {
    let mut marks = line.strip_prefix(' ')?.chars();
    let is_marked = marks.next().is_some_and(|mark| [' ', '*'].contains(&mark));
    let is_stated = marks.next().is_some_and(|state| state.is_ascii_alphabetic());
    let rest = marks.as_str().strip_prefix(' ').filter(|_| is_marked && is_stated)?;
    let (label, after) = rest.rsplit_once("] ")?;
    let waited = after.split(' ').next_back()?.strip_suffix("ms")?;
    Some((format!("{label}]"), waited.parse().ok()?))
}

fn number_after(line: &str, word: &str, radix: u32) -> Option<u64> {
    let (_, rest) = line.split_once(word)?;
    let end = rest.find(|c: char| !c.is_digit(radix)).unwrap_or(rest.len());
    u64::from_str_radix(&rest[..end], radix).ok()
}

#[cfg(test)]
mod tests {
    //! Goal: a kernel's dump takes the form of a simulator's. Method: one made by hand of lines as
    //! 7.3 writes them.
    use super::*;

    #[test]
    fn stacks_go_and_queues_come() {
        let task = |pid, mark, ms, flags, dsq, vtime| {
            format!(
                "\n {mark}R hog[{pid}] *root {ms}ms\n      scx_state/flags=3/0x9 \
                 dsq_flags=0x{flags} ops_state/qseq=0/27\n      sticky/holding_cpu=-1/-1 \
                 dsq_id={dsq}\n      dsq_vtime={vtime} slice=3000000 weight=100\n      cpus=3 \
                 no_mig=0\n\n    wakeups=2\n\n    schedule+0x41/0x120\n    do_x+0x1/0x2 [module]\n"
            )
        };
        let dump = [
            "Debug dump triggered by SysRq-D\n\nCPU states\n----------\n".to_owned(),
            "\nCPU 0   : nr_run=4 flags=0x1\n          curr=hog[1] class=ext_sched_class\n".into(),
            task(1, '*', -5, 0, "(n/a)", 7),
            task(2, ' ', -1, 1, "0x5", 9),
            task(3, ' ', -2, 1, "0x5", 8),
            task(4, ' ', -2, 0, "0x6", 0),
            task(5, ' ', -3, 0, "0x6", 0),
            task(6, ' ', -3, 0, "0x8000000000000002", 0),
            "\nEvent counters\n--------------\n  SCX_EV_A:  3\n".into(),
        ];
        let text = in_form(&dump.concat(), &Object::default(), Some(1_500_000_000)).join("\n");
        let begin =
            "policy: root\nDebug dump triggered by SysRq-D at 1.500000000 s\n\nCPU states\n";
        assert!(text.starts_with(begin), "{text}");
        assert!(!text.contains("+0x") && text.matches("    wakeups=2\n\n").count() == 6, "{text}");
        let queues = "\n\nDispatch queues\n---------------\n\nDSQ 0x5: nr=2, by dsq_vtime\n  \
            hog[3] dsq_vtime=8 slice=3000000 weight=100\n  hog[2] dsq_vtime=9 slice=3000000 \
            weight=100\n\nDSQ 0x6: nr=2, the longest runnable first\n  hog[5] dsq_vtime=0 \
            slice=3000000 weight=100\n  hog[4] dsq_vtime=0 slice=3000000 weight=100\n\nEvent \
            counters\n";
        assert!(text.contains(queues), "{text}");
    }
}
