//! What the simulator's tests share: policies of the repository, small machines, workloads and
//! jobs, runs of the ones on the others, and what timelines say.

mod jobs;
mod machines;
mod runs;
mod timelines;
mod workloads;

pub use jobs::*;
pub use machines::*;
pub use runs::*;
pub use timelines::*;
pub use workloads::*;

use policy::{Policy, PolicyError};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Nanoseconds in a microsecond.
pub const US: u64 = 1_000;
/// Nanoseconds in a millisecond.
pub const MS: u64 = 1_000_000;
/// Nanoseconds in a second.
pub const S: u64 = 1_000_000_000;

/// Every policy the repository ships.
pub const POLICIES: [&str; 11] = [
    "fifo",
    "round_robin",
    "linux_2_4",
    "o1",
    "cfs_2007",
    "rfs",
    "cfs",
    "cfs_gavl",
    "timering",
    "bfs",
    "eevdf",
];

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles a C file, relative to the repository.
pub fn compile(source: &str) -> Policy {
    if std::env::var_os("POLICIES_AS_OBJECTS").is_some() {
        return compile_object(source);
    }
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("policies");
    let include = [root().join("policies/include")];
    policy::compile(&root().join(source), &include, &cache)
        .unwrap_or_else(|error| panic!("{source}: {error}"))
}

/// Compiles a C file, relative to the repository, to the object that a kernel loads; once a run of
/// the tests.
pub fn compile_object(source: &str) -> Policy {
    static BUILT: Mutex<BTreeMap<String, Policy>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    built.entry(source.to_owned()).or_insert_with(|| build_object(&root().join(source))).clone()
}

fn build_object(source: &Path) -> Policy {
    try_object(source).unwrap_or_else(|error| panic!("{}: {error}", source.display()))
}

/// Compiles a C file to the object that a kernel loads, and reads it.
pub fn try_object(source: &Path) -> Result<Policy, PolicyError> {
    let made = tempfile::tempdir().expect("a folder");
    let beside = fs::read_dir(source.parent().expect("a folder")).expect("a folder");
    for file in beside.map(|one| one.expect("a file").path()) {
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        if name.ends_with(".bpf.c") || name.ends_with(".sets.toml") {
            fs::copy(&file, made.path().join(name)).expect("a copy");
        }
    }
    let object = made.path().join(source.file_name().expect("a name")).with_extension("o");
    let include = root().join("policies/include");
    let mut clang = Command::new("clang-19");
    clang.args(["-std=gnu17", "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-fwrapv"]);
    clang.args(["-fno-strict-aliasing", "-c", "-I"]).arg(include).arg("-o").arg(&object);
    let done = clang.arg(source).output().expect("clang-19 is installed");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Policy::read(&object)
}

/// The shipped policy of this name.
pub fn shipped(name: &str) -> Policy {
    compile(&format!("policies/{name}.bpf.c"))
}

/// What a set of the policy settles.
pub fn values_of_set<'a>(policy: &'a Policy, set: &str) -> Vec<(&'a str, i64)> {
    let set = policy.set(set).unwrap_or_else(|error| panic!("{error}"));
    set.values.iter().map(|(name, value)| (name.as_str(), *value)).collect()
}

/// A shipped policy, and the values of its set if the text names one, as in `cfs@2.6.31`.
pub fn shipped_with_set(text: &str) -> (Policy, BTreeMap<String, i64>) {
    let (name, set) = text.split_once('@').unwrap_or((text, ""));
    let policy = shipped(name);
    let values = if set.is_empty() { Vec::new() } else { values_of_set(&policy, set) };
    let values = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    (policy, values)
}
