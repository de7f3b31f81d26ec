//! What every workload must satisfy, wherever it came from: file, built-in or random.
//!
//! A checked workload cannot index outside its lists, cannot loop without time passing, cannot
//! run for ever unless it says when to stop, and cannot ask for a message that never fits.

mod cgroups;
mod changes;

pub use cgroups::{
    CGROUP_LEVELS_MAX, CGROUP_WEIGHT_DEFAULT, CGROUP_WEIGHTS, CGROUPS_MAX, PERIOD_NS_DEFAULT,
};
pub(crate) use changes::STATES;

use crate::model::error::ScenarioError;
use crate::model::machine::PIPE_BYTES;
use crate::model::place::{Place, Problem};
use crate::model::text::cpus_text;
use crate::model::workload::{
    Amount, LOOP_DEPTH_MAX, Op, Quantiles, Repeat, TaskTemplate, Workload,
};
use cgroups::check_cgroups;
use changes::check_changes;

/// The most tasks a workload may create, forked ones included.
pub const TASKS_MAX: u64 = 1_000_000;
/// The most operations a program may have.
pub const PROGRAM_OPS_MAX: usize = 1_000_000;
/// The most operations all programs of a workload may have together.
pub const WORKLOAD_OPS_MAX: usize = 20_000_000;
/// The most channels, and the most gates, a workload may have.
pub const CHANNELS_MAX: usize = 1_000_000;
/// The longest chain of forks: a child's child's child ...
pub const FORK_DEPTH_MAX: usize = 64;
/// The longest name of a task in bytes: what fits in the kernel's `comm`.
pub const TASK_NAME_BYTES_MAX: usize = 15;
/// The way out for a task that may run nowhere.
const NO_CPUS_HINT: &str = "list at least one CPU, or write \"all\"";

impl Workload {
    /// Whether the workload can be run.
    ///
    /// # Errors
    /// [`ScenarioError::BadValue`] with the first thing that is wrong, such as
    /// `templates[3].program[5]`. O(size of the workload).
    pub fn check(&self) -> Result<(), ScenarioError> {
        find_problem(self).map_err(|found| self.error_of(found))
    }
}

/// The first problem of `workload`, if it has one.
pub(crate) fn find_problem(workload: &Workload) -> Result<(), Problem> {
    check_sizes(workload)?;
    for (i, channel) in workload.channels.iter().enumerate() {
        let wrong = |key, value: u32, problem: &str, hint: &str| {
            Err(Problem::new(Place::Channel(i, key), value.to_string(), problem, hint))
        };
        if channel.capacity_bytes == 0 {
            if channel.overhead_bytes == 0 && channel.wake_senders_at_bytes == 0 {
                // A pipe as the machine's kernel makes it.
                continue;
            }
            let hint = "give it room for at least one message";
            return wrong("capacity_bytes", 0, "the channel holds nothing", hint);
        }
        if channel.wake_senders_at_bytes >= channel.capacity_bytes {
            let problem = "senders would be woken while the channel is full";
            let hint = "make wake_senders_at_bytes less than capacity_bytes";
            return wrong("wake_senders_at_bytes", channel.wake_senders_at_bytes, problem, hint);
        }
    }
    for (i, template) in workload.templates.iter().enumerate() {
        check_template(i, template)?;
        check_ops(workload, i, &template.program)?;
        check_loops(workload, i, &template.program)?;
    }
    check_changes(workload)?;
    check_cgroups(workload)?;
    check_forks(workload)
}

fn check_sizes(workload: &Workload) -> Result<(), Problem> {
    let whole = |value: String, problem: &str, hint: &str| {
        Err(Problem::new(Place::Whole, value, problem, hint))
    };
    if workload.initial.is_empty() {
        return whole("empty".into(), "there is no task to start", "add a task, or raise a count");
    }
    let nr_channels = workload.channels.len().max(workload.nr_gates as usize);
    if nr_channels > CHANNELS_MAX {
        let hint = format!("stay within {CHANNELS_MAX} of each");
        return whole(nr_channels.to_string(), "too many channels or gates", &hint);
    }
    let nr_ops = workload.templates.iter().map(|t| t.program.len()).sum();
    if let Some((problem, hint)) = too_many_ops(nr_ops) {
        return whole(nr_ops.to_string(), problem, &hint);
    }
    let nr_templates = workload.templates.len();
    match workload.initial.iter().find(|task| task.template as usize >= nr_templates) {
        None => Ok(()),
        Some(task) => whole(
            task.template.to_string(),
            "an initial task has no such template",
            "use the index of one of the templates",
        ),
    }
}

