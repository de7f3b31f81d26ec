//! The kernel's own dump of a policy, which it makes for SysRq-D and of what it ejects, and which a
//! tracepoint tells.
//!
//! Source: Linux, kernel/sched/ext.c, `sysrq_handle_sched_ext_dump` and `scx_dump_state`.

use std::fs;
use std::path::{Path, PathBuf};

const INSTANCE: &str = "/sys/kernel/tracing/instances/schedlab-dump";
const SYSRQ: &str = "/proc/sysrq-trigger";
/// Room for the lines of one dump, which one CPU writes: of some thousand tasks.
const KIB_PER_CPU: &str = "2048";

/// A place for dumps.
pub(crate) struct KernelDump {
    instance: PathBuf,
}

impl KernelDump {
    /// Gets ready for dumps, which takes longer than they do, and forgets those before.
    ///
    /// # Errors
    ///
    /// Which file cannot be used.
    pub fn begin() -> Result<KernelDump, String> {
        let dump = KernelDump { instance: PathBuf::from(INSTANCE) };
        if !dump.instance.is_dir() {
            fs::create_dir(&dump.instance).map_err(|error| format!("{INSTANCE}: {error}"))?;
        }
        dump.write("buffer_size_kb", KIB_PER_CPU)?;
        dump.write("events/sched_ext/sched_ext_dump/enable", "1")?;
        dump.clear();
        Ok(dump)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.instance.join(name);
        fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
    }

    /// Has the kernel dump its state, which [`taken`] gives.
    pub fn make(&self) {
        // Without it there is no dump, which its reader sees.
        let _ = fs::write(SYSRQ, "D");
    }

    /// Forgets what was dumped, which takes a while.
    pub fn clear(&self) {
        let _ = self.write("trace", "");
    }
}

/// What was dumped since nothing was: for somebody, or by a policy's end. Empty where nobody got
/// ready for it.
pub(crate) fn taken() -> String {
    lines(&fs::read_to_string(Path::new(INSTANCE).join("trace")).unwrap_or_default())
}

/// The lines of a dump in a kernel's `trace`.
fn lines(trace: &str) -> String {
    let said = trace.lines().filter_map(|line| line.split_once(": sched_ext_dump:"));
    said.flat_map(|(_, line)| [line.strip_prefix(' ').unwrap_or(line), "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_is_taken_out_of_a_trace() {
        let trace = "# tracer: nop\n#\n  guest-1  [000] d..2.  1.2: sched_ext_dump: a: b\n\
                     guest-1  [000] d..2.  1.2: sched_ext_dump: \n  x: bpf_trace_printk: y\n\
                     guest-1  [000] d..2.  1.2: sched_ext_dump:   c\n";
        assert_eq!(lines(trace), "a: b\n\n  c\n");
    }
}
