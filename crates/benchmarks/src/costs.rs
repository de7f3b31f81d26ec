//! What the kernel's operations cost on this machine, one by one: what a machine's file is made of.
//!
//! Each is measured many times, in pieces so short that whatever else the machine does falls into
//! few of them, and told as median and quartiles. Costs that cannot be had alone are told as the
//! sums that they are parts of, by names of their own (`hop_ns`, `fork_exit_wait_ns`); taking
//! sums apart is the caller's.

mod kernel;
mod memory;
mod switches;

use std::convert::Infallible;

use serde::Serialize;

use crate::measure::MeasureError;
use crate::system;

/// One cost, as measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// As the machine's file calls it; a name of its own if it is a sum.
    pub cost: &'static str,
    /// Which CPUs, or which size; empty where there is one only.
    pub of: String,
    /// Median of the pieces.
    pub median: f64,
    /// A quarter of the pieces took at most this.
    pub low: f64,
    /// Three quarters did.
    pub high: f64,
    /// Pieces.
    pub count: usize,
    /// How it was measured, in a sentence.
    pub how: &'static str,
}

impl Cost {
    fn of(cost: &'static str, mut pieces: Vec<f64>, how: &'static str) -> Self {
        pieces.sort_unstable_by(f64::total_cmp);
        let at = |quarter: usize| pieces.get((pieces.len() * quarter / 4).min(pieces.len() - 1));
        let [low, median, high] = [1, 2, 3].map(|quarter| at(quarter).copied().unwrap_or(0.0));
        Cost { cost, of: String::new(), median, low, high, count: pieces.len(), how }
    }

    fn between(self, of: impl Into<String>) -> Self {
        Cost { of: of.into(), ..self }
    }

    /// Less what another one takes, which is part of each piece; never below 0.
    fn less(self, median: f64) -> Self {
        let less = |ns: f64| (ns - median).max(0.0);
        Cost { median: less(self.median), low: less(self.low), high: less(self.high), ..self }
    }
}

/// Measures all costs, some seconds long. `watch` is given each when it is known.
///
/// `cpus` are two CPUs that the caller may use, the same one twice where there is no other: what
/// needs two is then left out.
///
/// # Errors
///
/// If the system does not give the tasks, pipes or CPUs that this takes.
pub fn measure(
    cpus: [usize; 2],
    watch: &mut dyn FnMut(Cost) -> Result<(), MeasureError>,
) -> Result<(), MeasureError> {
    pin(cpus[0])?;
    kernel::measure(watch)?;
    switches::measure(cpus, watch)?;
    memory::measure(cpus, watch)
}

/// The first two CPUs that this program may use, the first one twice if it is the only one.
///
/// # Errors
///
/// If the system does not say.
pub fn two_cpus() -> Result<[usize; 2], MeasureError> {
    let mask = system::affinity().map_err(|error| refused("read the CPUs to use", error))?;
    let may = |cpu: &usize| mask[cpu / 64] >> (cpu % 64) & 1 == 1;
    let mut cpus = (0..mask.len() * 64).filter(may);
    let first = cpus.next().unwrap_or(0);
    Ok([first, cpus.next().unwrap_or(first)])
}

/// Keeps the calling thread on a CPU.
fn pin(cpu: usize) -> Result<(), MeasureError> {
    keep_on(cpu).map_err(|error| MeasureError::system("stay on a CPU", error))
}

/// As [`pin`], for a task of a crew.
fn keep_on(cpu: usize) -> std::io::Result<()> {
    let mut one: system::Cpus = [0; 16];
    one[cpu / 64] = 1 << (cpu % 64);
    system::set_affinity(&one).map_err(std::io::Error::from_raw_os_error)
}

fn refused(what: &'static str, error: i32) -> MeasureError {
    MeasureError::system(what, std::io::Error::from_raw_os_error(error))
}

/// Nanoseconds of one `work`, from each of `count` pieces of `times` each.
fn pieces(count: usize, times: u32, mut work: impl FnMut()) -> Vec<f64> {
    let Ok(found) = tried::<Infallible>(count, times, || {
        work();
        Ok(())
    });
    found
}

/// As [`pieces`], of work that can fail: the first error ends it, for what fails at once is quick.
fn tried<E>(
    count: usize,
    times: u32,
    mut work: impl FnMut() -> Result<(), E>,
) -> Result<Vec<f64>, E> {
    let piece = |_| {
        let begin_ns = system::now_ns();
        for _ in 0..times {
            work()?;
        }
        Ok((system::now_ns() - begin_ns) as f64 / f64::from(times))
    };
    (0..count).map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_told_by_its_quartiles() {
        let cost = Cost::of("syscall_ns", (0..100).rev().map(f64::from).collect(), "");
        assert_eq!((cost.low, cost.median, cost.high, cost.count), (25.0, 50.0, 75.0, 100));
        let less = cost.less(30.0);
        assert_eq!((less.low, less.median, less.high), (0.0, 20.0, 45.0));
    }

    #[test]
    fn a_piece_is_the_mean_of_its_times() {
        let found = pieces(3, 4, || system::sleep_ns(1_000_000));
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|&ns| ns >= 1e6), "{found:?}");
    }

    #[test]
    fn the_first_error_ends_the_pieces() {
        let mut done = 0;
        let found = tried(3, 4, || {
            done += 1;
            if done == 6 { Err(done) } else { Ok(()) }
        });
        assert_eq!((found, done), (Err(6), 6));
    }
}
