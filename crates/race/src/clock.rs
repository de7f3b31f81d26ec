//! The clock of the race: the time stamp counter where there is one.
//!
//! A tick is read with everything before it done and nothing after it begun, so that what lies
//! between two readings is what was measured. Where processors have no such counter a tick is a
//! nanosecond of the monotonic clock.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long the counter is compared with the monotonic clock.
const SPAN: Duration = Duration::from_millis(20);
/// Attempts to read both clocks without being interrupted between them.
const READS: u32 = 16;
/// Pairs of readings, of which the nearest says what a reading itself costs.
const PAIRS: u32 = 2000;

/// What [`ticks`] counts, as in results.
pub const NAME: &str = if cfg!(target_arch = "x86_64") { "tsc" } else { "monotonic" };

/// The present, all earlier instructions done and no later one begun.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn ticks() -> u64 {
    // SAFETY: both instructions exist on every x86-64 processor and touch no memory.
    unsafe {
        std::arch::x86_64::_mm_lfence();
        let ticks = std::arch::x86_64::_rdtsc();
        std::arch::x86_64::_mm_lfence();
        ticks
    }
}

/// The present, in nanoseconds.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn ticks() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Ticks of a second, measured once a process against the monotonic clock; right to about one
/// part in 10,000.
pub fn ticks_per_s() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let begin = both();
        std::thread::sleep(SPAN);
        let end = both();
        end.1.saturating_sub(begin.1) as f64 / end.0.duration_since(begin.0).as_secs_f64()
    })
}

/// Both clocks at the same time: of several readings the one that took the shortest.
fn both() -> (Instant, u64) {
    let mut best = (Duration::MAX, Instant::now(), 0);
    for _ in 0..READS {
        let before = Instant::now();
        let ticks = ticks();
        let took = before.elapsed();
        if took < best.0 {
            best = (took, before, ticks);
        }
    }
    (best.1, best.2)
}

/// Ticks between two readings with nothing between them: what to take off a measured stretch.
pub fn overhead() -> u64 {
    let pair = || {
        let begin = ticks();
        ticks().saturating_sub(begin)
    };
    (0..PAIRS).map(|_| pair()).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    //! Goal: ticks are of this machine. Method: the two ways of counting a second agree.

    use super::*;

    #[test]
    fn time_goes_on_and_a_tick_is_shorter_than_ten_nanoseconds() {
        let begin = both();
        std::thread::sleep(Duration::from_millis(10));
        let end = both();
        let passed_s = (end.1 - begin.1) as f64 / ticks_per_s();
        let wall_s = end.0.duration_since(begin.0).as_secs_f64();
        assert!((passed_s / wall_s - 1.0).abs() < 0.1, "{passed_s} s and not {wall_s} s");
        assert!(ticks_per_s() >= 1e8 || NAME == "monotonic");
    }
}
