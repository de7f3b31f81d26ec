//! Two tasks that wake each other through two pipes: what a round trip costs, which is two
//! wake-ups and two switches.
//!
//! Unlike `lat_ctx` nothing is taken off. The first round trips are not measured, and neither are
//! the tasks' start and end, which `perf bench sched pipe` has in its time: with its million round
//! trips that is nothing, with a thousand it is a few percent.
//!
//! Source: `perf bench sched pipe` of Linux: messages of 4 bytes, 1,000,000 round trips,
//! microseconds an operation.

use std::os::fd::OwnedFd;
use std::time::Instant;

use serde::Serialize;

use super::crew::{Crew, Gate, Tasks, receive, send};
use super::{Figure, MeasureError, Sample};

/// The benchmark and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Pipe {
    /// Measured round trips.
    pub round_trips: u32,
    /// What tasks are.
    pub tasks: Tasks,
}

impl Default for Pipe {
    fn default() -> Self {
        Pipe { round_trips: 100_000, tasks: Tasks::Processes }
    }
}

/// Round trips before the measured ones: caches warm up, tasks find their CPUs.
const WARM_UP_TRIPS: u32 = 100;

/// An `int`, as the source sends.
const MESSAGE_BYTES: usize = 4;

impl Pipe {
    /// Measures once.
    ///
    /// # Errors
    ///
    /// [`MeasureError`], where the system does not give two tasks or three pipes.
    pub fn run(&self) -> Result<Sample, MeasureError> {
        let round_trips = self.round_trips;
        if round_trips == 0 {
            let why = "is nothing to measure: take 1 or more";
            return Err(MeasureError::Parameter { name: "round_trips", value: 0, why });
        }
        let (there_inlet, there) = open()?;
        let (back_inlet, back) = open()?;
        let (report, reporter) = open()?;
        let mut crew = Crew::new(self.tasks, 2)?;
        crew.add("the task that asks".into(), move |gate| {
            gate.wait()?;
            let wall_ns = ask(&there, &back_inlet, round_trips)?;
            send(&reporter, &wall_ns.to_le_bytes())
        })?;
        crew.add("the task that answers".into(), move |gate: Gate| {
            gate.wait()?;
            answer(&there_inlet, &back, round_trips)
        })?;
        crew.begin()?;
        let mut measured = [0; 8];
        let heard = receive(&report, &mut measured);
        // A task that failed is the better reason.
        let used = crew.finish()?;
        heard.map_err(|error| MeasureError::system("hear of the tasks", error))?;
        let wall_ns = u64::from_le_bytes(measured);
        let value = wall_ns as f64 / 1e3 / f64::from(round_trips);
        let figure = Figure { value, unit: "us per round trip" };
        Ok(Sample::of("pipe", 2, wall_ns, figure, used, None))
    }
}

fn open() -> Result<(OwnedFd, OwnedFd), MeasureError> {
    nix::unistd::pipe().map_err(|error| MeasureError::system("make a pipe", error))
}

/// Nanoseconds of the measured round trips.
fn ask(there: &OwnedFd, back: &OwnedFd, round_trips: u32) -> std::io::Result<u64> {
    let mut message = [0; MESSAGE_BYTES];
    let mut trips = |number| {
        for _ in 0..number {
            send(there, &message)?;
            receive(back, &mut message)?;
        }
        std::io::Result::Ok(())
    };
    trips(WARM_UP_TRIPS)?;
    let begin = Instant::now();
    trips(round_trips)?;
    Ok(begin.elapsed().as_nanos() as u64)
}

fn answer(there: &OwnedFd, back: &OwnedFd, round_trips: u32) -> std::io::Result<()> {
    let mut message = [0; MESSAGE_BYTES];
    for _ in 0..WARM_UP_TRIPS + round_trips {
        receive(there, &mut message)?;
        send(back, &message)?;
    }
    Ok(())
}
