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
/// What the running kernel itself shows of its configuration is told to the loader, which otherwise
/// looks for a file of it; a virtual machine has none.
pub(super) fn open(image: &[u8]) -> io::Result<OpenObject> {
    let known = [("CONFIG_HZ", ticks_per_second()), ("CONFIG_NR_CPUS", cpus_max())];
    let line = |(name, number): (&str, Option<u64>)| Some(format!("{name}={}\n", number?));
    let kconfig = CString::new(known.into_iter().filter_map(line).collect::<String>())?;
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

/// `CONFIG_NR_CPUS` of the running kernel.
fn cpus_max() -> Option<u64> {
    let last = std::fs::read_to_string("/sys/devices/system/cpu/kernel_max").ok()?;
    last.trim().parse::<u64>().ok()?.checked_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_ticks_as_often_as_linux_can_be_built_to() {
        let hz = ticks_per_second().unwrap();
        assert!([100, 250, 300, 1000].contains(&hz), "{hz}");
    }

    #[test]
    fn the_kernel_has_room_for_more_cpus_than_there_are() {
        let here = std::thread::available_parallelism().unwrap().get() as u64;
        assert!(cpus_max().unwrap() >= here);
    }
}
