//! A C file becomes the object that a kernel loads, once for each text it can have.
//!
//! Objects are kept in a folder under a name that holds the digest of all that went into
//! them, and appear there whole or not at all: many processes may share the folder.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use child::Ended;
use sha2::{Digest, Sha256};

use crate::compiler::{Compiler, refusal};
use crate::error::io_error;
use crate::loader::{self, Loader, Sources};
use crate::texts::{Texts, hex};
use crate::{Policy, PolicyError, whole_file};

const SUFFIX: &str = ".bpf.c";
const BUILT_SUFFIX: &str = ".bpf.o";
/// How options of a compiler begin that name headers, which come before those that are here.
const HEADER_OPTIONS: [&str; 2] = [" -I", " -i"];

/// How a clang is told to translate for BPF.
const TARGET: [&str; 2] = ["-target", "bpf"];

/// How every policy is translated. `-mcpu=v3` is what every kernel with sched_ext takes. Overflow
/// and aliasing are as in the kernel. Where memory ends clang takes itself for broken, and would
/// leave files in TMPDIR.
const FLAGS: [&str; 12] = [
    "-std=gnu17",
    "-O2",
    "-g",
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-fno-color-diagnostics",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-mcpu=v3",
    "-ffile-compilation-dir=.",
    "-fno-crash-diagnostics",
];

/// Where objects are.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Where those that are built are kept.
    pub cache: PathBuf,
    /// Where those lie that came with the program, if it has some: they need no compiler.
    pub shipped: Option<PathBuf>,
    /// The program `schedlab-guest`, which joins objects of several sources, if it is there.
    pub linker: Option<PathBuf>,
}

