//! What the scheduler did lately, from what the kernel counts anyway.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use super::{uptime, uptime_ns};
use crate::loader::{LoadedPolicy, status};
use crate::records::Counters;

/// Sums since boot, of which a difference is taken.
#[derive(Clone, Debug, Default)]
struct Sums {
    at_ns: u64,
    switches: u64,
    forks: u64,
    calls: BTreeMap<String, u64>,
    events: BTreeMap<String, u64>,
}

/// Gives counters at a fixed pace.
pub(super) struct CounterSource {
    every: Duration,
    due_at: Duration,
    before: Sums,
}

impl CounterSource {
    /// Begins now; 0 is never.
    pub fn begin(every_ns: u64) -> Self {
        let every = Duration::from_nanos(every_ns);
        CounterSource { every, due_at: uptime() + every, before: Sums::now(None) }
    }

    /// How long until the next counters, or `None` if there will be none.
    pub fn next_in(&self) -> Option<Duration> {
        (!self.every.is_zero()).then(|| self.due_at.saturating_sub(uptime()))
    }

    /// The counters, if it is time for them.
    pub fn due(&mut self, policy: Option<&LoadedPolicy>) -> Option<Counters> {
        if self.next_in()? > Duration::ZERO {
            return None;
        }
        self.due_at += self.every;
        let now = Sums::now(policy);
        let before = std::mem::replace(&mut self.before, now.clone());
        let (nr_runnable, nr_tasks) = load_average();
        Some(Counters {
            at_ns: now.at_ns,
            wall_ns: now.at_ns - before.at_ns,
            switches: now.switches.saturating_sub(before.switches),
            forks: now.forks.saturating_sub(before.forks),
            nr_runnable,
            nr_tasks,
            calls: difference(&now.calls, &before.calls),
            events: difference(&now.events, &before.events),
            nr_waiting: nr_runnable.saturating_sub(super::online_cpus().into()),
            nr_rejected: status::Status::now().nr_rejected,
        })
    }
}

impl Sums {
    fn now(policy: Option<&LoadedPolicy>) -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        Sums {
            at_ns: uptime_ns(),
            switches: field(&stat, "ctxt"),
            forks: field(&stat, "processes"),
            calls: policy.map(LoadedPolicy::calls).unwrap_or_default(),
            events: status::events(),
        }
    }
}

fn field(stat: &str, name: &str) -> u64 {
    let line = stat.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
}

/// Tasks that are runnable, and all tasks: the fourth field, as `2/83`.
fn load_average() -> (u64, u64) {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let pair = text.split_whitespace().nth(3).and_then(|field| field.split_once('/'));
    pair.map_or((0, 0), |(some, all)| (some.parse().unwrap_or(0), all.parse().unwrap_or(0)))
}

fn difference(
    now: &BTreeMap<String, u64>,
    before: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let grown = |(name, &count): (&String, &u64)| {
        (name.clone(), count.saturating_sub(before.get(name).copied().unwrap_or(0)))
    };
    now.iter().map(grown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_added_is_counted() {
        let sums = |pairs: &[(&str, u64)]| pairs.iter().map(|&(n, c)| (n.into(), c)).collect();
        let grown = difference(&sums(&[("a", 5), ("b", 2)]), &sums(&[("a", 3)]));
        assert_eq!(grown, sums(&[("a", 2), ("b", 2)]));
    }

    #[test]
    fn a_field_of_proc_stat_is_read() {
        assert_eq!(field("cpu 1 2\nctxt 1234\nprocesses 7\n", "ctxt"), 1234);
        assert_eq!(field("", "ctxt"), 0);
    }

    #[test]
    fn counters_come_only_when_due() {
        assert!(CounterSource::begin(0).due(None).is_none());
        assert!(CounterSource::begin(3_600_000_000_000).due(None).is_none());
        let mut soon = CounterSource::begin(1);
        std::thread::sleep(Duration::from_millis(1));
        assert!(soon.due(None).is_some_and(|c| c.nr_tasks > 0));
    }
}
