//! What the examples take from the repository.

use policy::Policy;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// The repository.
pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Ends the program because of an error.
pub fn stop(error: &dyn Display) -> ! {
    eprintln!("error: {error}");
    std::process::exit(2)
}

/// The policies of these names, or of these objects (`.bpf.o`); all of the repository if there are
/// none.
pub fn policies(mut names: Vec<String>) -> Vec<Policy> {
    let folder = root().join("policies");
    if names.is_empty() {
        names = all_policies(&folder);
    }
    let cache = std::env::temp_dir().join("schedlab-examples");
    let take = |name: &String| match name.ends_with(".bpf.o") {
        true => Policy::read(Path::new(name)),
        false => {
            let source = folder.join(format!("{name}.bpf.c"));
            policy::compile(&source, &[folder.join("include")], &cache)
        }
    };
    names.iter().map(|name| take(name).unwrap_or_else(|error| stop(&error))).collect()
}

fn all_policies(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap_or_else(|error| stop(&error));
    let stem = |name: String| name.strip_suffix(".bpf.c").map(str::to_owned);
    let names = files.filter_map(|file| stem(file.ok()?.file_name().into_string().ok()?));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}
