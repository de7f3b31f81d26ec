//! Computing for a given time.
//!
//! Simulated work is CPU time of the task on the reference CPU, so real work is CPU time of the
//! thread, whoever else runs meanwhile. A loop of two instructions a turn is timed once; short
//! work is so many turns and no system call, long work looks at the thread's own clock in between
//! and so follows a CPU that changes its speed. Under a clock that counts instructions there is
//! nothing to time: turns follow from the nanoseconds exactly, and no look at a clock disturbs.

use crate::system;

/// How a task knows that it has computed long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burner {
    /// Turns of the loop in a millisecond.
    pub turns_per_ms: u64,
    /// Whether long work looks at the thread's clock.
    pub looks_at_clock: bool,
}

/// Instructions in a turn of the loop.
const INSTRUCTIONS_A_TURN: u64 = 2;
/// And in one of the loop that lets time pass where instructions are counted: an emulator takes as
/// long for the 62 that do nothing as for two.
const INSTRUCTIONS_A_LONG_TURN: u64 = 64;
/// Turns of one timing: about 0.1 ms of a CPU of 2 GHz.
const TIMED_TURNS: u64 = 200_000;
/// Timings, of which the middle one counts: an interrupt makes one longer, and where a kernel's
/// clock stood still or was set back (Linux 6.1 in a machine without KVM) one is nothing at all.
const TIMINGS: usize = 9;
/// More turns in a nanosecond than any processor makes.
const TURNS_PER_NS_MAX: u64 = 10;
/// Work below this is turns only: two looks at a clock take about a microsecond.
const LOOKED_AT_NS_MIN: u64 = 20_000;
/// The most work between two looks, and so about the most that is computed too much on a CPU that
/// has become slower than it was timed: an emulated one that shares a thread with others.
const UNLOOKED_NS_MAX: u64 = 200_000;
/// As near to the end as this, looking costs more than it mends.
const NEAR_ENOUGH_NS: u64 = 300;

impl Burner {
    /// Times the loop on the CPU that the caller runs on. Takes about a millisecond.
    pub fn measured() -> Burner {
        Burner::of_timings([(); TIMINGS].map(|()| {
            let before_ns = system::cpu_time_ns();
            spin(TIMED_TURNS);
            system::cpu_time_ns().saturating_sub(before_ns)
        }))
    }

    fn of_timings(mut timings_ns: [u64; TIMINGS]) -> Burner {
        timings_ns.sort_unstable();
        let ns = timings_ns[TIMINGS / 2].max(TIMED_TURNS / TURNS_PER_NS_MAX);
        Burner { turns_per_ms: (TIMED_TURNS * 1_000_000 / ns).max(1), looks_at_clock: true }
    }

    /// For a clock on which an instruction takes a nanosecond.
    pub fn counting_instructions() -> Burner {
        Burner { turns_per_ms: 1_000_000 / INSTRUCTIONS_A_TURN, looks_at_clock: false }
    }

    fn turns(&self, ns: u64) -> u64 {
        (u128::from(ns) * u128::from(self.turns_per_ms) / 1_000_000) as u64
    }

    /// Computes for so many ns of CPU time.
    pub fn burn(&self, ns: u64) {
        if !self.looks_at_clock {
            pass(ns / INSTRUCTIONS_A_LONG_TURN);
            return spin(self.turns(ns % INSTRUCTIONS_A_LONG_TURN));
        }
        if ns < LOOKED_AT_NS_MIN {
            return spin(self.turns(ns));
        }
        let end_ns = system::cpu_time_ns().saturating_add(ns);
        loop {
            let left_ns = end_ns.saturating_sub(system::cpu_time_ns());
            if left_ns <= NEAR_ENOUGH_NS {
                return;
            }
            // A sixteenth is left over while it is large, should the CPU have become slower.
            let at_once_ns =
                if left_ns > LOOKED_AT_NS_MIN { left_ns - left_ns / 16 } else { left_ns };
            spin(self.turns(at_once_ns.min(UNLOOKED_NS_MAX)).max(1));
        }
    }
}

/// Goes round so often, two instructions a turn, touching no memory.
#[inline(never)]
pub fn spin(turns: u64) {
    if turns == 0 {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: changes only its own register and the flags.
    unsafe {
        std::arch::asm!(
            "2:",
            "sub {turns}, 1",
            "jnz 2b",
            turns = inout(reg) turns => _,
            options(nomem, nostack),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: changes only its own register and the flags.
    unsafe {
        std::arch::asm!(
            "2:",
            "subs {turns}, {turns}, #1",
            "b.ne 2b",
            turns = inout(reg) turns => _,
            options(nomem, nostack),
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    (0..turns).for_each(|turn| {
        std::hint::black_box(turn);
    });
}

/// Goes round so often, [`INSTRUCTIONS_A_LONG_TURN`] a turn, touching no memory.
#[inline(never)]
fn pass(turns: u64) {
    #[cfg(target_arch = "x86_64")]
    if turns > 0 {
        // SAFETY: changes only its own register and the flags.
        unsafe {
            std::arch::asm!(
                "2:",
                ".rept 62",
                "nop",
                ".endr",
                "sub {turns}, 1",
                "jnz 2b",
                turns = inout(reg) turns => _,
                options(nomem, nostack),
            );
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    spin(turns * (INSTRUCTIONS_A_LONG_TURN / INSTRUCTIONS_A_TURN));
}

#[cfg(test)]
mod tests {
    //! Goal: work takes the CPU time that it says. Method: the thread's own clock, the least of
    //! many tries, with bounds that a busy virtual machine keeps.
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn work_takes_at_least_its_cpu_time_and_not_much_more() {
        let burner = Burner::measured();
        for ns in [50_000, 1_000_000, 5_000_000] {
            let taken_ns = (0..50)
                .map(|_| {
                    let before_ns = system::cpu_time_ns();
                    burner.burn(ns);
                    system::cpu_time_ns() - before_ns
                })
                .min()
                .unwrap();
            assert!((ns - NEAR_ENOUGH_NS..2 * ns).contains(&taken_ns), "{taken_ns} of {ns}");
        }
    }

    #[test]
    fn a_clock_that_stood_still_or_ran_on_does_not_change_the_pace() {
        let sound = Burner::of_timings([100_000; TIMINGS]);
        assert_eq!(sound.turns_per_ms, 2_000_000);
        let mut timings_ns = [100_000; TIMINGS];
        timings_ns[..4].copy_from_slice(&[0, 0, 1, 40_000_000]);
        assert_eq!(Burner::of_timings(timings_ns), sound);
        // So much that even the longest work between two looks comes to its end.
        let stopped = Burner::of_timings([0; TIMINGS]);
        assert_eq!(stopped.turns(UNLOOKED_NS_MAX), UNLOOKED_NS_MAX * TURNS_PER_NS_MAX);
    }

    #[test]
    fn counted_instructions_are_two_a_turn() {
        let burner = Burner::counting_instructions();
        assert_eq!((burner.turns(2), burner.turns(1_000_001)), (1, 500_000));
        burner.burn(0);
    }
}
