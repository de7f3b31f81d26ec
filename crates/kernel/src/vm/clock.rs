//! The rate of this machine's time-stamp counter, which a translated guest sees as it is.
//!
//! A guest would measure it against its emulated timers, which QEMU serves late when this machine
//! is busy: rates seven times too low were seen, and every clock of such a guest runs wild.

use std::time::{Duration, Instant};

/// Between the two ends of the measurement.
const SPAN: Duration = Duration::from_millis(20);
/// Attempts to read both clocks without being interrupted between them.
const READS: u32 = 16;

/// Ticks of the counter in a millisecond; `None` where there is none that guests see. Takes
/// [`SPAN`]. Right to some parts in 100,000; the guest refines it later.
pub(super) fn rate_khz() -> Option<u64> {
    let (start, start_ticks) = read()?;
    std::thread::sleep(SPAN);
    let (end, end_ticks) = read()?;
    let passed_ns = end.duration_since(start).as_nanos();
    let ticks = u128::from(end_ticks.checked_sub(start_ticks)?);
    u64::try_from(ticks * 1_000_000 / passed_ns.max(1)).ok().filter(|&khz| khz > 0)
}

/// Both clocks at the same time: of several readings the one that took the shortest.
fn read() -> Option<(Instant, u64)> {
    let one = || {
        let before = Instant::now();
        let ticks = ticks()?;
        Some((before.elapsed(), before, ticks))
    };
    let shortest = (0..READS).filter_map(|_| one()).min_by_key(|reading| reading.0)?;
    Some((shortest.1, shortest.2))
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> Option<u64> {
    // SAFETY: reads a register that every x86-64 processor has.
    Some(unsafe { core::arch::x86_64::_rdtsc() })
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_a_processor_and_twice_the_same() {
        let (Some(first), Some(second)) = (rate_khz(), rate_khz()) else { return };
        assert!((100_000..20_000_000).contains(&first), "{first}");
        assert!(first.abs_diff(second) < first / 100, "{first} {second}");
    }
}
