//! What a policy prints. A run only writes here, so its result does not depend on who reads.

/// The most lines of a policy that are passed on in one run; a kernel's buffer is finite too.
pub const PRINTS_MAX: u64 = 1000;

use std::fmt;
use std::sync::Arc;

/// Somebody who is shown each line, in the thread of the run.
#[derive(Clone)]
pub struct Show(Arc<dyn Fn(&str) + Send + Sync>);

impl Show {
    /// One that does this with a line.
    pub fn new(show: impl Fn(&str) + Send + Sync + 'static) -> Show {
        Show(Arc::new(show))
    }
}

impl fmt::Debug for Show {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Show")
    }
}

/// Who is shown what a policy prints, and how many lines that were.
#[derive(Debug)]
pub struct Prints {
    show: Option<Show>,
    count: u64,
}

impl Prints {
    /// Those that this one is shown.
    pub fn to(show: Option<Show>) -> Prints {
        Prints { show, count: 0 }
    }

    /// Passes on a line of the policy's, up to [`PRINTS_MAX`] of them, and says when it stops.
    pub fn print(&mut self, line: impl FnOnce() -> String) {
        let Some(Show(show)) = &self.show else { return };
        self.count += 1;
        match self.count - 1 {
            ..PRINTS_MAX => show(&line()),
            PRINTS_MAX => show(&format!(
                "bpf_trace_printk: {PRINTS_MAX} lines were printed; the rest of this run's is not \
                 shown"
            )),
            _ => {}
        }
    }
}

/// What the policy says of itself in its dump operations, in lines. Source: Linux,
/// kernel/sched/ext.c, `scx_bpf_dump_bstr` and `ops_dump_flush`.
#[derive(Debug, Default)]
pub struct Said {
    line: String,
    lines: Vec<String>,
    bytes: usize,
}

/// `SCX_EXIT_MSG_LEN`
const LINE_BYTES_MAX: usize = 1024;
/// Bytes that are kept of what one operation says; a kernel's buffer has 32 KiB for all.
const SAID_BYTES_MAX: usize = 32 << 10;

impl Said {
    /// Appends a part of a line, or lines.
    pub fn add(&mut self, text: &str) {
        // An empty line takes room, too.
        self.bytes += text.len() + 1;
        if self.bytes > SAID_BYTES_MAX {
            return;
        }
        let mut room = text.len().min(LINE_BYTES_MAX - self.line.len());
        while !text.is_char_boundary(room) {
            room -= 1;
        }
        self.line.push_str(&text[..room]);
        if room < text.len() || self.line.len() == LINE_BYTES_MAX || self.line.ends_with('\n') {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.lines.extend(std::mem::take(&mut self.line).lines().map(str::to_owned));
    }

    /// All of it.
    pub fn into_lines(mut self) -> Vec<String> {
        self.flush();
        self.lines
    }
}

#[cfg(test)]
mod tests {
    //! Goal: lines are as the kernel writes them. Method: texts made by hand.

    use super::*;

    #[test]
    fn what_is_said_in_parts_is_a_line_at_its_end() {
        let mut said = Said::default();
        ["a", "b\n", "\n", "c\nd\n", "e"].iter().for_each(|text| said.add(text));
        assert_eq!(said.into_lines(), ["ab", "", "c", "d", "e"]);
        let mut said = Said::default();
        said.add(&"x".repeat(2000));
        said.add("y");
        assert_eq!(said.into_lines(), ["x".repeat(1024), "y".to_owned()]);
    }
}
