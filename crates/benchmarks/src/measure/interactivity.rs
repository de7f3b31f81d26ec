//! A task that has a frame to compute every period, beside tasks that compute without end: how long
//! its frames take, and which fraction is late.
//!
//! A frame is due at a multiple of the period. The task sleeps until then and computes; the frame
//! is late if it is not done when the next one is due. Frames that are due meanwhile are dropped
//! and count as late: the task goes on with the next that is still to come, as a player does.
//!
//! The load is hogs, which never sleep, and jobs, which start one short process after the other as
//! a compile does; such processes are new to the scheduler each time.
//!
//! Source: what BFS was written for and argued with (C. Kolivas, 2009), as a number: frames of
//! 60 Hz beside a kernel compile.

use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use serde::Serialize;

use super::crew::{Crew, Tasks};
use super::desk::{Desk, Office, TASKS_MAX};
use super::{Figure, MeasureError, Percentiles, Sample};
use crate::player::pace::{Burner, spin};
use crate::system::{self, Fork};

/// The benchmark and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Interactivity {
    /// Nanoseconds between two times at which frames are due.
    pub period_ns: u64,
    /// CPU time that a frame takes, nanoseconds.
    pub compute_ns: u64,
    /// Frames that are due.
    pub frames: u32,
    /// Tasks that compute without end.
    pub hogs: u32,
    /// Tasks that start one short process after the other.
    pub jobs: u32,
    /// What the task with the frames and the hogs are; a job's processes are always such.
    pub tasks: Tasks,
}

/// What became of the frames.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Frames {
    /// Those that were due.
    pub due: u64,
    /// Those that were not done when the next one was due, the dropped ones too.
    pub late: u64,
    /// Those that were not even begun, because an earlier one took too long.
    pub dropped: u64,
    /// Late ones of those due.
    pub late_fraction: f64,
}

/// CPU times of the processes that a job starts, in turn, microseconds: least, tenth, quarter,
/// median, three quarters, nine tenths and 95 of 100 of the 246 compiles of e2fsprogs 1.47.0, each
/// with its driver and assembler (own recording, 2024).
const JOB_US: [u64; 7] = [10_367, 28_325, 44_177, 85_316, 155_072, 245_533, 376_612];

/// A process that computes looks so often whether the time is over.
const LOOK_NS: u64 = 1_000_000;

/// Turns of a hog between two looks at the clock: some ten microseconds.
const HOG_TURNS: u64 = 30_000;

impl Interactivity {
    /// Measures once. The figure is the part of the frames that were late, in percent; latencies
    /// are those of the frames that were begun, from when they were due to when they were done.
    ///
    /// # Errors
    ///
    /// [`MeasureError`], where the system does not give so many tasks.
    pub fn run(&self) -> Result<Sample, MeasureError> {
        self.check()?;
        let nr_tasks = 1 + self.hogs + self.jobs;
        let burner = Burner::measured();
        let end_after_ns = self.period_ns * (u64::from(self.frames) + 1);
        let office = Office::new()?;
        let mut crew = Crew::new(self.tasks, nr_tasks)?;
        for number in 1..=self.hogs {
            let desk = office.desk();
            crew.add(format!("hog {number}"), move |gate| {
                gate.wait()?;
                let end_ns = desk.begin_ns()? + end_after_ns;
                while system::now_ns() < end_ns {
                    spin(HOG_TURNS);
                }
                Ok(())
            })?;
        }
        for number in 1..=self.jobs {
            let desk = office.desk();
            crew.add(format!("job {number}"), move |gate| {
                gate.wait()?;
                start_processes(number as usize, burner, desk.begin_ns()? + end_after_ns)
            })?;
        }
        let (desk, frames) = (office.desk(), *self);
        crew.add("the task with the frames".into(), move |gate| {
            gate.wait()?;
            frames.compute_all(&desk, burner)
        })?;
        let begin = crew.begin()?;
        office.begin_now(nr_tasks)?;
        let told = office.hear_all()?;
        let used = crew.finish()?;
        let wall_ns = begin.elapsed().as_nanos() as u64;
        let frames = self.judged(&told);
        let figure = Figure { value: 100.0 * frames.late_fraction, unit: "% of frames late" };
        let mut latencies_ns: Vec<u64> = told.iter().map(|&[_, latency_ns]| latency_ns).collect();
        let latency_ns = Percentiles::of(&mut latencies_ns);
        let mut sample = Sample::of("interactivity", nr_tasks, wall_ns, figure, used, latency_ns);
        sample.frames = Some(frames);
        Ok(sample)
    }