/// What is wrong with so many operations in all programs, if anything is, and a way out.
pub(crate) fn too_many_ops(nr_ops: usize) -> Option<(&'static str, String)> {
    let hint = || format!("stay within {WORKLOAD_OPS_MAX}: use loops, or fewer kinds of tasks");
    (nr_ops > WORKLOAD_OPS_MAX).then(|| ("too many operations in all programs", hint()))
}

fn check_template(i: usize, template: &TaskTemplate) -> Result<(), Problem> {
    let wrong = |key, value: String, problem: &str, hint: String| {
        Err(Problem::new(Place::Template(i, key), value, problem, hint))
    };
    let name = &template.name;
    if name.is_empty() || name.len() > TASK_NAME_BYTES_MAX {
        let hint = format!("name it with 1 to {TASK_NAME_BYTES_MAX} bytes");
        return wrong("name", format!("{name:?}"), "a name that the kernel cannot keep", hint);
    }
    if !(-20..=19).contains(&template.nice) {
        let hint = "use a nice value from -20 to 19".to_string();
        return wrong("nice", template.nice.to_string(), "no such nice value", hint);
    }
    if template.cpus.as_ref().is_some_and(|cpus| cpus.is_empty()) {
        let problem = "the task may run nowhere";
        return wrong("cpus", "[]".to_string(), problem, NO_CPUS_HINT.to_string());
    }
    let nr_ops = template.program.len();
    if nr_ops > PROGRAM_OPS_MAX {
        let hint = format!("stay within {PROGRAM_OPS_MAX} operations: use loops");
        return wrong("program", format!("{nr_ops} operations"), "too long", hint);
    }
    Ok(())
}

/// Indices and sizes of single operations.
fn check_ops(workload: &Workload, template: usize, program: &[Op]) -> Result<(), Problem> {
    for (i, op) in program.iter().enumerate() {
        let (index, len) = match *op {
            Op::Send { channel, .. } | Op::Recv { channel, .. } => {
                (channel, workload.channels.len())
            }
            Op::Wake { gate } | Op::WakeAll { gate } | Op::Wait { gate } => {
                (gate, workload.nr_gates as usize)
            }
            Op::Fork { template } => (template, workload.templates.len()),
            Op::Affinity { set } => (set, workload.cpu_sets.len()),
            Op::Move { to: Some(group) } => (group, workload.cgroups.len()),
            _ => (0, 1),
        };
        let found = if index as usize >= len {
            let problem = format!("there are {len} of what it names by index");
            Some((problem, "use the index of one that is there"))
        } else {
            op_problem(workload, op)
        };
        if let Some((problem, hint)) = found {
            return Err(Problem::new(
                Place::Op(template, i),
                described(workload, op),
                problem,
                hint,
            ));
        }
    }
    Ok(())
}

/// An operation as a message shows it.
fn described(workload: &Workload, op: &Op) -> String {
    match op {
        Op::Send { bytes, .. } => format!("a message of {bytes} bytes"),
        Op::Recv { bytes, .. } => format!("a read of {bytes} bytes"),
        Op::Release { .. } => "a release".to_string(),
        Op::Affinity { set } => {
            workload.cpu_sets.get(*set as usize).map_or(format!("set {set}"), cpus_text)
        }
        Op::Loop { repeat: Repeat::Forever, .. } => "\"forever\"".to_string(),
        Op::Loop { repeat: Repeat::WhileChildren, .. } => "\"while-children\"".to_string(),
        other => format!("{other:?}"),
    }
}

