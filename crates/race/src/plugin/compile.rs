//! A plug-in's source becomes a shared object, once for each text it can have.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use child::{Compiler, Ended, Unended};
use sha2::{Digest, Sha256};

use crate::RaceError;

/// As our own structures are built: optimised, and for every processor of the architecture.
const FLAGS: [&str; 4] = ["-O3", "-fPIC", "-shared", "-fdiagnostics-color=never"];

/// What a source's name ends in, the variable that names its compiler, and the usual one.
const LANGUAGES: [(&str, &str, &str); 4] =
    [(".c", "CC", "cc"), (".cpp", "CXX", "c++"), (".cc", "CXX", "c++"), (".cxx", "CXX", "c++")];
/// Bytes of a digest that are in an object's name.
const DIGEST_BYTES: usize = 16;

/// Builds the plug-in in `source`, C (.c) or C++ (.cpp, .cc, .cxx), or takes it from `cache_dir` if
/// the same text was built before. Returns the shared object's path.
///
/// `include_dir` has `schedlab_race.h`. The compiler is `$CC` or `$CXX`, `cc` or `c++` by default.
/// `goes_on` is asked many times a second while it is at work; false ends that.
///
/// # Errors
///
/// [`RaceError`] if the source does not compile, with the compiler's own words, or if a file or
/// the compiler cannot be used.
pub fn compile(
    source: &Path,
    include_dir: &Path,
    cache_dir: &Path,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<PathBuf, RaceError> {
    let ending = source.extension().and_then(OsStr::to_str).unwrap_or_default();
    let language = LANGUAGES.iter().find(|(known, ..)| &known[1..] == ending);
    let Some(&(_, variable, usual)) = language else {
        return Err(RaceError::NotASource { path: source.to_owned() });
    };
    // A compiler would say the same, but of a file that it calls its own.
    fs::metadata(source).map_err(|cause| io_error("read", source, cause))?;
    let named = std::env::var(variable).unwrap_or_default();
    let compiler = Compiler::new(if named.trim().is_empty() { usual } else { &named });
    let mut build = Build { compiler, variable, source, include_dir, goes_on };

    fs::create_dir_all(cache_dir).map_err(|cause| io_error("create", cache_dir, cause))?;
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    let object = cache_dir.join(format!("{name}-{}.so", build.digest()?));
    if !object.exists() {
        build.store(&object)?;
    }
    Ok(object)
}

/// The name of the source that an object was built from by [`compile`], which is in its own name;
/// another object's own path. Whoever reads a message knows only what he has written.
pub fn source_of(object: &Path) -> PathBuf {
    let name = object.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let source = name.strip_suffix(".so").and_then(|name| name.rsplit_once('-'));
    match source {
        Some((source, digest))
            if digest.len() == 2 * DIGEST_BYTES
                && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
                && LANGUAGES.iter().any(|(ending, ..)| source.ends_with(ending)) =>
        {
            PathBuf::from(source)
        }
        _ => object.to_owned(),
    }
}

struct Build<'a> {
    compiler: Compiler,
    variable: &'static str,
    source: &'a Path,
    include_dir: &'a Path,
    goes_on: &'a mut dyn FnMut() -> bool,
}

impl Build<'_> {
    /// Digest of the text after preprocessing and of what else decides the object.
    fn digest(&mut self) -> Result<String, RaceError> {
        let text = self.translate(&["-E", "-P"], None)?.stdout;
        let version = self.run(&[OsStr::new("--version")])?.stdout;
        let mut hasher = Sha256::new();
        let flags = FLAGS.join(" ");
        for part in [&text, &version, self.compiler.command().as_bytes(), flags.as_bytes()] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Ok(hasher.finalize().iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect())
    }

    /// Builds the object beside where it will be and moves it there: it is there whole or not.
    fn store(&mut self, object: &Path) -> Result<(), RaceError> {
        static BUILDS: AtomicU64 = AtomicU64::new(0);
        let number = BUILDS.fetch_add(1, Ordering::Relaxed);
        let unfinished = object.with_extension(format!("{}.{number}.tmp", std::process::id()));
        let built = self.translate(&[], Some(&unfinished)).and_then(|_| {
            fs::rename(&unfinished, object).map_err(|cause| io_error("write", object, cause))
        });
        if built.is_err() {
            // Nothing may be there; the reason of the failure is what matters.
            let _ = fs::remove_file(&unfinished);
        }
        built
    }

    fn translate(&mut self, mode: &[&str], object: Option<&Path>) -> Result<Ended, RaceError> {
        let flags = FLAGS.iter().chain(mode).map(OsStr::new);
        let include = [OsStr::new("-I"), self.include_dir.as_os_str()];
        let object = object.iter().flat_map(|path| [OsStr::new("-o"), path.as_os_str()]);
        let arguments = flags.chain(include).chain(object).chain([self.source.as_os_str()]);
        let ended = self.run(&arguments.collect::<Vec<_>>())?;
        if ended.status.success() {
            return Ok(ended);
        }
        Err(RaceError::Compilation {
            path: self.source.to_owned(),
            compiler: self.compiler.command(),
            output: self.compiler.complaint(&ended),
        })
    }

    fn run(&mut self, arguments: &[&OsStr]) -> Result<Ended, RaceError> {
        let ended = self.compiler.run(arguments, self.goes_on);
        let program = self.compiler.program();
        ended.map_err(|why| match why {
            why if Compiler::is_missing(&why) => {
                RaceError::CompilerMissing { command: program, variable: self.variable }
            }
            Unended::Io(cause) => io_error("run", Path::new(&program), cause),
            Unended::Stopped => RaceError::Stopped,
            why => RaceError::CompilerEnded {
                path: self.source.to_owned(),
                compiler: self.compiler.command(),
                why: Compiler::excuse(&why),
            },
        })
    }
}

fn io_error(action: &'static str, path: &Path, cause: std::io::Error) -> RaceError {
    RaceError::Io { action, path: path.to_owned(), cause }
}
