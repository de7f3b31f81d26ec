//! A C file becomes a shared object exactly once for each text it can have.
//!
//! Objects are kept in a folder under a name that holds the digest of all that went into
//! them, and appear there whole or not at all: many processes may share the folder.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use child::{Ended, Unended};
use sha2::{Digest, Sha256};

use crate::object_file::{self, Contents};
use crate::source_text::SourceText;
use crate::{Code, Policy, PolicyError, sets};

const SUFFIX: &str = ".bpf.c";

/// How every policy is translated. Overflow and aliasing are defined as in the kernel, so that
/// a policy does not behave differently with another compiler.
const TRANSLATION_FLAGS: [&str; 14] = [
    "-std=gnu17",
    "-O2",
    "-g",
    "-gz=none",
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-fdiagnostics-color=never",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-semantic-interposition",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fno-common",
];

/// A call that the headers do not offer fails here, with its line, and not when loading.
const LINK_FLAGS: [&str; 2] = ["-shared", "-Wl,-z,defs"];

/// Builds the policy in `source`, or takes it from `cache_dir` if it was built before.
///
/// `include_dirs` are searched for headers, in order. `$CC` (default `cc`) is the compiler.
/// Warnings are no errors; [`Policy::warnings`] has them.
///
/// # Errors
///
/// [`PolicyError`] if the source is not a policy, does not compile (with the compiler's own
/// words), or if a file, such as that of its tunable sets, or the compiler cannot be used.
pub fn compile(
    source: &Path,
    include_dirs: &[PathBuf],
    cache_dir: &Path,
) -> Result<Policy, PolicyError> {
    compile_while(source, include_dirs, cache_dir, &mut || true)
}

