//! The state of a run at a time, as text: what sched_ext's debug dump says, in its form as far as
//! it has one, and beyond that what only a simulator can see.
//!
//! Who asks for dumps gets them from another simulation of the same run, since a run is a pure
//! function: whatever the policy's own dump operations do, and what they cost, changes nothing of
//! the run itself. Source of the form: Linux, kernel/sched/ext.c, `scx_dump_state`.

mod policy;

use crate::abi::{self, CpuMask, DumpContext};
use crate::core::Core;
use crate::dispatch_queue::LOCAL;
use crate::failure::{Failure, FailureKind};
use crate::operations::Operation;
use crate::place::{Place, TaskId};
use crate::policy_state::Context;
use crate::prints::Said;
use crate::recorder::Dump;
use crate::visible::Placed;
use ::policy::inside::{self, LISTED_MAX, more};
use std::cell::Cell;

/// The most dumps of one run.
pub const DUMPS_MAX: usize = 100;

/// A dump that is being made.
struct Dumping {
    text: String,
    context: Placed<DumpContext>,
    /// Whether an operation has failed.
    has_failed: Cell<bool>,
}

impl Dumping {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn lines(&mut self, lines: impl IntoIterator<Item = String>) {
        lines.into_iter().for_each(|line| self.line(&line));
    }

    fn heading(&mut self, heading: &str) {
        self.lines(inside::heading(heading));
    }
}

/// `SCX_EXIT_*`, and the reason that a kernel gives for it.
fn exit_kind(failure: Option<&Failure>) -> (u32, &'static str) {
    match failure.map(|failure| failure.kind) {
        // A kernel makes no dump of these by itself, but where it is asked for one.
        None | Some(FailureKind::PolicyExit | FailureKind::Deadlock) => (0, "SysRq-D"),
        Some(FailureKind::PolicyError) => (1025, "scx_bpf_error"),
        Some(FailureKind::Stall) => (1026, "runnable task stall"),
        Some(_) => (1024, "runtime error"),
    }
}

