//! Playing a workload with real tasks, and recording what the scheduler does with them.

use std::error::Error;
use std::time::Duration;

use benchmarks::{Options, Pace};

use crate::job;
use crate::records::{Play, Record};
use crate::trace::record_play;

/// Plays, and gives the record of it, which is an error if it could not be played.
pub(super) fn play(
    index: usize,
    request: &job::Play,
    limit: Option<Duration>,
    interrupted: &mut dyn FnMut() -> bool,
) -> Record {
    match played(index, request, limit, interrupted) {
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
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Play, Box<dyn Error>> {
    let workload = scenario::load_workload(&request.workload, &request.set)?;
    let options = options(request, limit);
    let (played, schedule) = match request.record_kib_per_cpu {
        0 => (benchmarks::play(&workload, &options, interrupted)?, None),
        kib => {
            let (played, schedule) = record_play(&workload, &options, kib, interrupted)?;
            (played, Some(schedule))
        }
    };
    Ok(Play { index, played, schedule })
}

fn options(request: &job::Play, limit: Option<Duration>) -> Options {
    let default = Options::default();
    let limit_ns = limit.and_then(|limit| u64::try_from(limit.as_nanos()).ok());
    Options {
        seed: request.seed,
        limit_ns: limit_ns.unwrap_or(default.limit_ns),
        pace: if request.counts_instructions { Pace::Instructions } else { Pace::CpuTime },
        ..default
    }
}
