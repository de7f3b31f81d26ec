//! Who ran where from when to when, and what that adds up to, in the simulator's words.

use super::{Event, Kind, Trace};
use benchmarks::Distribution;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One stay of a task on a CPU: start and end in ns, CPU, the task's number plus 1. The tuple of
/// simulated timelines, whose pids are numbers plus 1.
pub type Stay = (u64, u64, u32, u32);

/// A wake-up: when in ns, the task's number plus 1, the CPU that it was put on, whether it is new.
pub type Wakeup = (u64, u32, u32, bool);

/// What the scheduler did with one task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSchedule {
    /// Its number.
    pub number: u32,
    /// CPU time; what interrupts took of it is included.
    pub run_ns: u64,
    /// Time it was runnable and not running.
    pub wait_ns: u64,
    /// Times it was put on a CPU.
    pub switches: u64,
    /// Times it left because it blocked, slept or ended.
    pub voluntary_switches: u64,
    /// Times it left although it could have gone on.
    pub involuntary_switches: u64,
    /// Times it ran on another CPU than before.
    pub migrations: u64,
    /// Times it was moved to another CPU's queue, whether or not it ran there.
    pub queue_moves: u64,
    /// Times it became runnable.
    pub wakeups: u64,
    /// When it first ran.
    pub first_run_at_ns: Option<u64>,
    /// When it ended.
    pub exited_at_ns: Option<u64>,
}

/// What the scheduler did with the tasks of a play. Times are counted from the play's time 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Stays on CPUs in the order of their ends.
    pub timeline: Vec<Stay>,
    /// Wake-ups in the order of their times.
    pub wakeups: Vec<Wakeup>,
    /// Tasks by number.
    pub tasks: Vec<TaskSchedule>,
    /// Uninterrupted stays on a CPU.
    pub run_ns: Distribution,
    /// Waits of runnable tasks for a CPU.
    pub wait_ns: Distribution,
    /// Those waits that began with a wake-up.
    pub wakeup_latency_ns: Distribution,
    /// CPU time that lay idle while tasks of the play waited: of idle CPUs and waiting tasks, the
    /// fewer, over time. Affinities are not looked at.
    pub idle_while_waiting_ns: u64,
    /// CPU time that went to tasks which are not of the play.
    pub others_ns: u64,
    /// Events that were lost, and switches that the kernel is seen to have left out; if not 0, all
    /// of this is incomplete.
    pub lost: u64,
}

impl Schedule {
    /// What `trace` says of the tasks in `numbers`, from `start_at_ns` to `end_at_ns` on
    /// `CLOCK_MONOTONIC`. `numbers` gives the task that a thread id stands for; a thread id that
    /// was used twice within a play cannot be told apart.
    pub fn of(
        trace: &Trace,
        numbers: &BTreeMap<i32, u32>,
        start_at_ns: u64,
        end_at_ns: u64,
    ) -> Schedule {
        let mut sweep = Sweep::new(trace, numbers, start_at_ns);
        for event in trace.events.iter().filter(|event| event.at_ns <= end_at_ns) {
            sweep.see(event);
        }
        sweep.finish(end_at_ns)
    }
}

/// A task during the sweep.
#[derive(Clone, Debug, Default)]
struct Life {
    schedule: TaskSchedule,
    /// CPU, and since when.
    running: Option<(u32, u64)>,
    /// Since when, and whether a wake-up began it.
    waiting: Option<(u64, bool)>,
    last_cpu: Option<u32>,
    /// A wake-up that was seen while it ran.
    woken_early_at_ns: Option<u64>,
}

/// Clocks of CPUs may differ by so much: a wake-up can seem to come before the task has left.
const SKEW_NS: u64 = 2_000;

/// A walk through the events in their order.
struct Sweep<'a> {
    numbers: &'a BTreeMap<i32, u32>,
    start_at_ns: u64,
    /// By task number.
    lives: BTreeMap<u32, Life>,
    /// The pid on each CPU, once it is known, and since when.
    on_cpu: Vec<Option<(i32, u64)>>,
    nr_waiting: u64,
    seen_until_ns: u64,
    schedule: Schedule,
    runs_ns: Vec<u64>,
    waits_ns: Vec<u64>,
    latencies_ns: Vec<u64>,
}

