//! What a recorded scheduler did to its run queues, for a race of run queues to repeat.
//!
//! A task that becomes runnable is queued on the CPU that it is to wait for, one that is switched
//! out and could go on is queued on the CPU that it ran on, and one that is switched to leaves: by
//! a pop if it is the first of its queue, else by a removal. A task that nobody saw come, as those
//! that waited when the recording began, leaves no queue.
//!
//! The kernel does not tell its keys, so tasks get those that they would have in a tree of CFS: CPU
//! time used so far over weight, by the priority that the task had last. Who wakes up has no less
//! than the queue's minimum, that of whoever is queued or runs, and who changes queues keeps its
//! distance from it. Credits of sleepers are left out, and so are tasks of real-time classes, which
//! have queues of their own.
//!
//! Source: Linux 6.1, kernel/sched/fair.c, `update_curr`, `update_min_vruntime`, `place_entity`,
//! `migrate_task_rq_fair`.

use std::collections::{BTreeMap, BTreeSet};

use benchmarks::measure::nice::weight_of;

use super::{Kind, TextTrace};

/// Priorities from here on are of the fair class; this is nice -20.
const PRIORITY_FAIR: i32 = 100;
/// The priority of nice 0.
const PRIORITY_USUAL: i32 = 120;
/// The weight of nice 0, in which virtual time is CPU time.
const WEIGHT_USUAL: u64 = 1024;

/// What was done to a run queue; a task is named by the kernel's pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueOperation {
    /// `task` was queued with `key`.
    Push {
        /// Which one.
        task: u32,
        /// Its virtual time, in ns.
        key: u64,
    },
    /// The first task left.
    Pop,
    /// `task` left, wherever it stood.
    Remove {
        /// Which one.
        task: u32,
    },
}

/// What was done to one run queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueRecord {
    /// In the order in which it was done.
    pub operations: Vec<QueueOperation>,
    /// Switches to tasks that nobody saw come.
    pub unseen: u64,
}

impl TextTrace {
    /// What was done to the queue of each CPU that did anything.
    pub fn queue_of_each_cpu(&self) -> BTreeMap<u32, QueueRecord> {
        self.queues(|cpu| cpu)
    }

    /// What would have been done to one queue, had all CPUs shared it.
    pub fn queue_of_all(&self) -> QueueRecord {
        self.queues(|_| 0).remove(&0).unwrap_or_default()
    }

    fn queues(&self, queue_of: impl Fn(u32) -> u32) -> BTreeMap<u32, QueueRecord> {
        let mut model = Model::new(self, queue_of);
        for event in &self.trace.events {
            match event.kind {
                Kind::Wakeup { task, target_cpu, .. } => {
                    model.wake(task, target_cpu, event.at_ns);
                }
                Kind::Switch { previous, voluntarily, next } => {
                    model.stop(previous, !voluntarily, event.cpu, event.at_ns);
                    model.start(next, event.cpu, event.at_ns);
                }
                _ => {}
            }
        }
        model.queues.into_iter().map(|(number, queue)| (number, queue.record)).collect()
    }
}

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Asleep,
    /// In a queue, under this key, after so many others were queued.
    Queued {
        key: u64,
        order: u64,
    },
    Running {
        cpu: u32,
        since_ns: u64,
    },
}

struct Task {
    weight: u64,
    vtime: u64,
    /// The queue whose minimum its virtual time refers to.
    queue: u32,
    place: Place,
}

impl Task {
    /// Its virtual time at `at_ns`: Linux's `update_curr`.
    fn vtime_at(&self, at_ns: u64) -> u64 {
        match self.place {
            Place::Running { since_ns, .. } => {
                let ran_ns = u128::from(at_ns.saturating_sub(since_ns));
                let ran = ran_ns * u128::from(WEIGHT_USUAL) / u128::from(self.weight);
                self.vtime.saturating_add(ran as u64)
            }
            _ => self.vtime,
        }
    }
}

