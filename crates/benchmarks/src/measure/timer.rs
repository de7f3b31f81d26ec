//! How late tasks run that sleep until a time: timer latency, as cyclictest measures it.
//!
//! Each thread sleeps until the next multiple of its interval and notes how much later it ran.
//! `hogs` compute meanwhile and never sleep: what a scheduler makes of sleepers beside them is
//! interactivity under load.
//!
//! Source: T. Gleixner's cyclictest, in rt-tests.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use super::crew::{Crew, Tasks};
use super::{Figure, MeasureError, Percentiles, Sample};
use crate::system;

/// The benchmark and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Timer {
    /// Threads that sleep.
    pub n: u32,
    /// Nanoseconds between two times that each sleeps until.
    pub interval_ns: u64,
    /// How often each of them sleeps.
    pub sleeps: u32,
    /// Threads that compute meanwhile.
    pub hogs: u32,
}

impl Default for Timer {
    fn default() -> Self {
        Timer { n: 1, interval_ns: 1_000_000, sleeps: 1000, hogs: 0 }
    }
}

impl Timer {
    /// Measures once. The figure is the median of all latencies.
    ///
    /// # Errors
    ///
    /// [`MeasureError`], where the system does not give so many threads.
    pub fn run(&self) -> Result<Sample, MeasureError> {
        let parameters = [
            ("n", u64::from(self.n)),
            ("interval_ns", self.interval_ns),
            ("sleeps", u64::from(self.sleeps)),
        ];
        for (name, value) in parameters {
            if value == 0 {
                let why = "is nothing to measure: take 1 or more";
                return Err(MeasureError::Parameter { name, value, why });
            }
        }
        let found = Arc::new(Mutex::new(Vec::new()));
        let over = Arc::new(AtomicBool::new(false));
        let mut crew = Crew::new(Tasks::Threads, self.n + self.hogs)?;
        for number in 1..=self.hogs {
            let over = Arc::clone(&over);
            crew.add(format!("hog {number}"), move |gate| {
                gate.wait()?;
                let mut count = 0u64;
                while !over.load(Ordering::Relaxed) {
                    count = black_box(count + 1);
                }
                Ok(())
            })?;
        }
        let left = Arc::new(std::sync::atomic::AtomicU32::new(self.n));
        for number in 1..=self.n {
            let (found, over, left) = (Arc::clone(&found), Arc::clone(&over), Arc::clone(&left));
            let Timer { interval_ns, sleeps, .. } = *self;
            crew.add(format!("sleeper {number}"), move |gate| {
                let mut latencies_ns = Vec::with_capacity(sleeps as usize);
                gate.wait()?;
                let mut due_ns = system::now_ns();
                for _ in 0..sleeps {
                    due_ns = next_after(due_ns, interval_ns, system::now_ns());
                    system::sleep_until_ns(due_ns);
                    let Some(latency_ns) = system::now_ns().checked_sub(due_ns) else {
                        return Err(std::io::Error::other("woke before its time"));
                    };
                    latencies_ns.push(latency_ns);
                }
                found.lock().unwrap_or_else(PoisonError::into_inner).append(&mut latencies_ns);
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    over.store(true, Ordering::Relaxed);
                }
                Ok(())
            })?;
        }
        let begin = crew.begin()?;
        let used = crew.finish()?;
        let wall_ns = begin.elapsed().as_nanos() as u64;
        let latency_ns = Percentiles::of(&mut found.lock().unwrap_or_else(PoisonError::into_inner));
        let p50_ns = latency_ns.map_or(0, |latency| latency.p50);
        let figure = Figure { value: p50_ns as f64 / 1e3, unit: "us late (median)" };
        Ok(Sample::of("timer", self.n + self.hogs, wall_ns, figure, used, latency_ns))
    }
}

/// The first of the times `due_ns` and whole intervals later that is still to come. Who runs late
/// misses some of them, and sleeps until the next: a time that is over would be no sleep.
fn next_after(due_ns: u64, interval_ns: u64, now_ns: u64) -> u64 {
    let missed = now_ns.saturating_sub(due_ns) / interval_ns;
    due_ns + (missed + 1) * interval_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_are_over_are_not_slept_until() {
        assert_eq!(next_after(100, 10, 100), 110);
        assert_eq!(next_after(100, 10, 109), 110);
        assert_eq!(next_after(100, 10, 110), 120);
        assert_eq!(next_after(100, 10, 137), 140);
        assert_eq!(next_after(100, 10, 90), 110);
    }
}
