//! Policies: one C file each, built for this machine and loaded in private copies.
//!
//! [`compile`] turns a `.bpf.c` file into a [`Policy`], which says what the policy offers:
//! tunables and named sets of them, maps, arrays that its loader fills. [`Policy::load`] makes a
//! copy of it that shares no variable with any other copy, so that many simulations may run at
//! once. Nothing here knows what a simulation is.

pub mod abi;
mod built;
mod compile;
mod debug_info;
mod error;
mod load;
mod object_file;
mod sets;
mod source_text;
mod spelling;
mod tunable;

use std::path::PathBuf;
use std::sync::Arc;

pub use built::ObjectCopy;
pub use compile::{Compiler, compile, compile_while};
pub use error::PolicyError;
pub use load::{Loaded, LoadedMap, Native};
pub use object_file::{LoaderArray, MapDefinition};
pub use sets::TunableSet;
pub use spelling::nearest;
pub use tunable::Tunable;

use object_file::Global;

/// A compiled policy: everything there is to know about it without running it.
///
/// Cloning is cheap: the image is shared.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The file's name without `.bpf.c`.
    pub name: String,
    /// Its source, as the path was given.
    pub source: PathBuf,
    /// SHA-256 in hexadecimal of the source with all that it includes (comments left out),
    /// the compiler's version and its flags: equal digests are equal policies.
    pub source_digest: String,
    /// The built object in the cache.
    pub object_path: PathBuf,
    /// The object's bytes; for one that a kernel loads, those of its variables.
    pub image: Arc<[u8]>,
    /// What the compiler complained about without refusing; empty when there was nothing, or
    /// when the object was in the cache already.
    pub warnings: String,
    /// The idea in one line, from the source's first comment; empty where it has none.
    pub description: String,
    /// What a user may set, in the order of the source's definitions.
    pub tunables: Vec<Tunable>,
    /// Values of tunables that go by a name, in the order of their file beside the source.
    pub sets: Vec<TunableSet>,
    /// What whoever loads the policy may fill in.
    pub arrays: Vec<LoaderArray>,
    /// What whoever loads the policy must provide.
    pub maps: Vec<MapDefinition>,
    code: Code,
}

/// What runs.
#[derive(Clone, Debug)]
enum Code {
    /// This machine's own instructions, in the image, and where variables lie in it.
    Native(Arc<[Global]>),
    /// The object that a kernel loads, whose variables are the image, and which of its tables
    /// holds the operations.
    Object { object: Arc<bytecode::Object>, operations: usize },
}
