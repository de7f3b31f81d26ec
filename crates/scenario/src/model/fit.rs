//! Whether a machine has the CPUs that a workload names, and where the workload names them.
//!
//! A workload that was read remembers the file and the keys of these places. One that was made in
//! Rust has names of its own for them, such as `templates[3].cpus`.

use crate::model::duration::duration;
use crate::model::error::ScenarioError;
use crate::model::machine::Machine;
use crate::model::place::{Place, Problem};
use crate::model::workload::{Change, ChangeKind, Op, Workload};

/// A place that names CPUs.
struct Mention<'a> {
    place: Place,
    cpus: &'a [u32],
    /// What is said of one of them, from its number on.
    sentence: Sentence<'a>,
}

enum Sentence<'a> {
    Bound { task: &'a str, at_ns: Option<u64> },
    Plugged { online: bool, at_ns: u64 },
}

impl Workload {
    /// Whether `machine` has every CPU that the workload names.
    ///
    /// # Errors
    /// As [`Workload::check_cpus`].
    pub fn check_on(&self, machine: &Machine) -> Result<(), ScenarioError> {
        self.check_cpus(&machine.name, machine.cpus.len())
    }

    /// Whether every CPU that the workload names is one of the `nr_cpus` that `machine` has. All
    /// of a set must be there, also where one would do for the task to run.
    ///
    /// # Errors
    /// [`ScenarioError::BadValue`] with the first place that names another. O(size of the
    /// workload).
    pub fn check_cpus(&self, machine: &str, nr_cpus: usize) -> Result<(), ScenarioError> {
        let lacks = |cpu: u32| cpu as usize >= nr_cpus;
        let found = mentions(self).find_map(|mention| {
            let cpu = mention.cpus.iter().copied().find(|&cpu| lacks(cpu))?;
            Some((mention, cpu))
        });
        let Some((mention, cpu)) = found else { return Ok(()) };
        let there = match nr_cpus {
            1 => "CPU 0".to_string(),
            2 => "CPUs 0 and 1".to_string(),
            _ => format!("CPUs 0 to {}", nr_cpus - 1),
        };
        let sentence = mention.sentence.text(cpu);
        Err(self.error_of(Problem::new(
            mention.place,
            mention.value(),
            format!("{sentence}, and machine {machine} has only {there}"),
            format!("name {there} only, or use a machine with more"),
        )))
    }

    /// A problem as an error that names the place, in the file if there is one.
    pub(crate) fn error_of(&self, found: Problem) -> ScenarioError {
        let file = self.origin.file.clone().unwrap_or_else(|| format!("workload {}", self.name));
        let key = self.origin.keys.get(&found.place).cloned();
        ScenarioError::BadValue {
            file,
            key: key.unwrap_or_else(|| found.place.key()),
            value: found.value,
            problem: found.problem,
            hint: found.hint,
        }
    }
}

/// The places of a workload that name CPUs.
pub(crate) fn places(workload: &Workload) -> impl Iterator<Item = Place> {
    mentions(workload).map(|mention| mention.place)
}

/// Every place that names CPUs: tasks and their programs, then changes from outside.
fn mentions(workload: &Workload) -> impl Iterator<Item = Mention<'_>> {
    let of_tasks = workload.templates.iter().enumerate().flat_map(move |(i, template)| {
        let mention = move |place, cpus| Mention {
            place,
            cpus,
            sentence: Sentence::Bound { task: &template.name, at_ns: None },
        };
        let of_task =
            template.cpus.as_deref().map(|cpus| mention(Place::Template(i, "cpus"), cpus));
        let of_steps = template.program.iter().enumerate().filter_map(move |(at, op)| {
            let Op::Affinity { set } = op else { return None };
            let cpus = workload.cpu_sets[*set as usize].as_deref()?;
            Some(mention(Place::Op(i, at), cpus))
        });
        of_task.into_iter().chain(of_steps)
    });
    let changes = workload.changes.iter().enumerate();
    of_tasks.chain(changes.filter_map(|(i, change)| mention_of(i, change)))
}

fn mention_of(i: usize, Change { at_ns, what }: &Change) -> Option<Mention<'_>> {
    Some(match what {
        ChangeKind::Hotplug { cpu, online } => Mention {
            place: Place::Change(i, "cpu"),
            cpus: std::slice::from_ref(cpu),
            sentence: Sentence::Plugged { online: *online, at_ns: *at_ns },
        },
        ChangeKind::Affinity { task, cpus } => Mention {
            place: Place::Change(i, "cpus"),
            cpus: cpus.as_deref()?,
            sentence: Sentence::Bound { task, at_ns: Some(*at_ns) },
        },
        ChangeKind::Move { .. } | ChangeKind::Cgroup { .. } => return None,
    })
}

impl Mention<'_> {
    /// As it stands in the file.
    fn value(&self) -> String {
        match (&self.sentence, self.cpus) {
            (Sentence::Plugged { .. }, [cpu]) => cpu.to_string(),
            (_, cpus) => format!("{cpus:?}"),
        }
    }
}

impl Sentence<'_> {
    fn text(&self, cpu: u32) -> String {
        match *self {
            Sentence::Bound { task, at_ns: None } => format!("task `{task}` is bound to CPU {cpu}"),
            Sentence::Bound { task, at_ns: Some(at_ns) } => {
                format!("task `{task}` is bound to CPU {cpu} at {}", duration(at_ns))
            }
            Sentence::Plugged { online, at_ns } => {
                let state = if online { "online" } else { "offline" };
                format!("CPU {cpu} goes {state} at {}", duration(at_ns))
            }
        }
    }
}
