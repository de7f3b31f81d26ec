//! The largest number of groups that hackbench completes here, and what ended the search.
//!
//! Source: hackbench on Linux 2.4 and 2.6 at OSDL, 2003 (`published/` has its figures), where more
//! groups were asked for until fork or a write failed. Today such a search can take a machine down,
//! so this one keeps to four rules: it computes from the system's limits how many groups there can
//! be and never asks for more; it leaves a reserve of each; every attempt is a process of its own,
//! the first that a system short of memory ends, with a time limit; and before each attempt a
//! journal says so, so that after a reboot the search goes on below what brought the machine down.

mod attempt;
mod cage;
mod journal;
mod predict;
mod search;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::measure::crew::Tasks;
use crate::measure::hackbench::{Channel, Hackbench};
use crate::system;

pub use attempt::{Attempt, Attempts, Outcome};
pub use cage::Cage;
pub use journal::{Entry, Journal};
pub use predict::{Bound, bounds};
pub use search::{Found, search};

/// What a search for the limit says in the end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// The largest number of groups that completed three times; 0 if not even one did.
    pub groups: u32,
    /// Tasks of so many groups.
    pub nr_tasks: u32,
    /// What kept one more group from completing.
    pub ended_by: String,
    /// Wall nanoseconds of the fastest attempt at each number of groups that completed.
    pub wall_ns: BTreeMap<u32, u64>,
}

/// Finds the limit by attempts of `program`, this program's own path. `watch` is told of each
/// attempt when it has ended.
///
/// `cage_tasks` bounds the tasks of an attempt by a cgroup: the answer is then known beforehand,
/// and nothing beside it can be touched.
///
/// # Errors
///
/// If a parameter cannot be used, there can be no cage, the program cannot be started, or the
/// journal not be used.
pub fn find(
    hackbench: &Hackbench,
    program: &str,
    cage_tasks: Option<u64>,
    journal: Option<&Path>,
    watch: &mut dyn FnMut(&Attempt),
) -> std::io::Result<Limit> {
    hackbench.check().map_err(std::io::Error::other)?;
    let per_group = hackbench.fds * 2;
    let words = words(hackbench, program);
    let mut journal = journal.map(|path| Journal::open(path, &words[1..].join(" "))).transpose()?;
    let bounds = bounds(hackbench);
    let tightest = bounds.first();
    let mut cap = tightest.map_or(1, |bound| u32::try_from(bound.groups).unwrap_or(u32::MAX));
    let mut capped_by = tightest.map_or_else(String::new, |bound| {
        format!("a reserve below {} = {}", bound.limit, bound.value)
    });
    if let Some(tasks) = cage_tasks {
        // One more than can be, so that its failure is seen.
        let most = u32::try_from(tasks / u64::from(per_group)).unwrap_or(u32::MAX);
        cap = cap.min(most.saturating_add(1));
    }
    if let Some(broken_off) = journal.as_ref().and_then(Journal::least_broken_off)
        && broken_off <= cap
    {
        cap = broken_off - 1;
        capped_by = format!("{broken_off} groups, at which the journal breaks off");
    }
    let cage = cage_tasks.map(Cage::new).transpose()?;
    let mut attempts = Attempts::new(words, cage);
    let mut ended: BTreeMap<u32, Attempt> = BTreeMap::new();
    let mut wall_ns: BTreeMap<u32, u64> = BTreeMap::new();
    let found = search(cap, |groups| -> std::io::Result<bool> {
        if let Some(journal) = &mut journal {
            journal.add(&Entry::Tries { groups })?;
        }
        let attempt = attempts.make(groups)?;
        if let Some(journal) = &mut journal {
            journal.add(&Entry::Ended(attempt.clone()))?;
        }
        watch(&attempt);
        let completed = attempt.outcome == Outcome::Completed;
        if completed {
            let fastest = wall_ns.entry(groups).or_insert(attempt.wall_ns);
            *fastest = attempt.wall_ns.min(*fastest);
        }
        ended.insert(groups, attempt);
        Ok(completed)
    })?;
    let ended_by = match found.failed.and_then(|groups| ended.get(&groups)) {
        Some(attempt) => reason(attempt, cage_tasks, tightest),
        None => capped_by,
    };
    Ok(Limit { groups: found.most, nr_tasks: found.most * per_group, ended_by, wall_ns })
}

/// From here on this process ends when the one that started it does, however that ends: nobody
/// else would bound an attempt's time. Its tasks end with it.
pub fn end_with_parent() {
    system::set_process(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64);
}

/// The command of an attempt, but for the number of groups.
fn words(hackbench: &Hackbench, program: &str) -> Vec<String> {
    let Hackbench { fds, loops, bytes, .. } = hackbench;
    let numbers = format!("hackbench --fds {fds} --loops {loops} --bytes {bytes} --with-parent");
    let mut words = vec![program.to_owned()];
    words.extend(numbers.split(' ').map(str::to_owned));
    if hackbench.channel == Channel::Pipes {
        words.push("--pipes".into());
    }
    if hackbench.tasks == Tasks::Threads {
        words.push("--threads".into());
    }
    words.push("--groups".into());
    words
}

fn reason(attempt: &Attempt, cage_tasks: Option<u64>, tightest: Option<&Bound>) -> String {
    let groups = attempt.groups;
    let why = match attempt.outcome {
        Outcome::Completed => "nothing".to_owned(),
        Outcome::CageFull => format!("the cage of {} tasks", cage_tasks.unwrap_or(0)),
        Outcome::NoTasks => match tightest {
            Some(bound) => {
                format!("a limit on tasks, nearest is {} = {}", bound.limit, bound.value)
            }
            None => "a limit on tasks".to_owned(),
        },
        Outcome::NoDescriptors => "a limit on open files".to_owned(),
        Outcome::NoMemory => "memory of the kernel".to_owned(),
        Outcome::Killed => "SIGKILL, most likely of a kernel out of memory".to_owned(),
        Outcome::TimedOut => "the time limit".to_owned(),
        Outcome::Failed => "an error".to_owned(),
    };
    let said = attempt.said.lines().next().unwrap_or_default();
    match said {
        "" => format!("{why} at {groups} groups"),
        said => format!("{why} at {groups} groups ({said})"),
    }
}
