//! A token that goes round a ring of tasks joined by pipes: what a context switch costs.
//!
//! With `size_kib` each task sums up so much memory of its own when it has the token, so that
//! switches pay for caches, too; what the sums alone cost is measured first and taken off. Two
//! tasks without memory are what `perf bench sched pipe` measures, which counts round trips.
//!
//! Source: L. McVoy, C. Staelin, "lmbench: portable tools for performance analysis", 1996
//! (`lat_ctx -s SIZE N`).

use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::time::Instant;

use nix::unistd::pipe;
use serde::Serialize;

use super::crew::{Crew, Tasks, receive, send};
use super::{Figure, MeasureError, Sample};

/// The benchmark and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ring {
    /// Tasks.
    pub n: u32,
    /// Memory that each sums up when it has the token, KiB.
    pub size_kib: u32,
    /// Measured rounds of the token.
    pub rounds: u32,
    /// What tasks are.
    pub tasks: Tasks,
}

impl Default for Ring {
    fn default() -> Self {
        Ring { n: 2, size_kib: 0, rounds: 10_000, tasks: Tasks::Processes }
    }
}

/// Rounds before the measured ones: caches warm up, tasks find their CPUs.
const WARM_UP_ROUNDS: u32 = 100;

impl Ring {
    /// Measures once.
    ///
    /// # Errors
    ///
    /// [`MeasureError`], where the system does not give so many tasks or pipes.
    pub fn run(&self) -> Result<Sample, MeasureError> {
        self.check()?;
        let overhead_ns = self.overhead_ns()?;
        let mut crew = Crew::new(self.tasks, self.n)?;
        let mut pipes = Vec::with_capacity(self.n as usize);
        for _ in 0..self.n {
            pipes.push(pipe().map_err(|e| MeasureError::system("make a pipe", e))?);
        }
        // Task i reads pipe i and writes pipe i + 1; we stand between the last one and the first,
        // let the token in, and take it out.
        let (mut inlets, mut outlets): (Vec<OwnedFd>, Vec<OwnedFd>) = pipes.into_iter().unzip();
        let (report, reporter) = pipe().map_err(|e| MeasureError::system("make a pipe", e))?;
        outlets.rotate_left(1);
        let first_outlet =
            outlets.pop().and_then(|outlet| outlet.try_clone().ok().zip(Some(outlet)));
        let Some((entrance, last)) = first_outlet else {
            let error = std::io::Error::from_raw_os_error(libc::EMFILE);
            return Err(MeasureError::system("share a pipe", error));
        };
        outlets.push(last);
        let mut reporter = Some(reporter);
        for number in (1..=self.n).rev() {
            let (Some(inlet), Some(outlet)) = (inlets.pop(), outlets.pop()) else { break };
            let report = if number == 1 { reporter.take() } else { None };
            crew.add(format!("task {number} of the ring"), self.member(inlet, outlet, report))?;
        }
        crew.begin()?;
        send(&entrance, b"t").map_err(|e| MeasureError::system("send the token", e))?;
        let mut measured = [0; 8];
        receive(&report, &mut measured).map_err(|e| MeasureError::system("hear of the ring", e))?;
        let used = crew.finish()?;
        let wall_ns = u64::from_le_bytes(measured);
        let switches = f64::from(self.rounds) * f64::from(self.n);
        let per_switch_ns = (wall_ns as f64 / switches - overhead_ns).max(0.0);
        let figure = Figure { value: per_switch_ns / 1e3, unit: "us per switch" };
        Ok(Sample::of("lat_ctx", self.n, wall_ns, figure, used, None))
    }

    fn check(&self) -> Result<(), MeasureError> {
        let refuse =
            |name, value: u32, why| Err(MeasureError::Parameter { name, value: value.into(), why });
        if self.n < 2 {
            return refuse("n", self.n, "is no ring: take 2 or more");
        }
        if self.rounds == 0 {
            return refuse("rounds", 0, "is nothing to measure: take 1 or more");
        }
        Ok(())
    }

    /// What a task does: take the token, sum, give it on. The first one counts the rounds and tells
    /// how long the measured ones took.
    fn member(
        &self,
        inlet: OwnedFd,
        outlet: OwnedFd,
        report: Option<OwnedFd>,
    ) -> impl FnOnce(super::crew::Gate) -> std::io::Result<()> + Send + use<> {
        let Ring { rounds, size_kib, .. } = *self;
        move |gate| {
            let memory = memory(size_kib);
            let mut token = [0];
            gate.wait()?;
            for _ in 0..WARM_UP_ROUNDS {
                receive(&inlet, &mut token)?;
                black_box(sum(&memory));
                send(&outlet, &token)?;
            }
            let Some(report) = report else {
                for _ in 0..rounds {
                    receive(&inlet, &mut token)?;
                    black_box(sum(&memory));
                    send(&outlet, &token)?;
                }
                return Ok(());
            };
            // The first one has the token when the clock starts, and has it back when it stops.
            receive(&inlet, &mut token)?;
            let begin = Instant::now();
            for _ in 0..rounds {
                black_box(sum(&memory));
                send(&outlet, &token)?;
                receive(&inlet, &mut token)?;
            }
            let measured = begin.elapsed().as_nanos() as u64;
            send(&report, &measured.to_le_bytes())
        }
    }

    /// What a turn costs without any switch: summing, and a byte through a pipe, nanoseconds.
    fn overhead_ns(&self) -> Result<f64, MeasureError> {
        let (inlet, outlet) = pipe().map_err(|e| MeasureError::system("make a pipe", e))?;
        let memory = memory(self.size_kib);
        let turn = || {
            let mut token = [0];
            black_box(sum(&memory));
            send(&outlet, b"t").and_then(|()| receive(&inlet, &mut token))
        };
        let turns = self.rounds.clamp(100, 10_000);
        let mut least_ns = f64::INFINITY;
        // The least of some, as the machine may be busy; in fifths, as all would take too long.
        for _ in 0..5 {
            let begin = Instant::now();
            for _ in 0..turns / 5 {
                turn().map_err(|e| MeasureError::system("use a pipe", e))?;
            }
            least_ns = least_ns.min(begin.elapsed().as_nanos() as f64 / f64::from(turns / 5));
        }
        Ok(least_ns)
    }
}

fn memory(size_kib: u32) -> Vec<u32> {
    (0..size_kib * 256).collect()
}

/// Reads it all.
fn sum(memory: &[u32]) -> u32 {
    memory.iter().fold(0, |sum, &word| sum.wrapping_add(word))
}