impl<'a> Sweep<'a> {
    fn new(trace: &Trace, numbers: &'a BTreeMap<i32, u32>, start_at_ns: u64) -> Self {
        let life = |&number: &u32| {
            let schedule = TaskSchedule { number, ..TaskSchedule::default() };
            (number, Life { schedule, ..Life::default() })
        };
        Sweep {
            numbers,
            start_at_ns,
            lives: numbers.values().map(life).collect(),
            on_cpu: vec![None; trace.nr_cpus as usize],
            nr_waiting: 0,
            seen_until_ns: start_at_ns,
            schedule: Schedule { lost: trace.lost, ..Schedule::default() },
            runs_ns: Vec::new(),
            waits_ns: Vec::new(),
            latencies_ns: Vec::new(),
        }
    }

    fn see(&mut self, event: &Event) {
        // What tasks do before time 0, such as lying down for it, is not of the play; but a task
        // may be on its CPU or in a queue already when it begins.
        let counts = event.at_ns >= self.start_at_ns;
        self.pass_time(event.at_ns);
        match event.kind {
            Kind::Switch { previous, voluntarily, next } => {
                self.leave(event, previous, voluntarily, counts);
                if let Some(on_cpu) = self.on_cpu.get_mut(event.cpu as usize) {
                    let before = on_cpu.replace((next, event.at_ns));
                    // Who leaves a CPU has come to it: else the kernel left a switch out.
                    self.schedule.lost += u64::from(before.is_some_and(|(pid, _)| pid != previous));
                }
                self.enter(event, next, counts);
            }
            Kind::Wakeup { task, target_cpu, .. } => self.wake(event, task, target_cpu, counts),
            Kind::Exit { task } => {
                let at_ns = self.since_start_ns(event.at_ns);
                if let Some(life) = self.life(task) {
                    life.schedule.exited_at_ns = Some(at_ns);
                }
            }
            Kind::Migrate { task, .. } => {
                if let Some(life) = self.life(task) {
                    life.schedule.queue_moves += u64::from(counts);
                }
            }
            Kind::Fork { .. } => {}
        }
    }

    fn life(&mut self, pid: i32) -> Option<&mut Life> {
        self.lives.get_mut(self.numbers.get(&pid)?)
    }

    fn since_start_ns(&self, at_ns: u64) -> u64 {
        at_ns.saturating_sub(self.start_at_ns)
    }

    /// Books the time since the last event as the CPUs and queues are now.
    fn pass_time(&mut self, at_ns: u64) {
        let passed_ns = at_ns.saturating_sub(self.seen_until_ns);
        if passed_ns == 0 {
            return;
        }
        let is_idle = |on_cpu: &&Option<(i32, u64)>| matches!(on_cpu, Some((0, _)));
        let nr_idle = self.on_cpu.iter().filter(is_idle).count() as u64;
        self.schedule.idle_while_waiting_ns += passed_ns * nr_idle.min(self.nr_waiting);
        let is_other = |on_cpu: &&Option<(i32, u64)>| {
            on_cpu.is_some_and(|(pid, _)| pid != 0 && !self.numbers.contains_key(&pid))
        };
        let nr_others = self.on_cpu.iter().filter(is_other).count() as u64;
        self.schedule.others_ns += passed_ns * nr_others;
        self.seen_until_ns = at_ns;
    }

    fn wake(&mut self, event: &Event, pid: i32, target_cpu: u32, counts: bool) {
        let at_ns = self.since_start_ns(event.at_ns);
        let Kind::Wakeup { is_new, .. } = event.kind else { return };
        let Some(life) = self.life(pid) else { return };
        if life.running.is_some() {
            // It was about to sleep and goes on instead, or the clocks differ.
            life.woken_early_at_ns = Some(event.at_ns);
            return;
        }
        if life.waiting.is_some() {
            return;
        }
        life.waiting = Some((event.at_ns, true));
        self.nr_waiting += 1;
        if counts {
            self.note_wakeup(pid, at_ns, target_cpu, is_new);
        }
    }

    fn note_wakeup(&mut self, pid: i32, at_ns: u64, target_cpu: u32, is_new: bool) {
        let Some(life) = self.life(pid) else { return };
        life.schedule.wakeups += 1;
        let number = life.schedule.number;
        self.schedule.wakeups.push((at_ns, number + 1, target_cpu, is_new));
    }

