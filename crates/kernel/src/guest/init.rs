//! What a virtual machine's first process does beside its job: mounting, and switching off.

use std::fs;
use std::io;

use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::resource::{Resource, setrlimit};

/// Type and place of what programs expect to find; the kernel mounts none of it for us. What else
/// there is lies in the kernel's first file system, which is in memory and can be written.
const MOUNTS: [(&str, &str); 6] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("bpf", "/sys/fs/bpf"),
    ("debugfs", "/sys/kernel/debug"),
    ("tracefs", "/sys/kernel/tracing"),
];

/// Without these, a guest cannot work; a kernel may lack the others.
const NEEDED: [&str; 3] = ["proc", "sysfs", "devtmpfs"];

/// Open files that a benchmark may need: hackbench uses 40 for each group.
const OPEN_FILES_MAX: u64 = 1 << 16;

/// Mounts the kernel's file systems. Called before anything else.
pub(super) fn mount_all() -> io::Result<()> {
    for (kind, place) in MOUNTS {
        // sysfs and its children cannot be made, and need not be.
        let _ = fs::create_dir_all(place);
        let mounted = mount(Some(kind), place, Some(kind), MsFlags::empty(), None::<&str>);
        match mounted {
            Ok(()) | Err(nix::errno::Errno::EBUSY) => {}
            Err(error) if NEEDED.contains(&kind) => {
                return Err(io::Error::other(format!("cannot mount {kind} at {place}: {error}")));
            }
            Err(_) => {}
        }
    }
    setrlimit(Resource::RLIMIT_NOFILE, OPEN_FILES_MAX, OPEN_FILES_MAX)?;
    Ok(())
}

/// Mounts the hierarchy of cgroups, which only few plays need. If it cannot be, whoever needs it
/// says so.
pub(super) fn mount_cgroups() {
    const PLACE: &str = "/sys/fs/cgroup";
    let _ = mount(Some("cgroup2"), PLACE, Some("cgroup2"), MsFlags::empty(), None::<&str>);
}

/// Switches the machine off. Does not return: if the kernel refuses, its first process ends and
/// it panics, which ends the machine as well.
pub(super) fn power_off() -> ! {
    let refused = reboot(RebootMode::RB_POWER_OFF);
    panic!("the kernel does not power off: {refused:?}")
}
