//! Calls from the policy: the kernel's functions that sched_ext offers it.

pub mod cpus;
mod queues;

use crate::core::Core;
use crate::failure::FailureKind;

impl Core<'_> {
    /// Whether a call is allowed where it was made; a failure if not.
    fn check_call(&mut self, is_allowed: bool, message: &str) -> bool {
        if !is_allowed {
            self.fail(FailureKind::BadCall, message.to_owned());
        }
        is_allowed
    }

    /// The CPU that a call names, if there is one.
    fn cpu_of_number(&self, cpu: impl Into<i64>) -> Option<usize> {
        usize::try_from(cpu.into()).ok().filter(|&cpu| cpu < self.cpus.len())
    }

    /// The same; a failure if there is none.
    fn check_cpu(&mut self, cpu: impl Into<i64> + Copy, call: &str) -> Option<usize> {
        let found = self.cpu_of_number(cpu);
        if found.is_none() {
            let message = format!("invalid CPU {} in {call}()", cpu.into());
            self.fail(FailureKind::BadCpu, message);
        }
        found
    }

    /// Ends the run because NULL, or else an idle task, is to be scheduled.
    #[cold]
    pub fn refuse_to_schedule(&mut self, is_null: bool) {
        let what = if is_null {
            "NULL task passed to a kernel function"
        } else {
            "the idle task cannot be scheduled"
        };
        self.fail(FailureKind::BadCall, what.to_owned());
    }

    /// A line as `trace_pipe` has it: task, CPU, seconds, message.
    pub fn print(&mut self, message: &str) {
        let cpu = self.here();
        let (current, tasks, now_ns) = (self.cpus[cpu].current, &self.tasks, self.now_ns());
        self.policy.prints.print(|| {
            let task = current.map_or_else(|| "<idle>[0]".to_owned(), |task| tasks.label(task));
            let (s, ns) = (now_ns / 1_000_000_000, now_ns % 1_000_000_000);
            let message = message.trim_end();
            format!("{task:>16} [{cpu:03}] {s:>3}.{ns:09}: bpf_trace_printk: {message}")
        });
    }
}
