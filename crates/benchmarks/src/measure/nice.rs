//! Tasks of given nice values that all compute: which share of the CPU time each gets, beside the
//! share that its weight promises.
//!
//! Source: Linux kernel/sched/core.c, `sched_prio_to_weight`: a weight of 1024 at nice 0, a quarter
//! more with each step down. Where a weight promises more than a CPU, its task gets a whole one and
//! the others share the rest: A. Chandra, M. Adler, P. Goyal, P. Shenoy, "Surplus fair scheduling",
//! OSDI 2000.

use serde::Serialize;

use super::crew::{Crew, Tasks};
use super::desk::{Desk, Office, TASKS_MAX};
use super::{Figure, MeasureError, Sample};
use crate::player::pace::spin;
use crate::system;

/// The benchmark and its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Nice {
    /// A task each, of this nice value.
    pub nice: Vec<i32>,
    /// Whether all run on one CPU, the first that this program may use, instead of on all of them.
    pub one_cpu: bool,
    /// How long is measured, nanoseconds.
    pub duration_ns: u64,
    /// What tasks are.
    pub tasks: Tasks,
}

/// What a task got.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// Its nice value.
    pub nice: i32,
    /// CPU time that it got, nanoseconds.
    pub cpu_ns: u64,
    /// That, of what all tasks got.
    pub share: f64,
    /// What its weight promises of that.
    pub expected_share: f64,
}

/// Turns of computing between two looks at the clock: some microseconds.
const TURNS: u64 = 10_000;

impl Nice {
    /// Measures once. The figure is how far the task that fared worst or best is from its share, in
    /// percent of that share.
    ///
    /// # Errors
    ///
    /// [`MeasureError`], where the system does not give so many tasks, or not such nice values.
    pub fn run(&self) -> Result<Sample, MeasureError> {
        self.check()?;
        let cpus = system::affinity().map_err(|error| no_cpus(error, "read the CPUs to use"))?;
        let first = cpus.iter().position(|&word| word != 0).unwrap_or(0);
        let mut one: system::Cpus = [0; 16];
        one[first] = 1 << cpus[first].trailing_zeros();
        let nr_tasks = self.nice.len() as u32;
        let office = Office::new()?;
        let mut crew = Crew::new(self.tasks, nr_tasks)?;
        for (place, &nice) in self.nice.iter().enumerate() {
            let (desk, duration_ns, pinned) = (office.desk(), self.duration_ns, self.one_cpu);
            crew.add(format!("task {} of nice {nice}", place + 1), move |gate| {
                let error = std::io::Error::from_raw_os_error;
                if pinned {
                    system::set_affinity(&one).map_err(error)?;
                }
                system::set_nice(nice).map_err(error)?;
                gate.wait()?;
                desk.tell([place as u64, compute(&desk, duration_ns)?])
            })?;
        }
        let begin = crew.begin()?;
        office.begin_now(nr_tasks)?;
        let told = office.hear_all()?;
        let used = crew.finish()?;
        let wall_ns = begin.elapsed().as_nanos() as u64;
        let nr_cpus =
            if self.one_cpu { 1 } else { cpus.iter().map(|word| word.count_ones()).sum() };
        let shares = self.shares(&told, nr_cpus);
        let off = |of: &Share| 100.0 * (of.share / of.expected_share - 1.0).abs();
        let value = shares.iter().map(off).fold(0.0, f64::max);
        let figure = Figure { value, unit: "% off the weights' share (largest)" };
        let mut sample = Sample::of("nice", nr_tasks, wall_ns, figure, used, None);
        sample.shares = Some(shares);
        Ok(sample)
    }

    fn check(&self) -> Result<(), MeasureError> {
        let refuse = |name, value, why| Err(MeasureError::Parameter { name, value, why });
        if self.nice.len() < 2 || self.nice.len() > TASKS_MAX as usize {
            let why = "tasks share nothing or are too many: give 2 to 512 nice values";
            return refuse("nice", self.nice.len() as u64, why);
        }
        if self.duration_ns == 0 {
            return refuse("duration_ns", 0, "is nothing to measure: take 1 or more");
        }
        Ok(())
    }