/// Takes the object of the policy in `source` from where `objects` are, or builds it. Where a
/// loader's file is `source`, or stands beside it, it is for the object or source that it names.
///
/// `include_dirs` are searched for headers, in order. Warnings are no errors;
/// [`Policy::warnings`] has them. `compiler` is asked for where an object does not come with the
/// program. `goes_on` is asked many times a second while one is at work; false ends that.
///
/// # Errors
///
/// [`PolicyError`] if the source is not a policy, does not compile (with the compiler's own
/// words), if a file, such as that of its tunable sets, or the compiler cannot be used, or if
/// `goes_on` said no.
pub fn compile_while(
    source: &Path,
    include_dirs: &[PathBuf],
    objects: &Objects,
    compiler: impl FnOnce() -> Result<Compiler, PolicyError>,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Policy, PolicyError> {
    let name = policy_name(source)?;
    let Some(loader) = Loader::of(source, name)? else {
        return build(source, include_dirs, objects, compiler, goes_on);
    };
    create(&objects.cache)?;
    let policy = if let Some(sources) = loader.sources()? {
        let dirs: Vec<PathBuf> = sources.include.iter().chain(include_dirs).cloned().collect();
        join(name, &sources, &dirs, objects, &compiler()?, goes_on)?
    } else {
        let object = loader.object_for(source, name)?;
        let is_built = object.extension() == Some(OsStr::new("o"));
        match is_built {
            true => Policy::of_object(name, &object)?,
            false => build(&object, include_dirs, objects, compiler, goes_on)?,
        }
    };
    policy.with_loader(name, source, loader, Some(&objects.cache))
}

/// The policy `name` of several sources, which are built each by itself.
fn join(
    name: &str,
    sources: &Sources,
    include_dirs: &[PathBuf],
    objects: &Objects,
    compiler: &Compiler,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Policy, PolicyError> {
    let (mut parts, mut warnings, mut whole) = (Vec::new(), Vec::new(), Sha256::new());
    for source in &sources.paths {
        let texts = Texts::read(source, include_dirs)?;
        let source_path = source.canonicalize().map_err(|cause| io_error("read", source, cause))?;
        let options = &sources.options;
        let mut build =
            Build { compiler, source, source_path, include_dirs, options, goes_on: &mut *goes_on };
        let digest = build.digest(&texts)?;
        whole.update(&digest);
        let path = objects.cache.join(format!("{name}-{digest}.part.o"));
        if !path.exists() {
            warnings.push(build.store(&path)?);
        }
        parts.push(path);
    }
    let path = match &parts[..] {
        [one] => one.clone(),
        _ => objects.cache.join(format!("{name}-{}.joined.o", hex(&whole.finalize()))),
    };
    if !path.exists() {
        let linker = objects.linker.as_ref().ok_or(PolicyError::NoLinker)?;
        let words = [linker.as_os_str(), OsStr::new("link")].map(OsStr::to_owned);
        let linker = child::Compiler::of_words(words.to_vec());
        whole_file::make(&path, |unfinished| {
            let files = [unfinished.to_owned()].into_iter().chain(parts.iter().cloned());
            let ended = linker.run(files, goes_on);
            let ended = ended.map_err(|why| refusal(&linker, &sources.paths[0], why))?;
            let output = linker.complaint(&ended);
            let reason = format!("its objects cannot be joined:\n{output}");
            let path = path.clone();
            ended.status.success().then_some(()).ok_or(PolicyError::NoObject { path, reason })
        })?;
    }
    let texts = Texts::read(&sources.paths[0], include_dirs)?;
    warnings.retain(|one| !one.is_empty());
    Policy::of_file(name, &sources.paths[0], &path, &texts, warnings.join("\n"))
}

fn create(cache: &Path) -> Result<(), PolicyError> {
    fs::create_dir_all(cache).map_err(|cause| io_error("create", cache, cause))
}

/// The policy in the C file `source`.
fn build(
    source: &Path,
    include_dirs: &[PathBuf],
    objects: &Objects,
    compiler: impl FnOnce() -> Result<Compiler, PolicyError>,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Policy, PolicyError> {
    let name = policy_name(source)?;
    if !source.as_os_str().to_string_lossy().ends_with(SUFFIX) {
        return Err(PolicyError::NotASource { path: source.to_owned() });
    }
    let texts = Texts::read(source, include_dirs)?;
    let shipped = objects.shipped.as_ref().zip(name_by_text(name, &texts));
    let shipped = shipped.map(|(folder, file_name)| folder.join(file_name));
    if let Some(path) = shipped.filter(|path| path.exists()) {
        return Policy::of_file(name, source, &path, &texts, String::new());
    }
    let source_path = source.canonicalize().map_err(|cause| io_error("read", source, cause))?;
    let compiler = &compiler()?;
    let mut build = Build { compiler, source, source_path, include_dirs, options: &[], goes_on };
    let path = objects.cache.join(format!("{name}-{}.bpf.o", build.digest(&texts)?));
    create(&objects.cache)?;
    let warnings = if path.exists() { String::new() } else { build.store(&path)? };
    Policy::of_file(name, source, &path, &texts, warnings).map_err(|error| match error {
        PolicyError::NoObject { path, .. } => PolicyError::Spoiled { path },
        other => other,
    })
}

/// The name of the policy's object among those that come with the program; `None` if it has
/// headers that only a compiler finds, so that its text does not decide the object.
///
/// # Errors
///
/// [`PolicyError`] if the source is not a policy, or cannot be read.
pub fn shipped_name(
    source: &Path,
    include_dirs: &[PathBuf],
) -> Result<Option<String>, PolicyError> {
    Ok(name_by_text(policy_name(source)?, &Texts::read(source, include_dirs)?))
}

fn name_by_text(name: &str, texts: &Texts) -> Option<String> {
    texts.is_whole.then(|| format!("{name}-{}.bpf.o", texts.digest(&FLAGS)))
}

/// Does what [`compile_while`] does, with the compiler that is found, and nothing shipped.
///
/// # Errors
///
/// Those of [`compile_while`].
pub fn compile(
    source: &Path,
    include_dirs: &[PathBuf],
    cache_dir: &Path,
) -> Result<Policy, PolicyError> {
    let objects = Objects { cache: cache_dir.to_owned(), ..Objects::default() };
    compile_while(
        source,
        include_dirs,
        &objects,
        || Compiler::find(None, Some(cache_dir)),
        &mut || true,
    )
}

/// One translation of one source.
struct Build<'a> {
    compiler: &'a Compiler,
    /// As it was given.
    source: &'a Path,
    /// As the compiler is given it.
    source_path: PathBuf,
    include_dirs: &'a [PathBuf],
    /// What the compiler is told besides.
    options: &'a [String],
    goes_on: &'a mut dyn FnMut() -> bool,
}

impl Build<'_> {
    /// Digest of all that decides the object. Where the files lie is left out.
    fn digest(&mut self, texts: &Texts) -> Result<String, PolicyError> {
        let version = self.compiler.version(self.goes_on)?;
        let command = [&[self.compiler.program().command()], self.options].concat().join(" ");
        let text = texts.digest(&FLAGS);
        // What is not ours to find, such as the compiler's own headers, shows here only.
        let is_whole = texts.is_whole && !HEADER_OPTIONS.iter().any(|one| command.contains(one));
        let rest = if is_whole { Vec::new() } else { self.translate(&["-E"], None)?.stdout };
        let mut hasher = Sha256::new();
        for part in [text.as_bytes(), version.as_bytes(), command.as_bytes(), &rest] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Ok(hex(&hasher.finalize()))
    }

    /// Builds the object beside `object_path`, then moves it there. Returns the warnings.
    fn store(&mut self, object_path: &Path) -> Result<String, PolicyError> {
        let output =
            whole_file::make(object_path, |unfinished| self.translate(&["-c"], Some(unfinished)))?;
        Ok(String::from_utf8_lossy(&output.stderr).trim_end().to_owned())
    }

    /// Runs the compiler in the source's folder: the object quotes lines of the source, which the
    /// compiler reads by the short name that the object has of it.
    fn translate(&mut self, mode: &[&str], output: Option<&Path>) -> Result<Ended, PolicyError> {
        let folder = self.source_path.parent().unwrap_or(Path::new("/"));
        let absolute =
            |path: &Path| std::path::absolute(path).map_err(|cause| io_error("find", path, cause));
        let program = self.compiler.program();
        let has_target = program.command().contains(TARGET[0]);
        let target = TARGET.iter().filter(|_| !has_target);
        let options = target.chain(&FLAGS).chain(mode).copied();
        let options = options.chain(self.options.iter().map(String::as_str));
        let mut arguments: Vec<OsString> = options.map(OsString::from).collect();
        // An object is the same wherever a checkout lies: its bytes are part of a deterministic
        // machine. Of several that fit, clang takes the last.
        arguments.push(mapped(folder, ""));
        for (at, dir) in self.include_dirs.iter().enumerate().rev() {
            let name = if at == 0 { "scx-include/".to_owned() } else { format!("include-{at}/") };
            arguments.push(mapped(&absolute(dir)?, &name));
        }
        for dir in self.include_dirs {
            arguments.extend([OsString::from("-I"), absolute(dir)?.into()]);
        }
        if let Some(path) = output {
            arguments.extend([OsString::from("-o"), absolute(path)?.into()]);
        }
        arguments.push(self.source_path.clone().into());
        let ended = program.run_in(folder, &arguments, self.goes_on);
        let ended = ended.map_err(|why| refusal(program, self.source, why))?;
        if !ended.status.success() {
            return Err(PolicyError::Compilation {
                path: self.source.to_owned(),
                compiler: program.command(),
                output: program.complaint(&ended),
            });
        }
        Ok(ended)
    }
}

/// What has an object call `folder` by `name`.
fn mapped(folder: &Path, name: &str) -> OsString {
    let mut option = OsString::from("-ffile-prefix-map=");
    option.push(folder);
    option.push(format!("/={name}"));
    option
}

/// What a policy is called whose file this is.
fn policy_name(source: &Path) -> Result<&str, PolicyError> {
    if !source.exists() {
        return Err(PolicyError::SourceMissing { path: source.to_owned() });
    }
    let name = source.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let name = [SUFFIX, BUILT_SUFFIX, loader::SUFFIX].iter().find_map(|end| name.strip_suffix(end));
    match name {
        Some(name) if !name.is_empty() && source.is_file() => Ok(name),
        _ => Err(PolicyError::NotASource { path: source.to_owned() }),
    }
}
