//! A cgroup that bounds how many tasks an attempt can make.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::predict;

/// A cgroup of our own, which is removed when this is dropped.
#[derive(Debug)]
pub struct Cage {
    path: PathBuf,
}

/// How long tasks may take to be gone.
const EMPTIED_WITHIN: Duration = Duration::from_secs(10);

impl Cage {
    /// A cage for so many tasks, below this process's own cgroup.
    ///
    /// # Errors
    ///
    /// Where there is no pids controller or it is not ours: mostly, if not root.
    pub fn new(tasks: u64) -> io::Result<Self> {
        let text = fs::read_to_string("/proc/self/cgroup")?;
        let mut last = io::Error::from(io::ErrorKind::Unsupported);
        for (root, inside) in text.lines().filter_map(predict::pids_hierarchy) {
            let name = format!("{PREFIX}{}", std::process::id());
            let above = root.join(inside.trim_start_matches('/'));
            remove_left_ones(&above);
            let path = above.join(name);
            match Self::at(&path, tasks) {
                Ok(cage) => return Ok(cage),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn at(path: &Path, tasks: u64) -> io::Result<Self> {
        fs::create_dir(path)?;
        let cage = Cage { path: path.to_owned() };
        fs::write(path.join("pids.max"), tasks.to_string())?;
        Ok(cage)
    }

    /// The file that a process writes its number to in order to get in.
    pub fn door(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// How often a task was refused because of the cage.
    pub fn refusals(&self) -> u64 {
        let text = fs::read_to_string(self.path.join("pids.events")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("max "));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    }

    /// Ends whoever is still in, and waits until it is empty. Whether it is.
    pub fn empty(&self) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < EMPTIED_WITHIN {
            let text = fs::read_to_string(self.door()).unwrap_or_default();
            let pids: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
            if pids.is_empty() {
                return true;
            }
            for pid in pids {
                let pid = nix::unistd::Pid::from_raw(pid);
                let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

/// What the name of a cage begins with; the number of its process follows.
const PREFIX: &str = "schedlab-";

/// Removes the cages of programs that were killed.
fn remove_left_ones(above: &Path) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(PREFIX).and_then(|number| number.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner.to_string()).exists()) {
            // One that is not empty cannot be removed.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        self.empty();
        let _ = fs::remove_dir(&self.path);
    }
}
