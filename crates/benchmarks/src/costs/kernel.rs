//! What one task pays the kernel alone: calls, messages, timers, ticks, and processes.

use std::os::fd::OwnedFd;

use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use super::{Cost, pieces, refused, tried};
use crate::measure::MeasureError;
use crate::measure::crew::{receive, send};
use crate::system::{self, Fork};

/// Pieces of a measurement, and how often each of them does it: some 20 to 50 us.
const PIECES: usize = 2000;
const TIMES: u32 = 50;

/// Bytes of the messages whose copying is measured: a page, which a pipe takes for a byte, too.
const PAGE_BYTES: usize = 4096;

/// Looks at the clock that say how long one takes.
const LOOKS: usize = 10_001;

/// How long ticks are waited for, and looks at a clock that does not go on.
const TICKS_NS: u64 = 500_000_000;
const LOOKS_MAX: usize = 100_000_000;

/// What an interrupt adds to a look at the clock: less is the clock's own, more is other tasks'.
const INTERRUPT_NS: std::ops::Range<u64> = 400..20_000;

/// Processes that are started and end.
const PROCESSES: usize = 300;

pub fn measure(
    watch: &mut dyn FnMut(Cost) -> Result<(), MeasureError>,
) -> Result<(), MeasureError> {
    let call = pieces(PIECES, TIMES, || {
        std::hint::black_box(system::parent_pid());
    });
    let syscall = Cost::of("syscall_ns", call, "getppid, 50 in a row");
    let syscall_ns = syscall.median;
    watch(syscall)?;

    let pipe = nix::unistd::pipe().map_err(|e| MeasureError::system("make a pipe", e))?;
    let failed = |error| MeasureError::system("use a pipe", error);
    let byte = tried(PIECES, TIMES, || there_and_back(&pipe, 1)).map_err(failed)?;
    let halves = byte.iter().map(|ns| ns / 2.0).collect();
    let how = "a byte written to a pipe and read by the same task, half of it, less syscall_ns";
    watch(Cost::of("message_ns", halves, how).less(syscall_ns))?;

    let byte_ns = Cost::of("", byte, "").median;
    let page = tried(PIECES, TIMES, || there_and_back(&pipe, PAGE_BYTES)).map_err(failed)?;
    let per_kib = page.iter().map(|ns| (ns - byte_ns).max(0.0) / 8.0).collect();
    let how = "4096 bytes written and read, less a byte written and read, an eighth of it";
    watch(Cost::of("copy_ns_per_kib", per_kib, how))?;

    let timer = system::timer().map_err(|error| refused("make a timer", error))?;
    let arm = tried(PIECES, TIMES, || system::arm(timer, 3_600_000_000_000));
    system::close(timer);
    let arm = arm.map_err(|error| refused("arm a timer", error))?;
    let how = "timerfd_settime of a timer that was armed before, less syscall_ns";
    watch(Cost::of("timer_ns", arm, how).less(syscall_ns))?;

    watch(ticks())?;
    processes(watch)
}

fn there_and_back((inlet, outlet): &(OwnedFd, OwnedFd), bytes: usize) -> std::io::Result<()> {
    let mut message = [0; PAGE_BYTES];
    send(outlet, &message[..bytes])?;
    receive(inlet, &mut message[..bytes])
}

/// What the clock shows of interrupts while nothing but looking at it is done.
fn ticks() -> Cost {
    let mut added_ns = interrupts(system::now_ns, TICKS_NS);
    if added_ns.is_empty() {
        added_ns.push(0.0);
    }
    let how = "what looks at the clock take longer than the median one, where that is 0.4 to 20 us";
    Cost::of("tick_ns", added_ns, how)
}

