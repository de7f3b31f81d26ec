//! What builds policies: a clang, and what it says of itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use child::Unended;
use sha2::{Digest, Sha256};

use crate::error::io_error;
use crate::texts::hex;
use crate::{PolicyError, whole_file};

/// The oldest clang that is taken unasked, as that is what the shipped policies were tried with,
/// and the end of those that are looked for by their numbers.
const CLANG_OLDEST: u32 = 19;
const CLANG_END: u32 = 40;
/// How the compiler in the wheel `ziglang` is, which needs no installing by root.
const ZIG_OPTIONS: [&str; 3] = ["cc", "-target", "bpfel-freestanding-none"];
/// What is part of the name of a program that always says the same; another, as `ccache`, may ask
/// others.
const COMPILERS: [&str; 2] = ["clang", "zig"];
/// How a program of Linux's begins; a script may run another compiler tomorrow.
const ELF: [u8; 4] = *b"\x7fELF";

/// A clang, under whatever name.
#[derive(Clone, Debug)]
pub struct Compiler {
    program: child::Compiler,
    /// Where it is noted what compilers say of themselves.
    notes: Option<PathBuf>,
}

impl Compiler {
    /// The compiler that `$CLANG` names, options included; if it names none, the oldest clang on
    /// `PATH` that is new enough; else `zig`, the program of the wheel `ziglang`.
    ///
    /// `notes` are as in [`Compiler::with_notes`].
    ///
    /// # Errors
    ///
    /// [`PolicyError`] if there is none, or one that might be it cannot be run.
    pub fn find(zig: Option<&Path>, notes: Option<&Path>) -> Result<Self, PolicyError> {
        let noted = |one: Compiler| Compiler { notes: notes.map(Path::to_owned), ..one };
        let named = std::env::var("CLANG").unwrap_or_default();
        if !named.trim().is_empty() {
            return Ok(noted(Compiler::new(&named)));
        }
        let numbered = (CLANG_OLDEST..CLANG_END).map(|number| format!("clang-{number}"));
        for name in numbered.chain(["clang".to_owned()]) {
            let one = noted(Compiler::new(&name));
            match one.version(&mut || true) {
                Ok(says) if major(&says).is_some_and(|major| major >= CLANG_OLDEST) => {
                    return Ok(one);
                }
                Ok(_)
                | Err(PolicyError::CompilerMissing { .. } | PolicyError::NoVersion { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let zig = zig.ok_or(PolicyError::NoCompiler { oldest: CLANG_OLDEST })?;
        let mut words = vec![zig.as_os_str().to_owned()];
        words.extend(ZIG_OPTIONS.map(OsString::from));
        Ok(noted(Compiler { program: child::Compiler::of_words(words), notes: None }))
    }

    /// The compiler `command`: a program and, after spaces, options for every call. It translates
    /// for BPF unless they say for what.
    pub fn new(command: &str) -> Self {
        Compiler { program: child::Compiler::new(command), notes: None }
    }

    /// The same one; in a folder it is noted what it says of itself, and then it is asked no more
    /// until its file is another one. To answer takes a compiler as long as a short simulation. A
    /// new release of its libraries comes with a new file.
    pub fn with_notes(self, folder: &Path) -> Self {
        Compiler { notes: Some(folder.to_owned()), ..self }
    }

    /// The same one, ended if it takes longer with a source.
    pub fn within(mut self, time_max: Duration) -> Self {
        self.program.time_max = time_max;
        self
    }

    /// What it is run as, and the first line of what it says about itself: name, distribution,
    /// version.
    ///
    /// # Errors
    ///
    /// [`PolicyError`] if it does not answer.
    pub fn describe(&self) -> Result<(String, String), PolicyError> {
        Ok((self.program.command(), self.version(&mut || true)?))
    }

    pub(crate) fn program(&self) -> &child::Compiler {
        &self.program
    }

    /// The version as it is told; asked once a process, for each `PATH`, if it is not noted.
    pub(crate) fn version(&self, goes_on: &mut dyn FnMut() -> bool) -> Result<String, PolicyError> {
        static TOLD: Mutex<BTreeMap<(String, OsString), String>> = Mutex::new(BTreeMap::new());
        let program = &self.program;
        let asked = (program.command(), std::env::var_os("PATH").unwrap_or_default());
        let told = || TOLD.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(version) = told().get(&asked) {
            return Ok(version.clone());
        }
        let note = self.note();
        let noted = note.as_ref().and_then(|note| fs::read_to_string(note).ok());
        let noted = noted.filter(|version| !version.is_empty());
        let version = match noted {
            Some(version) => version,
            None => {
                let version = self.ask(goes_on)?;
                // Who cannot note it asks again.
                let _ = note.map(|note| whole_file::write(&note, version.as_bytes()));
                version
            }
        };
        told().insert(asked, version.clone());
        Ok(version)
    }

    fn ask(&self, goes_on: &mut dyn FnMut() -> bool) -> Result<String, PolicyError> {
        let program = &self.program;
        let ended = program.run(["--version"], goes_on);
        let ended = ended.map_err(|why| refusal(program, Path::new("--version"), why))?;
        let text = String::from_utf8_lossy(&ended.stdout);
        let version = text.lines().next().unwrap_or_default().to_owned();
        if !ended.status.success() || version.is_empty() {
            let (command, output) = (program.command(), program.complaint(&ended));
            return Err(PolicyError::NoVersion { command, output });
        }
        Ok(version)
    }

    /// The file that has what this compiler says, if it is one that is asked once.
    fn note(&self) -> Option<PathBuf> {
        let file = child::file_of(&self.program.program())?.canonicalize().ok()?;
        let name = file.file_name()?.to_string_lossy();
        let mut begins = [0; 4];
        File::open(&file).ok()?.read_exact(&mut begins).ok()?;
        if begins != ELF || !COMPILERS.iter().any(|one| name.contains(one)) {
            return None;
        }
        let facts = file.metadata().ok()?;
        let changed = facts.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let told = format!("{} {} {}", file.display(), facts.len(), changed.as_nanos());
        let digest = hex(&Sha256::digest(told));
        Some(self.notes.as_ref()?.join(format!("{}.compiler", &digest[..16])))
    }
}

/// The number after "version" in what a clang says.
fn major(says: &str) -> Option<u32> {
    let (_, after) = says.split_once("version ")?;
    after.split('.').next()?.parse().ok()
}

/// The error of a compiler that did not come to an end.
pub(crate) fn refusal(program: &child::Compiler, source: &Path, why: Unended) -> PolicyError {
    match why {
        why if child::Compiler::is_missing(&why) => {
            PolicyError::CompilerMissing { command: program.program() }
        }
        Unended::Io(cause) => io_error("run", Path::new(&program.program()), cause),
        Unended::Stopped => PolicyError::Interrupted { path: source.to_owned() },
        why => PolicyError::CompilerEnded {
            path: source.to_owned(),
            compiler: program.command(),
            why: child::Compiler::excuse(&why),
        },
    }
}
