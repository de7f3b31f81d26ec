//! What a guest and its machine have to say to each other, by ports of the processor.
//!
//! A port is read and written synchronously, so that it has its one place in the order of a
//! guest's instructions: under a clock that counts them a job begins at the same nanosecond,
//! whether the machine has just booted or was kept since. A line or a disk would deliver whenever
//! this host's threads do.

use std::arch::asm;
use std::io;
use std::thread::sleep;
use std::time::Duration;

use nix::libc;

/// A device that stops the machine at the instruction which writes there. Source: QEMU,
/// docs/specs/pvpanic.rst.
const STOP: u16 = 0x505;
const STOP_NOW: u8 = 1;

/// A watchdog that bites by stopping the machine. Source: QEMU, hw/watchdog/wdt_ib700.c.
const WATCHDOG_OFF: u16 = 0x441;
const WATCHDOG_ON: u16 = 0x443;
/// What to write there for two seconds.
const TWO_SECONDS: u8 = 0xe;
/// Longer than that, by clocks that may differ a little.
const ASLEEP: Duration = Duration::from_millis(2_010);

/// The firmware's files. Source: QEMU, docs/specs/fw_cfg.rst.
const FILE_SELECT: u16 = 0x510;
const FILE_DATA: u16 = 0x511;
const DIRECTORY: u16 = 0x19;
const NAME_BYTES: usize = 56;
/// More files than a machine has.
const FILES_MAX: u32 = 4096;

/// Stops this machine until somebody lets it go on, who may save it meanwhile.
///
/// One whose clock counts instructions is stopped by a timer, while it sleeps: were it stopped at
/// an instruction, its clock might jump to the next timer or not, as this host's threads run.
pub(super) fn hold(counts_instructions: bool) -> io::Result<()> {
    if !counts_instructions {
        allow(STOP, 1)?;
        write(STOP, STOP_NOW);
        return Ok(());
    }
    allow(WATCHDOG_OFF, 3)?;
    write(WATCHDOG_ON, TWO_SECONDS);
    sleep(ASLEEP);
    write(WATCHDOG_OFF, 0);
    Ok(())
}

/// The content of a file that QEMU was started with, if there is such a file. O(bytes), some 0.2 µs
/// each where QEMU translates instructions.
///
/// # Errors
///
/// If ports are not allowed.
pub(super) fn file(wanted: &str) -> io::Result<Option<Vec<u8>>> {
    allow(FILE_SELECT, 2)?;
    select(DIRECTORY);
    let nr_files = u32::from_be_bytes(next());
    for _ in 0..nr_files.min(FILES_MAX) {
        let size = u32::from_be_bytes(next());
        let number = u16::from_be_bytes(next());
        let _reserved: [u8; 2] = next();
        let name: [u8; NAME_BYTES] = next();
        if name.split(|&byte| byte == 0).next() == Some(wanted.as_bytes()) {
            let mut content = vec![0; size as usize];
            select(number);
            read(FILE_DATA, &mut content);
            return Ok(Some(content));
        }
    }
    Ok(None)
}

fn allow(port: u16, count: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the call takes numbers only. What may go wrong by ports is where they are used.
    match unsafe { libc::ioperm(port.into(), count, 1) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn select(number: u16) {
    // SAFETY: the port was allowed; the device only remembers which file is read next.
    unsafe { asm!("out dx, ax", in("dx") FILE_SELECT, in("ax") number, options(nomem, nostack)) };
}

fn write(port: u16, value: u8) {
    // SAFETY: the port was allowed, and the device behind it touches no memory of ours.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack)) };
}

fn next<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    read(FILE_DATA, &mut bytes);
    bytes
}

fn read(port: u16, to: &mut [u8]) {
    // SAFETY: the port was allowed, and exactly the bytes of `to` are written.
    unsafe {
        asm!("rep insb", in("dx") port, inout("rdi") to.as_mut_ptr() => _,
             inout("rcx") to.len() => _, options(nostack, preserves_flags));
    }
}
