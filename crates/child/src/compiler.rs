//! Compilers of C and C++, which read what users wrote: `#include "/dev/zero"` has no end.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::{Ended, Unended, bound_memory, run};

/// A compiler and what it may take. Ten times as much as it needs for the largest of our sources
/// on a machine with as much else to do.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// The program and its options for every call.
    words: Vec<OsString>,
    /// How long one call may take.
    pub time_max: Duration,
    /// How much memory each of its programs may ask for.
    pub memory_bytes_max: u64,
}

impl Compiler {
    /// Nothing of ours takes a minute, whatever else the machine does.
    const TIME_MAX: Duration = Duration::from_secs(120);
    /// Boost's headers take a quarter of it.
    const MEMORY_BYTES_MAX: u64 = 2 << 30;
    /// What compilers say where memory ends, in small letters.
    const OUT_OF_MEMORY: [&str; 4] =
        ["out of memory", "memory exhausted", "cannot allocate memory", "bad_alloc"];

    /// The compiler `command`: a program and, after spaces, options for every call.
    pub fn new(command: &str) -> Self {
        Compiler::of_words(command.split_whitespace().map(OsString::from).collect())
    }

    /// The compiler that these words name: a program and options for every call.
    pub fn of_words(words: Vec<OsString>) -> Self {
        Compiler { words, time_max: Self::TIME_MAX, memory_bytes_max: Self::MEMORY_BYTES_MAX }
    }

    /// The command: the program and its options.
    pub fn command(&self) -> String {
        self.words.join(OsStr::new(" ")).to_string_lossy().into_owned()
    }

    /// The program that the command names.
    pub fn program(&self) -> String {
        self.words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Runs it once, in the C locale. `goes_on` is as in [`run`].
    ///
    /// # Errors
    ///
    /// Those of [`run`].
    pub fn run(
        &self,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Ended, Unended> {
        self.run_in(Path::new("."), arguments, goes_on)
    }

    /// Runs it once in a folder.
    ///
    /// # Errors
    ///
    /// Those of [`run`].
    pub fn run_in(
        &self,
        folder: &Path,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Ended, Unended> {
        let (program, options) =
            self.words.split_first().ok_or(io::ErrorKind::NotFound).map_err(io::Error::from)?;
        let mut command = Command::new(program);
        command.args(options).args(arguments).current_dir(folder).env("LC_ALL", "C");
        bound_memory(&mut command, self.memory_bytes_max);
        run(&mut command, self.time_max, goes_on)
    }

    /// What it printed as it refused a source, and of a refusal that is our limit's a hint.
    pub fn complaint(&self, ended: &Ended) -> String {
        let said = String::from_utf8_lossy(&ended.stderr).trim_end().to_owned();
        let lower = said.to_lowercase();
        if !Self::OUT_OF_MEMORY.iter().any(|words| lower.contains(words)) {
            return said;
        }
        format!(
            "{said}\n\
             hint: a compiler may ask for {} MiB of memory: \
             does the source include what has no end?",
            self.memory_bytes_max >> 20
        )
    }

    /// What to say where it came to no end with a source.
    pub fn excuse(why: &Unended) -> String {
        format!("{why}\nhint: does the source include, or expand to, what has no end?")
    }

    /// Whether it is not there at all.
    pub fn is_missing(why: &Unended) -> bool {
        matches!(why, Unended::Io(cause) if cause.kind() == io::ErrorKind::NotFound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn said(compiler: &Compiler, arguments: &[&str]) -> Result<String, Unended> {
        let ended = compiler.run(arguments, &mut || true)?;
        assert!(!ended.status.success());
        Ok(compiler.complaint(&ended))
    }

    #[test]
    fn a_header_without_an_end_takes_no_more_memory_than_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("zero.c");
        std::fs::write(&source, "#include \"/dev/zero\"\n").unwrap();
        let limited = Compiler { memory_bytes_max: 256 << 20, ..Compiler::new("cc") };
        let said = said(&limited, &["-E", source.to_str().unwrap()]).unwrap();
        assert!(said.contains("hint: a compiler may ask for 256 MiB of memory"), "{said}");
    }

    #[test]
    fn a_refusal_of_its_own_is_shown_as_it_is() {
        let said = said(&Compiler::new("cc"), &["no-such-file.c"]).unwrap();
        assert!(said.contains("no-such-file.c") && !said.contains("hint"), "{said}");
    }

    #[test]
    fn one_that_does_not_end_is_ended() {
        let started = Instant::now();
        let slow = Compiler { time_max: Duration::from_millis(200), ..Compiler::new("sleep") };
        let late = slow.run(["1000"], &mut || true).unwrap_err();
        assert!(matches!(late, Unended::Late { .. }), "{late}");
        assert!(started.elapsed() < Duration::from_secs(500));
    }
}
