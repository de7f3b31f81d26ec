//! Messengers wake workers, which compute for a while and ask again: wake-up latency as servers
//! see it.
//!
//! A latency is the time from the messenger's decision to wake a worker until that worker runs.
//!
//! Source: C. Mason's schbench: messenger and worker threads joined by futexes, percentiles of
//! wake-up latency; its defaults then were two messengers with 16 workers each that think 30 ms.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use super::crew::{Crew, Tasks};
use super::{Figure, MeasureError, Percentiles, Sample};
use crate::system::{EVERY_BIT, cpu_time_ns, futex_wait, futex_wake, now_ns};

/// The benchmark and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Wakeup {
    /// Threads that wake others.
    pub messengers: u32,
    /// Workers of each messenger.
    pub workers: u32,
    /// CPU time that a worker computes each time, nanoseconds.
    pub think_ns: u64,
    /// How long is measured, nanoseconds.
    pub duration_ns: u64,
}

impl Default for Wakeup {
    fn default() -> Self {
        Wakeup { messengers: 1, workers: 4, think_ns: 1_000_000, duration_ns: 1_000_000_000 }
    }
}

/// What a messenger and its workers share.
struct Office {
    /// How many requests workers have made, ever: the messenger sleeps on it.
    requests: AtomicU32,
    desks: Vec<Desk>,
}

/// A worker's place.
struct Desk {
    /// [`ASKS`], [`WOKEN`] or [`WORKS`]; the worker sleeps while it asks.
    state: AtomicU32,
    woken_at_ns: AtomicU64,
}

const WORKS: u32 = 0;
const ASKS: u32 = 1;
const WOKEN: u32 = 2;
const CLOSED: u32 = 3;

impl Wakeup {
    /// Measures once. The figure is the 99th percentile of all latencies.
    ///
    /// # Errors
    ///
    /// [`MeasureError`], where the system does not give so many threads.
    pub fn run(&self) -> Result<Sample, MeasureError> {
        let parameters = [
            ("messengers", u64::from(self.messengers)),
            ("workers", u64::from(self.workers)),
            ("duration_ns", self.duration_ns),
        ];
        for (name, value) in parameters {
            if value == 0 {
                let why = "is nothing to measure: take 1 or more";
                return Err(MeasureError::Parameter { name, value, why });
            }
        }
        let nr_tasks = self.messengers * (self.workers + 1);
        let found = Arc::new(Mutex::new(Vec::new()));
        let mut crew = Crew::new(Tasks::Threads, nr_tasks)?;
        for messenger in 1..=self.messengers {
            let desk = |_| Desk { state: AtomicU32::new(WORKS), woken_at_ns: AtomicU64::new(0) };
            let desks = (0..self.workers).map(desk).collect();
            let office = Arc::new(Office { requests: AtomicU32::new(0), desks });
            for worker in 0..self.workers {
                let (office, found) = (Arc::clone(&office), Arc::clone(&found));
                let think_ns = self.think_ns;
                crew.add(format!("worker {} of messenger {messenger}", worker + 1), move |gate| {
                    gate.wait()?;
                    let mut latencies_ns = work(&office, worker as usize, think_ns);
                    found.lock().unwrap_or_else(PoisonError::into_inner).append(&mut latencies_ns);
                    Ok(())
                })?;
            }
            let (found, duration_ns) = (Arc::clone(&found), self.duration_ns);
            crew.add(format!("messenger {messenger}"), move |gate| {
                gate.wait()?;
                let mut latencies_ns = wake_all_until(&office, now_ns() + duration_ns);
                found.lock().unwrap_or_else(PoisonError::into_inner).append(&mut latencies_ns);
                Ok(())
            })?;
        }
        let begin = crew.begin()?;
        let used = crew.finish()?;
        let wall_ns = begin.elapsed().as_nanos() as u64;
        let latency_ns = Percentiles::of(&mut found.lock().unwrap_or_else(PoisonError::into_inner));
        let p99_ns = latency_ns.map_or(0, |latency| latency.p99);
        let figure = Figure { value: p99_ns as f64 / 1e3, unit: "us until it runs (p99)" };
        Ok(Sample::of("wakeup", nr_tasks, wall_ns, figure, used, latency_ns))
    }
}

/// A worker's life: ask, sleep, note the latency, think; until the office closes.
fn work(office: &Office, worker: usize, think_ns: u64) -> Vec<u64> {
    let desk = &office.desks[worker];
    let mut latencies_ns = Vec::with_capacity(1 << 16);
    loop {
        if desk.state.compare_exchange(WORKS, ASKS, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return latencies_ns;
        }
        office.requests.fetch_add(1, Ordering::Release);
        futex_wake(&office.requests, EVERY_BIT);
        while desk.state.load(Ordering::Acquire) == ASKS {
            futex_wait(&desk.state, ASKS, EVERY_BIT, None);
        }
        let now_ns = now_ns();
        if desk.state.compare_exchange(WOKEN, WORKS, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return latencies_ns;
        }
        latencies_ns.push(now_ns.saturating_sub(desk.woken_at_ns.load(Ordering::Acquire)));
        let end_ns = cpu_time_ns() + think_ns;
        while cpu_time_ns() < end_ns {
            black_box(());
        }
    }
}

/// A messenger's life: wake whoever asks; at the end close, and wake all. Who was woken and has not
/// run by then has waited so long at least: without these, the longest latencies would be missing.
fn wake_all_until(office: &Office, end_ns: u64) -> Vec<u64> {
    loop {
        let seen = office.requests.load(Ordering::Acquire);
        for desk in &office.desks {
            if desk.state.load(Ordering::Acquire) == ASKS {
                desk.woken_at_ns.store(now_ns(), Ordering::Release);
                desk.state.store(WOKEN, Ordering::Release);
                futex_wake(&desk.state, EVERY_BIT);
            }
        }
        if now_ns() >= end_ns {
            break;
        }
        futex_wait(&office.requests, seen, EVERY_BIT, Some(end_ns));
    }
    let mut latencies_ns = vec![];
    for desk in &office.desks {
        if desk.state.swap(CLOSED, Ordering::AcqRel) == WOKEN {
            latencies_ns.push(now_ns().saturating_sub(desk.woken_at_ns.load(Ordering::Acquire)));
        }
        futex_wake(&desk.state, EVERY_BIT);
    }
    latencies_ns
}
