//! A bare event loop: the least that any deterministic simulator of these mixes must do.
//!
//! It has next events of CPUs and timers, one first-in-first-out run queue, what each task does
//! next, ticks of busy CPUs, and a digest of wake-ups and switches. It has no policy, no costs, no
//! locks and no statistics, and uses none of the simulator, so that it stays as fast as it is while
//! the simulator changes. Its speed says what this processor can do at the present moment.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const NR_CPUS: usize = 8;
const NEVER_NS: u64 = u64::MAX >> PLACE_BITS;
/// Below the time of a next event: whose it is. CPUs come first, then the timers.
const PLACE_BITS: u32 = 4;
const TIMERS: usize = NR_CPUS;
/// Below the time of a timer: whose it is.
const TASK_BITS: u32 = 20;
const NOBODY: u32 = u32::MAX;
const TICK_NS: u64 = 1_000_000;
/// After so many ticks a task makes room if another one waits.
const SLICE_TICKS: u32 = 3;
/// What tasks compute between two waits.
const WORK_NS: u64 = 10_000;
const SLEEP_NS: u64 = 900_000;
const START_GAP_NS: u64 = 1000;
/// What it takes to write or to read a message, and how many a mailbox holds.
const MESSAGE_NS: u64 = 3000;
const MAILBOX_MAX: u32 = 40;

/// What was simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tasks put on CPUs.
    pub switches: u64,
    /// Operations finished, ticks and timers.
    pub events: u64,
    pub wakeups: u64,
    /// Tasks that waited for a CPU again, as another one waited.
    pub made_room: u64,
    /// Of all wake-ups and switches with their times.
    pub digest: u64,
}

/// What a task does after what it has just done.
enum Step {
    Compute(u64),
    Wake(u32),
    Sleep(u64),
    Block,
    Exit,
}

/// Tasks of one kind.
trait Tasks {
    fn step(&mut self, task: u32) -> Step;
}

/// Pairs of tasks that compute and pass a byte to each other, `rounds` times.
pub fn ping_pong(pairs: u32, rounds: u64) -> Counts {
    let player = |starts| Player {
        rounds_left: rounds,
        next: if starts { Turn::Compute } else { Turn::Receive },
        bytes: 0,
        waits: false,
        starts,
    };
    let players = Players((0..2 * pairs).map(|number| player(number % 2 == 0)).collect());
    let counts = Loop::new(players, 2 * pairs).run(NEVER_NS - 1);
    let tasks = 2 * u64::from(pairs);
    assert_eq!(counts.switches, tasks * (rounds + 1), "a first turn, and one for each byte");
    assert_eq!(counts.wakeups, counts.switches, "nobody makes room for another");
    counts
}

/// Tasks that compute and sleep, `rounds` times.
pub fn run_and_sleep(tasks: u32, rounds: u64) -> Counts {
    let sleeper = Sleeper { rounds_left: rounds, has_computed: false };
    let counts = Loop::new(Sleepers(vec![sleeper; tasks as usize]), tasks).run(NEVER_NS - 1);
    let turns = u64::from(tasks) * (rounds + 1);
    assert_eq!(counts.switches, turns, "a first turn, and one after each sleep");
    assert_eq!(counts.wakeups, counts.switches, "nobody makes room for another");
    counts
}

/// Groups of writers and as many readers, in which each writer sends `rounds` messages to each
/// reader.
pub fn messages(groups: u32, readers: u32, rounds: u64) -> Counts {
    let nr_tasks = 2 * readers * groups;
    let correspondents = Correspondents {
        readers,
        messages_each: rounds * u64::from(readers),
        tasks: vec![Correspondent::default(); nr_tasks as usize],
        mailboxes: vec![Mailbox::default(); nr_tasks as usize],
    };
    let messages = u64::from(readers * groups) * u64::from(readers) * rounds;
    let counts = Loop::new(correspondents, nr_tasks).run(NEVER_NS - 1);
    let least = 2 * messages + u64::from(nr_tasks);
    assert!(counts.events >= least, "each is written and read, and all begin");
    assert_eq!(counts.switches, counts.wakeups + counts.made_room, "who waits is woken");
    counts
}

