//! Opening an object with the parts of the kernel's configuration that policies ask for.

use std::ffi::{CString, OsStr};
use std::io;
use std::ptr::NonNull;

use libbpf_rs::btf::types::Struct;
use libbpf_rs::libbpf_sys::{bpf_object__open_mem, bpf_object_open_opts, size_t};
use libbpf_rs::{Btf, OpenObject};
use nix::time::{ClockId, clock_getres};

const NSEC_PER_SEC: u64 = 1_000_000_000;
const PREEMPT_RCU: &str = "CONFIG_PREEMPT_RCU";

/// Opens the object in memory; nothing of it goes to the kernel yet.
///
/// The loader is told what the kernel itself shows of its configuration. For the rest it looks for a
/// file; a virtual machine has none.
pub(super) fn open(image: &[u8]) -> io::Result<OpenObject> {
    let mut kconfig = ticks_per_second().map(|hz| format!("CONFIG_HZ={hz}\n")).unwrap_or_default();
    // The types of a kernel are long to read.
    if image.windows(PREEMPT_RCU.len()).any(|name| name == PREEMPT_RCU.as_bytes())
        && let Some(is_set) = has_preemptible_rcu()
    {
        kconfig += &format!("{PREEMPT_RCU}={}\n", if is_set { 'y' } else { 'n' });
    }
    let kconfig = CString::new(kconfig)?;
    let options = bpf_object_open_opts {
        sz: size_of::<bpf_object_open_opts>() as size_t,
        object_name: c"policy".as_ptr(),
        kconfig: kconfig.as_ptr(),
        ..bpf_object_open_opts::default()
    };
    // SAFETY: the image and the options, with the strings they point to, outlive the call, which
    // copies what it keeps; `sz` says how much of the options there is.
    let object = unsafe {
        bpf_object__open_mem(image.as_ptr().cast(), image.len() as size_t, &raw const options)
    };
    let object = NonNull::new(object).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the object was just opened, is not loaded, and nobody else has it.
    Ok(unsafe { OpenObject::from_ptr(object) })
}

/// `CONFIG_HZ` of the running kernel: its coarse clock goes forward once a tick.
fn ticks_per_second() -> Option<u64> {
    let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).ok()?;
    let tick_ns = u64::try_from(tick.tv_nsec()).ok().filter(|&ns| ns > 0 && tick.tv_sec() == 0)?;
    Some((NSEC_PER_SEC + tick_ns / 2) / tick_ns)
}

/// Whether readers under RCU may be preempted: such a kernel counts in each task how deep they are
/// (Linux, include/linux/sched.h).
fn has_preemptible_rcu() -> Option<bool> {
    let kernel = Btf::from_vmlinux().ok()?;
    let task = kernel.type_by_name::<Struct<'_>>("task_struct")?;
    Some(task.iter().any(|member| member.name == Some(OsStr::new("rcu_read_lock_nesting"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_ticks_as_often_as_linux_can_be_built_to() {
        let hz = ticks_per_second().unwrap();
        assert!([100, 250, 300, 1000].contains(&hz), "{hz}");
    }
}