/// What interrupts added to looks at a clock, within `watched_ns`.
///
/// A look may take microseconds by itself, where the clock is a device's. So it is an interrupt's
/// only if it takes twice as long as the median look, and longer by what an interrupt takes.
fn interrupts(mut now_ns: impl FnMut() -> u64, watched_ns: u64) -> Vec<f64> {
    let mut before_ns = now_ns();
    let mut look_ns = || {
        let at_ns = now_ns();
        let took_ns = at_ns - before_ns;
        before_ns = at_ns;
        took_ns
    };
    // A coarse clock stands still in most looks; how far it goes on at once is what counts.
    let mut looks_ns: Vec<u64> = (0..LOOKS).map(|_| look_ns()).filter(|&ns| ns > 0).collect();
    looks_ns.sort_unstable();
    let usual_ns = looks_ns.get(looks_ns.len() / 2).copied().unwrap_or(0);
    let mut added_ns = vec![];
    let mut watched = 0;
    for _ in 0..LOOKS_MAX {
        if watched >= watched_ns {
            break;
        }
        let took_ns = look_ns();
        let more_ns = took_ns.saturating_sub(usual_ns);
        if more_ns >= usual_ns && INTERRUPT_NS.contains(&more_ns) {
            added_ns.push(more_ns as f64);
        }
        watched += took_ns;
    }
    added_ns
}

/// Starting a process, and all of its life.
fn processes(watch: &mut dyn FnMut(Cost) -> Result<(), MeasureError>) -> Result<(), MeasureError> {
    let (mut forks_ns, mut lives_ns) = (vec![], vec![]);
    for _ in 0..PROCESSES {
        let begin_ns = system::now_ns();
        match system::fork().map_err(|error| refused("start a process", error))? {
            Fork::Child => system::exit_process(0),
            Fork::Parent(pid) => {
                forks_ns.push((system::now_ns() - begin_ns) as f64);
                waitpid(Pid::from_raw(pid), None)
                    .map_err(|error| MeasureError::system("wait for a process", error))?;
                lives_ns.push((system::now_ns() - begin_ns) as f64);
            }
        }
    }
    watch(Cost::of("fork_ns", forks_ns, "fork of this small program, until it returns"))?;
    let how = "fork, the child ends at once on the same CPU, its parent has waited for it";
    watch(Cost::of("fork_exit_wait_ns", lives_ns, how))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that takes `look_ns` to look at, and 3 us more in every thousandth look.
    fn clock(look_ns: u64) -> impl FnMut() -> u64 {
        let (mut at_ns, mut looks) = (0, 0u64);
        move || {
            looks += 1;
            at_ns += look_ns + if looks.is_multiple_of(1000) { 3000 } else { 0 };
            at_ns
        }
    }

    #[test]
    fn an_interrupt_is_seen_whether_the_clock_is_quick_or_slow() {
        for look_ns in [25, 900, 2500] {
            let found = interrupts(clock(look_ns), 100 * (1000 * look_ns + 3000));
            assert!((99..=101).contains(&found.len()), "{look_ns}: {}", found.len());
            assert!(found.iter().all(|&ns| ns == 3000.0), "{look_ns}: {found:?}");
        }
    }

    #[test]
    fn a_slow_clock_that_nothing_interrupts_has_no_interrupts() {
        let mut looks = 0;
        // 1000, 1600 and 400 ns in turn, as devices' clocks waver.
        let wavering = move || {
            looks += 1;
            1000 * looks + [0, 0, 600][looks as usize % 3]
        };
        let found = interrupts(wavering, 100_000_000);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_coarse_clock_that_nothing_interrupts_has_no_interrupts() {
        let mut looks = 0;
        // A look takes 25 ns, which shows once in 40.
        let coarse = move || {
            looks += 1;
            looks / 40 * 1000
        };
        let found = interrupts(coarse, 100_000_000);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn what_another_task_takes_is_no_interrupt() {
        let mut looks = 0;
        let shared = move || {
            looks += 1;
            25 * looks + 4_000_000 * (looks / 1000)
        };
        let found = interrupts(shared, 100_000_000);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_pipe_that_fails_is_an_error() {
        let (inlet, outlet) = nix::unistd::pipe().expect("a pipe");
        assert!(there_and_back(&(outlet, inlet), 1).is_err(), "written to the end that is read");
    }
}