/// More tasks than CPUs, which compute all the time.
pub fn hogs(tasks: u32, stop_ns: u64) -> Counts {
    let counts = Loop::new(Hogs, tasks).run(stop_ns);
    let ticks = stop_ns / TICK_NS;
    let turns = 1 + ticks / u64::from(SLICE_TICKS);
    assert_eq!(counts.switches, NR_CPUS as u64 * turns, "each slice ends with a switch");
    assert_eq!(counts.events, NR_CPUS as u64 * ticks + u64::from(tasks), "ticks and starts");
    counts
}

/// What a player does next; all go round in this order, and differ in where they begin.
#[derive(Clone, Copy)]
enum Turn {
    Compute,
    Send,
    Receive,
}

struct Player {
    rounds_left: u64,
    next: Turn,
    bytes: u32,
    waits: bool,
    starts: bool,
}

struct Players(Vec<Player>);

impl Tasks for Players {
    fn step(&mut self, task: u32) -> Step {
        loop {
            let player = &mut self.0[task as usize];
            match player.next {
                Turn::Compute => {
                    player.next = Turn::Send;
                    return Step::Compute(WORK_NS);
                }
                Turn::Send => {
                    player.next = Turn::Receive;
                    player.rounds_left -= u64::from(!player.starts);
                    let other = &mut self.0[task as usize ^ 1];
                    other.bytes += 1;
                    if std::mem::take(&mut other.waits) {
                        return Step::Wake(task ^ 1);
                    }
                }
                Turn::Receive if player.rounds_left == 0 => return Step::Exit,
                Turn::Receive if player.bytes == 0 => {
                    player.waits = true;
                    return Step::Block;
                }
                Turn::Receive => {
                    player.bytes -= 1;
                    player.next = Turn::Compute;
                    if player.starts {
                        player.rounds_left -= 1;
                        if player.rounds_left == 0 {
                            return Step::Exit;
                        }
                    }
                }
            }
        }
    }
}

#[derive(Clone)]
struct Sleeper {
    rounds_left: u64,
    has_computed: bool,
}

struct Sleepers(Vec<Sleeper>);

impl Tasks for Sleepers {
    fn step(&mut self, task: u32) -> Step {
        let sleeper = &mut self.0[task as usize];
        if std::mem::take(&mut sleeper.has_computed) {
            sleeper.rounds_left -= 1;
            return Step::Sleep(SLEEP_NS);
        }
        if sleeper.rounds_left == 0 {
            return Step::Exit;
        }
        sleeper.has_computed = true;
        Step::Compute(WORK_NS)
    }
}

#[derive(Clone, Default)]
struct Correspondent {
    nr_done: u64,
    /// Whether a message was written and is not in its mailbox yet, or was taken out and not read.
    has_one: bool,
}

/// That of a reader.
#[derive(Clone, Default)]
struct Mailbox {
    messages: u32,
    is_awaited: bool,
    /// Writers that wait for room.
    writers: VecDeque<u32>,
}

struct Correspondents {
    readers: u32,
    messages_each: u64,
    tasks: Vec<Correspondent>,
    mailboxes: Vec<Mailbox>,
}

impl Tasks for Correspondents {
    fn step(&mut self, task: u32) -> Step {
        let place = task % (2 * self.readers);
        if place >= self.readers {
            return self.read(task);
        }
        let first_reader = task - place + self.readers;
        self.write(task, first_reader)
    }
}

