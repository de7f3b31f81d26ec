//! Playing a workload with real tasks, and recording what the scheduler does with them.

use std::error::Error;
use std::time::Duration;

use benchmarks::{Beside, Class, Options, Pace};

use super::init;
use crate::job;
use crate::records::{Play, Record};
use crate::trace::record_play;

/// Plays, and gives the record of it, which is an error if it could not be played. `interrupted`
/// has so long for `loading` a policy, for these tasks alone, while all wait for their start; what
/// is to run `beside` the play runs until it is over.
pub(super) fn play(
    index: usize,
    request: &job::Play,
    limit: Option<Duration>,
    (loading, beside): (Option<Duration>, Option<Beside<'_>>),
    interrupted: &mut dyn FnMut() -> bool,
) -> Record {
    match played(index, request, limit, (loading, beside), interrupted) {
        Ok(play) => Record::Played(Box::new(play)),
        Err(error) => {
            let path = request.workload.display();
            Record::Error { message: format!("cannot play {path}: {error}") }
        }
    }
}

fn played(
    index: usize,
    request: &job::Play,
    limit: Option<Duration>,
    (loading, beside): (Option<Duration>, Option<Beside<'_>>),
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Play, Box<dyn Error>> {
    let workload = scenario::load_workload(&request.workload, &request.set)?;
    if !workload.cgroups.is_empty() && std::process::id() == 1 {
        init::mount_cgroups();
    }
    let options = options(request, limit, loading);
    let (played, schedule) = match request.record_kib_per_cpu {
        0 => (benchmarks::play_beside(&workload, &options, interrupted, beside)?, None),
        kib => {
            let (played, schedule) = record_play(&workload, &options, kib, interrupted, beside)?;
            (played, Some(schedule))
        }
    };
    Ok(Play { index, played, schedule })
}

fn options(request: &job::Play, limit: Option<Duration>, loading: Option<Duration>) -> Options {
    let default = Options::default();
    let limit_ns = limit.and_then(|limit| u64::try_from(limit.as_nanos()).ok());
    let lead_ns = loading.and_then(|loading| u64::try_from(loading.as_nanos()).ok());
    Options {
        seed: request.seed,
        lead_ns: lead_ns.unwrap_or(default.lead_ns),
        class: if loading.is_some() { Class::Ext } else { Class::Normal },
        limit_ns: limit_ns.unwrap_or(default.limit_ns),
        // The machine is a virtual one, and the guest its only user.
        hotplug: true,
        pace: if request.counts_instructions { Pace::Instructions } else { Pace::CpuTime },
    }
}
