//! What was seen in a run: waits, idle CPUs, places, CPU time.

use scenario::machine::Machine;
use scenario::workload::{ChangeKind, CpuSet, Op, TaskTemplate, Workload};
use simulator::{Allowed, Event, Observation, RecordError, RunResult};
use std::collections::VecDeque;

/// A task, for whom somebody else has a name.
pub type TaskNumber = u32;

/// Something that lasted too long, perhaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spell {
    /// How long, in ns.
    pub ns: u64,
    /// When it began, in ns.
    pub from_ns: u64,
    /// The task or CPU that it is about.
    pub whose: u32,
}

impl Spell {
    pub fn longest(&mut self, from_ns: u64, to_ns: u64, whose: u32) {
        let ns = to_ns.saturating_sub(from_ns);
        if ns > self.ns {
            *self = Spell { ns, from_ns, whose };
        }
    }
}

/// What a task did.
#[derive(Clone, Debug, Default)]
pub struct TaskFacts {
    /// Index of its template.
    pub template: usize,
    /// Its stays on CPUs: from when to when.
    pub stays: Vec<(u64, u64)>,
    /// When each of its wake-ups came, and how long it waited after it.
    pub wakeups: Vec<(u64, u64)>,
}

impl TaskFacts {
    /// CPU time that it had from `from_ns` to `to_ns`.
    pub fn ran_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        let within =
            |&(began, ended): &(u64, u64)| ended.min(to_ns).saturating_sub(began.max(from_ns));
        self.stays.iter().map(within).sum()
    }
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Every task, by its number.
    pub tasks: Vec<TaskFacts>,
    /// The longest wait of a runnable task.
    pub wait: Spell,
    /// The longest time that a CPU was idle while a task that it may run waited.
    pub idle: Spell,
    /// The first task that ran where it may not, the CPU, and when.
    pub misplaced: Option<(TaskNumber, u32, u64)>,
}

/// The nice value that a task of this template ends up with.
pub fn final_nice(template: &TaskTemplate) -> i8 {
    let changes = template.program.iter().rev();
    let last = changes.filter_map(|op| if let Op::Nice(nice) = op { Some(*nice) } else { None });
    last.clone().next().unwrap_or(template.nice)
}

/// All that is to be known of a run with observations.
///
/// # Errors
/// If they cannot be read again.
pub fn facts_of(
    machine: &Machine,
    workload: &Workload,
    result: &RunResult,
) -> Result<Facts, RecordError> {
    let mut watch = Watch::new(machine.cpus.len(), workload);
    if let Some(observations) = &result.observations {
        let Survey { births, latest_by_ns } = Survey::of(observations.iter())?;
        // Tasks first: one CPU's clock may be behind that of another, which already runs its child.
        for (task, template) in births {
            watch.see(Observation { at_ns: 0, event: Event::Created { template, task } });
        }
        for_each_in_order(observations.iter(), latest_by_ns, |seen| match seen.event {
            Event::Created { .. } => {}
            _ => watch.see(seen),
        })?;
    }
    Ok(watch.finish(result.elapsed_ns))
}

/// What must be known of all observations before the first is looked at.
struct Survey {
    /// Tasks in the order of their numbers, with their templates.
    births: Vec<(TaskNumber, u32)>,
    /// By how much an observation is earlier than one before it, at the most.
    latest_by_ns: u64,
}

impl Survey {
    fn of<E>(observations: impl Iterator<Item = Result<Observation, E>>) -> Result<Self, E> {
        let (mut births, mut latest_by_ns, mut newest_ns) = (Vec::new(), 0, 0);
        for observation in observations {
            let Observation { at_ns, event } = observation?;
            if let Event::Created { template, task } = event {
                births.push((task, template));
            }
            newest_ns = at_ns.max(newest_ns);
            latest_by_ns = (newest_ns - at_ns).max(latest_by_ns);
        }
        births.sort_unstable();
        Ok(Survey { births, latest_by_ns })
    }
}

/// Takes observations in the order of their times. Those of equal times keep their order, as those
/// of one CPU do. Only those wait that a later one of the record may precede.
fn for_each_in_order<E>(
    observations: impl Iterator<Item = Result<Observation, E>>,
    latest_by_ns: u64,
    mut take: impl FnMut(Observation),
) -> Result<(), E> {
    let mut waiting: VecDeque<Observation> = VecDeque::new();
    for observation in observations {
        let observation = observation?;
        let is_later = |other: &&Observation| other.at_ns > observation.at_ns;
        let nr_later = waiting.iter().rev().take_while(is_later).count();
        waiting.insert(waiting.len() - nr_later, observation);
        let newest_ns = waiting.back().map_or(0, |newest| newest.at_ns);
        while let Some(&first) = waiting.front()
            && waiting.len() > 1
            && first.at_ns <= newest_ns.saturating_sub(latest_by_ns)
        {
            take(first);
            waiting.pop_front();
        }
    }
    waiting.into_iter().for_each(take);
    Ok(())
}