    fn leave(&mut self, event: &Event, pid: i32, voluntarily: bool, counts: bool) {
        let start_at_ns = self.start_at_ns;
        let Some(life) = self.life(pid) else { return };
        let woken_early_at_ns = life.woken_early_at_ns.take();
        if let Some((cpu, since_ns)) = life.running.take()
            && counts
        {
            let from_ns = since_ns.max(start_at_ns);
            let run_ns = event.at_ns - from_ns;
            life.schedule.run_ns += run_ns;
            let pid = life.schedule.number + 1;
            let stay = (from_ns - start_at_ns, event.at_ns - start_at_ns, cpu, pid);
            self.runs_ns.push(run_ns);
            self.schedule.timeline.push(stay);
        }
        let Some(life) = self.life(pid) else { return };
        life.schedule.voluntary_switches += u64::from(voluntarily && counts);
        life.schedule.involuntary_switches += u64::from(!voluntarily && counts);
        let is_woken = voluntarily
            && woken_early_at_ns.is_some_and(|woken_ns| event.at_ns - woken_ns <= SKEW_NS)
            && life.schedule.exited_at_ns.is_none();
        if !voluntarily || is_woken {
            life.waiting = Some((event.at_ns, voluntarily));
            self.nr_waiting += 1;
        }
        if is_woken && counts {
            let at_ns = self.since_start_ns(event.at_ns);
            self.note_wakeup(pid, at_ns, event.cpu, false);
        }
    }

    fn enter(&mut self, event: &Event, pid: i32, counts: bool) {
        let (start_at_ns, at_ns) = (self.start_at_ns, self.since_start_ns(event.at_ns));
        let Some(life) = self.life(pid) else { return };
        life.running = Some((event.cpu, event.at_ns));
        let waited = life.waiting.take();
        let moved = life.last_cpu.replace(event.cpu).is_some_and(|last| last != event.cpu);
        if counts {
            life.schedule.switches += 1;
            life.schedule.migrations += u64::from(moved);
            life.schedule.first_run_at_ns.get_or_insert(at_ns);
        }
        let Some((since_ns, woken)) = waited else { return };
        self.nr_waiting -= 1;
        if counts {
            self.note_wait(pid, event.at_ns - since_ns.max(start_at_ns), woken);
        }
    }

    fn note_wait(&mut self, pid: i32, waited_ns: u64, woken: bool) {
        if let Some(life) = self.life(pid) {
            life.schedule.wait_ns += waited_ns;
        }
        self.waits_ns.push(waited_ns);
        if woken {
            self.latencies_ns.push(waited_ns);
        }
    }

    /// Who still runs or waits does so up to the end.
    fn finish(mut self, end_at_ns: u64) -> Schedule {
        self.pass_time(end_at_ns);
        let start_at_ns = self.start_at_ns;
        let numbers = self.numbers;
        for &pid in numbers.keys() {
            let Some(life) = self.life(pid) else { continue };
            let (running, waiting) = (life.running.take(), life.waiting.take());
            if let Some((cpu, since_ns)) = running {
                let from_ns = since_ns.max(start_at_ns);
                life.schedule.run_ns += end_at_ns.saturating_sub(from_ns);
                let pid = life.schedule.number + 1;
                let stay = (from_ns - start_at_ns, end_at_ns - start_at_ns, cpu, pid);
                self.runs_ns.push(end_at_ns.saturating_sub(from_ns));
                self.schedule.timeline.push(stay);
            }
            if let Some((since_ns, woken)) = waiting {
                self.note_wait(pid, end_at_ns.saturating_sub(since_ns.max(start_at_ns)), woken);
            }
        }
        self.schedule.tasks = self.lives.into_values().map(|life| life.schedule).collect();
        self.schedule.run_ns = Distribution::of(self.runs_ns);
        self.schedule.wait_ns = Distribution::of(self.waits_ns);
        self.schedule.wakeup_latency_ns = Distribution::with_histogram(self.latencies_ns);
        self.schedule
    }
}

#[cfg(test)]
mod tests {
    //! Goal: events become the stays, waits and counts that they mean. Method: short recordings
    //! written by hand, with sums that must hold.
    use super::*;

    const START_NS: u64 = 10_000;

    fn switch(at_ns: u64, cpu: u32, previous: i32, voluntarily: bool, next: i32) -> Event {
        let kind = Kind::Switch { previous, voluntarily, next };
        Event { at_ns: START_NS + at_ns, cpu, kind }
    }

    fn wakeup(at_ns: u64, task: i32, target_cpu: u32) -> Event {
        let kind = Kind::Wakeup { task, target_cpu, is_new: false };
        Event { at_ns: START_NS + at_ns, cpu: 0, kind }
    }

