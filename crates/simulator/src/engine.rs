//! The main loop: takes events in their order and lets CPUs act on them.

use crate::Options;
use crate::abi;
use crate::agenda::{Agenda, NEVER_NS, Timers, When};
use crate::channel::{Channel, Gate};
use crate::choices::Choices;
use crate::cpu::{Activity, Cpu, Spent};
use crate::dispatch_queue::DispatchQueues;
use crate::failure::{FailureKind, told_number};
use crate::flags::{WAKE_FORK, WAKE_TTWU};
use crate::kernel::{Context, Kernel, Masks, idle_task};
use crate::limits::Limits;
use crate::linked::{Adopted, Mode, Refusal};
use crate::metrics::{Metrics, RunResult, Status};
use crate::neighbours::Neighbours;
use crate::observation::Event;
use crate::operations::{Operation, Operations};
use crate::own_kicks::OwnKicks;
use crate::place::{Place, TaskId};
use crate::policy_state::Given;
use crate::prints::Prints;
use crate::program::{Outcome, Takes};
use crate::task::Tasks;
use crate::timer::Timer;
use crate::visible::{TASKS_MAX, Visible};
use crate::world::world;
use scenario::draw::Random;
use scenario::machine::Machine;
use scenario::workload::Workload;

/// Stream of random numbers of the policy; tasks have their own, from 0 upwards.
const POLICY_STREAM: u64 = u64::MAX;
/// How often one interrupt looks for timers that have come due meanwhile.
/// Source: Linux kernel/time/hrtimer.c, `hrtimer_interrupt`.
const TIMER_ROUNDS_MAX: usize = 3;

/// `SCX_OPS_KEEP_BUILTIN_IDLE`
const KEEP_BUILTIN_IDLE: u64 = 1;

/// Whether the kernel knows which CPUs are idle.
fn tracks_idle(ops: &Operations) -> bool {
    !ops.has(Operation::UpdateIdle) || ops.flags & KEEP_BUILTIN_IDLE != 0
}

impl<'a> Kernel<'a> {
    /// A machine with the policy loaded and no task yet. `name` is the policy's.
    pub fn new(
        policy: policy::Loaded,
        load: &'a dyn Fn() -> Result<policy::Loaded, policy::PolicyError>,
        machine: &'a Machine,
        workload: &'a Workload,
        name: &str,
        options: &Options,
    ) -> Result<Box<Self>, Refusal> {
        let (nr_cpus, hz, mode) = (machine.cpus.len(), machine.hz_for(name), Mode::of(options));
        let mut visible = Visible::new(hz, nr_cpus as u32, options.strict);
        let adopted = Adopted::new(&policy, &mut visible, world(), nr_cpus, mode)?;
        Ok(Box::new(Kernel {
            cpu: 0,
            now_ns: 0,
            tracks_idle: tracks_idle(&adopted.ops),
            code: adopted.code,
            load,
            nr_restarts: 0,
            ops: adopted.ops,
            machine,
            workload,
            costs: machine.costs.clone(),
            distances: distances(machine),
            siblings: siblings(machine),
            neighbours: Neighbours::new(&machine.cpus),
            agenda: Agenda::new(nr_cpus + 1),
            timers: Timers::new(),
            pending_timers: 0,
            cpus: machine.cpus.iter().map(|cpu| Cpu::new(u64::from(cpu.speed_permille))).collect(),
            tasks: Tasks::default(),
            idle_tasks: (0..nr_cpus).map(|cpu| idle_task(&mut visible, cpu)).collect(),
            queues: DispatchQueues::new(&mut visible, nr_cpus, nr_nodes(machine)),
            nr_queued: 0,
            next_seq: 0,
            masks: visible.place(Masks::of((0..nr_cpus).collect())),
            context: Context::Plain,
            buffer: Vec::new(),
            walked: Vec::new(),
            stranded: Vec::new(),
            scheduling: false,
            switching: false,
            own_kicks: OwnKicks::default(),
            maps: adopted.maps,
            spin_locks: Vec::new(),
            channels: workload.channels.iter().map(|&spec| Channel::new(spec)).collect(),
            gates: vec![Gate::default(); workload.nr_gates as usize],
            address_spaces: Vec::new(),
            random: Random::new(options.seed, POLICY_STREAM),
            prints: Prints::to(options.prints.clone()),
            seed: options.seed,
            hz,
            sync_wakeups: machine.sync_wakeups_for(name),
            until_ns: options.until_ns.unwrap_or(NEVER_NS),
            limits: Limits::new(options.events_max),
            began_ns: 0,
            distributed_cpu: 0,
            next_full_check: 0,
            metrics: Metrics::new(options),
            choices: options.choices.clone().map(Choices::of),
            failure: None,
            alive: 0,
            nr_runnable: 0,
            given: Given::new(&mut visible, mode),
            visible,
        }))
    }