/// What is going on while observations come in.
struct Watch<'a> {
    workload: &'a Workload,
    facts: Facts,
    /// Since when each task waits, and whether it was woken.
    waits: Vec<Option<(u64, bool)>>,
    /// Since when each task runs.
    runs: Vec<Option<u64>>,
    /// Which CPUs each task may run on.
    cpus: Vec<CpuSet>,
    /// Which CPUs are online.
    online: Vec<bool>,
    /// Which CPUs are idle.
    idle: Vec<bool>,
    /// Since when each CPU looks for a task.
    looks: Vec<Option<u64>>,
    /// How many waiting tasks each CPU may run.
    nr_waiting: Vec<u32>,
    /// Since when each CPU is idle although a task waits for it.
    wasted_since: Vec<Option<u64>>,
}

impl<'a> Watch<'a> {
    fn new(nr_cpus: usize, workload: &'a Workload) -> Self {
        Watch {
            workload,
            facts: Facts::default(),
            waits: Vec::new(),
            runs: Vec::new(),
            cpus: Vec::new(),
            online: vec![true; nr_cpus],
            idle: vec![true; nr_cpus],
            looks: vec![None; nr_cpus],
            nr_waiting: vec![0; nr_cpus],
            wasted_since: vec![None; nr_cpus],
        }
    }

    fn see(&mut self, Observation { at_ns, event }: Observation) {
        match event {
            Event::Created { template, .. } => {
                let template = template as usize;
                self.facts.tasks.push(TaskFacts { template, ..TaskFacts::default() });
                self.cpus.push(self.workload.templates[template].cpus.clone());
                self.waits.push(None);
                self.runs.push(None);
            }
            Event::Woke { task } => self.begin_wait(task, at_ns, true),
            Event::Taken { task, cpu } => {
                // Whoever spins for a lock and then finds a task was not idle meanwhile.
                let looks_since_ns = self.looks[cpu as usize].take().unwrap_or(at_ns);
                self.set_idle(cpu as usize, false, looks_since_ns);
                self.end_wait(task, at_ns);
                self.runs[task as usize] = Some(at_ns);
                let may_run = self.online[cpu as usize] && self.may_run(task, cpu);
                if !may_run && self.facts.misplaced.is_none() {
                    self.facts.misplaced = Some((task, cpu, at_ns));
                }
            }
            Event::Left { task, waits, .. } => {
                self.end_stay(task, at_ns);
                if waits {
                    self.begin_wait(task, at_ns, false);
                }
            }
            Event::Looks { cpu } => self.looks[cpu as usize] = Some(at_ns),
            Event::Idle { cpu } => {
                self.looks[cpu as usize] = None;
                self.set_idle(cpu as usize, true, at_ns);
            }
            Event::Hotplug { cpu, online } => {
                self.online[cpu as usize] = online;
                self.update(cpu as usize, at_ns);
            }
            Event::Affinity { task, allowed } => self.set_cpus(task, allowed, at_ns),
        }
    }

    fn may_run(&self, task: TaskNumber, cpu: u32) -> bool {
        self.cpus[task as usize].as_ref().is_none_or(|cpus| cpus.contains(&cpu))
    }

    fn set_cpus(&mut self, task: TaskNumber, allowed: Allowed, at_ns: u64) {
        let cpus = match allowed {
            Allowed::Set(set) => self.workload.cpu_sets[set as usize].clone(),
            Allowed::Change(number) => match &self.workload.changes[number as usize].what {
                ChangeKind::Affinity { cpus, .. } => cpus.clone(),
                _ => unreachable!("only changes of affinity are named"),
            },
            Allowed::All => None,
        };
        let before = std::mem::replace(&mut self.cpus[task as usize], cpus);
        if self.waits[task as usize].is_none() {
            return;
        }
        // A CPU that goes on to waste its time must not seem to begin anew.
        for cpu in 0..self.idle.len() {
            let could = before.as_ref().is_none_or(|cpus| cpus.contains(&(cpu as u32)));
            let can = self.may_run(task, cpu as u32);
            if could != can {
                let change = if can { 1 } else { -1 };
                self.nr_waiting[cpu] = self.nr_waiting[cpu].saturating_add_signed(change);
                self.update(cpu, at_ns);
            }
        }
    }

