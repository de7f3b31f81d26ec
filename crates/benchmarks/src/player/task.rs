//! What a task does: its program, one operation after the other, until its end.
//!
//! Nothing here allocates, because a task may be the fork of a program with many threads.

use crate::player::Class;
use crate::player::changes::cpus_of;
use crate::player::error::Step;
use crate::player::setting::Setting;
use crate::player::stage::{Failure, Slot, Start};
use crate::system::{self, Cpus, Fork};
use scenario::draw::{Lineage, Random};
use scenario::workload::{Amount, LOOP_DEPTH_MAX, Op, Repeat};
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// How a task ends in the eyes of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    /// It is a process.
    Process,
    /// It is the first thread of a process with others.
    FirstThread,
    /// It is another thread.
    Thread,
}

/// How a task came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Birth {
    /// It was there before time 0.
    Initial,
    /// Another task forked it, whom it tells of its end.
    Forked,
    /// The same, but the kernel tells: see [`Ties`].
    Tied,
}

/// Work that initial tasks do before their start, so that their first work is like all other.
const REHEARSED_NS: u64 = 30_000;

/// An operation failed: what, and the kernel's error number.
type Failed = (Step, i32);

/// The play of this process, for threads: they are started with a number only.
static SETTING: AtomicPtr<Setting<'static>> = AtomicPtr::new(std::ptr::null_mut());