    /// Runs from the first task to the end and reports.
    pub fn run(mut self: Box<Self>) -> RunResult {
        self.start();
        let stop_ns = self.workload.stop_at_ns.unwrap_or(NEVER_NS);
        let caller_ns = self.until_ns;
        self.until_ns = stop_ns.min(caller_ns);
        while self.failure.is_none() && self.alive > 0 {
            let (when, place) = self.next_event();
            if when.at_ns > self.until_ns {
                break;
            }
            if when == When::NEVER || self.is_deadlocked() {
                self.report_deadlock();
                break;
            }
            if place == self.cpus.len() {
                self.timer_event();
            } else {
                self.cpu_event(place);
            }
            self.check_event(place, when);
        }
        let status = match (&self.failure, self.alive) {
            (Some(_), _) => Status::Failed,
            (None, 0) => Status::Completed,
            (None, _) if stop_ns <= caller_ns => Status::Completed,
            (None, _) => Status::Stopped,
        };
        self.finish(status)
    }

    // ---- beginning --------------------------------------------------------------------------

    fn start(&mut self) {
        let result = self.call_init();
        if result != 0 && self.failure.is_none() {
            self.fail(
                FailureKind::PolicyExit,
                format!("ops.init() failed ({result}){}", told_number(result)),
            );
        }
        for place in 0..self.workload.initial.len() {
            if self.failure.is_some() {
                return;
            }
            let initial = &self.workload.initial[place];
            let task = self.create_task(initial.template, None);
            self.alive += 1;
            self.admit(task, false);
            self.add_timer(initial.start_at_ns, Timer::Start(task));
        }
        for (number, change) in self.workload.changes.iter().enumerate() {
            self.add_timer(change.at_ns, Timer::Change(number as u32));
        }
        self.add_timer(self.watchdog_timeout_ns() / 2, Timer::Watchdog);
    }

    /// A new task of a template, unknown to the policy.
    pub fn create_task(&mut self, template: u32, parent: Option<TaskId>) -> TaskId {
        if self.tasks.len() >= TASKS_MAX {
            self.fail(FailureKind::Limit, format!("more than {TASKS_MAX} tasks"));
        }
        let kind = &self.workload.templates[template as usize];
        let mut allowed = self.mask_of_set(&kind.cpus);
        if allowed.weight() == 0 {
            allowed = self.masks.possible;
        }
        let space = self.address_space_for(kind.address_space);
        let mm = self.visible.room.shift.show(self.address_spaces[space as usize].address());
        let random = Random::new(self.seed, self.tasks.len() as u64);
        let shared = (allowed == self.masks.possible).then(|| self.shown_possible());
        let task = self.tasks.add(&mut self.visible, template, kind, &allowed, random);
        if kind.cpus.is_none() {
            // As the kernel's first task, and so all others: NR_CPUS, whatever there is.
            self.tasks.seen_mut(task).nr_cpus_allowed = abi::CPUS_MAX as i32;
        }
        self.metrics.observe(self.now_ns, Event::Created { template, task });
        let state = self.tasks.state_mut(task);
        state.address_space = space;
        state.parent = parent;
        // As in the kernel, there is always a parent: what nobody of the workload forked came from
        // the first CPU's idle task.
        let parent = match parent {
            Some(parent) => self.tasks.address(parent),
            None => self.idle_tasks[0].address(),
        };
        let parent = self.visible.room.shift.show(parent);
        let first = allowed.intersection(&self.masks.online).next().unwrap_or(0);
        let here = self.here();
        let seen = self.tasks.seen_mut(task);
        seen.mm = mm;
        seen.cpus_ptr = shared.unwrap_or(seen.cpus_ptr);
        seen.parent = parent;
        seen.real_parent = parent;
        seen.cpu = if allowed.has(here) { here } else { first } as i32;
        task
    }

    /// Index of the address space of a new task. Shared ones come first, by their number.
    fn address_space_for(&mut self, shared: Option<u32>) -> u32 {
        if self.address_spaces.is_empty() {
            let numbers = self.workload.templates.iter().filter_map(|kind| kind.address_space);
            let nr_shared = numbers.max().map_or(0, |number| number + 1);
            let place = |id| self.visible.place(abi::AddressSpace { id });
            self.address_spaces.extend((0..nr_shared).map(place));
        }
        shared.unwrap_or_else(|| {
            let id = self.address_spaces.len() as u32;
            self.address_spaces.push(self.visible.place(abi::AddressSpace { id }));
            id
        })
    }

    // ---- events -----------------------------------------------------------------------------