    fn begin_wait(&mut self, task: TaskNumber, at_ns: u64, woken: bool) {
        self.waits[task as usize] = Some((at_ns, woken));
        self.count_waiting(task, 1, at_ns);
    }

    fn end_wait(&mut self, task: TaskNumber, at_ns: u64) {
        let Some((since_ns, woken)) = self.waits[task as usize].take() else { return };
        self.facts.wait.longest(since_ns, at_ns, task);
        if woken {
            let waited_ns = at_ns.saturating_sub(since_ns);
            self.facts.tasks[task as usize].wakeups.push((since_ns, waited_ns));
        }
        self.count_waiting(task, -1, at_ns);
    }

    fn end_stay(&mut self, task: TaskNumber, at_ns: u64) {
        if let Some(since_ns) = self.runs[task as usize].take() {
            self.facts.tasks[task as usize].stays.push((since_ns, at_ns));
        }
    }

    fn count_waiting(&mut self, task: TaskNumber, change: i32, at_ns: u64) {
        for cpu in 0..self.idle.len() {
            if self.may_run(task, cpu as u32) {
                self.nr_waiting[cpu] = self.nr_waiting[cpu].saturating_add_signed(change);
                self.update(cpu, at_ns);
            }
        }
    }

    fn set_idle(&mut self, cpu: usize, idle: bool, at_ns: u64) {
        self.idle[cpu] = idle;
        self.update(cpu, at_ns);
    }

    /// Whether the time of `cpu` is wasted from now on.
    fn update(&mut self, cpu: usize, at_ns: u64) {
        let wasted = self.online[cpu] && self.idle[cpu] && self.nr_waiting[cpu] > 0;
        match (wasted, self.wasted_since[cpu]) {
            (true, None) => self.wasted_since[cpu] = Some(at_ns),
            (false, Some(since_ns)) => {
                self.facts.idle.longest(since_ns, at_ns, cpu as u32);
                self.wasted_since[cpu] = None;
            }
            _ => {}
        }
    }

    /// What still goes on counts as if it had ended now.
    fn finish(mut self, now_ns: u64) -> Facts {
        for cpu in 0..self.idle.len() {
            if let Some(since_ns) = self.wasted_since[cpu].take() {
                self.facts.idle.longest(since_ns, now_ns, cpu as u32);
            }
        }
        for task in 0..self.facts.tasks.len() as TaskNumber {
            self.end_wait(task, now_ns);
            self.end_stay(task, now_ns);
        }
        self.facts
    }
}

#[cfg(test)]
mod tests {
    //! Goal: waits, idle CPUs and places are what the observations say. Method: a made-up run of
    //! two CPUs, small enough to count by hand.
    use super::*;
    use crate::scenarios::CHECKS;

    fn workload() -> Workload {
        let text = r#"
description = "one task that is bound to CPU 0, one that is free"
source = "own"
tasks = [
    { name = "bound", cpus = [0], program = ["exit"] },
    { name = "free", program = ["exit"] },
]"#;
        scenario::parse_workload("made-up.toml", text, &Default::default()).expect("it is sound")
    }

    fn facts(events: &[(u64, Event)]) -> Facts {
        let workload = workload();
        let mut watch = Watch::new(2, &workload);
        for task in 0..2 {
            watch.see(Observation { at_ns: 0, event: Event::Created { template: task, task } });
        }
        for &(at_ns, event) in events {
            watch.see(Observation { at_ns, event });
        }
        watch.finish(100)
    }

    #[test]
    fn observations_are_taken_in_the_order_of_their_times() {
        for spread_ns in [1, 3, 50, 5000] {
            // Powers of a generator of the numbers below a prime: as good as random.
            let times = (0..2000_u64).scan(1, |power, number| {
                *power = *power * 3 % 7919;
                Some(number * 10 + *power % spread_ns)
            });
            let seen = times.zip(0..).map(|(at_ns, task)| {
                let event = match task % 100 {
                    7 => Event::Created { template: 0, task: 5000 - task },
                    _ => Event::Woke { task },
                };
                Observation { at_ns, event }
            });
            let seen: Vec<_> = seen.collect();
            let record = || seen.iter().map(|&seen| Ok::<_, RecordError>(seen));
            let survey = Survey::of(record()).expect("readable");
            assert!(survey.births.is_sorted() && survey.births.len() == 20);
            let mut taken = Vec::new();
            for_each_in_order(record(), survey.latest_by_ns, |seen| taken.push(seen))
                .expect("readable");
            let mut sorted = seen.clone();
            sorted.sort_by_key(|seen| seen.at_ns);
            assert!(taken == sorted, "{spread_ns} ns");
        }
    }