impl Core<'_> {
    /// The state at this time, and why the run ends if it does, which the recorder does not have.
    /// What the policy's operations cost counts for nothing, and what they do wrong is a line of
    /// the dump.
    pub fn dump(&mut self, at_ns: u64, failure: Option<&Failure>) -> Dump {
        self.time.look_at(at_ns);
        let (kind, reason) = exit_kind(failure);
        let context = self.dump_context(kind, reason);
        let mut dumping = Dumping { text: String::new(), context, has_failed: Cell::new(false) };
        self.dump_head(&mut dumping, failure, (kind, reason));
        let said = self.ask(&dumping, Operation::Dump, [0; 2]);
        dumping.lines(below(said, ""));
        let first = failure.and_then(|failure| failure.cpu).map(|cpu| cpu as usize);
        self.dump_cpus(&mut dumping, first.filter(|&cpu| cpu < self.cpus.len()));
        self.dump_queues(&mut dumping);
        self.dump_others(&mut dumping);
        self.dump_policy(&mut dumping);
        Dump { at_ns, text: dumping.text }
    }

    fn dump_context(&mut self, kind: u32, reason: &str) -> Placed<DumpContext> {
        let text = self.visible.copy(&[reason.as_bytes(), &[0]].concat(), true);
        let reason = std::ptr::without_provenance(text.unwrap_or(0) as usize);
        let (at_ns, period_ns) = (self.now_ns(), self.time.tick_period_ns());
        let at_jiffies = at_ns / period_ns;
        self.visible.place(DumpContext { kind, exit_code: 0, reason, at_ns, at_jiffies })
    }

    fn dump_head(
        &self,
        dumping: &mut Dumping,
        failure: Option<&Failure>,
        (kind, reason): (u32, &str),
    ) {
        let (s, ns) = (self.now_ns() / 1_000_000_000, self.now_ns() % 1_000_000_000);
        dumping.line(&format!("{}: root", self.policy_name()));
        match failure {
            Some(failure) if kind > 0 => {
                let cpu = failure.cpu.unwrap_or_default();
                let current = self.label_on(cpu as usize);
                dumping.line(&format!("{current} triggered exit kind {kind} on CPU {cpu}:"));
                let message = &failure.message;
                let is_said = message.starts_with(reason);
                let why = if is_said { message.clone() } else { format!("{reason} ({message})") };
                dumping.line(&format!("  {why}"));
                dumping.line(&format!("  at {s}.{ns:09} s"));
            }
            Some(Failure { message, .. }) => {
                dumping
                    .line(&format!("Debug dump triggered at {s}.{ns:09} s by the end of the run:"));
                dumping.line(&format!("  {message}"));
            }
            None => {
                dumping.line(&format!("Debug dump triggered by {reason} at {s}.{ns:09} s"));
            }
        }
    }

    /// The lines that an operation of the policy says; none if it has no such operation.
    fn ask(&mut self, dumping: &Dumping, operation: Operation, more: [u64; 2]) -> Vec<String> {
        // Who failed once is asked no more.
        if !self.policy.has(operation) || dumping.has_failed.get() {
            return vec![];
        }
        let (here, now_ns) = (self.here(), self.now_ns());
        let (spent, time) = (*self.cpus[here].spent_ns(), self.policy.time);
        let buses = self.buses.clone();
        let context = self.policy.context();
        self.policy.begin(Context::Plain);
        self.policy.given.said = Some(Said::default());
        self.call_dump(operation, &dumping.context, more);
        let said = self.policy.given.said.take().unwrap_or_default();
        self.policy.begin(context);
        self.cpus[here].forget_spent(spent);
        self.policy.time.forget_since(time);
        self.buses = buses;
        self.time.look_at(now_ns);
        let failed = self.recorder.take_failure();
        dumping.has_failed.set(failed.is_some());
        let failed = failed.map(|failure| format!("[!] {}: {}", operation.name(), failure.message));
        said.into_lines().into_iter().chain(failed).collect()
    }

    // ---- CPUs -------------------------------------------------------------------------------

    /// All CPUs, that one first where the run failed.
    fn dump_cpus(&mut self, dumping: &mut Dumping, first: Option<usize>) {
        dumping.heading("CPU states");
        let mut waiting: Vec<Vec<TaskId>> = vec![vec![]; self.cpus.len()];
        for task in self.tasks_where(|place| matches!(place, Place::Custody | Place::Queued(_))) {
            waiting[self.tasks.seen(task).cpu as usize].push(task);
        }
        let (mut idle, mut offline) = (vec![], vec![]);
        let others = (0..self.cpus.len()).filter(|&cpu| Some(cpu) != first);
        for cpu in first.into_iter().chain(others) {
            let mut waiting = std::mem::take(&mut waiting[cpu]);
            waiting.sort_by_key(|&task| self.tasks.state(task).waiting_since_ns);
            let is_idle = self.cpus[cpu].current.is_none();
            let is_online = self.cpus[cpu].is_online;
            let has_nothing = is_idle && waiting.is_empty();
            let says = [cpu as u64, has_nothing.into()];
            let said = self.ask(dumping, Operation::DumpCpu, says);
            match (is_online, is_idle) {
                (false, _) => offline.push(cpu),
                (true, true) => idle.push(cpu),
                _ => {}
            }
            if has_nothing && said.is_empty() {
                continue;
            }
            dumping.lines(self.cpu_lines(cpu, waiting.len()));
            dumping.lines(below(said, "  "));
            let current = self.cpus[cpu].current;
            let runnable = current.into_iter().chain(waiting);
            self.dump_tasks(dumping, &runnable.collect::<Vec<_>>());
        }
        let lists = [("Idle CPUs", idle), ("Offline CPUs", offline)];
        for (what, mut cpus) in lists.into_iter().filter(|(_, cpus)| !cpus.is_empty()) {
            cpus.sort_unstable();
            dumping.lines([String::new(), format!("{what}: {}", ranges(&cpus))]);
        }
    }

    fn cpu_lines(&self, cpu: usize, nr_waiting: usize) -> Vec<String> {
        let state = &self.cpus[cpu];
        let nr_run = nr_waiting + usize::from(state.current.is_some());
        let class = if state.current.is_some() { "ext" } else { "idle" };
        let (online, resched) = (u8::from(state.is_online), u8::from(state.need_resched));
        let mut lines = vec![
            String::new(),
            format!("CPU {cpu:<4}: nr_run={nr_run} online={online} need_resched={resched}"),
            format!("          curr={} class={class}_sched_class", self.label_on(cpu)),
        ];
        let local = self.queues.get(self.queues.local(cpu));
        if local.len() > 0 {
            let labels = local.iter().take(LISTED_MAX).map(|task| self.tasks.label(task));
            let labels = labels.collect::<Vec<_>>().join(" ");
            let more = more(local.len()).map(|more| format!(" {more}")).unwrap_or_default();
            lines.push(format!("  SCX_DSQ_LOCAL: nr={}: {labels}{more}", local.len()));
        }
        lines
    }

    fn label_on(&self, cpu: usize) -> String {
        let current = self.cpus.iter().nth(cpu).and_then(|cpu| cpu.current);
        current.map_or_else(|| format!("swapper/{cpu}[0]"), |task| self.tasks.label(task))
    }

    // ---- tasks ------------------------------------------------------------------------------

    fn tasks_where(&self, is_such: impl Fn(Place) -> bool) -> Vec<TaskId> {
        let is_such = |&task: &TaskId| is_such(self.tasks.state(task).place);
        (0..self.tasks.len() as TaskId).filter(is_such).collect()
    }

    fn dump_tasks(&mut self, dumping: &mut Dumping, tasks: &[TaskId]) {
        for &task in tasks.iter().take(LISTED_MAX) {
            dumping.lines(self.task_lines(task));
            let p = self.visible.task_address(task.into());
            let said = self.ask(dumping, Operation::DumpTask, [p, 0]);
            dumping.lines(below(said, "    "));
        }
        dumping.lines(more(tasks.len()));
    }

    fn task_lines(&self, task: TaskId) -> Vec<String> {
        let (seen, state) = (self.tasks.seen(task), self.tasks.state(task));
        let marker = if matches!(state.place, Place::Running(_)) { '*' } else { ' ' };
        let since_ns = |at_ns| self.now_ns().saturating_sub(at_ns);
        let waited_ns = since_ns(state.waiting_since_ns);
        let stay = match state.place {
            Place::Running(_) => format!("on_cpu={} ns", since_ns(state.on_cpu_since_ns)),
            _ => format!("waits={waited_ns} ns"),
        };
        let place = match state.place {
            Place::Queued(index) if self.queues.cpu_of(index).is_some() => {
                format!("dsq_id={LOCAL:#x}")
            }
            Place::Queued(index) => format!("dsq_id={:#x}", self.queues.get(index).id()),
            Place::Custody => "dsq_id=(n/a), held by the policy".to_owned(),
            _ => "dsq_id=(n/a)".to_owned(),
        };
        let shown = &seen.scx;
        vec![
            String::new(),
            format!(" {marker}R {} *root -{}ms", self.tasks.label(task), waited_ns / 1_000_000),
            format!("      flags={:#x} {place}", shown.flags),
            format!("      cpu={} run={} ns {stay}", seen.cpu, self.run_ns(task)),
            format!("      {}", numbers(&abi::Entity { slice: self.slice_left(task), ..*shown })),
            format!("      cpus={}", self.cpus_text(task)),
        ]
    }

    fn cpus_text(&self, task: TaskId) -> String {
        mask_text(&self.tasks.mask(task), self.cpus.len())
    }

    /// CPU time so far.
    fn run_ns(&self, task: TaskId) -> u64 {
        let state = self.tasks.state(task);
        let is_running = matches!(state.place, Place::Running(_));
        let now = self.now_ns().saturating_sub(state.on_cpu_since_ns);
        state.totals.run_ns + if is_running { now } else { 0 }
    }

    /// What is left of its slice now, which is accounted for at ticks and switches only.
    fn slice_left(&self, task: TaskId) -> u64 {
        let slice = self.tasks.seen(task).scx.slice;
        match self.tasks.state(task).place {
            Place::Running(cpu) if slice != u64::MAX => {
                let since_ns = self.cpus[cpu as usize].exec_start_ns;
                slice.saturating_sub(self.now_ns().saturating_sub(since_ns))
            }
            _ => slice,
        }
    }

    fn dump_others(&self, dumping: &mut Dumping) {
        let asleep = self.tasks_where(|place| place == Place::Asleep);
        let nr = |place| self.tasks.count(|other| other == place);
        let (unborn, exited) = (nr(Place::Unborn), nr(Place::Exited));
        dumping.heading("Other tasks");
        for &task in asleep.iter().take(LISTED_MAX) {
            let (seen, run_ns) = (self.tasks.seen(task), self.run_ns(task));
            let label = self.tasks.label(task);
            let (cpu, scx) = (seen.cpu, &seen.scx);
            dumping.line(&format!("  S {label} cpu={cpu} run={run_ns} ns {}", numbers(scx)));
        }
        dumping.lines(more(asleep.len()));
        dumping.line(&format!("  not begun: {unborn}, ended: {exited}"));
    }

    // ---- queues -----------------------------------------------------------------------------

    fn dump_queues(&self, dumping: &mut Dumping) {
        dumping.heading("Dispatch queues");
        let global = (0..self.queues.nr_nodes()).map(|node| self.queues.global(node));
        let global = global.filter(|&index| self.queues.get(index).len() > 0);
        let all: Vec<u32> = global.chain(self.queues.of_policy()).collect();
        for &index in all.iter().take(LISTED_MAX) {
            let queue = self.queues.get(index);
            let name = self.queue_name(index).map(|name| format!(" {name}")).unwrap_or_default();
            let order = match (queue.len(), queue.is_by_vtime()) {
                (0, _) => "",
                (_, true) => ", by dsq_vtime",
                (_, false) => ", first in, first out",
            };
            let nr = queue.len();
            dumping.lines([String::new(), format!("DSQ {:#x}{name}: nr={nr}{order}", queue.id())]);
            for task in queue.iter().take(LISTED_MAX) {
                let (scx, label) = (&self.tasks.seen(task).scx, self.tasks.label(task));
                dumping.line(&format!("  {label} {}", numbers(scx)));
            }
            dumping.lines(more(nr));
        }
        dumping.lines(more(all.len()));
    }

    fn queue_name(&self, index: u32) -> Option<String> {
        if index as usize >= self.cpus.len() + self.queues.nr_nodes() {
            return self.dsq_name(self.queues.get(index).id());
        }
        Some(format!("SCX_DSQ_GLOBAL of node {}", self.queues.node_of(index)))
    }
}

