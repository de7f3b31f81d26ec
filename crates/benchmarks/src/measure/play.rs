//! A workload's file played by real tasks: how long until the last of them has ended.
//!
//! The same file serves the simulator, so that both can be compared.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use super::crew::Used;
use super::{Figure, MeasureError, Sample};
use crate::{Options, PlayError, play};

/// The benchmark and its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Play {
    /// The workload's file.
    pub workload: PathBuf,
    /// The workload's own parameters; those left out have their defaults.
    pub with: BTreeMap<String, String>,
    /// Where its random numbers begin.
    pub seed: u64,
}

impl Play {
    /// Measures once: the time is the workload's own, from its mark or its start. All CPU time
    /// counts as user mode's.
    ///
    /// # Errors
    ///
    /// [`MeasureError::Play`], if the file is no workload, or one that cannot be played.
    pub fn run(&self) -> Result<Sample, MeasureError> {
        let workload =
            scenario::load_workload(&self.workload, &self.with).map_err(PlayError::from)?;
        let options = Options { seed: self.seed, ..Options::default() };
        let played = play(&workload, &options, &mut || false)?;
        // Tasks of a play tell no user time apart, and not all are waited for by anybody.
        let used = Used {
            user_ns: played.task_groups.iter().map(|group| group.run_ns).sum(),
            system_ns: 0,
            voluntary_switches: played.voluntary_switches,
            involuntary_switches: played.involuntary_switches,
        };
        let wall_ns = played.makespan_ns;
        let figure = Figure { value: wall_ns as f64 / 1e9, unit: "s" };
        let nr_tasks = u32::try_from(played.nr_tasks).unwrap_or(u32::MAX);
        Ok(Sample::of("play", nr_tasks, wall_ns, figure, used, None))
    }
}