impl Setting<'_> {
    /// Makes this the play of the calling process, which must end before `self` does.
    pub fn become_the_play(&self) {
        SETTING.store((&raw const *self).cast_mut().cast(), SeqCst);
    }

    fn slot(&self, task: u32) -> &Slot {
        self.stage.slot(task)
    }

    /// Puts the result of a step of `task` where the conductor sees it; failure ends the process.
    fn or_give_up<T>(&self, task: u32, result: Result<T, Failed>) -> T {
        result.unwrap_or_else(|(step, errno)| {
            let failure = Failure { step: step as u8, task: Some(task), errno };
            self.stage.play().fail(failure);
            system::exit_process(1)
        })
    }

    // ---- birth ----------------------------------------------------------------------------------

    /// Life of an initial task in the process that the conductor has just forked for it. The
    /// first of several in one address space starts the others.
    pub fn live_as_initial(&self, task: u32) -> ! {
        let kind = &self.workload.templates[self.template_of_initial(task)];
        self.enter_cgroup(task, kind.cgroup);
        let space = kind.address_space;
        let first = space.is_some();
        for other in task + 1..self.workload.initial.len() as u32 {
            let other_space =
                self.workload.templates[self.template_of_initial(other)].address_space;
            if first && other_space == space {
                let started = system::start_thread(initial_thread, other as usize);
                self.or_give_up(other, started.map_err(|errno| (Step::Create, errno)));
            }
        }
        let body = if first { Body::FirstThread } else { Body::Process };
        self.live(task, body, Birth::Initial);
        if first { system::exit_first_thread() } else { system::exit_process(0) }
    }

    /// Takes the calling process into a group; none is where it is.
    fn enter_cgroup(&self, task: u32, cgroup: Option<u32>) {
        let entered = cgroup.map_or(Ok(()), |group| self.cgroups.enter(group));
        self.or_give_up(task, entered.map_err(|errno| (Step::Cgroup, errno)));
    }

    fn template_of_initial(&self, task: u32) -> usize {
        self.workload.initial[task as usize].template as usize
    }

    /// An initial task waits until its start, on the first CPU that it may use: there the
    /// simulator's tasks begin too.
    fn await_start(&self, task: u32) {
        let play = self.stage.play();
        let slot = self.slot(task);
        let cpus = self.cpus_of(self.template_of_initial(task));
        self.introduce(task);
        let mut attempt = 0;
        loop {
            self.confine(task, &first_of(&cpus));
            play.nr_ready.fetch_add(1, SeqCst);
            play.tell();
            let missed = attempt;
            while attempt == 0 || attempt == missed {
                system::futex_wait(&slot.armed, attempt, system::EVERY_BIT, None);
                attempt = slot.armed.load(SeqCst);
            }
            self.confine(task, &cpus);
            if self.lies_until_start(task, attempt) == Start::Counts {
                return;
            }
        }
    }

    /// Sleeps until the start of this number comes, or is called off.
    fn lies_until_start(&self, task: u32, attempt: u32) -> Start {
        let play = self.stage.play();
        let slot = self.slot(task);
        let start_at_ns = self.workload.initial[task as usize].start_at_ns;
        let at_ns = play.start_at_ns.load(SeqCst).saturating_add(start_at_ns);
        slot.born_at_ns.store(at_ns, SeqCst);
        let (voluntary, involuntary) = system::switches();
        // The sleep itself is a voluntary switch.
        slot.voluntary.begin(voluntary + 1);
        slot.involuntary.begin(involuntary);
        slot.run_ns.begin(system::cpu_time_ns());
        slot.waits.store(attempt, SeqCst);
        while system::now_ns() < at_ns && !play.start_is_missed() {
            system::futex_wait(&slot.armed, attempt, system::EVERY_BIT, Some(at_ns));
        }
        play.settle_start(Start::Missed)
    }

    /// Name, class and nice value of the calling thread.
    fn introduce(&self, task: u32) {
        let slot = self.slot(task);
        let nice = i32::from(self.workload.templates[slot.template.load(SeqCst) as usize].nice);
        system::set_name(&name_of(task));
        slot.pid.store(system::pid(), SeqCst);
        slot.tid.store(system::tid(), SeqCst);
        slot.nice.store(nice, SeqCst);
        let class = match self.class {
            Class::Normal => libc::SCHED_OTHER,
            Class::Ext => SCHED_EXT,
        };
        let result = system::set_class(class, 0).map_err(|errno| (Step::Class, errno));
        self.or_give_up(task, result);
        let result = system::set_nice(nice).map_err(|errno| (Step::Nice, errno));
        self.or_give_up(task, result);
    }

    /// Says which CPUs the calling thread may run on. On a machine of one CPU nothing is said of
    /// tasks that may run anywhere: a task that was told of one CPU is bound to it in the eyes of
    /// the kernel, which then asks no policy where to wake it.
    fn confine(&self, task: u32, cpus: &Cpus) {
        let template = self.slot(task).template.load(SeqCst) as usize;
        let nr_cpus: u32 = self.all_cpus.iter().map(|word| word.count_ones()).sum();
        if nr_cpus == 1 && self.workload.templates[template].cpus.is_none() {
            return;
        }
        let result = system::set_affinity(cpus).map_err(|errno| (Step::Affinity, errno));
        self.or_give_up(task, result);
    }

    fn cpus_of(&self, template: usize) -> Cpus {
        cpus_of(&self.workload.templates[template].cpus, &self.all_cpus)
    }

    /// Life of a forked task whose slot its parent has filled in.
    fn live_as_child(&self, task: u32, body: Body, birth: Birth) {
        let parent = self.slot(task).parent.load(SeqCst) - 1;
        let template = |task: u32| self.slot(task).template.load(SeqCst) as usize;
        let (own, inherited) = (template(task), template(parent));
        let slot = self.slot(task);
        system::set_name(&name_of(task));
        slot.pid.store(system::pid(), SeqCst);
        slot.tid.store(system::tid(), SeqCst);
        if self.workload.templates[own].cgroup != self.workload.templates[inherited].cgroup {
            self.enter_cgroup(task, self.workload.templates[own].cgroup);
        }
        let nice = i32::from(self.workload.templates[own].nice);
        if slot.nice.swap(nice, SeqCst) != nice {
            let result = system::set_nice(nice).map_err(|errno| (Step::Nice, errno));
            self.or_give_up(task, result);
        }
        let changes = !self.workload.changes.is_empty() || !self.workload.cpu_sets.is_empty();
        if changes || self.workload.templates[own].cpus != self.workload.templates[inherited].cpus {
            let result = system::set_affinity(&self.cpus_of(own));
            self.or_give_up(task, result.map_err(|errno| (Step::Affinity, errno)));
        }
        self.live(task, body, birth);
    }

    // ---- life -----------------------------------------------------------------------------------

    fn live(&self, task: u32, body: Body, birth: Birth) {
        let mut small = [0; SMALL_MESSAGE_BYTES];
        let buffer: &mut [u8] = if self.message_bytes <= SMALL_MESSAGE_BYTES {
            &mut small
        } else {
            let memory = system::private_memory(self.message_bytes);
            self.or_give_up(task, memory.map_err(|errno| (Step::Memory, errno)))
        };
        let template = self.slot(task).template.load(SeqCst) as usize;
        let lineage = Lineage::of_stream(self.slot(task).stream.load(SeqCst));
        let mut life = Life {
            setting: self,
            task,
            slot: self.slot(task),
            body,
            children: None,
            program: &self.workload.templates[template].program,
            pc: 0,
            rounds: [0; LOOP_DEPTH_MAX],
            depth: 0,
            random: Random::new(self.seed, lineage.stream()),
            lineage,
            released_at_ns: None,
            buffer,
        };
        if birth == Birth::Initial {
            // Pages that a new process touches for the first time are touched before its start.
            life.buffer.fill(0);
            self.burner.burn(REHEARSED_NS);
            system::cpu_time_ns();
            self.await_start(task);
        }
        let result = loop {
            match life.step() {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(failed) => break Err(failed),
            }
        };
        self.or_give_up(task, result);
        self.end(task, body, birth);
    }

    /// Leaves the result behind, then tells parent and conductor.
    fn end(&self, task: u32, body: Body, birth: Birth) {
        let (play, slot) = (self.stage.play(), self.slot(task));
        let (voluntary, involuntary) = system::switches();
        slot.voluntary.set(voluntary);
        slot.involuntary.set(involuntary);
        slot.run_ns.set(system::cpu_time_ns());
        slot.exited_at_ns.store(system::now_ns(), SeqCst);
        if let Some(parent) = slot.parent.load(SeqCst).checked_sub(1) {
            let children = &self.slot(parent).children;
            if children.fetch_sub(1, SeqCst) == 1 && birth != Birth::Tied {
                system::futex_wake(children, system::EVERY_BIT);
            }
        }
        if play.alive.fetch_sub(1, SeqCst) == 1 {
            play.tell();
        }
        // Only a task that is a process of its own may take the whole process with it.
        if body == Body::Process {
            system::exit_process(0);
        }
    }

    /// Gives a child of `template` that `parent` is about to fork its number and its slot. Children
    /// are numbered in the order in which their forks begin.
    fn number_child(&self, parent: u32, template: u32, lineage: Lineage) -> u32 {
        let play = self.stage.play();
        let task = play.nr_tasks.fetch_add(1, SeqCst);
        let (slot, own) = (self.slot(task), self.slot(parent));
        slot.template.store(template, SeqCst);
        slot.parent.store(parent + 1, SeqCst);
        slot.stream.store(lineage.stream(), SeqCst);
        slot.nice.store(own.nice.load(SeqCst), SeqCst);
        slot.request.store(own.request.load(Relaxed), Relaxed);
        slot.born_at_ns.store(system::now_ns(), SeqCst);
        own.children.fetch_add(1, SeqCst);
        play.alive.fetch_add(1, SeqCst);
        task
    }
}