#[derive(Default)]
struct Queue {
    /// By key, among equal ones by who came first.
    queued: BTreeSet<(u64, u64, i32)>,
    /// Who runs on its CPUs.
    running: BTreeMap<u32, i32>,
    /// No less than this has who wakes up; it never goes back.
    minimum: u64,
    record: QueueRecord,
}

struct Model<'t, F> {
    recording: &'t TextTrace,
    queue_of: F,
    queues: BTreeMap<u32, Queue>,
    tasks: BTreeMap<i32, Task>,
    nr_queued: u64,
}

impl<'t, F: Fn(u32) -> u32> Model<'t, F> {
    fn new(recording: &'t TextTrace, queue_of: F) -> Self {
        Model { recording, queue_of, queues: BTreeMap::new(), tasks: BTreeMap::new(), nr_queued: 0 }
    }

    /// Whether it is a task of the fair class, and no CPU's idle task.
    fn is_queued_by_key(&self, task: i32) -> bool {
        let priority = self.recording.priorities.get(&task).copied().unwrap_or(PRIORITY_USUAL);
        task > 0 && priority >= PRIORITY_FAIR
    }

    /// The task, as one of this queue; a new one begins at the queue's minimum.
    fn task_in(&mut self, task: i32, queue: u32) -> &mut Task {
        let minimum_of = |queues: &BTreeMap<u32, Queue>, number| {
            queues.get(&number).map_or(0, |queue| queue.minimum)
        };
        let minimum = minimum_of(&self.queues, queue);
        let priorities = &self.recording.priorities;
        let found = self.tasks.entry(task).or_insert_with(|| {
            let priority = priorities.get(&task).copied().unwrap_or(PRIORITY_USUAL);
            let weight = weight_of(priority - PRIORITY_USUAL);
            Task { weight, vtime: minimum, queue, place: Place::Asleep }
        });
        if found.queue != queue {
            let ahead = found.vtime.saturating_sub(minimum_of(&self.queues, found.queue));
            (found.vtime, found.queue) = (minimum.saturating_add(ahead), queue);
        }
        found
    }

    fn wake(&mut self, task: i32, cpu: u32, at_ns: u64) {
        if !self.is_queued_by_key(task) {
            return;
        }
        let number = (self.queue_of)(cpu);
        self.advance(number, at_ns);
        // Who is queued or runs already is only told that it need not sleep.
        if self.tasks.get(&task).is_none_or(|task| task.place == Place::Asleep) {
            let minimum = self.queues.entry(number).or_default().minimum;
            let found = self.task_in(task, number);
            found.vtime = found.vtime.max(minimum);
            self.push(task, number);
        }
    }

    /// `task` no longer runs on `cpu`.
    fn stop(&mut self, task: i32, can_go_on: bool, cpu: u32, at_ns: u64) {
        let number = (self.queue_of)(cpu);
        self.advance(number, at_ns);
        let ran = self.queues.entry(number).or_default().running.remove(&cpu);
        // Where events were lost another one ran, and nobody knows where it is.
        let other = ran.filter(|&other| other != task).and_then(|one| self.tasks.get_mut(&one));
        if let Some(other) = other
            && matches!(other.place, Place::Running { cpu: on, .. } if on == cpu)
        {
            other.place = Place::Asleep;
        }
        if !self.is_queued_by_key(task) {
            return;
        }
        self.leave(task);
        let found = self.task_in(task, number);
        found.vtime = found.vtime_at(at_ns);
        found.place = Place::Asleep;
        if can_go_on {
            self.push(task, number);
        }
    }

    /// `task` runs on `cpu` from now on.
    fn start(&mut self, task: i32, cpu: u32, at_ns: u64) {
        if !self.is_queued_by_key(task) {
            return;
        }
        let number = (self.queue_of)(cpu);
        let was_seen = self.leave(task);
        let found = self.task_in(task, number);
        found.place = Place::Running { cpu, since_ns: at_ns };
        let queue = self.queues.entry(number).or_default();
        queue.running.insert(cpu, task);
        queue.record.unseen += u64::from(!was_seen);
        self.advance(number, at_ns);
    }