    #[test]
    fn a_cpu_wastes_time_only_for_tasks_that_it_may_run() {
        let bound = facts(&[
            (10, Event::Woke { task: 1 }),
            (12, Event::Taken { task: 1, cpu: 0 }),
            (20, Event::Woke { task: 0 }),
            (50, Event::Left { task: 1, cpu: 0, waits: false }),
            (50, Event::Taken { task: 0, cpu: 0 }),
        ]);
        assert_eq!(bound.idle, Spell { ns: 2, from_ns: 10, whose: 0 }, "CPU 1 may not help");
        assert_eq!(bound.wait, Spell { ns: 30, from_ns: 20, whose: 0 });
        assert_eq!(bound.misplaced, None);
        let free = facts(&[
            (10, Event::Woke { task: 0 }),
            (10, Event::Taken { task: 0, cpu: 0 }),
            (20, Event::Woke { task: 1 }),
        ]);
        assert_eq!(free.idle, Spell { ns: 80, from_ns: 20, whose: 1 }, "to the end of the run");
        assert_eq!(free.tasks[0].ran_ns(30, 60), 30);
        assert_eq!(free.tasks[1].wakeups, [(20, 80)]);
    }

    #[test]
    fn a_cpu_that_looks_for_a_task_and_finds_one_was_not_idle_meanwhile() {
        let found = facts(&[
            (10, Event::Woke { task: 1 }),
            (15, Event::Looks { cpu: 0 }),
            (60, Event::Taken { task: 1, cpu: 0 }),
        ]);
        assert_eq!(found.idle, Spell { ns: 50, from_ns: 10, whose: 1 }, "CPU 1 did not look");
        let none = facts(&[
            (0, Event::Looks { cpu: 1 }),
            (0, Event::Taken { task: 1, cpu: 1 }),
            (10, Event::Woke { task: 0 }),
            (15, Event::Looks { cpu: 0 }),
            (20, Event::Idle { cpu: 0 }),
            (60, Event::Taken { task: 0, cpu: 0 }),
        ]);
        assert_eq!(none.idle.ns, 50, "looking in vain is no excuse");
    }

    #[test]
    fn a_task_in_the_wrong_place_is_seen() {
        let found = facts(&[(5, Event::Woke { task: 0 }), (7, Event::Taken { task: 0, cpu: 1 })]);
        assert_eq!(found.misplaced, Some((0, 1, 7)));
    }

    #[test]
    fn a_cpu_that_is_offline_wastes_nothing_and_runs_nobody() {
        let gone = |cpu| Event::Hotplug { cpu, online: false };
        let found = facts(&[
            (10, Event::Woke { task: 1 }),
            (30, gone(1)),
            (40, Event::Taken { task: 1, cpu: 0 }),
        ]);
        assert_eq!(found.idle, Spell { ns: 30, from_ns: 10, whose: 0 }, "CPU 1 wasted 20");
        let found = facts(&[(5, gone(1)), (7, Event::Taken { task: 1, cpu: 1 })]);
        assert_eq!(found.misplaced, Some((1, 1, 7)));
    }

    #[test]
    fn who_was_told_to_run_elsewhere_may() {
        let all = Event::Affinity { task: 0, allowed: Allowed::All };
        let found = facts(&[(5, Event::Woke { task: 0 }), (20, all)]);
        assert_eq!(found.idle, Spell { ns: 95, from_ns: 5, whose: 0 }, "CPU 0 could all the time");
        let busy = [(0, Event::Woke { task: 1 }), (0, Event::Taken { task: 1, cpu: 0 })];
        let found = facts(&[&busy[..], &[(5, Event::Woke { task: 0 }), (20, all)]].concat());
        assert_eq!(found.idle, Spell { ns: 80, from_ns: 20, whose: 1 }, "CPU 1 may help from then");
        let found = facts(&[(5, all), (7, Event::Taken { task: 0, cpu: 1 })]);
        assert_eq!(found.misplaced, None);
    }

    #[test]
    fn the_last_nice_value_of_a_program_counts() {
        let renice = CHECKS.iter().find(|check| check.name == "renice");
        let templates = renice.expect("it is there").scenario().workload.templates;
        let nices: Vec<i8> = templates.iter().map(final_nice).collect();
        assert_eq!(nices, [0, 10]);
    }
}
