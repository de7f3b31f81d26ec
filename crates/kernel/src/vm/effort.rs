//! What a process did with its time, as the kernel counts it.

use std::fs;
use std::time::Duration;

/// What the threads of a process did since they began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Effort {
    /// CPU time of all.
    pub ran: Duration,
    /// Time in which the busiest ran or waited for a CPU.
    pub busiest: Duration,
}

/// Of a process; nothing where it is gone. A kernel that does not count says that it never idles.
///
/// Source: Linux, Documentation/scheduler/sched-stats.rst, on /proc/<pid>/schedstat.
pub(super) fn of(pid: u32) -> Effort {
    let mut effort = Effort::default();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for thread in threads {
        let Ok(text) = fs::read_to_string(thread.path().join("schedstat")) else {
            return Effort { busiest: Duration::MAX, ..effort };
        };
        let mut numbers = text.split_whitespace().map(|word| word.parse().unwrap_or(0));
        let mut next = || Duration::from_nanos(numbers.next().unwrap_or(0));
        let (ran, waited) = (next(), next());
        effort.ran += ran;
        effort.busiest = effort.busiest.max(ran + waited);
    }
    effort
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::time::Instant;

    #[test]
    fn who_computes_is_busy_and_who_sleeps_is_not() {
        let me = std::process::id();
        let (before, start) = (of(me), Instant::now());
        while of(me).ran < before.ran + Duration::from_millis(20) {
            black_box((0..10_000).sum::<u64>());
        }
        let after = of(me);
        assert!(after.busiest >= before.busiest && start.elapsed() >= Duration::from_millis(1));
        let mut sleeper = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        let slept = of(sleeper.id());
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(slept.ran < Duration::from_millis(200));
    }
}
