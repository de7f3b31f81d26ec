//! Small random scenarios from a seed, all of which end.
//!
//! A scenario of this module ends under every policy that does not leave a runnable task for
//! ever: whatever blocks is released by tasks that cannot be waiting for it.
//!
//! * Messages and tokens between two tasks are laid out as one sequence of meetings, and every
//!   task goes through its meetings in the order of that sequence. The earliest meeting that is
//!   not over can therefore always go on: both tasks are at it, and its channel is empty of
//!   other data, because one channel has one sender and one receiver.
//! * Pools (many senders and receivers of one channel) consist of tasks that do nothing else
//!   that blocks, and send as many bytes as they receive.
//! * Children only compute, sleep and yield, so that joining them ends.
//!
//! In some of them CPUs come and go, and tasks change their affinity: see `random_changes`.

use crate::made::builder::ProgramBuilder;
use crate::made::draw::Random;
use crate::made::random_changes::disturb;
use crate::model::machine::{
    AllocatorCosts, Costs, Cpu, DISTANCES, Linux, Machine, PolicyCosts, WATCHDOG_DEFAULT_NS,
};
use crate::model::workload::{
    Amount, Channel, InitialTask, Op, Program, Repeat, TaskTemplate, Workload,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most CPUs of a random machine.
pub const RANDOM_CPUS_MAX: u64 = 8;
/// The most tasks at the start of a random workload; children come on top.
pub const RANDOM_TASKS_MAX: u64 = 40;
/// What all tasks of a random workload compute and sleep together, at the mean of every
/// distribution. Even one after the other on the slowest CPU they end within two seconds.
pub const RANDOM_WORK_NS_MAX: u64 = 400_000_000;
/// The slowest CPU of a random machine.
pub const RANDOM_SPEED_PERMILLE_MIN: u32 = 500;

/// Templates of children that tasks may fork.
const CHILD_TEMPLATES_MAX: u64 = 3;
/// Forks of one task in a random workload.
const FORKS_MAX: u64 = 4;

/// The machine and workload number `seed`. The same seed gives the same ones everywhere.
pub fn random_scenario(seed: u64) -> (Machine, Workload) {
    let machine = random_machine(seed, &mut Random::new(seed, 0));
    let nr_cpus = machine.cpus.len() as u64;
    let workload = Draft::new(seed, nr_cpus).build();
    let workload = disturb(seed, nr_cpus, workload).with_digest();
    (machine, workload)
}

fn random_machine(seed: u64, rng: &mut Random) -> Machine {
    let nr_cpus = 1 + rng.below(RANDOM_CPUS_MAX) as u32;
    let divisor = |rng: &mut Random, of: u32| {
        let divisors: Vec<u32> = (1..=of).filter(|d| of.is_multiple_of(*d)).collect();
        divisors[rng.below(divisors.len() as u64) as usize]
    };
    let nr_cores = nr_cpus / if nr_cpus.is_multiple_of(2) { 1 + rng.below(2) as u32 } else { 1 };
    let nr_caches = divisor(rng, nr_cores);
    let nr_nodes = divisor(rng, nr_caches);
    let slow = rng.below(4) == 0;
    let place = |number| {
        let core = number % nr_cores;
        let cache = core / (nr_cores / nr_caches);
        let speed_permille =
            if slow { RANDOM_SPEED_PERMILLE_MIN + rng.below(1000) as u32 } else { 1000 };
        Cpu { core, cache, node: cache / (nr_caches / nr_nodes), speed_permille }
    };
    let cpus = (0..nr_cpus).map(place).collect();
    let hz = [100, 250, 300, 1000][rng.below(4) as usize];
    let sync_wakeups = rng.below(2) == 0;
    Machine {
        name: format!("random-{seed}"),
        description: "a random machine".to_string(),
        cpus,
        hz,
        hz_by_policy: BTreeMap::new(),
        skew_tick: false,
        costs_by_policy: BTreeMap::new(),
        one_lock: BTreeSet::new(),
        sync_wakeups,
        sync_wakeups_by_policy: BTreeMap::new(),
        linux: if sync_wakeups { None } else { Linux::named("2.6.24") },
        watchdog_ns: WATCHDOG_DEFAULT_NS,
        release: None,
        turbo_permille: Vec::new(),
        costs: random_costs(rng),
        bus: None,
        interrupts: Vec::new(),
        speeds: Vec::new(),
        digest: String::new(),
    }
    .with_digest()
}

/// Costs of the size of a machine of 2000 to 2020; one machine in eight is free of cost.
fn random_costs(rng: &mut Random) -> Costs {
    let free = rng.below(8) == 0;
    let mut cost = |most: u64| if free { 0 } else { rng.below(most + 1) };
    let mut by_distance = |step: u64| {
        let mut total = 0;
        let mut costs = [0; DISTANCES];
        for distance in &mut costs[1..] {
            total += cost(step);
            *distance = total;
        }
        costs
    };
    let line_transfer_ns = by_distance(200);
    let migration_ns = by_distance(2_000);
    let refill_ns_per_kib = by_distance(1_000);
    Costs {
        context_switch_ns: cost(3_000),
        thread_switch_ns: cost(2_000),
        // Not drawn: what seeds made before there was this cost is what they make now.
        cold_switch_ns: 0,
        cold_write_ns_per_kib: 0,
        memory_ns: 0,
        allocator: AllocatorCosts::default(),
        syscall_ns: cost(1_000),
        message_ns: cost(3_000),
        copy_ns_per_kib: cost(1_000),
        wakeup_ns: cost(2_000),
        ipi_send_ns: cost(1_000),
        ipi_ns: cost(3_000),
        idle_exit_ns: cost(50_000),
        tick_ns: cost(3_000),
        timer_ns: cost(2_000),
        fork_ns: cost(200_000),
        exit_ns: cost(100_000),
        hook_ns: cost(100),
        dsq_op_ns: cost(100),
        vtime_op_ns: 0,
        scan_step_ns: cost(60),
        scan_miss_ns: cost(300),
        scan_cached_tasks: cost(200),
        lock_ns: cost(100),
        line_transfer_ns,
        line_bytes: 32,
        message_lines: cost(8),
        channel_lines: cost(4),
        migration_ns,
        refill_ns_per_kib,
        cache_kib: cost(4_096),
        smt_percent: 50 + rng.below(51),
        // Not drawn, for the same reason.
        policy: PolicyCosts::default(),
    }
}

/// A workload under construction: a program for each task, and what they share.
struct Draft {
    seed: u64,
    rng: Random,
    nr_cpus: u64,
    programs: Vec<ProgramBuilder>,
    channels: Vec<Channel>,
    nr_gates: u32,
    /// Work and sleep that may still be handed out.
    budget_ns: u64,
    children: Vec<Program>,
}

impl Draft {
    fn new(seed: u64, nr_cpus: u64) -> Draft {
        let mut rng = Random::new(seed, 1);
        let nr_tasks = 1 + rng.below(RANDOM_TASKS_MAX);
        Draft {
            seed,
            rng,
            nr_cpus,
            programs: (0..nr_tasks).map(|_| ProgramBuilder::new()).collect(),
            channels: Vec::new(),
            nr_gates: 0,
            budget_ns: RANDOM_WORK_NS_MAX,
            children: Vec::new(),
        }
    }

    fn build(mut self) -> Workload {
        self.make_children();
        // Tasks of a pool do nothing else that blocks; the others meet in pairs.
        let nr_pooled = self.make_pool();
        self.make_meetings(nr_pooled);
        for task in 0..self.programs.len() {
            self.make_tail(task);
        }
        self.finish()
    }

    /// Work of `mean_ns` at the mean at most, as much as the budget still gives.
    fn amount(&mut self, mean_ns: u64) -> Amount {
        let mean = self.rng.below(mean_ns.min(self.budget_ns / 4) + 1);
        self.budget_ns -= mean;
        match self.rng.below(6) {
            0 => Amount::Uniform { low: mean / 2, high: mean + mean / 2 },
            1 => Amount::Exponential { mean },
            2 => Amount::Normal { mean, sd: mean / 4 },
            3 => Amount::LogNormal { median: mean, sigma_permille: self.rng.below(500) },
            _ => Amount::Fixed(mean),
        }
    }

    /// One to three steps that do not wait for another task, some in a loop.
    fn local_steps(&mut self, program: &mut ProgramBuilder) {
        let rounds = if self.rng.below(3) == 0 { 1 + self.rng.below(5) } else { 1 };
        if rounds > 1 {
            program.begin(Repeat::Times(Amount::Fixed(rounds)));
        }
        for _ in 0..=self.rng.below(3) {
            let op = match self.rng.below(8) {
                0..=3 => Op::Run(self.amount(3_000_000 / rounds)),
                4 | 5 => Op::Sleep(self.amount(3_000_000 / rounds)),
                6 => Op::Yield,
                _ => Op::Nice(self.nice()),
            };
            program.push(op);
            self.charge_rounds(op, rounds);
        }
        if rounds > 1 {
            program.end();
        }
    }

    /// Takes from the budget what rounds after the first add.
    fn charge_rounds(&mut self, op: Op, rounds: u64) {
        let (Op::Run(amount) | Op::Sleep(amount)) = op else { return };
        let mean = match amount {
            Amount::Fixed(mean) | Amount::Exponential { mean } | Amount::Normal { mean, .. } => {
                mean
            }
            Amount::Uniform { low, high } => (low + high) / 2,
            Amount::LogNormal { median, .. } => median,
            Amount::Recorded(quantiles) => quantiles.mean() as u64,
        };
        self.budget_ns = self.budget_ns.saturating_sub(mean * (rounds - 1));
    }

    fn nice(&mut self) -> i8 {
        self.rng.below(40) as i8 - 20
    }

    fn make_children(&mut self) {
        for _ in 0..self.rng.below(CHILD_TEMPLATES_MAX + 1) {
            let mut program = ProgramBuilder::new();
            self.local_steps(&mut program);
            self.children.push(program.build());
        }
    }

    fn channel(&mut self, largest_message: u64) -> u32 {
        let overhead_bytes = self.rng.below(2) as u32 * 200;
        let least = largest_message as u32 + overhead_bytes;
        let capacity_bytes = least + self.rng.below(4096) as u32;
        self.channels.push(Channel {
            capacity_bytes,
            overhead_bytes,
            wake_senders_at_bytes: self.rng.below(capacity_bytes.into()) as u32,
            sync_wakeups: self.rng.below(2) == 0,
        });
        self.channels.len() as u32 - 1
    }

    /// Perhaps a pool of the first tasks; returns how many there are in it.
    fn make_pool(&mut self) -> usize {
        let nr_tasks = self.programs.len() as u64;
        if nr_tasks < 4 || self.rng.below(2) == 0 {
            return 0;
        }
        let per_side = 1 + self.rng.below(nr_tasks / 4);
        let (nr_senders, nr_receivers) = (per_side, 1 + self.rng.below(per_side));
        let (messages, bytes) = (1 + self.rng.below(20), 1 + self.rng.below(500));
        let channel = self.channel(bytes);
        // Each receiver takes an equal share of what all senders send.
        let (sent, received) = (messages * nr_receivers, messages * nr_senders);
        for task in 0..(nr_senders + nr_receivers) as usize {
            let (op, count) = if (task as u64) < nr_senders {
                (Op::Send { channel, bytes: bytes as u32 }, sent)
            } else {
                (Op::Recv { channel, bytes: bytes as u32 }, received)
            };
            let mut program = std::mem::take(&mut self.programs[task]);
            program.begin(Repeat::Times(Amount::Fixed(count))).push(op);
            if self.rng.below(2) == 0 {
                let work = Op::Run(self.amount(100_000));
                program.push(work);
                self.charge_rounds(work, count);
            }
            program.end();
            self.programs[task] = program;
        }
        (nr_senders + nr_receivers) as usize
    }

    /// Meetings of pairs of the tasks from `first` on, in one order for all.
    fn make_meetings(&mut self, first: usize) {
        let nr_tasks = self.programs.len() - first;
        if nr_tasks < 2 {
            return;
        }
        for _ in 0..self.rng.below(3 * nr_tasks as u64) {
            let giver = self.rng.below(nr_tasks as u64) as usize;
            let taker = (giver + 1 + self.rng.below(nr_tasks as u64 - 1) as usize) % nr_tasks;
            let (giver, taker) = (first + giver, first + taker);
            for task in [giver, taker] {
                if self.rng.below(2) == 0 {
                    let mut program = std::mem::take(&mut self.programs[task]);
                    self.local_steps(&mut program);
                    self.programs[task] = program;
                }
            }
            match self.rng.below(4) {
                0 => self.meet_at_gate(giver, taker),
                _ => self.meet_at_channel(giver, taker),
            }
        }
    }

    fn meet_at_gate(&mut self, giver: usize, taker: usize) {
        let gate = self.nr_gates;
        self.nr_gates += 1;
        let wake = if self.rng.below(3) == 0 { Op::WakeAll { gate } } else { Op::Wake { gate } };
        self.programs[giver].push(wake);
        self.programs[taker].push(Op::Wait { gate });
    }

    /// The taker reads in other pieces than the giver writes, as many bytes in all.
    fn meet_at_channel(&mut self, giver: usize, taker: usize) {
        let unit = 1 + self.rng.below(200);
        let (writes, reads) = (1 + self.rng.below(5), 1 + self.rng.below(5));
        let channel = self.channel(unit * reads);
        let send = Op::Send { channel, bytes: (unit * reads) as u32 };
        let recv = Op::Recv { channel, bytes: (unit * writes) as u32 };
        for (task, count, op) in [(giver, writes, send), (taker, reads, recv)] {
            self.programs[task].begin(Repeat::Times(Amount::Fixed(count))).push(op).end();
        }
    }

    /// What a task does when its meetings are over.
    fn make_tail(&mut self, task: usize) {
        let mut program = std::mem::take(&mut self.programs[task]);
        if self.rng.below(2) == 0 || program.is_empty() {
            self.local_steps(&mut program);
        }
        if !self.children.is_empty() && self.rng.below(4) == 0 {
            self.fork_and_wait(&mut program);
        }
        if self.rng.below(2) == 0 {
            program.push(Op::Exit);
        }
        self.programs[task] = program;
    }

    fn fork_and_wait(&mut self, program: &mut ProgramBuilder) {
        for _ in 0..=self.rng.below(FORKS_MAX) {
            let child = self.rng.below(self.children.len() as u64) as u32;
            program.push(Op::Fork { template: child });
        }
        match self.rng.below(3) {
            0 => {
                program.push(Op::Join);
            }
            1 => {
                program.begin(Repeat::WhileChildren).push(Op::Sleep(Amount::Fixed(1_000_000)));
                program.push(Op::Run(Amount::Fixed(10_000))).end();
            }
            _ => {}
        }
    }

    /// Templates: first the children's, then one for each task.
    fn finish(mut self) -> Workload {
        let children = std::mem::take(&mut self.children);
        let nr_children = children.len() as u32;
        let mut templates: Vec<TaskTemplate> =
            children.into_iter().map(|program| self.template("child", program)).collect();
        let mut initial = Vec::new();
        for (task, program) in std::mem::take(&mut self.programs).into_iter().enumerate() {
            templates.push(self.template("task", program.build()));
            let late = self.rng.below(3) == 0;
            let start_at_ns = if late { self.rng.below(20_000_000) } else { 0 };
            initial.push(InitialTask { template: nr_children + task as u32, start_at_ns });
        }
        Workload {
            name: format!("random-{}", self.seed),
            description: "random tasks that end".to_string(),
            parameters: vec![("seed".to_string(), self.seed.to_string())],
            templates,
            initial,
            channels: self.channels,
            nr_gates: self.nr_gates,
            ..Workload::default()
        }
    }

    fn template(&mut self, name: &str, program: Program) -> TaskTemplate {
        let nice = if self.rng.below(3) == 0 { self.nice() } else { 0 };
        let address_space = (self.rng.below(3) == 0).then(|| self.rng.below(3) as u32);
        let footprint_kib = if self.rng.below(2) == 0 { 0 } else { self.rng.below(512) as u32 };
        TaskTemplate {
            name: name.to_string(),
            program,
            nice,
            cpus: self.cpus(),
            address_space,
            footprint_kib,
            ..TaskTemplate::default()
        }
    }

    fn cpus(&mut self) -> Option<Arc<[u32]>> {
        if self.rng.below(4) != 0 {
            return None;
        }
        let sure = self.rng.below(self.nr_cpus) as u32;
        let chosen: Vec<u32> =
            (0..self.nr_cpus as u32).filter(|&cpu| cpu == sure || self.rng.below(2) == 0).collect();
        Some(chosen.into())
    }
}
