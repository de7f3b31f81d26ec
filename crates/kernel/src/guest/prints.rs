//! What a policy prints (`bpf_printk`), which a kernel keeps in memory of its own.

use std::fs;
use std::path::Path;

use crate::records::Printed;

const TRACEFS: &str = "/sys/kernel/tracing";
/// Lines that are given, as many as a simulation shows.
const LINES_MAX: usize = 1000;
/// Memory for [`LINES_MAX`] long lines, of each CPU. Until somebody asks for more it is a page.
const KIB_PER_CPU: &str = "1024";

/// Makes room for the lines of a policy that can print, once it is loaded.
///
/// Where none can print nothing is done, so that nothing changes for those who measure.
pub(super) fn make_room() {
    let tracefs = Path::new(TRACEFS);
    // The kernel switches the event on when it loads a program that prints.
    let event = tracefs.join("events/bpf_trace/bpf_trace_printk/enable");
    if fs::read_to_string(event).is_ok_and(|state| state.trim() == "1") {
        // Without it there are fewer lines.
        let _ = fs::write(tracefs.join("buffer_size_kb"), KIB_PER_CPU);
    }
}

/// The first lines that are still kept of all that were printed since boot, if any were.
pub(super) fn take() -> Option<Printed> {
    read(&fs::read_to_string(Path::new(TRACEFS).join("trace")).ok()?)
}

/// The lines of a kernel's `trace`, whose heading says how many were written in all.
fn read(trace: &str) -> Option<Printed> {
    let written = trace.lines().find_map(|line| {
        let (_, counts) = line.split_once("entries-in-buffer/entries-written: ")?;
        counts.split_once('/')?.1.split_whitespace().next()?.parse::<usize>().ok()
    });
    let printed = trace.lines().filter(|line| line.contains(": bpf_trace_printk: "));
    let lines: Vec<String> = printed.take(LINES_MAX).map(str::to_owned).collect();
    let nr_left_out = written.unwrap_or(0).saturating_sub(lines.len());
    (!lines.is_empty()).then_some(Printed { lines, nr_left_out })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_are_given_and_the_rest_is_counted_overwritten_ones_too() {
        let heading = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 1003/1005   #P:2\n";
        assert_eq!(read(heading), None);
        let line = "   hog-7   [000] d.Z1.     1.234567: bpf_trace_printk: hog joins\n";
        let printed = read(&format!("{heading}#\n{}", line.repeat(1003))).unwrap();
        assert_eq!((printed.lines.len(), printed.nr_left_out), (LINES_MAX, 5));
        assert_eq!(printed.lines[0], line.trim_end());
    }
}