impl Correspondents {
    fn write(&mut self, task: u32, first_reader: u32) -> Step {
        let writer = &mut self.tasks[task as usize];
        if writer.has_one {
            let reader = first_reader + (writer.nr_done % u64::from(self.readers)) as u32;
            let mailbox = &mut self.mailboxes[reader as usize];
            if mailbox.messages == MAILBOX_MAX {
                mailbox.writers.push_back(task);
                return Step::Block;
            }
            mailbox.messages += 1;
            (writer.has_one, writer.nr_done) = (false, writer.nr_done + 1);
            if std::mem::take(&mut mailbox.is_awaited) {
                return Step::Wake(reader);
            }
        }
        if writer.nr_done == self.messages_each {
            return Step::Exit;
        }
        writer.has_one = true;
        Step::Compute(MESSAGE_NS)
    }

    fn read(&mut self, task: u32) -> Step {
        let (reader, mailbox) =
            (&mut self.tasks[task as usize], &mut self.mailboxes[task as usize]);
        if !reader.has_one {
            if reader.nr_done == self.messages_each {
                return Step::Exit;
            }
            if mailbox.messages == 0 {
                mailbox.is_awaited = true;
                return Step::Block;
            }
            mailbox.messages -= 1;
            (reader.has_one, reader.nr_done) = (true, reader.nr_done + 1);
            if let Some(writer) = mailbox.writers.pop_front() {
                return Step::Wake(writer);
            }
        }
        reader.has_one = false;
        Step::Compute(MESSAGE_NS)
    }
}

struct Hogs;

impl Tasks for Hogs {
    fn step(&mut self, _: u32) -> Step {
        Step::Compute(NEVER_NS / 2)
    }
}

#[derive(Clone, Copy)]
struct Cpu {
    task: u32,
    ticks_left: u32,
    ends_ns: u64,
    tick_ns: u64,
}

/// The smallest, in matches that need not wait for each other.
fn first_of(next: &[u64; NR_CPUS + 1]) -> u64 {
    let [a, b, c, d, e, f, g, h, timers] = *next;
    a.min(b).min(c.min(d)).min(e.min(f).min(g.min(h))).min(timers)
}

struct Loop<T> {
    tasks: T,
    /// Of those who made room for others: what they had still to compute.
    left_ns: Vec<u64>,
    cpus: [Cpu; NR_CPUS],
    /// A bit for each CPU.
    idle: u32,
    next: [u64; NR_CPUS + 1],
    timers: BinaryHeap<Reverse<u64>>,
    waiting: VecDeque<u32>,
    now_ns: u64,
    counts: Counts,
}

impl<T: Tasks> Loop<T> {
    fn new(tasks: T, nr_tasks: u32) -> Self {
        assert!(nr_tasks < 1 << TASK_BITS);
        let cpu = Cpu { task: NOBODY, ticks_left: 0, ends_ns: NEVER_NS, tick_ns: NEVER_NS };
        let start = |task| Reverse((u64::from(task) * START_GAP_NS) << TASK_BITS | u64::from(task));
        let mut new = Loop {
            tasks,
            left_ns: vec![0; nr_tasks as usize],
            cpus: [cpu; NR_CPUS],
            idle: (1 << NR_CPUS) - 1,
            next: std::array::from_fn(|place| NEVER_NS << PLACE_BITS | place as u64),
            timers: (0..nr_tasks).map(start).collect(),
            waiting: VecDeque::with_capacity(nr_tasks as usize),
            now_ns: 0,
            counts: Counts::default(),
        };
        new.publish_timers();
        new
    }

    fn run(mut self, stop_ns: u64) -> Counts {
        loop {
            let first = first_of(&self.next);
            let (at_ns, place) = (first >> PLACE_BITS, first as usize % (1 << PLACE_BITS));
            if at_ns > stop_ns {
                return self.counts;
            }
            self.now_ns = at_ns;
            self.counts.events += 1;
            if place == TIMERS {
                self.timer();
            } else if self.cpus[place].ends_ns == at_ns {
                self.go_on(place, self.cpus[place].task);
            } else {
                self.tick(place);
            }
        }
    }

