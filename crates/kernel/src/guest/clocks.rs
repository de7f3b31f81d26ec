//! Lets the kernel's two clocks share one grid.
//!
//! Ticks lie on a grid of `CLOCK_MONOTONIC`, and policies that count jiffies lay theirs over the
//! scheduler's clock. Both clocks started with the kernel, some ms apart, so that a simulation,
//! which has one clock, would count another jiffy now and then. `CLOCK_MONOTONIC` is made a little
//! faster or slower until a multiple of [`GRID_NS`] lies between them. Only for machines of our
//! own: their time is nobody else's.

use std::fs;
use std::io;
use std::thread::sleep;
use std::time::Duration;

use nix::libc;

/// Whatever a tick or a jiffy lasts, 1, 4 or 10 ms, it fits into this.
const GRID_NS: i64 = 20_000_000;
/// So near is near enough: no more instructions than a wake-up takes.
const NEAR_NS: i64 = 200;
const ROUNDS_MAX: usize = 8;
/// How long the clock is fast or slow in one round, where that is enough.
const ROUND_NS: i64 = 1_000_000_000;
/// The most that the kernel lets a clock be wrong. Source: `MAXFREQ` of include/linux/timex.h.
const PPM_MAX: i64 = 500;
/// `adjtimex` counts frequencies in 2^-16 ppm.
const PPM_BITS: u32 = 16;
const CLOCKS: &str = "/sys/kernel/debug/sched/debug";

/// Brings the clocks together, in up to 22 s of them. Does nothing where the kernel does not tell
/// how far they are apart.
///
/// # Errors
///
/// If the kernel does not let us change its clock.
pub(super) fn align() -> io::Result<()> {
    for _ in 0..ROUNDS_MAX {
        let Some(ahead_ns) = fs::read_to_string(CLOCKS).ok().as_deref().and_then(ahead_ns) else {
            return Ok(());
        };
        let excess_ns = excess_ns(ahead_ns);
        if excess_ns.abs() <= NEAR_NS {
            return Ok(());
        }
        let frequency = -(excess_ns << PPM_BITS) * 1_000_000 / ROUND_NS;
        let most = PPM_MAX << PPM_BITS;
        let wait_ns =
            if frequency.abs() > most { excess_ns.abs() * (1_000_000 / PPM_MAX) } else { ROUND_NS };
        set_frequency(frequency.clamp(-most, most))?;
        sleep(Duration::from_nanos(wait_ns.unsigned_abs()));
        set_frequency(0)?;
    }
    Ok(())
}

/// How far `CLOCK_MONOTONIC` is ahead of the scheduler's clock, from the kernel's debugging text.
fn ahead_ns(text: &str) -> Option<i64> {
    let clock_ns = |name: &str| {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(name))?;
        let (ms, fraction) = line.split(':').nth(1)?.trim().split_once('.')?;
        Some(ms.parse::<i64>().ok()? * 1_000_000 + fraction.parse::<i64>().ok()?)
    };
    Some(clock_ns("ktime")? - clock_ns("cpu_clk")?)
}

/// What is to be taken back to be on the grid; negative if it is to be added.
fn excess_ns(ahead_ns: i64) -> i64 {
    let excess_ns = ahead_ns.rem_euclid(GRID_NS);
    if excess_ns > GRID_NS / 2 { excess_ns - GRID_NS } else { excess_ns }
}

fn set_frequency(frequency: i64) -> io::Result<()> {
    // SAFETY: a structure of plain numbers, for which zeroes are valid.
    let mut request: libc::timex = unsafe { std::mem::zeroed() };
    request.modes = libc::ADJ_FREQUENCY;
    request.freq = frequency;
    // SAFETY: the structure outlives the call.
    match unsafe { libc::adjtimex(&raw mut request) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_of_the_clocks_is_read_from_the_kernels_text() {
        let text = "Sched Debug Version: v0.11, 6.18\nktime    : 10382.540060\n\
                    sched_clk     : 10372.791001\ncpu_clk  : 10372.791060\njiffies : 4294894\n";
        assert_eq!(ahead_ns(text), Some(9_749_000));
        assert_eq!(ahead_ns("ktime : 1.5"), None);
    }

    #[test]
    fn the_nearer_point_of_the_grid_is_aimed_at() {
        assert_eq!(excess_ns(9_749_000), 9_749_000);
        assert_eq!(excess_ns(19_000_000), -1_000_000);
        assert_eq!(excess_ns(-1), -1);
        assert_eq!(excess_ns(60_000_000), 0);
    }
}
