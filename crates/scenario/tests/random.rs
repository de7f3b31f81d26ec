//! Goal: random scenarios are valid, end, and are the same every time.
//! Method: properties over 1000 seeds; a plain model that runs the tasks without any scheduler,
//! in orders that differ, and must always reach the end.

#![allow(clippy::unwrap_used)]

use scenario::random::{RANDOM_CPUS_MAX, RANDOM_TASKS_MAX, RANDOM_WORK_NS_MAX};
use scenario::workload::{Amount, Change, ChangeKind, Op, Repeat, Workload};
use scenario::{Random, random_scenario};

const SEEDS: u64 = 1000;

#[test]
fn every_random_scenario_is_valid_and_fits_its_machine() {
    for seed in 0..SEEDS {
        let (machine, workload) = random_scenario(seed);
        workload.check().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        workload.check_on(&machine).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!((1..=RANDOM_CPUS_MAX).contains(&(machine.cpus.len() as u64)), "seed {seed}");
        assert!(workload.initial.len() as u64 <= RANDOM_TASKS_MAX, "seed {seed}");
        assert!((1..=10_000).contains(&machine.hz) && machine.costs.smt_percent <= 100);
        assert_eq!(workload.stop_at_ns, None, "seed {seed}: it ends by itself");
    }
}

#[test]
fn a_seed_gives_the_same_scenario_every_time_and_another_seed_another() {
    let mut digests = std::collections::BTreeSet::new();
    for seed in 0..SEEDS {
        let (machine, workload) = random_scenario(seed);
        assert_eq!((machine.clone(), workload.clone()), random_scenario(seed), "seed {seed}");
        digests.insert(workload.digest);
    }
    assert!(digests.len() as u64 > SEEDS - 10, "only {} workloads differ", digests.len());
}

#[test]
fn cores_caches_and_nodes_of_random_machines_nest() {
    for seed in 0..SEEDS {
        let cpus = random_scenario(seed).0.cpus;
        for a in &cpus {
            for b in &cpus {
                assert!(a.core != b.core || a.cache == b.cache, "seed {seed}");
                assert!(a.cache != b.cache || a.node == b.node, "seed {seed}");
            }
        }
    }
}

#[test]
fn random_scenarios_use_every_kind_of_operation() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..100 {
        for template in &random_scenario(seed).1.templates {
            let names = template.program.iter().map(|op| {
                let text = format!("{op:?}");
                text.split([' ', '(', '{']).next().unwrap_or_default().to_string()
            });
            seen.extend(names);
        }
    }
    for name in
        "End Exit Fork Join Loop Nice Recv Run Send Sleep Wait Wake WakeAll Yield".split(' ')
    {
        assert!(seen.contains(name), "{name} is missing from {seen:?}");
    }
}

/// A task of the plain model: where it is, and the rounds left of its open loops.
struct Task {
    template: usize,
    at: usize,
    rounds: Vec<u64>,
    /// Bytes still wanted by the `Recv` it is at.
    wanted: Option<u32>,
    waiting_for_room: bool,
    parent: Option<usize>,
    children: u64,
    done: bool,
}

/// Runs a workload without time: a step of any task that can take one, chosen at random.
struct Model<'a> {
    workload: &'a Workload,
    tasks: Vec<Task>,
    /// Messages in each channel: bytes left of each.
    channels: Vec<std::collections::VecDeque<u32>>,
    tokens: Vec<u64>,
    open: Vec<bool>,
    work_ns: u64,
}