fn op_problem(workload: &Workload, op: &Op) -> Option<(String, &'static str)> {
    match *op {
        Op::Send { bytes: 0, .. } | Op::Recv { bytes: 0, .. } => {
            Some(("it moves nothing".to_string(), "give it at least one byte"))
        }
        Op::Send { channel, bytes } => {
            let channel = &workload.channels[channel as usize];
            let needed = u64::from(bytes) + u64::from(channel.overhead_bytes);
            let said = Some(channel.capacity_bytes).filter(|bytes| *bytes > 0);
            let capacity_bytes = said.unwrap_or(PIPE_BYTES);
            (needed > capacity_bytes.into()).then(|| {
                (
                    format!("with its overhead it needs {needed} of {capacity_bytes} bytes"),
                    "make the message smaller or the channel's capacity_bytes larger",
                )
            })
        }
        Op::Nice(nice) if !(-20..=19).contains(&nice) => {
            Some(("no such nice value".to_string(), "use a nice value from -20 to 19"))
        }
        Op::Affinity { set }
            if workload.cpu_sets[set as usize].as_ref().is_some_and(|cpus| cpus.is_empty()) =>
        {
            Some(("the task may run nowhere".to_string(), NO_CPUS_HINT))
        }
        Op::Release { every, .. } if every.is_always_zero() => {
            Some(("all releases are at one time".to_string(), "give it some time"))
        }
        Op::Release { deadline_ns: 0, .. } => {
            Some(("nobody is done in no time".to_string(), "give the deadline some time"))
        }
        Op::Run(amount)
        | Op::Sleep(amount)
        | Op::Release { every: amount, .. }
        | Op::Loop { repeat: Repeat::Times(amount), .. } => amount_problem(amount),
        _ => None,
    }
}

fn amount_problem(amount: Amount) -> Option<(String, &'static str)> {
    match amount {
        Amount::Uniform { low, high } if low > high => {
            Some((format!("nothing is between {low} and {high}"), "put the least first"))
        }
        Amount::Recorded(Quantiles { at, .. }) if !at.is_sorted() => {
            Some(("a quantile is less than the one before".to_string(), "put the least first"))
        }
        _ => None,
    }
}

/// An open loop during a walk through a program.
struct OpenLoop {
    start: usize,
    repeat: Repeat,
    /// Whether a round of the body takes time or can block.
    takes_time: bool,
}

/// Loops are nested properly, not too deep, take time, and end unless the run is stopped.
fn check_loops(workload: &Workload, template: usize, program: &[Op]) -> Result<(), Problem> {
    let wrong = |op: usize, problem: &str, hint: String| {
        Err(Problem::new(Place::Op(template, op), described(workload, &program[op]), problem, hint))
    };
    let mut open: Vec<OpenLoop> = Vec::new();
    for (i, op) in program.iter().enumerate() {
        match *op {
            Op::Loop { repeat, end } => {
                if open.len() == LOOP_DEPTH_MAX {
                    let hint = format!("nest at most {LOOP_DEPTH_MAX} loops");
                    return wrong(i, "loops are nested too deep", hint);
                }
                if program.get(end as usize) != Some(&Op::End { start: i as u32 }) {
                    return wrong(i, "the loop has no end", "build loops with begin/end".into());
                }
                if repeat == Repeat::Forever && workload.stop_at_ns.is_none() {
                    let hint = "say when to stop, such as stop = \"10s\", or use a count".into();
                    return wrong(i, "the workload would never end", hint);
                }
                open.push(OpenLoop { start: i, repeat, takes_time: false });
            }
            Op::End { start } => match open.pop() {
                Some(inner) if inner.start == start as usize => {
                    let endless = !matches!(inner.repeat, Repeat::Times(_));
                    if endless && !inner.takes_time {
                        let hint =
                            "add a run, a sleep, a release, a wait, a send or a recv to its body";
                        return wrong(
                            inner.start,
                            "it can go round for ever in no time",
                            hint.into(),
                        );
                    }
                    let entered = match inner.repeat {
                        Repeat::Times(amount) => !amount.is_always_zero(),
                        Repeat::Forever => true,
                        Repeat::WhileChildren => false,
                    };
                    if let Some(outer) = open.last_mut() {
                        outer.takes_time |= entered && inner.takes_time;
                    }
                }
                _ => return wrong(i, "an end without its loop", "build with begin/end".into()),
            },
            _ => {
                if let Some(inner) = open.last_mut() {
                    inner.takes_time |= takes_time(op);
                }
            }
        }
    }
    match open.last() {
        Some(inner) => wrong(inner.start, "the loop has no end", "build with begin/end".into()),
        None => Ok(()),
    }
}

