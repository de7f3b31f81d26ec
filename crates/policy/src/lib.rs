//! Policies: one C file each, built as the object that a kernel loads.
//!
//! [`compile`] turns a `.bpf.c` file into a [`Policy`], which says what the policy offers:
//! tunables and named sets of them, maps, arrays that its loader fills. [`Policy::read`] takes an
//! object that somebody built. [`Policy::load`] makes a copy of it that shares no variable with
//! any other copy, so that many simulations may run at once. Nothing here knows what a simulation
//! is.

mod built;
mod compile;
mod compiler;
mod error;
pub mod inside;
mod load;
mod loader;
mod sets;
mod source_text;
mod spelling;
mod table;
mod texts;
mod tunable;
mod whole_file;

use std::path::PathBuf;
use std::sync::Arc;

pub use built::LoaderArray;
pub use compile::{Objects, compile, compile_while, shipped_name};
pub use compiler::Compiler;
pub use error::PolicyError;
pub use load::Loaded;
pub use loader::{Call, Entry, Loader, Made, Piece, Plan, Processor, Topology, Write, plan_behind};
pub use sets::TunableSet;
pub use spelling::nearest;
pub use table::names_of_flags;
pub use tunable::Tunable;

use bytecode::Object;

/// A policy: everything there is to know about it without running it.
///
/// Cloning is cheap: object and image are shared.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The file's name without `.bpf.c`.
    pub name: String,
    /// Its source, as the path was given.
    pub source: PathBuf,
    /// SHA-256 in hexadecimal of its object: equal digests are equal policies.
    pub digest: String,
    /// Where its object is, which a kernel loads too.
    pub object_path: PathBuf,
    /// Whether it came as an object, which somebody else built.
    pub is_built: bool,
    /// The bytes of its variables, section by section, but for sections of zeros.
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
    /// What runs, with what it needs of maps.
    pub object: Arc<Object>,
    /// What its own front end does before it is attached.
    pub loader: Option<Loader>,
    /// Which of the object's tables holds the operations.
    operations: usize,
}