    fn push(&mut self, task: i32, number: u32) {
        self.nr_queued += 1;
        let order = self.nr_queued;
        let found = self.task_in(task, number);
        let key = found.vtime;
        found.place = Place::Queued { key, order };
        let queue = self.queues.entry(number).or_default();
        queue.queued.insert((key, order, task));
        queue.record.operations.push(QueueOperation::Push { task: task as u32, key });
    }

    /// Takes `task` out of its queue; whether it was in one. The first is popped, also by another
    /// CPU, which a queue cannot tell.
    fn leave(&mut self, task: i32) -> bool {
        let Some(&Task { queue, place, .. }) = self.tasks.get(&task) else { return false };
        let Place::Queued { key, order } = place else { return false };
        let queue = self.queues.entry(queue).or_default();
        let is_first = queue.queued.first() == Some(&(key, order, task));
        queue.queued.remove(&(key, order, task));
        queue.record.operations.push(match is_first {
            true => QueueOperation::Pop,
            false => QueueOperation::Remove { task: task as u32 },
        });
        true
    }

    /// Moves the queue's minimum on to that of all who are queued or run, if that is later: Linux's
    /// `update_min_vruntime`.
    fn advance(&mut self, number: u32, at_ns: u64) {
        let queue = self.queues.entry(number).or_default();
        let running = queue.running.values().filter_map(|task| self.tasks.get(task));
        let least = running.map(|task| task.vtime_at(at_ns));
        let least = least.chain(queue.queued.first().map(|&(key, ..)| key)).min();
        queue.minimum = queue.minimum.max(least.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    //! Goal: operations are those of the scheduler, keys those of CFS. Method: recordings of a few
    //! events with all keys reckoned by hand, and random ones whose operations a plain sorted list
    //! repeats.
    use super::super::{Event, Trace};
    use super::QueueOperation::{Pop, Push, Remove};
    use super::*;

    const A: i32 = 7;
    const B: i32 = 8;
    const C: i32 = 9;

    fn woken(at_ns: u64, task: i32, target_cpu: u32) -> Event {
        Event { at_ns, cpu: 0, kind: Kind::Wakeup { task, target_cpu, is_new: false } }
    }

    fn switched(at_ns: u64, cpu: u32, previous: i32, goes_on: bool, next: i32) -> Event {
        Event { at_ns, cpu, kind: Kind::Switch { previous, voluntarily: !goes_on, next } }
    }

    fn recording(events: &[Event], priorities: &[(i32, i32)]) -> TextTrace {
        let trace = Trace { events: events.to_vec(), nr_cpus: 2, lost: 0 };
        TextTrace { trace, priorities: priorities.iter().copied().collect() }
    }

    fn push(task: i32, key: u64) -> QueueOperation {
        Push { task: task as u32, key }
    }

    #[test]
    fn keys_are_cpu_time_over_weight_and_who_wakes_up_has_the_minimum() {
        let events = [
            woken(0, A, 0),
            switched(0, 0, 0, true, A),
            // A has run for 1,000 ns, and no less has who comes.
            woken(1_000, B, 0),
            switched(3_000, 0, A, true, B),
            // B is of nice 5: 335 of 1,024.
            switched(4_340, 0, B, true, A),
            switched(5_000, 0, A, false, B),
            // A slept, and so much B has by then: 1,000 + 1,340 * 1,024 / 335 + 670 * 1,024 / 335.
            woken(5_670, A, 0),
        ];
        let record = recording(&events, &[(A, 120), (B, 125)]).queue_of_all();
        let of_b = 1_000 + 1_340 * 1_024 / 335;
        let expected = [
            push(A, 0),
            Pop,
            push(B, 1_000),
            push(A, 3_000),
            Pop,
            push(B, of_b),
            Pop,
            Pop,
            push(A, of_b + 670 * 1_024 / 335),
        ];
        assert_eq!(record, QueueRecord { operations: expected.to_vec(), unseen: 0 });
    }

    #[test]
    fn who_is_not_the_first_is_removed_and_a_queue_has_its_own_minimum() {
        let events = [
            woken(0, A, 0),
            woken(1, B, 0),
            woken(2, C, 0),
            switched(10, 0, 0, true, A),
            // CPU 1 takes C, who stands behind B.
            switched(20, 1, 0, true, C),
            switched(5_020, 1, C, true, 0),
            switched(6_010, 0, A, false, B),
            switched(6_020, 1, 0, true, C),
        ];
        let found = recording(&events, &[]).queue_of_each_cpu();
        let first = [push(A, 0), push(B, 0), push(C, 0), Pop, Remove { task: C as u32 }, Pop];
        assert_eq!(found[&0].operations, first);
        assert_eq!(found[&1].operations, [push(C, 5_000), Pop]);
        // One queue for both.
        let all = recording(&events, &[]).queue_of_all().operations;
        assert_eq!(all[4..], [Remove { task: C as u32 }, push(C, 5_000), Pop, Pop]);
    }

    #[test]
    fn who_changes_queues_keeps_its_distance() {
        let events = [
            // CPU 0 is 10,000 ns on, CPU 1 at its beginning.
            woken(0, A, 0),
            switched(0, 0, 0, true, A),
            woken(10_000, B, 0),
            switched(10_500, 0, A, true, B),
            switched(10_700, 0, B, true, A),
            // A is 10,500 ns on, 500 ahead of B when it queued, and 300 when B left.
            switched(10_700, 0, A, true, B),
            switched(10_700, 1, 0, true, A),
            switched(10_900, 1, A, true, 0),
        ];
        let found = recording(&events, &[]).queue_of_each_cpu();
        assert_eq!(found[&1].operations, [push(A, 300 + 200)]);
    }

    #[test]
    fn idle_and_real_time_tasks_have_no_key() {
        let events = [
            woken(0, A, 0),
            woken(1, B, 0),
            switched(2, 0, 0, true, B),
            switched(3, 0, B, true, A),
            switched(4, 0, A, true, B),
            switched(5, 0, B, false, A),
        ];
        let record = recording(&events, &[(A, 120), (B, 99)]).queue_of_all();
        assert_eq!(record.operations, [push(A, 0), Pop, push(A, 1), Pop]);
    }

    #[test]
    fn who_waited_before_the_recording_began_leaves_no_queue() {
        let events = [switched(5, 0, A, true, B), switched(6, 0, B, false, A), woken(7, A, 0)];
        let record = recording(&events, &[]).queue_of_all();
        assert_eq!(record, QueueRecord { operations: vec![push(A, 0), Pop], unseen: 1 });
    }

    /// A recording of a kernel that loses events: anything at any time.
    fn random_recording(seed: u64) -> TextTrace {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % bound
        };
        let mut at_ns = 0;
        let events: Vec<Event> = (0..400)
            .map(|_| {
                at_ns += below(50_000);
                let (cpu, task, next) = (below(2) as u32, below(9) as i32, below(9) as i32);
                match below(3) {
                    0 => woken(at_ns, task, cpu),
                    _ => switched(at_ns, cpu, task, below(2) == 0, next),
                }
            })
            .collect();
        let priorities: Vec<_> = (1..9).map(|task| (task, 98 + below(42) as i32)).collect();
        recording(&events, &priorities)
    }

    #[test]
    fn a_plain_list_can_repeat_every_recording() {
        for seed in 0..300 {
            let found = random_recording(seed);
            let mut records: Vec<_> = found.queue_of_each_cpu().into_values().collect();
            records.push(found.queue_of_all());
            for record in records {
                let mut list: Vec<(u64, u32)> = Vec::new();
                for &operation in &record.operations {
                    match operation {
                        Push { task, key } => {
                            assert!(list.iter().all(|&(_, one)| one != task), "{seed}: {task}");
                            list.insert(list.partition_point(|&(one, _)| one <= key), (key, task));
                        }
                        Pop => drop(list.remove(0)),
                        Remove { task } => {
                            let at = list.iter().position(|&(_, one)| one == task);
                            let at = at.unwrap_or_else(|| panic!("seed {seed}: no task {task}"));
                            assert!(at > 0, "seed {seed}: the first is popped");
                            list.remove(at);
                        }
                    }
                }
            }
        }
    }
}
