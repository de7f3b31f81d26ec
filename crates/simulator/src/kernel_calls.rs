//! Calls from the policy: the kernel's functions that sched_ext offers it.

mod cpus;
mod queues;

pub use queues::way_to_queue;

use crate::failure::FailureKind;
use crate::kernel::Kernel;

impl Kernel<'_> {
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
        let (current, tasks, now_ns) = (self.cpus[cpu].current, &self.tasks, self.now_ns);
        self.prints.print(|| {
            let task = current.map_or_else(|| "<idle>[0]".to_owned(), |task| tasks.label(task));
            let (s, ns) = (now_ns / 1_000_000_000, now_ns % 1_000_000_000);
            let message = message.trim_end();
            format!("{task:>16} [{cpu:03}] {s:>3}.{ns:09}: bpf_trace_printk: {message}")
        });
    }
}
