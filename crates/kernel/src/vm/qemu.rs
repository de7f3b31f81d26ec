//! The QEMU of this machine.

use std::env;
use std::io;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use super::VmError;
use child::{self, Unended};

/// A QEMU that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qemu {
    /// Its program: a name on PATH, or a path.
    pub program: String,
    /// Its version: major, minor.
    pub version: (u32, u32),
    /// Its version in full, with the distribution's own part.
    pub version_text: String,
}

const PROGRAM: &str = "qemu-system-x86_64";
/// Names another program to use.
const VARIABLE: &str = "SCHEDLAB_QEMU";
/// What telling its version may take; it is done in less than 0.1 s here.
const VERSION_LIMIT: Duration = Duration::from_secs(20);
/// Older ones were not tried.
const OLDEST: (u32, u32) = (6, 2);
/// Earlier ones lose a race while the kernel patches its own code, and the guest dies of it.
/// Seen with 7.2 in 4 of 4 runs, not seen with 10.0.
const FIRST_WITH_SOUND_THREADS: (u32, u32) = (10, 0);

impl Qemu {
    /// The one that `SCHEDLAB_QEMU` names, or the one on PATH. It is asked for its version once.
    pub fn find() -> Result<Qemu, VmError> {
        static KNOWN: Mutex<Vec<Qemu>> = Mutex::new(vec![]);
        let program = env::var(VARIABLE).unwrap_or_else(|_| PROGRAM.to_owned());
        let mut known = KNOWN.lock().expect("nobody panics while it is held");
        if let Some(qemu) = known.iter().find(|qemu| qemu.program == program) {
            return Ok(qemu.clone());
        }
        let found = Qemu::called(program, VERSION_LIMIT)?;
        known.push(found.clone());
        Ok(found)
    }

    /// The one of this name or path, if it tells its version in time.
    fn called(program: String, limit: Duration) -> Result<Qemu, VmError> {
        let asked = child::run(Command::new(&program).arg("--version"), limit, &mut || true);
        let output = match asked {
            Ok(output) => output,
            Err(Unended::Io(cause)) if cause.kind() == io::ErrorKind::NotFound => {
                return Err(VmError::QemuMissing { program });
            }
            Err(Unended::Io(cause)) => {
                return Err(VmError::Process { action: "start", program, cause });
            }
            Err(why) => {
                let reason = format!("asked for its version, {why}");
                return Err(VmError::QemuUnusable { program, reason });
            }
        };
        let said = String::from_utf8_lossy(&output.stdout);
        let Some((version, version_text)) = parse_version(&said) else {
            let reason = format!("it says of its version {:?}", said.trim());
            return Err(VmError::QemuUnusable { program, reason });
        };
        if version < OLDEST {
            let needed = format!("{}.{}", OLDEST.0, OLDEST.1);
            return Err(VmError::QemuTooOld { program, found: version_text, needed });
        }
        Ok(Qemu { program, version, version_text })
    }

    /// Whether guests survive a thread for each of their CPUs without KVM.
    pub fn has_sound_threads(&self) -> bool {
        self.version >= FIRST_WITH_SOUND_THREADS
    }
}

/// Major, minor and all of the version in `QEMU emulator version 7.2.22 (Debian 1:7.2+…)`.
fn parse_version(said: &str) -> Option<((u32, u32), String)> {
    let (_, text) = said.lines().next()?.split_once("version ")?;
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else { return None };
    Some(((major, minor), text.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared_as_numbers() {
        let said = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright (c) …\n";
        let (version, text) = parse_version(said).unwrap();
        assert_eq!((version, text.as_str()), ((7, 2), "7.2.22 (Debian 1:7.2+dfsg-7)"));
        assert_eq!(parse_version("QEMU emulator version 10.0.2\n").unwrap().0, (10, 0));
        assert!((10, 0) > (7, 2));
        assert_eq!(parse_version("something else"), None);
    }
    #[test]
    fn a_program_that_says_nothing_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("qemu");
        // Not written by us: a child that another test forks meanwhile would hold it open.
        let script = "printf '#!/bin/sh\nsleep 1000\n' >qemu; chmod +x qemu";
        let mut shell = Command::new("sh");
        assert!(shell.args(["-c", script]).current_dir(&directory).status().unwrap().success());
        let program = path.display().to_string();
        let told = Qemu::called(program.clone(), Duration::from_millis(200)).unwrap_err();
        let told = told.to_string();
        assert!(told.contains("asked for its version, it did not end within 0.2 s"), "{told}");
        assert!(told.contains(&program) && told.contains("hint: name another"), "{told}");
    }
}