impl Model<'_> {
    fn new(workload: &Workload) -> Model<'_> {
        let mut model = Model {
            workload,
            tasks: Vec::new(),
            channels: vec![Default::default(); workload.channels.len()],
            tokens: vec![0; workload.nr_gates as usize],
            open: vec![false; workload.nr_gates as usize],
            work_ns: 0,
        };
        for task in &workload.initial {
            model.start(task.template, None);
        }
        model
    }

    fn start(&mut self, template: u32, parent: Option<usize>) {
        self.tasks.push(Task {
            template: template as usize,
            at: 0,
            rounds: Vec::new(),
            wanted: None,
            waiting_for_room: false,
            parent,
            children: 0,
            done: false,
        });
    }

    fn used(&self, channel: usize) -> u32 {
        let overhead = self.workload.channels[channel].overhead_bytes;
        self.channels[channel].iter().map(|bytes| bytes + overhead).sum()
    }

    /// One operation of task `t`; false if it is blocked.
    fn step(&mut self, t: usize, rng: &mut Random) -> bool {
        let program = &self.workload.templates[self.tasks[t].template].program;
        let Some(&op) = program.get(self.tasks[t].at) else { return self.exit(t) };
        match op {
            Op::Run(amount) | Op::Sleep(amount) => self.work_ns += amount.draw(rng),
            Op::Send { channel, bytes } => {
                if !self.send(t, channel as usize, bytes) {
                    return false;
                }
            }
            Op::Recv { channel, bytes } => {
                if !self.recv(t, channel as usize, bytes) {
                    return false;
                }
            }
            Op::Wake { gate } => self.tokens[gate as usize] += 1,
            Op::WakeAll { gate } => self.open[gate as usize] = true,
            Op::Wait { gate } => {
                let gate = gate as usize;
                if !self.open[gate] {
                    if self.tokens[gate] == 0 {
                        return false;
                    }
                    self.tokens[gate] -= 1;
                }
            }
            Op::Fork { template } => {
                self.tasks[t].children += 1;
                self.start(template, Some(t));
            }
            Op::Join if self.tasks[t].children > 0 => return false,
            Op::Loop { repeat, end } => {
                let rounds = match repeat {
                    Repeat::Times(amount) => amount.draw(rng),
                    Repeat::WhileChildren => u64::from(self.tasks[t].children > 0),
                    Repeat::Forever => panic!("a random workload ends"),
                };
                if rounds == 0 {
                    self.tasks[t].at = end as usize;
                } else {
                    self.tasks[t].rounds.push(rounds - 1);
                }
            }
            Op::End { start } => {
                let task = &mut self.tasks[t];
                let polls = matches!(
                    program[start as usize],
                    Op::Loop { repeat: Repeat::WhileChildren, .. }
                );
                let left = task.rounds.last_mut().expect("a loop is open");
                if *left > 0 || (polls && task.children > 0) {
                    *left = left.saturating_sub(1);
                    task.at = start as usize;
                } else {
                    task.rounds.pop();
                }
            }
            Op::Exit => return self.exit(t),
            Op::Join
            | Op::Yield
            | Op::Nice(_)
            | Op::Affinity { .. }
            | Op::Move { .. }
            | Op::Mark
            | Op::Tare => {}
            Op::Release { .. } | Op::Done => panic!("random workloads have no requests"),
        }
        self.tasks[t].at += 1;
        true
    }

    fn send(&mut self, t: usize, channel: usize, bytes: u32) -> bool {
        let limits = self.workload.channels[channel];
        let used = self.used(channel);
        if self.tasks[t].waiting_for_room && used > limits.wake_senders_at_bytes {
            return false;
        }
        self.tasks[t].waiting_for_room =
            used + bytes + limits.overhead_bytes > limits.capacity_bytes;
        if self.tasks[t].waiting_for_room {
            return false;
        }
        self.channels[channel].push_back(bytes);
        true
    }

    fn recv(&mut self, t: usize, channel: usize, bytes: u32) -> bool {
        let mut wanted = self.tasks[t].wanted.unwrap_or(bytes);
        while wanted > 0 {
            let Some(first) = self.channels[channel].front_mut() else { break };
            let taken = wanted.min(*first);
            *first -= taken;
            wanted -= taken;
            if *first == 0 {
                self.channels[channel].pop_front();
            }
        }
        let moved = self.tasks[t].wanted != Some(wanted) && wanted < bytes;
        self.tasks[t].wanted = if wanted == 0 { None } else { Some(wanted) };
        if wanted > 0 && moved {
            // It made progress and stays at this operation.
            self.tasks[t].at -= 1;
            return true;
        }
        wanted == 0
    }

    fn exit(&mut self, t: usize) -> bool {
        self.tasks[t].done = true;
        if let Some(parent) = self.tasks[t].parent {
            self.tasks[parent].children -= 1;
        }
        true
    }

    /// Runs to the end; panics if nobody can go on before.
    fn run(mut self, seed: u64, rng: &mut Random) -> u64 {
        loop {
            let alive: Vec<usize> =
                (0..self.tasks.len()).filter(|&t| !self.tasks[t].done).collect();
            if alive.is_empty() {
                return self.work_ns;
            }
            let first = rng.below(alive.len() as u64) as usize;
            let mut order = alive[first..].iter().chain(&alive[..first]);
            let stuck = !order.any(|&t| {
                let mut steps = 0;
                while !self.tasks[t].done && steps < 50 && self.step(t, rng) {
                    steps += 1;
                }
                steps > 0
            });
            assert!(!stuck, "seed {seed}: {} tasks wait for ever", alive.len());
        }
    }
}