    fn check(&self) -> Result<(), MeasureError> {
        let refuse = |name, value, why| Err(MeasureError::Parameter { name, value, why });
        for (name, value) in [("period_ns", self.period_ns), ("frames", self.frames.into())] {
            if value == 0 {
                return refuse(name, 0, "is nothing to measure: take 1 or more");
            }
        }
        if self.compute_ns >= self.period_ns {
            let why = "leaves no time to sleep: take less than the period";
            return refuse("compute_ns", self.compute_ns, why);
        }
        let load = u64::from(self.hogs) + u64::from(self.jobs);
        if load >= u64::from(TASKS_MAX) {
            return refuse("hogs + jobs", load, "is too many tasks: take 511 at most");
        }
        Ok(())
    }

    /// All frames; tells the number and the latency of each that was begun.
    fn compute_all(&self, desk: &Desk, burner: Burner) -> std::io::Result<()> {
        let begin_ns = desk.begin_ns()?;
        let mut frame = 1;
        while frame <= u64::from(self.frames) {
            let due_ns = begin_ns + frame * self.period_ns;
            system::sleep_until_ns(due_ns);
            burner.burn(self.compute_ns);
            let done_ns = system::now_ns();
            desk.tell([frame, done_ns.saturating_sub(due_ns)])?;
            // What is due at this very moment is still to come.
            frame = next_frame(frame, (done_ns - begin_ns - 1) / self.period_ns);
        }
        Ok(())
    }

    fn judged(&self, told: &[[u64; 2]]) -> Frames {
        let due = u64::from(self.frames);
        let dropped = due - told.len() as u64;
        let in_time = told.iter().filter(|[_, latency_ns]| *latency_ns <= self.period_ns).count();
        let late = due - in_time as u64;
        Frames { due, late, dropped, late_fraction: late as f64 / due as f64 }
    }
}

/// The frame after this one that is still to come, where the last that was due is `last_due`.
fn next_frame(frame: u64, last_due: u64) -> u64 {
    frame.max(last_due) + 1
}

/// A job's life: a process that computes, and when it has ended the next.
fn start_processes(number: usize, burner: Burner, end_ns: u64) -> std::io::Result<()> {
    for place in number.. {
        if system::now_ns() >= end_ns {
            break;
        }
        match system::fork().map_err(std::io::Error::from_raw_os_error)? {
            Fork::Child => {
                system::set_process(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64);
                let mut left_ns = JOB_US[place % JOB_US.len()] * 1000;
                while left_ns > 0 && system::now_ns() < end_ns {
                    let now_ns = left_ns.min(LOOK_NS);
                    burner.burn(now_ns);
                    left_ns -= now_ns;
                }
                system::exit_process(0)
            }
            Fork::Parent(pid) => {
                while let Err(error) = waitpid(Pid::from_raw(pid), None) {
                    if error != nix::errno::Errno::EINTR {
                        return Err(error.into());
                    }
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(told: &[[u64; 2]]) -> Frames {
        let tasks = Tasks::Processes;
        Interactivity { period_ns: 10, compute_ns: 3, frames: 4, hogs: 0, jobs: 0, tasks }
            .judged(told)
    }

    #[test]
    fn frames_that_are_late_or_dropped_are_counted() {
        let all = frames(&[[1, 3], [2, 4], [3, 10], [4, 3]]);
        assert_eq!((all.late, all.dropped, all.late_fraction), (0, 0, 0.0));
        // The first took 25, so that the second and third were due before it was done.
        let found = frames(&[[1, 25], [4, 3]]);
        assert_eq!((found.late, found.dropped, found.late_fraction), (3, 2, 0.75));
    }

    #[test]
    fn a_task_goes_on_with_the_next_frame_that_is_still_to_come() {
        assert_eq!(next_frame(3, 3), 4);
        // A timer that was a little early, in a clock's last digit.
        assert_eq!(next_frame(3, 2), 4);
        assert_eq!(next_frame(3, 7), 8);
    }
}