/// What a policy gives a task.
fn numbers(scx: &abi::Entity) -> String {
    format!("dsq_vtime={} slice={} weight={}", scx.dsq_vtime, scx.slice, scx.weight)
}

/// What an operation has said, below a line of its own.
fn below(said: Vec<String>, prefix: &str) -> impl Iterator<Item = String> {
    let before = (!said.is_empty()).then(String::new);
    before.into_iter().chain(said.into_iter().map(move |line| format!("{prefix}{line}")))
}

/// Numbers in order, as `0-3,7`.
fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let text = |run: &[usize]| match run {
        [only] => only.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    };
    runs.map(text).collect::<Vec<_>>().join(",")
}

/// A mask as the kernel's `%*pb` has it: in hexadecimal, 32 CPUs a group.
fn mask_text(mask: &CpuMask, nr_cpus: usize) -> String {
    let groups = nr_cpus.div_ceil(32);
    let group = |number: usize| {
        let bits = (nr_cpus - 32 * number).min(32);
        let value = mask.bits[number / 2] >> (32 * (number % 2)) & 0xffff_ffff;
        format!("{value:0width$x}", width = bits.div_ceil(4))
    };
    (0..groups).rev().map(group).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    //! Goal: masks are as the kernel writes them. Method: texts made by hand.

    use super::*;
    use crate::abi::OwnMask;

    #[test]
    fn masks_and_lists_of_cpus_are_written_as_a_kernel_does() {
        let mask: OwnMask = [0, 1, 5, 33].into_iter().collect();
        assert_eq!(mask_text(&mask, 6), "23");
        assert_eq!(mask_text(&mask, 36), "2,00000023");
        assert_eq!(mask_text(&mask, 64), "00000002,00000023");
        assert_eq!((ranges(&[0, 1, 2, 7, 9, 10]), ranges(&[4])), ("0-2,7,9-10".into(), "4".into()));
    }
}