#[test]
fn every_random_workload_ends_in_whatever_order_its_tasks_run() {
    for seed in 0..SEEDS {
        let workload = random_scenario(seed).1;
        for order in 0..3 {
            Model::new(&workload).run(seed, &mut Random::new(order, seed));
        }
    }
}

#[test]
fn random_workloads_stay_within_their_budget_of_work() {
    let mut total_ns = 0;
    for seed in 0..SEEDS {
        let workload = random_scenario(seed).1;
        // Polling parents and unlikely draws add to the budget, which counts means.
        let work_ns = Model::new(&workload).run(seed, &mut Random::new(7, seed));
        assert!(work_ns < 4 * RANDOM_WORK_NS_MAX, "seed {seed}: {work_ns} ns");
        total_ns += work_ns;
    }
    assert!(total_ns / SEEDS > RANDOM_WORK_NS_MAX / 40, "they hardly do anything: {total_ns}");
}

#[test]
fn some_random_workloads_are_disturbed_in_each_way_and_most_are_not() {
    let mut counts = [0; 4];
    for seed in 0..SEEDS {
        let workload = random_scenario(seed).1;
        let plugs = |change: &Change| matches!(change.what, ChangeKind::Hotplug { .. });
        let mut ops = workload.templates.iter().flat_map(|kind| kind.program.iter());
        let seen = [
            workload.changes.iter().any(plugs),
            workload.changes.iter().any(|change| !plugs(change)),
            ops.any(|op| matches!(op, Op::Affinity { .. })),
        ];
        counts[3] += u64::from(seen == [false; 3]);
        for (count, seen) in counts.iter_mut().zip(seen) {
            *count += u64::from(seen);
        }
    }
    // One in five of those with more than one CPU, which are seven in eight.
    for count in &counts[..3] {
        assert!((SEEDS / 9..SEEDS / 4).contains(count), "{counts:?} of {SEEDS}");
    }
    assert!(counts[3] > SEEDS / 2, "{counts:?} of {SEEDS}");
}

#[test]
fn the_model_sees_a_deadlock() {
    let mut workload = random_scenario(0).1;
    let program: scenario::workload::Program =
        vec![Op::Run(Amount::Fixed(1)), Op::Wait { gate: 0 }].into();
    workload.nr_gates = 1;
    workload.initial.truncate(1);
    let template = workload.initial[0].template as usize;
    workload.templates[template].program = program;
    let run = || Model::new(&workload).run(0, &mut Random::new(0, 0));
    assert!(std::panic::catch_unwind(run).is_err());
}