    fn cpu_event(&mut self, cpu: usize) {
        let state = &self.cpus[cpu];
        let when = state.next_event();
        if when.at_ns < state.clock_ns {
            return self.postpone(cpu, when);
        }
        if when == state.ends {
            self.cpus[cpu].ends = When::NEVER;
            self.enter(cpu, when.at_ns);
            self.conclude();
            return self.advance();
        }
        let (is_tick, is_timer) = (when == state.tick, when == state.late);
        self.enter(cpu, when.at_ns);
        self.metrics.events += 1;
        if is_tick {
            self.tick();
        } else if is_timer {
            self.late_timers();
        } else {
            self.cpus[cpu].interrupt = When::NEVER;
            self.charge_wake_from_idle();
            self.cpus[cpu].need_resched = true;
        }
        self.leave(when.at_ns);
    }

    /// Puts off an interrupt that falls due while its CPU is inside something that cannot be
    /// interrupted: until it is carried out, whatever else happens earlier comes first.
    fn postpone(&mut self, cpu: usize, when: When) {
        let later = self.agenda.turn(self.cpus[cpu].clock_ns);
        let state = &mut self.cpus[cpu];
        if when == state.tick {
            state.tick = later;
        } else if when == state.interrupt {
            state.interrupt = later;
        } else if when == state.late {
            state.late = later;
        } else {
            unreachable!("an operation ends after it began: {state:?}");
        }
        self.publish(cpu);
    }

    /// The periodic timer interrupt (`task_tick_scx`).
    fn tick(&mut self) {
        let cpu = self.here();
        let period_ns = self.tick_period_ns();
        self.cpus[cpu].tick = self.agenda.turn((self.now_ns / period_ns + 1) * period_ns);
        self.metrics.ticks += 1;
        self.charge(Spent::Kernel, self.costs.tick_ns);
        let Some(task) = self.cpus[cpu].current else { return };
        self.update_current();
        self.call_for(Operation::Tick, task, 0);
        if self.tasks.seen(task).scx.slice == 0 {
            self.cpus[cpu].need_resched = true;
        }
    }

    fn timer_event(&mut self) {
        let Some((when, timer)) = self.timers.take_first() else { return };
        self.agenda.set(self.cpus.len(), self.timers.first());
        if timer == Timer::Watchdog {
            self.metrics.events += 1;
            return self.watchdog(when.at_ns);
        }
        let Some(cpu) = self.cpu_of(timer) else { return };
        let state = &mut self.cpus[cpu];
        if when.at_ns < state.clock_ns || !state.late_timers.is_empty() {
            state.late_timers.push_back(timer);
            if state.late == When::NEVER {
                state.late = self.agenda.turn(state.clock_ns);
                self.publish(cpu);
            }
            return;
        }
        self.metrics.events += 1;
        self.enter(cpu, when.at_ns);
        self.charge_wake_from_idle();
        self.expire(timer);
        if !timer.is_start() {
            self.expire_due();
        }
        self.leave(when.at_ns);
    }

    /// Timers of the active CPU that have come due meanwhile belong to the same interrupt: whom
    /// they wake up is there when the CPU picks (`hrtimer_interrupt`). One that is set meanwhile
    /// waits for the next round.
    fn expire_due(&mut self) {
        for _ in 0..TIMER_ROUNDS_MAX {
            let round = self.agenda.turn(self.now_ns);
            let mut any = false;
            while let Some((when, timer)) = self.timers.peek()
                && when < round
                && !timer.is_start()
                && self.cpu_of(timer) == Some(self.here())
            {
                self.timers.take_first();
                self.metrics.events += 1;
                self.expire(timer);
                any = true;
            }
            if !any {
                break;
            }
        }
        self.agenda.set(self.cpus.len(), self.timers.first());
    }

    /// The timers that the active CPU had no time for: the first one and, in the same interrupt,
    /// those behind it.
    fn late_timers(&mut self) {
        let cpu = self.here();
        self.charge_wake_from_idle();
        let first = self.cpus[cpu].late_timers.pop_front().expect("there is a late timer");
        self.expire(first);
        while !first.is_start()
            && let Some(&timer) = self.cpus[cpu].late_timers.front()
            && !timer.is_start()
        {
            self.cpus[cpu].late_timers.pop_front();
            self.expire(timer);
        }
        self.cpus[cpu].late = match self.cpus[cpu].late_timers.is_empty() {
            true => When::NEVER,
            false => self.agenda.turn(self.now_ns),
        };
        if !first.is_start() && self.cpus[cpu].late_timers.is_empty() {
            self.expire_due();
        }
    }