/// Does what [`compile`] does. `goes_on` is asked many times a second while the compiler is at
/// work; false ends that.
///
/// # Errors
///
/// Those of [`compile`], and [`PolicyError::Interrupted`].
pub fn compile_while(
    source: &Path,
    include_dirs: &[PathBuf],
    cache_dir: &Path,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Policy, PolicyError> {
    Compiler::from_environment().build_while(source, include_dirs, cache_dir, goes_on)
}

/// A C compiler that takes the options gcc and clang share.
#[derive(Clone, Debug)]
pub struct Compiler {
    program: child::Compiler,
}

impl Compiler {
    /// The compiler that `$CC` names, options included; `cc` if it names none.
    pub fn from_environment() -> Self {
        let command = std::env::var("CC").unwrap_or_default();
        Compiler::new(if command.trim().is_empty() { "cc" } else { &command })
    }

    /// The compiler `command`: a program and, after spaces, options for every call.
    pub fn new(command: &str) -> Self {
        Compiler { program: child::Compiler::new(command) }
    }

    /// The same one, ended if it takes longer with a source.
    pub fn within(mut self, time_max: Duration) -> Self {
        self.program.time_max = time_max;
        self
    }

    /// Does what [`compile`] does, with this compiler.
    ///
    /// # Errors
    ///
    /// Those of [`compile`].
    pub fn build(
        &self,
        source: &Path,
        include_dirs: &[PathBuf],
        cache_dir: &Path,
    ) -> Result<Policy, PolicyError> {
        self.build_while(source, include_dirs, cache_dir, &mut || true)
    }

    fn build_while(
        &self,
        source: &Path,
        include_dirs: &[PathBuf],
        cache_dir: &Path,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Policy, PolicyError> {
        let name = policy_name(source)?;
        let text = read_text(source)?;
        let mut build = Build { compiler: &self.program, source, include_dirs, goes_on };
        let source_digest = build.digest()?;

        fs::create_dir_all(cache_dir).map_err(|cause| io_error("create", cache_dir, cause))?;
        let object_path = cache_dir.join(format!("{name}-{source_digest}.so"));
        let warnings =
            if object_path.exists() { String::new() } else { build.store(&object_path)? };
        let image: Arc<[u8]> =
            fs::read(&object_path).map_err(|cause| io_error("read", &object_path, cause))?.into();

        let all_text = with_headers(&text, include_dirs);
        let all_text = SourceText::new(&all_text);
        let Contents { tunables, arrays, maps, globals } =
            object_file::read(&name, &object_path, &image, &all_text)?;
        let sets = sets::read(source, &name, &tunables)?;
        Ok(Policy {
            name,
            source: source.to_owned(),
            source_digest,
            object_path,
            image,
            warnings,
            description: SourceText::new(&text).description(),
            tunables,
            sets,
            arrays,
            maps,
            code: Code::Native(globals),
        })
    }
}

/// One translation of one source.
struct Build<'a> {
    compiler: &'a child::Compiler,
    source: &'a Path,
    include_dirs: &'a [PathBuf],
    goes_on: &'a mut dyn FnMut() -> bool,
}

impl Build<'_> {
    /// Digest of the text after preprocessing, so that headers count and comments do not, and
    /// of what else decides the object. Where the files lie is left out.
    fn digest(&mut self) -> Result<String, PolicyError> {
        let text = self.translate(&["-E", "-P"], None)?.stdout;
        let flags = [TRANSLATION_FLAGS.join(" "), LINK_FLAGS.join(" ")].join(" ");
        let version = self.version()?;
        let mut hasher = Sha256::new();
        for part in [
            text.as_slice(),
            version.as_bytes(),
            flags.as_bytes(),
            self.compiler.options().collect::<Vec<_>>().join(" ").as_bytes(),
            std::env::consts::ARCH.as_bytes(),
        ] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Builds the object beside `object_path`, then moves it there. Returns the warnings.
    fn store(&mut self, object_path: &Path) -> Result<String, PolicyError> {
        static BUILDS: AtomicU64 = AtomicU64::new(0);
        let number = BUILDS.fetch_add(1, Ordering::Relaxed);
        let unfinished = object_path.with_extension(format!("{}.{number}.tmp", std::process::id()));
        let built = self.translate(&LINK_FLAGS, Some(&unfinished)).and_then(|output| {
            fs::rename(&unfinished, object_path)
                .map_err(|cause| io_error("write", object_path, cause))?;
            Ok(printed(&output))
        });
        if built.is_err() {
            // Nothing may be there; the reason of the failure is what matters.
            let _ = fs::remove_file(&unfinished);
        }
        built
    }

    fn translate(&mut self, mode: &[&str], output: Option<&Path>) -> Result<Ended, PolicyError> {
        let flags = TRANSLATION_FLAGS.iter().chain(mode).map(OsStr::new);
        let includes = self.include_dirs.iter().flat_map(|dir| [OsStr::new("-I"), dir.as_os_str()]);
        let target = output.iter().flat_map(|path| [OsStr::new("-o"), path.as_os_str()]);
        let arguments = flags.chain(includes).chain(target).chain([self.source.as_os_str()]);
        let ended = self.run(&arguments.collect::<Vec<_>>())?;
        if !ended.status.success() {
            return Err(PolicyError::Compilation {
                path: self.source.to_owned(),
                compiler: self.compiler.command().to_owned(),
                output: self.compiler.complaint(&ended),
            });
        }
        Ok(ended)
    }

    /// First line of what the compiler says about itself: name, distribution, version.
    fn version(&mut self) -> Result<String, PolicyError> {
        let ended = self.run(&[OsStr::new("--version")])?;
        let text = String::from_utf8_lossy(&ended.stdout);
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }

    fn run(&mut self, arguments: &[&OsStr]) -> Result<Ended, PolicyError> {
        let ended = self.compiler.run(arguments, self.goes_on);
        ended.map_err(|why| match why {
            why if child::Compiler::is_missing(&why) => {
                PolicyError::CompilerMissing { command: self.compiler.program().to_owned() }
            }
            Unended::Io(cause) => io_error("run", Path::new(self.compiler.program()), cause),
            Unended::Stopped => PolicyError::Interrupted { path: self.source.to_owned() },
            why => PolicyError::CompilerEnded {
                path: self.source.to_owned(),
                compiler: self.compiler.command().to_owned(),
                why: child::Compiler::excuse(&why),
            },
        })
    }
}

fn policy_name(source: &Path) -> Result<String, PolicyError> {
    if !source.exists() {
        return Err(PolicyError::SourceMissing { path: source.to_owned() });
    }
    let name = source.file_name().and_then(OsStr::to_str);
    match name.and_then(|name| name.strip_suffix(SUFFIX)) {
        Some(name) if !name.is_empty() && source.is_file() => Ok(name.to_owned()),
        _ => Err(PolicyError::NotASource { path: source.to_owned() }),
    }
}

fn read_text(source: &Path) -> Result<String, PolicyError> {
    let bytes = fs::read(source).map_err(|cause| io_error("read", source, cause))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The text, and after it that of each header which it names in angle brackets and which is in
/// `include_dirs`, and so on. What is not there is for the compiler to find.
fn with_headers(text: &str, include_dirs: &[PathBuf]) -> String {
    let mut all = text.to_owned();
    let mut names = included(text);
    let mut nr_read = 0;
    while let Some(name) = names.get(nr_read) {
        nr_read += 1;
        let found = include_dirs.iter().find_map(|dir| read_text(&dir.join(name)).ok());
        let Some(header) = found else { continue };
        for name in included(&header) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        all = format!("{all}\n{header}");
    }
    all
}

/// What the text includes in angle brackets.
fn included(text: &str) -> Vec<String> {
    let named = text.lines().filter_map(|line| line.trim_start().strip_prefix("#include <"));
    named.filter_map(|rest| rest.split_once('>')).map(|(name, _)| name.to_owned()).collect()
}

fn printed(output: &Ended) -> String {
    String::from_utf8_lossy(&output.stderr).trim_end().to_owned()
}

fn io_error(action: &'static str, path: &Path, cause: std::io::Error) -> PolicyError {
    PolicyError::Io { action, path: path.to_owned(), cause }
}