    fn shares(&self, told: &[[u64; 2]], nr_cpus: u32) -> Vec<Share> {
        let mut cpu_ns = vec![0; self.nice.len()];
        for &[place, ns] in told {
            cpu_ns[place as usize] = ns;
        }
        let total_ns = cpu_ns.iter().sum::<u64>().max(1) as f64;
        let expected = expected_shares(&self.nice, nr_cpus);
        let tasks = self.nice.iter().zip(cpu_ns).zip(expected);
        let share = |((&nice, cpu_ns), expected_share)| Share {
            nice,
            cpu_ns,
            share: cpu_ns as f64 / total_ns,
            expected_share,
        };
        tasks.map(share).collect()
    }
}

fn no_cpus(error: i32, what: &'static str) -> MeasureError {
    MeasureError::system(what, std::io::Error::from_raw_os_error(error))
}

/// Computes until the measured time is over; returns the CPU time that it got of it.
fn compute(desk: &Desk, duration_ns: u64) -> std::io::Result<u64> {
    let end_ns = desk.begin_ns()? + duration_ns;
    let before_ns = system::cpu_time_ns();
    while system::now_ns() < end_ns {
        spin(TURNS);
    }
    Ok(system::cpu_time_ns().saturating_sub(before_ns))
}

/// What each task gets of all that they get together, by weight and a CPU at most.
fn expected_shares(nice: &[i32], nr_cpus: u32) -> Vec<f64> {
    let weights: Vec<u64> = nice.iter().map(|&nice| weight_of(nice)).collect();
    let mut heaviest_first: Vec<usize> = (0..weights.len()).collect();
    heaviest_first.sort_by_key(|&task| std::cmp::Reverse(weights[task]));
    let (mut cpus_left, mut weight_left) = (u64::from(nr_cpus), weights.iter().sum::<u64>());
    let mut cpus = vec![0.0; weights.len()];
    for task in heaviest_first {
        if cpus_left > 0 && weights[task] * cpus_left >= weight_left {
            cpus[task] = 1.0;
            cpus_left -= 1;
            weight_left -= weights[task];
        } else {
            cpus[task] = (weights[task] * cpus_left) as f64 / weight_left as f64;
        }
    }
    let total: f64 = cpus.iter().sum();
    cpus.iter().map(|of_task| of_task / total).collect()
}

/// The weight of a nice value; what is beyond -20 and 19 counts as these.
pub fn weight_of(nice: i32) -> u64 {
    WEIGHTS[(nice.clamp(-20, 19) + 20) as usize]
}

const WEIGHTS: [u64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_nice_is_a_quarter() {
        for nice in -20..=19 {
            let closed_form = 1024.0 / 1.25f64.powi(nice);
            let off = weight_of(nice) as f64 / closed_form - 1.0;
            assert!(off.abs() < 0.05, "{nice}: {off}");
        }
    }

    #[test]
    fn shares_are_those_of_weights_and_at_most_a_cpu() {
        let close = |found: Vec<f64>, wanted: &[f64]| {
            for (found, wanted) in found.iter().zip(wanted) {
                assert!((found - wanted).abs() < 1e-12, "{found} {wanted}");
            }
        };
        close(expected_shares(&[0, 0, 0], 1), &[1.0 / 3.0; 3]);
        close(expected_shares(&[0, 5], 1), &[1024.0 / 1359.0, 335.0 / 1359.0]);
        // One whose weight promises more than a CPU leaves the other CPU to the others.
        close(expected_shares(&[-20, 0, 0], 2), &[0.5, 0.25, 0.25]);
        // Where there are as many CPUs, nice values change nothing.
        close(expected_shares(&[19, -20], 2), &[0.5, 0.5]);
        close(expected_shares(&[19, -20], 4), &[0.5, 0.5]);
    }
}
