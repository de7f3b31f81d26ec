//! A play and its recording, as one.

use super::{Recorder, Schedule, TraceError};
use benchmarks::{Beside, Options, PlayError, Played, play_beside};
use scenario::workload::Workload;

/// Why there is no recorded play.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It could not be played.
    #[error(transparent)]
    Play(#[from] PlayError),
    /// It could not be recorded.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// Plays `workload` as [`play_beside`] does and records it into buffers of `kib_per_cpu` KiB.
///
/// The schedule reaches from the workload's time 0 to the last event if all tasks ended, so that
/// their exits are in it, else to the end of the play.
///
/// # Errors
/// If it cannot be recorded, which is found out first, or not be played.
pub fn record_play(
    workload: &Workload,
    options: &Options,
    kib_per_cpu: u32,
    interrupted: &mut dyn FnMut() -> bool,
    beside: Option<Beside<'_>>,
) -> Result<(Played, Schedule), RecordError> {
    let recorder = Recorder::start(kib_per_cpu)?;
    let played = play_beside(workload, options, interrupted, beside)?;
    let trace = recorder.stop()?;
    let numbers = played.tasks.iter().map(|task| (task.tid, task.number)).collect();
    let start_at_ns = played.start_at_monotonic_ns;
    let have_all_ended = played.tasks.iter().all(|task| task.exited_at_ns.is_some());
    let end_at_ns = match trace.events.last() {
        Some(last) if have_all_ended => last.at_ns.max(start_at_ns),
        _ => start_at_ns + played.elapsed_ns,
    };
    let schedule = Schedule::of(&trace, &numbers, start_at_ns, end_at_ns);
    Ok((played, schedule))
}