    fn timer(&mut self) {
        if let Some(Reverse(timer)) = self.timers.pop() {
            self.publish_timers();
            self.wake_up(timer as u32 % (1 << TASK_BITS));
        }
    }

    fn publish_timers(&mut self) {
        let first_ns = self.timers.peek().map_or(NEVER_NS, |Reverse(timer)| timer >> TASK_BITS);
        self.next[TIMERS] = first_ns << PLACE_BITS | TIMERS as u64;
    }

    fn publish(&mut self, cpu: usize) {
        let state = &self.cpus[cpu];
        self.next[cpu] = state.ends_ns.min(state.tick_ns) << PLACE_BITS | cpu as u64;
    }

    fn tick(&mut self, cpu: usize) {
        let state = &mut self.cpus[cpu];
        state.tick_ns += TICK_NS;
        state.ticks_left -= 1;
        if state.ticks_left == 0 {
            state.ticks_left = SLICE_TICKS;
            if let Some(next) = self.waiting.pop_front() {
                self.counts.made_room += 1;
                self.left_ns[state.task as usize] = state.ends_ns - self.now_ns;
                self.waiting.push_back(state.task);
                self.switch(cpu, next);
                return self.go_on(cpu, next);
            }
        }
        self.publish(cpu);
    }

    fn wake_up(&mut self, task: u32) {
        self.counts.wakeups += 1;
        self.mix(1 << 32 | u64::from(task));
        if self.idle == 0 {
            return self.waiting.push_back(task);
        }
        let cpu = self.idle.trailing_zeros() as usize;
        self.idle &= self.idle - 1;
        self.cpus[cpu].tick_ns = (self.now_ns / TICK_NS + 1) * TICK_NS;
        self.switch(cpu, task);
        self.go_on(cpu, task);
    }

    /// Lets the task of this CPU do what it does next, and those after it, until one computes.
    fn go_on(&mut self, cpu: usize, mut task: u32) {
        loop {
            let left_ns = std::mem::take(&mut self.left_ns[task as usize]);
            let step = if left_ns > 0 { Step::Compute(left_ns) } else { self.tasks.step(task) };
            match step {
                Step::Compute(ns) => {
                    self.cpus[cpu].ends_ns = self.now_ns + ns;
                    return self.publish(cpu);
                }
                Step::Wake(other) => {
                    self.wake_up(other);
                    continue;
                }
                Step::Sleep(ns) => {
                    let timer = (self.now_ns + ns) << TASK_BITS | u64::from(task);
                    self.timers.push(Reverse(timer));
                    self.publish_timers();
                }
                Step::Block | Step::Exit => {}
            }
            let Some(next) = self.waiting.pop_front() else {
                return self.become_idle(cpu);
            };
            self.switch(cpu, next);
            task = next;
        }
    }

    fn become_idle(&mut self, cpu: usize) {
        self.idle |= 1 << cpu;
        let state = &mut self.cpus[cpu];
        (state.task, state.ends_ns, state.tick_ns) = (NOBODY, NEVER_NS, NEVER_NS);
        self.publish(cpu);
    }

    fn switch(&mut self, cpu: usize, next: u32) {
        self.counts.switches += 1;
        let state = &mut self.cpus[cpu];
        let previous = u64::from(state.task.wrapping_add(1));
        (state.task, state.ticks_left) = (next, SLICE_TICKS);
        self.mix((cpu as u64) << 48 | previous << 24 | u64::from(next + 1));
    }

    /// Mixes something that happens now into the digest, as the simulator does.
    fn mix(&mut self, what: u64) {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        for word in [self.now_ns, what] {
            let product = u128::from(self.counts.digest ^ word) * u128::from(ODD);
            let folded = product as u64 ^ (product >> 64) as u64;
            self.counts.digest = folded.rotate_left(29) ^ word;
        }
    }
}