/// The scheduling class of sched_ext. Source: Linux include/uapi/linux/sched.h.
const SCHED_EXT: i32 = 7;

/// Messages up to this size are received on the stack.
const SMALL_MESSAGE_BYTES: usize = 4096;

fn setting_of_process() -> &'static Setting<'static> {
    // SAFETY: set by `become_the_play` before any thread starts; what it points to outlives the
    // process's threads.
    unsafe { &*SETTING.load(SeqCst) }
}

extern "C" fn initial_thread(task: *mut libc::c_void) -> *mut libc::c_void {
    let setting = setting_of_process();
    setting.live(task as u32, Body::Thread, Birth::Initial);
    std::ptr::null_mut()
}

extern "C" fn forked_thread(task: *mut libc::c_void) -> *mut libc::c_void {
    setting_of_process().live_as_child(task as u32, Body::Thread, Birth::Forked);
    std::ptr::null_mut()
}

/// `t` and the task's number, so that traces can be read without a table.
fn name_of(task: u32) -> [u8; 16] {
    let mut name = [0; 16];
    name[0] = b't';
    let digits = task.checked_ilog10().unwrap_or(0) as usize + 1;
    let mut left = task;
    for place in (1..=digits).rev() {
        name[place] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    name
}

fn first_of(cpus: &Cpus) -> Cpus {
    let mut first: Cpus = [0; 16];
    if let Some(word) = cpus.iter().position(|&word| word != 0) {
        first[word] = 1 << cpus[word].trailing_zeros();
    }
    first
}

/// Two sockets that tie children to their parent: each child holds one until the kernel closes it
/// near the end of the child's exit, and nobody writes. So the parent, who reads from the other, is
/// woken by the last child to die and by no other. What a child says before it exits comes too
/// early, for tearing a process down takes long; wait(2) is woken by every child; and with a pipe
/// the last child would hold a lock that the parent needs when it wakes.
///
/// A child that forks is not tied: until they first run, its own children would hold its end too.
#[derive(Clone, Copy, Debug)]
struct Ties {
    parents: i32,
    childrens: i32,
}

/// A task on its way through its program.
struct Life<'a> {
    setting: &'a Setting<'a>,
    task: u32,
    slot: &'a Slot,
    body: Body,
    /// To the children that it has forked since it last joined.
    children: Option<Ties>,
    program: &'a [Op],
    pc: usize,
    /// Rounds still to run of the loops it is in, this one included.
    rounds: [u64; LOOP_DEPTH_MAX],
    depth: usize,
    random: Random,
    lineage: Lineage,
    /// When its last request began.
    released_at_ns: Option<u64>,
    buffer: &'a mut [u8],
}