/// Whether the operation computes, sleeps, or can block until another task does something.
fn takes_time(op: &Op) -> bool {
    match op {
        Op::Run(amount) | Op::Sleep(amount) | Op::Release { every: amount, .. } => {
            !amount.is_always_zero()
        }
        Op::Send { .. } | Op::Recv { .. } | Op::Wait { .. } => true,
        _ => false,
    }
}

/// Nobody forks an ancestor of itself, and all forks together stay within [`TASKS_MAX`].
fn check_forks(workload: &Workload) -> Result<(), Problem> {
    let mut families = vec![None; workload.templates.len()];
    let mut total = 0_u64;
    for task in &workload.initial {
        let family = family_of(workload, task.template as usize, &mut Vec::new(), &mut families)?;
        total = total.saturating_add(family.size);
    }
    if total <= TASKS_MAX {
        return Ok(());
    }
    let hint = format!("stay within {TASKS_MAX} tasks: lower the counts, groups or repeats");
    Err(Problem::new(Place::Whole, format!("{total} tasks"), "too many tasks", hint))
}

/// What one task amounts to: itself and all that it forks, children's children included.
#[derive(Clone, Copy)]
struct Family {
    /// Tasks. Loops without a fixed count are taken at their mean or as one round.
    size: u64,
    /// Generations.
    depth: usize,
}

/// What one task of `template` amounts to.
fn family_of(
    workload: &Workload,
    template: usize,
    ancestors: &mut Vec<usize>,
    families: &mut [Option<Family>],
) -> Result<Family, Problem> {
    if let Some(family) = families[template] {
        return Ok(family);
    }
    let mut all = Family { size: 1, depth: 1 };
    let mut rounds = vec![1_u64];
    ancestors.push(template);
    for (i, op) in workload.templates[template].program.iter().enumerate() {
        let now = rounds.last().copied().unwrap_or(1);
        match *op {
            Op::Loop { repeat, .. } => rounds.push(now.saturating_mul(typical_rounds(repeat))),
            Op::End { .. } => {
                rounds.pop();
            }
            Op::Fork { template: child } => {
                let child = child as usize;
                let place = Place::Op(template, i);
                let name = &workload.templates[child].name;
                let is_known_deep = families[child]
                    .is_some_and(|family| ancestors.len() + family.depth > FORK_DEPTH_MAX);
                if ancestors.contains(&child) || ancestors.len() == FORK_DEPTH_MAX || is_known_deep
                {
                    let problem =
                        format!("forks would never end or go deeper than {FORK_DEPTH_MAX}");
                    let hint = "let the child be a template that does not lead back here";
                    return Err(Problem::new(place, name, problem, hint));
                }
                let family = family_of(workload, child, ancestors, families)?;
                all.size = all.size.saturating_add(family.size.saturating_mul(now));
                all.depth = all.depth.max(family.depth + 1);
            }
            _ => {}
        }
    }
    ancestors.pop();
    families[template] = Some(all);
    Ok(all)
}

fn typical_rounds(repeat: Repeat) -> u64 {
    match repeat {
        Repeat::Times(Amount::Fixed(count)) => count,
        Repeat::Times(Amount::Uniform { high, .. }) => high,
        Repeat::Times(Amount::Exponential { mean } | Amount::Normal { mean, .. }) => mean,
        Repeat::Times(Amount::LogNormal { median, .. }) => median,
        Repeat::Times(Amount::Recorded(quantiles)) => quantiles.mean() as u64,
        Repeat::Forever | Repeat::WhileChildren => 1,
    }
}
