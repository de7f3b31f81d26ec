//! Copies what schedlab ships as files to where maturin takes the wheel's `schedlab/data` from.
//!
//! Policies, machines, workloads, experiments, suites and published tables lie at the root of the
//! repository, where people look for them; an installed package needs them beside its modules. So
//! it does what is compiled when queues of others race, and the objects of the policies, if the
//! environment names a folder that has them, as `make wheel` does. Their names say of which text
//! each is, so that one of an older text is never taken.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

const SHIPPED: [&str; 8] = [
    "policies",
    "machines",
    "workloads",
    "experiments",
    "suites",
    "published",
    "crates/race/include",
    "crates/race/peers",
];

const OBJECTS: &str = "SCHEDLAB_OBJECTS";

fn main() -> io::Result<()> {
    let variable = |name| env::var_os(name).map(PathBuf::from).ok_or(io::ErrorKind::NotFound);
    let root = variable("CARGO_MANIFEST_DIR")?.join("../..");
    let data = variable("OUT_DIR")?.join("data");
    if data.exists() {
        fs::remove_dir_all(&data)?;
    }
    for directory in SHIPPED {
        println!("cargo::rerun-if-changed={}", root.join(directory).display());
        copy_directory(&root.join(directory), &data.join(directory)).map_err(|error| {
            io::Error::new(error.kind(), format!("copying {directory}/ of the repository: {error}"))
        })?;
    }
    println!("cargo::rerun-if-env-changed={OBJECTS}");
    if let Some(objects) = env::var_os(OBJECTS).map(PathBuf::from) {
        println!("cargo::rerun-if-changed={}", objects.display());
        copy_directory(&objects, &data.join("objects"))?;
    }
    Ok(())
}

fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, copy) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_directory(&source, &copy)?;
        } else {
            fs::copy(&source, &copy)?;
        }
    }
    Ok(())
}