impl Life<'_> {
    /// One operation. False: it was the last.
    fn step(&mut self) -> Result<bool, Failed> {
        let op = self.program.get(self.pc).copied().unwrap_or(Op::Exit);
        self.pc += 1;
        let setting = self.setting;
        match op {
            Op::Run(amount) => setting.burner.burn(amount.draw(&mut self.random)),
            Op::Sleep(amount) => system::sleep_ns(amount.draw(&mut self.random).max(1)),
            Op::Send { channel, bytes } => self.send(channel, bytes as usize)?,
            Op::Recv { channel, bytes } => self.receive(channel, bytes as usize)?,
            Op::Wake { gate } => setting.stage.gate(gate).wake(),
            Op::WakeAll { gate } => setting.stage.gate(gate).open(),
            Op::Wait { gate } => setting.stage.gate(gate).wait(),
            Op::Yield => system::give_way(),
            Op::Fork { template } => self.fork(template)?,
            Op::Join => self.join()?,
            Op::Nice(nice) => {
                self.slot.nice.store(nice.into(), SeqCst);
                system::set_nice(nice.into()).map_err(|errno| (Step::Nice, errno))?;
            }
            Op::Affinity { set } => self.bind(set)?,
            Op::Move { to } => setting.cgroups.take(0, to),
            Op::Loop { repeat, end } => self.enter_loop(repeat, end as usize),
            Op::End { start } => self.end_round(start as usize),
            Op::Mark => setting.stage.play().mark(),
            Op::Tare => setting.stage.play().tare(),
            Op::Release { every, .. } => self.release(every)?,
            Op::Done => self.end_request()?,
            Op::Exit => return Ok(false),
        }
        Ok(true)
    }

    /// Begins the task's next request when it is due; sleeps until then.
    fn release(&mut self, every: Amount) -> Result<(), Failed> {
        let requests = self.setting.requests.expect("a workload with releases has requests");
        let last_ns = self.released_at_ns.unwrap_or_else(|| self.slot.born_at_ns.load(Relaxed));
        let at_ns = last_ns.saturating_add(every.draw(&mut self.random));
        self.released_at_ns = Some(at_ns);
        let noted = requests.release(self.task, self.pc - 1, at_ns);
        self.slot.request.store(noted.map_err(|errno| (Step::Request, errno))?, Relaxed);
        if at_ns > system::now_ns() {
            system::sleep_until_ns(at_ns);
        }
        Ok(())
    }

    /// The request that the task works on, if there is one, is done.
    fn end_request(&mut self) -> Result<(), Failed> {
        let Some(requests) = self.setting.requests else { return Ok(()) };
        match self.slot.request.swap(0, Relaxed) {
            0 => Ok(()),
            number => {
                requests.end(number, system::now_ns()).map_err(|errno| (Step::Request, errno))
            }
        }
    }

    /// Where none of the CPUs is online the kernel refuses, and nothing changes.
    fn bind(&self, set: u32) -> Result<(), Failed> {
        let cpus = cpus_of(&self.setting.workload.cpu_sets[set as usize], &self.setting.all_cpus);
        match system::set_affinity(&cpus) {
            Ok(()) | Err(libc::EINVAL) => Ok(()),
            Err(errno) => Err((Step::Affinity, errno)),
        }
    }

    fn has_children(&self) -> bool {
        self.slot.children.load(SeqCst) > 0
    }

    fn enter_loop(&mut self, repeat: Repeat, end: usize) {
        let rounds = match repeat {
            Repeat::Times(amount) => amount.draw(&mut self.random),
            Repeat::Forever => u64::MAX,
            Repeat::WhileChildren => u64::from(self.has_children()),
        };
        if rounds == 0 {
            self.pc = end + 1;
        } else {
            self.rounds[self.depth] = rounds;
            self.depth += 1;
        }
    }

    fn end_round(&mut self, start: usize) {
        let Op::Loop { repeat, .. } = self.program[start] else {
            unreachable!("an end points to its loop")
        };
        let left = match repeat {
            Repeat::Times(_) => self.rounds[self.depth - 1] - 1,
            Repeat::Forever => u64::MAX,
            Repeat::WhileChildren => u64::from(self.has_children()),
        };
        self.rounds[self.depth - 1] = left;
        if left > 0 {
            self.pc = start + 1;
        } else {
            self.depth -= 1;
        }
    }

    fn send(&mut self, channel: u32, bytes: usize) -> Result<(), Failed> {
        let descriptor = self.setting.channels[channel as usize].sending.as_raw_fd();
        if let Some(requests) = self.setting.requests {
            requests.put(channel, &mut self.buffer[..bytes], self.slot.request.load(Relaxed));
        }
        let mut sent = 0;
        while sent < bytes {
            match system::write(descriptor, &self.buffer[sent..bytes]) {
                Ok(part) => sent += part,
                Err(libc::EINTR) => {}
                Err(errno) => return Err((Step::Send, errno)),
            }
        }
        Ok(())
    }

    fn receive(&mut self, channel: u32, bytes: usize) -> Result<(), Failed> {
        let descriptor = self.setting.channels[channel as usize].receiving.as_raw_fd();
        let mut received = 0;
        while received < bytes {
            match system::read(descriptor, &mut self.buffer[received..bytes]) {
                Ok(part) => received += part,
                Err(libc::EINTR) => {}
                Err(errno) => return Err((Step::Receive, errno)),
            }
        }
        if let Some(requests) = self.setting.requests {
            self.slot.request.store(requests.get(channel, &self.buffer[..bytes]), Relaxed);
        }
        let marked_at_ns = &self.setting.stage.play().marked_at_ns;
        if !self.setting.has_mark || marked_at_ns.load(Relaxed) > 0 {
            self.slot.messages.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    fn fork(&mut self, template: u32) -> Result<(), Failed> {
        let setting = self.setting;
        let child = &setting.workload.templates[template as usize];
        let failed = |errno| (Step::Fork, errno);
        // Tasks that share a process would hold the ties of each other's children.
        let is_tied = self.body == Body::Process
            && !child.program.iter().any(|op| matches!(op, Op::Fork { .. }));
        if is_tied && self.children.is_none() {
            let (parents, childrens) = system::socket_pair().map_err(failed)?;
            self.children = Some(Ties { parents, childrens });
        }
        let lineage = self.lineage.next_child(setting.workload.initial.len());
        let task = setting.number_child(self.task, template, lineage);
        if child.address_space.is_some() {
            return system::start_thread(forked_thread, task as usize).map_err(failed);
        }
        match system::fork().map_err(failed)? {
            Fork::Parent(_) => Ok(()),
            Fork::Child => {
                if let Some(Ties { parents, childrens }) = self.children {
                    system::close(parents);
                    if !is_tied {
                        system::close(childrens);
                    }
                }
                let birth = if is_tied { Birth::Tied } else { Birth::Forked };
                setting.live_as_child(task, Body::Process, birth);
                system::exit_process(0)
            }
        }
    }

    fn join(&mut self) -> Result<(), Failed> {
        if let Some(Ties { parents, childrens }) = self.children.take() {
            system::close(childrens);
            let ended = loop {
                match system::read(parents, &mut self.buffer[..1]) {
                    Err(libc::EINTR) => {}
                    ended => break ended,
                }
            };
            system::close(parents);
            ended.map_err(|errno| (Step::Join, errno))?;
        }
        // Who is not tied tells of its end; the others have.
        loop {
            let children = self.slot.children.load(SeqCst);
            if children == 0 {
                return Ok(());
            }
            system::futex_wait(&self.slot.children, children, system::EVERY_BIT, None);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: names of tasks and sets of CPUs. Method: examples.
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_task_is_named_by_its_number() {
        let text = |task| String::from_utf8(name_of(task).to_vec()).unwrap();
        for task in [0, 7, 10, 999, 1_000_000] {
            assert_eq!(text(task).trim_end_matches('\0'), format!("t{task}"));
        }
    }

    #[test]
    fn the_first_cpu_of_a_set_is_its_lowest() {
        let mut cpus: Cpus = [0; 16];
        cpus[1] = 0b1100;
        cpus[2] = 1;
        let mut expected: Cpus = [0; 16];
        expected[1] = 0b100;
        assert_eq!(first_of(&cpus), expected);
    }
}
