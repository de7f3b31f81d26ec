//! Requests: what has a beginning that is known, an end, and perhaps a deadline.
//!
//! A request begins when a task was due to release it, not when the task came to do so: whoever is
//! late answers late (G. Tene's "coordinated omission" cannot happen). It is known by the task
//! that released it, whoever ends it.

use crate::place::{Place, TaskId};
use crate::task::{Request, Tasks};
use crate::times::{Distribution, Times};
use scenario::workload::NO_DEADLINE_NS;
use serde::Serialize;
use std::collections::BTreeMap;

/// All requests of a run.
#[derive(Debug, Default)]
pub struct Requests {
    released: u64,
    /// Requests with a deadline that are not done, by number.
    pending: BTreeMap<u64, Request>,
    groups: BTreeMap<String, Group>,
}

#[derive(Debug, Default)]
struct Group {
    done: u64,
    deadlines: u64,
    misses: u64,
    response_ns: Times,
}

/// The requests of tasks of one name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestGroup {
    /// The name of the tasks that released them.
    pub name: String,
    /// How many were done.
    pub done: u64,
    /// Deadlines that were met or missed: those that are due after the run's end are not in it.
    pub deadlines: u64,
    /// Deadlines that passed before the request was done.
    pub deadline_misses: u64,
    /// From release to done.
    pub response_ns: Distribution,
}

/// Releases that a task which is late at the end of a run may have missed, at the most.
const LATE_RELEASES_MAX: u64 = 1_000_000;

impl Requests {
    /// A request of `by` that begins at `released_at_ns`, now or later.
    pub fn release(&mut self, by: TaskId, released_at_ns: u64, deadline_ns: u64) -> Request {
        let request = Request { number: self.released, released_at_ns, deadline_ns, by };
        self.released += 1;
        if deadline_ns != NO_DEADLINE_NS {
            self.pending.insert(request.number, request);
        }
        request
    }

    /// `request`, released by tasks called `name`, is done.
    pub fn done(&mut self, request: Request, name: &str, now_ns: u64) {
        let response_ns = now_ns - request.released_at_ns;
        let is_first = self.pending.remove(&request.number).is_some();
        let group = self.group(name);
        group.done += 1;
        group.response_ns.record(response_ns);
        // Children of one parent may each be done with its request; its deadline is one.
        if is_first {
            group.deadlines += 1;
            group.misses += u64::from(response_ns > request.deadline_ns);
        }
    }

    /// Counts the deadlines that passed by `end_ns` without anybody being done: those of requests
    /// that are pending, and of those that tasks were too late to release.
    pub fn count_overdue(&mut self, tasks: &Tasks, end_ns: u64) {
        let is_over = |at_ns: u64, deadline_ns: u64| at_ns.saturating_add(deadline_ns) <= end_ns;
        for request in std::mem::take(&mut self.pending).into_values() {
            if is_over(request.released_at_ns, request.deadline_ns) {
                self.miss(&tasks.name(request.by), 1);
            }
        }
        for (id, state) in tasks.states().enumerate() {
            let Some((every, deadline_ns)) = state.releases.every else { continue };
            if state.place == Place::Exited || deadline_ns == NO_DEADLINE_NS {
                continue;
            }
            let mut random = state.random.clone();
            let mut at_ns = state.releases.last_at_ns;
            let mut nr_late = 0;
            while nr_late < LATE_RELEASES_MAX {
                at_ns = at_ns.saturating_add(every.draw(&mut random));
                if !is_over(at_ns, deadline_ns) {
                    break;
                }
                nr_late += 1;
            }
            if nr_late > 0 {
                self.miss(&tasks.name(id as TaskId), nr_late);
            }
        }
    }

    /// What came of them, by name.
    pub fn groups(&self) -> Vec<RequestGroup> {
        let of = |(name, group): (&String, &Group)| RequestGroup {
            name: name.clone(),
            done: group.done,
            deadlines: group.deadlines,
            deadline_misses: group.misses,
            response_ns: group.response_ns.distribution(),
        };
        self.groups.iter().map(of).collect()
    }

    /// The response times of all of them.
    pub fn response_ns(&self) -> Distribution {
        let mut all = Times::default();
        self.groups.values().for_each(|group| all.add(&group.response_ns));
        all.distribution()
    }

    fn miss(&mut self, name: &str, count: u64) {
        let group = self.group(name);
        group.deadlines += count;
        group.misses += count;
    }

    fn group(&mut self, name: &str) -> &mut Group {
        if !self.groups.contains_key(name) {
            self.groups.insert(name.to_string(), Group::default());
        }
        self.groups.get_mut(name).expect("it was just put there")
    }
}
