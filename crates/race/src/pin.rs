//! Keeps the thread of a heat on one CPU.

use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::Pid;

use crate::RaceError;

/// This thread, which is nix's pid 0.
const HERE: Pid = Pid::from_raw(0);

/// This thread on one CPU, until it is dropped.
#[derive(Debug)]
pub struct Pinned {
    /// The CPU.
    pub cpu: usize,
    before: CpuSet,
}

impl Pinned {
    /// Keeps this thread on `cpu`, or on the last one that it may use: CPU 0 serves most
    /// interrupts.
    ///
    /// # Errors
    ///
    /// [`RaceError::Cpu`] if this process may not use that CPU.
    pub fn to(cpu: Option<usize>) -> Result<Self, RaceError> {
        let failed = |cpu, allowed: &[usize], cause: io::Error| RaceError::Cpu {
            cpu,
            cause,
            allowed: list(allowed),
        };
        let before =
            sched_getaffinity(HERE).map_err(|cause| failed(cpu.unwrap_or(0), &[], cause.into()))?;
        let is_allowed = |cpu: &usize| before.is_set(*cpu).unwrap_or(false);
        let allowed: Vec<usize> = (0..CpuSet::count()).filter(is_allowed).collect();
        let cpu = cpu.or(allowed.last().copied()).unwrap_or(0);
        let mut alone = CpuSet::new();
        alone
            .set(cpu)
            .and_then(|()| sched_setaffinity(HERE, &alone))
            .map_err(|cause| failed(cpu, &allowed, cause.into()))?;
        Ok(Pinned { cpu, before })
    }
}

/// How often this thread has lost its CPU to another one.
pub fn preemptions() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.involuntary_context_switches())
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // The CPUs may have gone meanwhile; then the system has chosen others.
        let _ = sched_setaffinity(HERE, &self.before);
    }
}

fn list(cpus: &[usize]) -> String {
    match cpus {
        [] => "no CPU that it could name".to_owned(),
        [only] => format!("CPU {only}"),
        _ => format!("CPUs {}", cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a thread is kept and let go. Method: ask the system.

    use super::*;

    #[test]
    fn a_thread_is_on_one_cpu_only_while_it_is_pinned() {
        let before = sched_getaffinity(HERE).expect("affinity");
        let pinned = Pinned::to(None).expect("the last CPU");
        let meanwhile = sched_getaffinity(HERE).expect("affinity");
        let here: Vec<_> =
            (0..CpuSet::count()).filter(|&cpu| meanwhile.is_set(cpu) == Ok(true)).collect();
        assert_eq!(here, [pinned.cpu]);
        drop(pinned);
        assert_eq!(sched_getaffinity(HERE).expect("affinity"), before);
    }

    #[test]
    fn losing_the_cpu_to_another_thread_is_noticed() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let over = AtomicBool::new(false);
        let pinned = Pinned::to(None).expect("the last CPU");
        let begin = (std::time::Instant::now(), preemptions());
        std::thread::scope(|scope| {
            // It inherits the CPU.
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop()
                }
            });
            while preemptions() == begin.1 && begin.0.elapsed().as_secs() < 20 {
                std::hint::spin_loop()
            }
            over.store(true, Ordering::Relaxed);
        });
        assert!(preemptions() > begin.1, "two threads on CPU {} took turns", pinned.cpu);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named() {
        for cpu in [CpuSet::count() - 1, usize::MAX] {
            let error = Pinned::to(Some(cpu)).expect_err("no such CPU").to_string();
            assert!(error.contains(&format!("CPU {cpu}")) && error.contains("may use"), "{error}");
        }
    }
}
