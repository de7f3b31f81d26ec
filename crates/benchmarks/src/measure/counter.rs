//! The counter test of 2009: n tasks that only compute, all the same, and how long until the last
//! one is done.
//!
//! Each counts to a number; the figure is the cost of one task, which stays level while there is a
//! CPU for each, and beyond where a scheduler wastes nothing.
//!
//! Source: a blog's test of BFS against CFS, `published/` has its figures; there each process was
//! Python, counted to 1,000,000 and took 0.15 s, and the parent looked every millisecond.

use std::hint::black_box;

use serde::Serialize;

use super::crew::{Crew, Tasks};
use super::{Figure, MeasureError, Sample};

/// The benchmark and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Counter {
    /// Tasks that count.
    pub n: u32,
    /// What each counts to.
    pub to: u64,
    /// What tasks are.
    pub tasks: Tasks,
}

impl Default for Counter {
    fn default() -> Self {
        // 0.15 s at one addition in some 0.3 ns.
        Counter { n: 4, to: 500_000_000, tasks: Tasks::Processes }
    }
}

impl Counter {
    /// Measures once.
    ///
    /// # Errors
    ///
    /// [`MeasureError`], where the system does not give so many tasks.
    pub fn run(&self) -> Result<Sample, MeasureError> {
        for (name, value) in [("n", u64::from(self.n)), ("to", self.to)] {
            if value == 0 {
                let why = "is nothing to measure: take 1 or more";
                return Err(MeasureError::Parameter { name, value, why });
            }
        }
        let mut crew = Crew::new(self.tasks, self.n)?;
        let to = self.to;
        for number in 1..=self.n {
            crew.add(format!("counter {number}"), move |gate| {
                gate.wait()?;
                let mut count = 0;
                while count < to {
                    count = black_box(count + 1);
                }
                Ok(())
            })?;
        }
        let begin = crew.begin()?;
        let used = crew.finish()?;
        let wall_ns = begin.elapsed().as_nanos() as u64;
        let figure = Figure { value: wall_ns as f64 / 1e9 / f64::from(self.n), unit: "s per task" };
        Ok(Sample::of("counter", self.n, wall_ns, figure, used, None))
    }
}
