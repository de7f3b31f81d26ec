//! Files that appear where they are wanted whole or not at all.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::PolicyError;
use crate::error::io_error;

/// Has `make` make a file beside `path`, then moves it there.
pub(crate) fn make<T>(
    path: &Path,
    make: impl FnOnce(&Path) -> Result<T, PolicyError>,
) -> Result<T, PolicyError> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let unfinished = path.with_extension(format!("{}.{number}.tmp", std::process::id()));
    let made = make(&unfinished).and_then(|made| {
        fs::rename(&unfinished, path).map_err(|cause| io_error("write", path, cause))?;
        Ok(made)
    });
    if made.is_err() {
        // Nothing may be there; the reason of the failure is what matters.
        let _ = fs::remove_file(&unfinished);
    }
    made
}

/// Writes `bytes` to a file.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), PolicyError> {
    make(path, |unfinished| {
        fs::write(unfinished, bytes).map_err(|cause| io_error("write", path, cause))
    })
}
