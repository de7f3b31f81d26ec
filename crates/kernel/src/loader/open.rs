//! Opening an object with the parts of the kernel's configuration that policies ask for.

use std::ffi::CString;
use std::io;
use std::ptr::NonNull;

use libbpf_rs::OpenObject;
use libbpf_rs::libbpf_sys::{bpf_object__open_mem, bpf_object_open_opts, size_t};
use nix::time::{ClockId, clock_getres};

const NSEC_PER_SEC: u64 = 1_000_000_000;

/// Opens the object in memory; nothing of it goes to the kernel yet.
///
/// `CONFIG_HZ` is told to the loader, which otherwise looks for a file of the kernel's
/// configuration; a virtual machine has none.
pub(super) fn open(image: &[u8]) -> io::Result<OpenObject> {
    let kconfig = ticks_per_second().map(|hz| format!("CONFIG_HZ={hz}\n")).unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_ticks_as_often_as_linux_can_be_built_to() {
        let hz = ticks_per_second().unwrap();
        assert!([100, 250, 300, 1000].contains(&hz), "{hz}");
    }
}
