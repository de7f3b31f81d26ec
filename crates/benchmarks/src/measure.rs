//! The benchmarks that schedulers have been compared by, on whatever scheduler the kernel runs.
//!
//! Each is a structure of its parameters with a `run` that measures once and returns a [`Sample`].
//! Repeating, ordering, storing and comparing are the caller's: a benchmark that repeats itself
//! cannot be interleaved with another one.
//!
//! Tasks are real processes or threads, see [`crew`]. A process is forked, so programs that use
//! these must have one thread only.

pub mod counter;
pub mod crew;
pub mod desk;
pub mod hackbench;
pub mod interactivity;
pub mod nice;
pub mod pipe;
pub mod play;
pub mod ring;
pub mod timer;
pub mod wakeup;

use crew::Used;
use serde::Serialize;
use thiserror::Error;

/// What one run of a benchmark measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// The benchmark's name.
    pub benchmark: &'static str,
    /// Wall time of the measured part in nanoseconds.
    pub wall_ns: u64,
    /// The figure that the benchmark is known by.
    pub figure: Figure,
    /// Tasks that took part.
    pub nr_tasks: u32,
    /// CPU time of the tasks in user mode, nanoseconds.
    pub user_ns: u64,
    /// CPU time of the tasks in the kernel, nanoseconds.
    pub system_ns: u64,
    /// Times that tasks gave up a CPU by themselves.
    pub voluntary_switches: u64,
    /// Times that a CPU was taken from tasks.
    pub involuntary_switches: u64,
    /// Latencies, where the benchmark measures some: nanoseconds, smallest to largest of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<Percentiles>,
    /// What each task got of the CPUs, where that is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<Vec<nice::Share>>,
    /// What became of a task's frames, where it has some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<interactivity::Frames>,
}

impl Sample {
    fn of(
        benchmark: &'static str,
        nr_tasks: u32,
        wall_ns: u64,
        figure: Figure,
        used: Used,
        latency_ns: Option<Percentiles>,
    ) -> Self {
        let Used { user_ns, system_ns, voluntary_switches, involuntary_switches } = used;
        Sample {
            benchmark,
            wall_ns,
            figure,
            nr_tasks,
            user_ns,
            system_ns,
            voluntary_switches,
            involuntary_switches,
            latency_ns,
            shares: None,
            frames: None,
        }
    }
}

/// A number and its unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The number.
    pub value: f64,
    /// As people write it: `s`, `us per switch`.
    pub unit: &'static str,
}

/// Some of the order statistics of a run's latencies, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    /// How many there are.
    pub count: u64,
    /// The smallest.
    pub min: u64,
    /// Half are at most this long.
    pub p50: u64,
    /// Nine of ten.
    pub p90: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1000.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

impl Percentiles {
    /// Of these latencies, which are sorted on the way; `None` of none. The least latency that at
    /// least so many are not longer than (nearest rank).
    pub fn of(latencies_ns: &mut [u64]) -> Option<Self> {
        latencies_ns.sort_unstable();
        let last = latencies_ns.len().checked_sub(1)?;
        let rank = |per_mille: usize| {
            latencies_ns[(latencies_ns.len() * per_mille).div_ceil(1000).max(1) - 1]
        };
        Some(Percentiles {
            count: latencies_ns.len() as u64,
            min: latencies_ns[0],
            p50: rank(500),
            p90: rank(900),
            p99: rank(990),
            p999: rank(999),
            max: latencies_ns[last],
        })
    }
}

/// Why there is no sample.
#[derive(Debug, Error)]
pub enum MeasureError {
    /// A parameter cannot be used.
    #[error("{name} = {value} {why}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// What was asked for.
        value: u64,
        /// What is wrong, and what would do.
        why: &'static str,
    },
    /// The system would not give what a benchmark needs.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The system would give no more tasks.
    #[error("cannot start task {number} of {of}: {source}")]
    NoTask {
        /// Tasks that there were, and this one.
        number: u32,
        /// Tasks that were wanted.
        of: u32,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A workload could not be played.
    #[error(transparent)]
    Play(#[from] crate::PlayError),
    /// A task ended before its work was done.
    #[error("{task} ended early: {reason}")]
    Task {
        /// Its name.
        task: String,
        /// Why, as far as is known.
        reason: String,
    },
}

impl MeasureError {
    /// The error of a system call.
    pub(crate) fn system(what: &'static str, source: impl Into<std::io::Error>) -> Self {
        MeasureError::System { what, source: source.into() }
    }

    /// A way out; empty where none is known.
    pub fn hint(&self) -> &'static str {
        match self {
            MeasureError::NoTask { source, .. } => match source.raw_os_error() {
                Some(libc::EAGAIN) => {
                    "a limit on tasks: `ulimit -u`, kernel.pid_max, or pids.max of a cgroup; \
                     or ask for fewer"
                }
                Some(libc::ENOMEM) => "no memory for more tasks: ask for fewer",
                _ => "",
            },
            MeasureError::System { source, .. } => match source.raw_os_error() {
                Some(libc::EMFILE) => "a limit on open files: `ulimit -n`, or ask for fewer groups",
                Some(libc::ENFILE) => "a limit on open files: fs.file-max, or ask for fewer groups",
                _ => "",
            },
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let mut latencies: Vec<u64> = (1..=1000).rev().collect();
        let found = Percentiles::of(&mut latencies).expect("there are some");
        assert_eq!((found.min, found.p50, found.p90, found.p99), (1, 500, 900, 990));
        assert_eq!((found.p999, found.max, found.count), (999, 1000, 1000));
        assert_eq!(Percentiles::of(&mut []), None);
        let single = Percentiles::of(&mut [7]).expect("there is one");
        assert_eq!((single.min, single.p50, single.p999, single.max), (7, 7, 7, 7));
    }
}
