//! The kernel's own dump of a policy, which it makes for SysRq-D and of what it ejects, and which a
//! tracepoint tells.
//!
//! Source: Linux, kernel/sched/ext.c, `sysrq_handle_sched_ext_dump` and `scx_dump_state`.

use std::fs;
use std::path::{Path, PathBuf};

const INSTANCE: &str = "/sys/kernel/tracing/instances/schedlab-dump";
const SYSRQ: &str = "/proc/sysrq-trigger";
/// Room for the lines of one dump, which one CPU writes, and nobody knows which: of some thousand
/// tasks where dumps are asked for.
const KIB_PER_CPU: &str = "2048";
/// Room for what is kept of a policy's end, should it come to that: eight times what a kernel keeps
/// for a policy that records its end itself (`SCX_EXIT_DUMP_DFL_LEN`).
const KIB_PER_CPU_AT_END: &str = "256";

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
        dump.get_ready(KIB_PER_CPU, true)?;
        Ok(dump)
    }

    /// Gets ready, in less memory, for the dump that a policy's end may bring.
    ///
    /// # Errors
    ///
    /// Which file cannot be used.
    pub fn begin_for_end() -> Result<(), String> {
        let dump = KernelDump { instance: PathBuf::from(INSTANCE) };
        dump.get_ready(KIB_PER_CPU_AT_END, false)
    }

    /// Makes a place with so much room; one that is there has what it has unless `resizes`.
    fn get_ready(&self, kib_per_cpu: &str, resizes: bool) -> Result<(), String> {
        let is_new = !self.instance.is_dir();
        if is_new {
            let wrong = |error| format!("{}: {error}", self.instance.display());
            fs::create_dir(&self.instance).map_err(wrong)?;
        }
        if is_new || resizes {
            self.write("buffer_size_kb", kib_per_cpu)?;
        }
        // Of what has no room the beginning stays, which says why the policy ended.
        self.write("options/overwrite", "0")?;
        self.write("events/sched_ext/sched_ext_dump/enable", "1")?;
        self.clear();
        Ok(())
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
    fn less_room_is_taken_where_nobody_asks_for_dumps() {
        let folder = tempfile::tempdir().unwrap();
        let dump = KernelDump { instance: folder.path().join("instance") };
        let kib = || fs::read_to_string(dump.instance.join("buffer_size_kb")).unwrap();
        // A folder of a kernel's has its files at once.
        assert!(dump.get_ready(KIB_PER_CPU_AT_END, false).is_err());
        assert_eq!(kib(), KIB_PER_CPU_AT_END);
        fs::create_dir_all(dump.instance.join("events/sched_ext/sched_ext_dump")).unwrap();
        fs::create_dir(dump.instance.join("options")).unwrap();
        dump.get_ready(KIB_PER_CPU, true).unwrap();
        assert_eq!(kib(), KIB_PER_CPU);
        // A policy that is loaded again takes nothing away.
        dump.get_ready(KIB_PER_CPU_AT_END, false).unwrap();
        assert_eq!(kib(), KIB_PER_CPU);
    }

    #[test]
    fn a_dump_is_taken_out_of_a_trace() {
        let trace = "# tracer: nop\n#\n  guest-1  [000] d..2.  1.2: sched_ext_dump: a: b\n\
                     guest-1  [000] d..2.  1.2: sched_ext_dump: \n  x: bpf_trace_printk: y\n\
                     guest-1  [000] d..2.  1.2: sched_ext_dump:   c\n";
        assert_eq!(lines(trace), "a: b\n\n  c\n");
    }
}
