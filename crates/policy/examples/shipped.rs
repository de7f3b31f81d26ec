//! Builds the objects that come with schedlab, which then needs no compiler for its policies.
//!
//! `cargo run -p policy --example shipped -- POLICIES OUT`: those of all `*.bpf.c` in the folder
//! POLICIES, whose headers are in `POLICIES/include`, into the folder OUT.

use policy::{Compiler, Objects, compile_while, shipped_name};
use std::error::Error;
use std::fs;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let folders: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [policies, out] = &folders[..] else { return Err("usage: shipped POLICIES OUT".into()) };
    let include = [policies.join("include")];
    let objects = Objects { cache: out.join("cache"), ..Objects::default() };
    let compiler = Compiler::find(None, None)?;
    fs::create_dir_all(out)?;
    let mut sources: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(policies)? {
        sources.push(entry?.path());
    }
    sources.retain(|path| path.to_string_lossy().ends_with(".bpf.c"));
    for source in &sources {
        let built =
            compile_while(source, &include, &objects, || Ok(compiler.clone()), &mut || true)?;
        let name = shipped_name(source, &include)?.ok_or("a header is not among the shipped")?;
        fs::rename(&built.object_path, out.join(name))?;
    }
    fs::remove_dir_all(&objects.cache)?;
    println!("built {} objects with {}", sources.len(), compiler.describe()?.1);
    Ok(())
}
