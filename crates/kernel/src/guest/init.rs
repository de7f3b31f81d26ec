//! What a virtual machine's first process does beside its job: mounting, and switching off.

use std::fs;
use std::io;

use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::resource::{Resource, setrlimit};

use crate::loader::status;

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
    write_configuration()
}

/// Writes what the kernel shows of its configuration where loaders look for it. What is not there
/// is 0 in objects that may do without it; without the file, they would not be loaded at all.
fn write_configuration() -> io::Result<()> {
    let mut threads = fs::read_dir("/proc")?.flatten();
    // The thread that ends grace periods, which is named after its kind of RCU.
    let is_preemptible = threads.any(|process| {
        fs::read_to_string(process.path().join("comm")).is_ok_and(|name| name == "rcu_preempt\n")
    });
    let text = if is_preemptible { "CONFIG_PREEMPT_RCU=y\n" } else { "" };
    fs::create_dir_all("/boot")?;
    fs::write(format!("/boot/config-{}", status::kernel_release()), text)
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
