//! What the simulator's tests share: policies of the repository, small machines, workloads and
//! jobs, runs of the ones on the others, what timelines say, and laws of more than one policy.

mod jobs;
mod laws;
mod machines;
mod runs;
mod timelines;
mod workloads;

pub use jobs::*;
pub use laws::*;
pub use machines::*;
pub use runs::*;
pub use timelines::*;
pub use workloads::*;

use policy::{Policy, PolicyError};
use simulator::Show;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

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

/// What the policy of a run prints.
#[derive(Default)]
pub struct Printed(Arc<Mutex<Vec<String>>>);

impl Printed {
    /// Who keeps each line here.
    pub fn show(&self) -> Show {
        let kept = self.0.clone();
        Show::new(move |line| kept.lock().expect("whole").push(line.to_owned()))
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().expect("whole").clone()
    }
}

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles a C file, relative to the repository.
pub fn compile(source: &str) -> Policy {
    try_compile(&root().join(source)).unwrap_or_else(|error| panic!("{source}: {error}"))
}

/// The policy of this text, in a file `wrong.bpf.c`.
pub fn compile_text(text: &str) -> Policy {
    compile_with("", text)
}

/// The same, with a loader's file of this text.
pub fn compile_with(loader: &str, text: &str) -> Policy {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("wrong.bpf.c");
    std::fs::write(&source, text).expect("a file");
    std::fs::write(folder.path().join("wrong.loader.toml"), loader).expect("a file");
    try_compile(&source).unwrap_or_else(|error| panic!("{error}"))
}

/// Compiles a C file, wherever it is.
pub fn try_compile(source: &Path) -> Result<Policy, PolicyError> {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("policies");
    policy::compile(source, &[root().join("policies/include")], &cache)
}

/// The shipped policy of this name.
pub fn shipped(name: &str) -> Policy {
    compile(&format!("policies/{name}.bpf.c"))
}

/// A shipped policy, and the values of its set if the text names one, as in `cfs@2.6.31`.
pub fn shipped_with_set(text: &str) -> (Policy, BTreeMap<String, i64>) {
    let Some((name, set)) = text.split_once('@') else { return (shipped(text), BTreeMap::new()) };
    let policy = shipped(name);
    let values = policy.set(set).unwrap_or_else(|error| panic!("{error}")).values.clone();
    (policy, values)
}
