//! What stands in the files by which a kernel tells of itself.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::records::{FILE_BYTES_MAX, FILES_MAX};

/// The text of each file, by its path; of a directory, that of each file in it. What is not there
/// or cannot be read is left out: kernels differ in what they tell.
pub(super) fn texts(paths: &[PathBuf]) -> BTreeMap<String, String> {
    let files = paths.iter().flat_map(|path| files_of(path));
    files.filter_map(|path| Some((path.display().to_string(), text(&path)?))).collect()
}

/// The file itself, or the files in the directory, the first of them by name.
fn files_of(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else { return vec![path.to_owned()] };
    let mut found: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    found.retain(|path| path.is_file());
    found.sort();
    found.truncate(FILES_MAX);
    found
}

fn text(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_BYTES_MAX as u64).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_stands_for_its_files_and_what_is_not_there_is_left_out() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("some/deeper")).unwrap();
        fs::write(at("some/b"), "two").unwrap();
        fs::write(at("some/a"), "one").unwrap();
        fs::write(at("long"), "x".repeat(FILE_BYTES_MAX + 1)).unwrap();
        let found = texts(&[at("some"), at("nowhere"), at("long")]);
        let named = |name: &str| found[&at(name).display().to_string()].as_str();
        assert_eq!(found.len(), 3);
        assert_eq!((named("some/a"), named("some/b")), ("one", "two"));
        assert_eq!(named("long").len(), FILE_BYTES_MAX);
    }
}
