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