    /// Pids 100 and 101 are tasks 0 and 1.
    fn schedule(events: Vec<Event>, nr_cpus: u32, end_ns: u64) -> Schedule {
        let numbers = BTreeMap::from([(100, 0), (101, 1)]);
        let trace = Trace { events, nr_cpus, lost: 0 };
        Schedule::of(&trace, &numbers, START_NS, START_NS + end_ns)
    }

    #[test]
    fn who_leaves_a_cpu_without_having_come_to_it_is_a_lost_switch() {
        let told = vec![
            switch(5, 0, 0, false, 100),
            switch(9, 0, 100, true, 0),
            // On CPU 1 nothing is known of what was before.
            switch(9, 1, 101, true, 0),
        ];
        assert_eq!(schedule(told.clone(), 2, 30).lost, 0);
        let left_out = [told, vec![switch(20, 1, 101, true, 0)]].concat();
        assert_eq!(schedule(left_out, 2, 30).lost, 1);
    }

    #[test]
    fn two_tasks_in_turn_run_and_wait_as_the_switches_say() {
        let found = schedule(
            vec![
                wakeup(0, 100, 0),
                wakeup(0, 101, 0),
                switch(5, 0, 0, false, 100),
                switch(105, 0, 100, false, 101),
                switch(305, 0, 101, true, 100),
                switch(405, 0, 100, true, 0),
            ],
            1,
            500,
        );
        let stays = [(5, 105, 0, 1), (105, 305, 0, 2), (305, 405, 0, 1)];
        assert_eq!(found.timeline, stays);
        let first = &found.tasks[0];
        assert_eq!((first.run_ns, first.wait_ns, first.switches), (200, 5 + 200, 2));
        assert_eq!((first.voluntary_switches, first.involuntary_switches), (1, 1));
        let second = &found.tasks[1];
        assert_eq!((second.run_ns, second.wait_ns, second.wakeups), (200, 105, 1));
        assert_eq!(found.wait_ns.count, 3);
        assert_eq!(found.wakeup_latency_ns, Distribution::with_histogram(vec![5, 105]));
        assert_eq!((found.idle_while_waiting_ns, found.others_ns), (0, 0));
    }

    #[test]
    fn an_idle_cpu_beside_a_waiting_task_is_waste() {
        let found = schedule(
            vec![
                switch(0, 1, 7, true, 0),
                switch(0, 0, 7, false, 100),
                wakeup(10, 101, 0),
                switch(60, 1, 0, false, 101),
                switch(80, 0, 100, true, 7),
            ],
            2,
            100,
        );
        assert_eq!(found.idle_while_waiting_ns, 50);
        assert_eq!(found.others_ns, 20);
        assert_eq!(found.tasks[1].run_ns, 40, "it runs to the end");
    }

    #[test]
    fn a_task_that_runs_elsewhere_than_before_has_migrated() {
        let found = schedule(
            vec![
                switch(0, 0, 0, false, 100),
                switch(10, 0, 100, false, 0),
                switch(20, 1, 0, false, 100),
                switch(30, 1, 100, true, 0),
                wakeup(35, 100, 1),
                switch(40, 1, 0, false, 100),
            ],
            2,
            50,
        );
        assert_eq!((found.tasks[0].migrations, found.tasks[0].switches), (1, 3));
        assert_eq!(found.wakeups, [(35, 1, 1, false)]);
    }

    #[test]
    fn what_was_before_the_start_does_not_count() {
        let early = |event: Event, by_ns: u64| Event { at_ns: event.at_ns - by_ns, ..event };
        let found = schedule(
            vec![
                early(switch(0, 0, 0, false, 100), 500),
                early(switch(0, 0, 100, true, 0), 400),
                early(switch(0, 0, 0, false, 100), 100),
                switch(50, 0, 100, true, 0),
            ],
            1,
            60,
        );
        assert_eq!(found.timeline, [(0, 50, 0, 1)]);
        assert_eq!((found.tasks[0].run_ns, found.tasks[0].switches), (50, 0));
    }

    #[test]
    fn a_wakeup_that_seems_to_come_before_the_sleep_is_kept() {
        let found = schedule(
            vec![
                switch(0, 0, 0, false, 100),
                wakeup(5_000, 100, 0),
                switch(5_001, 0, 100, true, 0),
                switch(5_100, 0, 0, false, 100),
            ],
            1,
            6_000,
        );
        assert_eq!(found.tasks[0].wakeups, 1);
        assert_eq!(found.tasks[0].wait_ns, 99);
    }
}