    /// A timer's interrupt on the active CPU.
    fn expire(&mut self, timer: Timer) {
        match timer {
            Timer::Policy(index, generation) => {
                if self.maps.expiry_cpu(index, generation).is_none() {
                    return; // It was cancelled or set anew while it was late.
                }
            }
            Timer::Start(_) | Timer::Sleep(_) => self.pending_timers -= 1,
            Timer::Change(_) | Timer::Affinity(..) | Timer::Watchdog => {}
        }
        self.charge(Spent::Kernel, self.costs.timer_ns);
        match timer {
            Timer::Start(task) => {
                self.tasks.state_mut(task).totals.born_at_ns = self.now_ns;
                self.wake_up(task, WAKE_FORK);
            }
            Timer::Sleep(task) => self.wake_up(task, WAKE_TTWU),
            Timer::Policy(index, _) => self.call_timer(index),
            Timer::Change(number) => self.make_change(number),
            Timer::Affinity(task, number) => self.change_affinity_of(task, number),
            Timer::Watchdog => unreachable!("the watchdog belongs to no CPU"),
        }
    }

    /// Ends an interruption of the active CPU that began at `entered_ns`.
    fn leave(&mut self, entered_ns: u64) {
        let cpu = self.here();
        let now_ns = self.now_ns;
        match self.cpus[cpu].activity {
            Activity::Syscall => {
                let at_ns = self.cpus[cpu].ends.at_ns + (now_ns - entered_ns);
                self.cpus[cpu].ends = self.agenda.turn(at_ns);
                self.publish(cpu);
            }
            Activity::Work | Activity::Idle if self.cpus[cpu].need_resched => {
                self.cpus[cpu].ends = When::NEVER;
                self.advance();
            }
            Activity::Work => {
                self.plan_end_of_work(cpu);
                self.publish(cpu);
            }
            Activity::Idle | Activity::Offline => self.publish(cpu),
        }
    }

    /// Lets the active CPU go on from the end of an operation or an interruption, as far as
    /// nothing else happens before.
    fn advance(&mut self) {
        let cpu = self.here();
        while self.failure.is_none() {
            if self.cpus[cpu].need_resched && !self.is_waking_others() {
                self.schedule();
            }
            let Some(task) = self.cpus[cpu].current else { break };
            let Some(takes) = self.begin_operation(task) else { break };
            match takes {
                Takes::Syscall(ns) => {
                    self.cpus[cpu].activity = Activity::Syscall;
                    self.cpus[cpu].ends = self.agenda.turn(self.now_ns + ns);
                }
                Takes::Work => {
                    self.cpus[cpu].activity = Activity::Work;
                    self.plan_end_of_work(cpu);
                }
            }
            let state = &self.cpus[cpu];
            let ends_ns = state.ends.at_ns;
            let undisturbed = ends_ns < self.agenda.earliest_beside(cpu)
                && ends_ns < state.tick.at_ns
                && ends_ns < state.interrupt.at_ns
                && ends_ns < state.late.at_ns
                && ends_ns <= self.until_ns;
            if !undisturbed {
                break;
            }
            self.cpus[cpu].ends = When::NEVER;
            self.account(cpu, ends_ns);
            (self.began_ns, self.now_ns) = (ends_ns, ends_ns);
            self.conclude();
        }
        self.publish(cpu);
    }

    /// The effect of the operation that has just ended on the active CPU.
    fn conclude(&mut self) {
        let cpu = self.here();
        let task = self.cpus[cpu].current.expect("an operation belongs to a task");
        self.cpus[cpu].activity = Activity::Syscall;
        match self.finish_operation(task) {
            Outcome::Goes => {}
            Outcome::Blocks => {
                self.block_current(Place::Asleep);
                self.schedule();
            }
            Outcome::Ends => {
                self.block_current(Place::Exited);
                // The kernel tells the parent first.
                self.switching = false;
                self.bury(task);
                self.schedule();
                self.forget(task);
            }
        }
    }
}

fn nr_nodes(machine: &Machine) -> usize {
    machine.cpus.iter().map(|cpu| cpu.node as usize + 1).max().unwrap_or(1)
}

/// Distance of each pair of CPUs, row by row.
fn distances(machine: &Machine) -> Vec<u8> {
    let nr_cpus = machine.cpus.len();
    let pairs = (0..nr_cpus).flat_map(|a| (0..nr_cpus).map(move |b| (a, b)));
    pairs.map(|(a, b)| machine.distance(a, b) as u8).collect()
}

/// For each CPU the other threads of its core.
fn siblings(machine: &Machine) -> Vec<Vec<u32>> {
    let core = |cpu: usize| machine.cpus[cpu].core;
    let all = 0..machine.cpus.len();
    let others = |a| all.clone().filter(move |&b| b != a && core(b) == core(a));
    all.clone().map(|cpu| others(cpu).map(|other| other as u32).collect()).collect()
}
