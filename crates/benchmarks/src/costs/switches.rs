//! What two tasks pay to wake each other, on one CPU and on two.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::{Cost, keep_on};
use crate::measure::MeasureError;
use crate::measure::crew::{Crew, Gate, Tasks, receive, send};
use crate::system;

/// Round trips, each a piece: some microseconds.
const ROUND_TRIPS: usize = 20_000;

/// Tasks of a ring in which each is away for so long that others took its place in the caches.
const RING: u32 = 8;

/// Rounds of the ring, each a piece.
const ROUNDS: usize = 4000;

/// Messages to a task that sleeps, each a piece.
const WAKE_UPS: usize = 2000;

/// How long a waker waits until the one that it woke sleeps again.
const SETTLE_NS: u64 = 60_000;

type Channel = (OwnedFd, OwnedFd);

pub fn measure(
    [here, there]: [usize; 2],
    watch: &mut dyn FnMut(Cost) -> Result<(), MeasureError>,
) -> Result<(), MeasureError> {
    let how = "a byte to another task and one back through pipes, half of it";
    let processes = round_trips([here, here], Tasks::Processes)?;
    watch(Cost::of("hop_ns", processes, how).between("processes on one CPU"))?;
    let threads = round_trips([here, here], Tasks::Threads)?;
    watch(Cost::of("hop_ns", threads, how).between("threads on one CPU"))?;
    let how = "a byte round a ring of eight tasks through pipes, an eighth of it";
    let ring = Cost::of("hop_ns", rounds(here)?, how);
    watch(ring.between("eight processes on one CPU"))?;
    let alone = writes(None)?;
    let alone_ns = Cost::of("", alone, "").median;
    let how = "a write to a pipe whose reader of SCHED_IDLE sleeps on this CPU, less one to a pipe \
               that nobody waits for";
    let woken = Cost::of("wakeup_ns", writes(Some([here, here]))?, how).less(alone_ns);
    let wakeup_ns = woken.median;
    watch(woken)?;
    if here == there {
        return Ok(());
    }
    let how = "a byte to a task on another CPU and one back through pipes, half of it";
    let processes = round_trips([here, there], Tasks::Processes)?;
    watch(Cost::of("hop_ns", processes, how).between("processes on two CPUs"))?;
    let how = "as wakeup_ns, the reader sleeps on another CPU, less wakeup_ns";
    let far = writes(Some([here, there]))?;
    watch(Cost::of("ipi_send_ns", far, how).less(alone_ns).less(wakeup_ns))
}

fn open() -> Result<Channel, MeasureError> {
    nix::unistd::pipe().map_err(|error| MeasureError::system("make a pipe", error))
}

/// Halves of round trips between two tasks.
fn round_trips(cpus: [usize; 2], tasks: Tasks) -> Result<Vec<f64>, MeasureError> {
    let (there_inlet, there) = open()?;
    let (back_inlet, back) = open()?;
    let (report_inlet, report) = open()?;
    let mut crew = Crew::new(tasks, 2)?;
    crew.add("the task that asks".into(), move |gate: Gate| {
        keep_on(cpus[0])?;
        gate.wait()?;
        let mut halves = Vec::with_capacity(ROUND_TRIPS * 8);
        for _ in 0..ROUND_TRIPS {
            let begin_ns = system::now_ns();
            send(&there, b"a")?;
            receive(&back_inlet, &mut [0])?;
            let half_ns = (system::now_ns() - begin_ns) as f64 / 2.0;
            halves.extend_from_slice(&half_ns.to_le_bytes());
        }
        send(&report, &halves)
    })?;
    crew.add("the task that answers".into(), move |gate: Gate| {
        keep_on(cpus[1])?;
        gate.wait()?;
        for _ in 0..ROUND_TRIPS {
            receive(&there_inlet, &mut [0])?;
            send(&back, b"a")?;
        }
        Ok(())
    })?;
    crew.begin()?;
    let halves = hear(&report_inlet, ROUND_TRIPS);
    crew.finish()?;
    halves
}

/// What each of `RING` processes on this CPU takes for its part of a round.
fn rounds(cpu: usize) -> Result<Vec<f64>, MeasureError> {
    let pipes: Vec<Arc<Channel>> =
        (0..RING).map(|_| open().map(Arc::new)).collect::<Result<_, _>>()?;
    let (report_inlet, report) = open()?;
    let mut crew = Crew::new(Tasks::Processes, RING)?;
    let (first, last) = (Arc::clone(&pipes[0]), Arc::clone(&pipes[RING as usize - 1]));
    crew.add("the task that begins".into(), move |gate: Gate| {
        keep_on(cpu)?;
        gate.wait()?;
        let mut parts = Vec::with_capacity(ROUNDS * 8);
        for _ in 0..ROUNDS {
            let begin_ns = system::now_ns();
            send(&first.1, b"r")?;
            receive(&last.0, &mut [0])?;
            let part_ns = (system::now_ns() - begin_ns) as f64 / f64::from(RING);
            parts.extend_from_slice(&part_ns.to_le_bytes());
        }
        send(&report, &parts)
    })?;
    for pair in pipes.windows(2) {
        let (before, after) = (Arc::clone(&pair[0]), Arc::clone(&pair[1]));
        crew.add("a task of the ring".into(), move |gate: Gate| {
            keep_on(cpu)?;
            gate.wait()?;
            for _ in 0..ROUNDS {
                receive(&before.0, &mut [0])?;
                send(&after.1, b"r")?;
            }
            Ok(())
        })?;
    }
    crew.begin()?;
    let parts = hear(&report_inlet, ROUNDS);
    crew.finish()?;
    parts
}

/// Numbers that a task tells.
fn hear(from: &OwnedFd, count: usize) -> Result<Vec<f64>, MeasureError> {
    let mut bytes = vec![0; count * 8];
    receive(from, &mut bytes).map_err(|e| MeasureError::system("hear of the tasks", e))?;
    let number = |bytes: &[u8]| bytes.try_into().map_or(0.0, f64::from_le_bytes);
    Ok(bytes.chunks_exact(8).map(number).collect())
}

/// Times of writes into a pipe: that a reader sleeps at, with the CPUs of writer and reader, or
/// nobody. A reader on the writer's CPU does not take it from the writer.
fn writes(cpus: Option<[usize; 2]>) -> Result<Vec<f64>, MeasureError> {
    let (inlet, outlet) = open()?;
    let timed = |outlet: &OwnedFd| {
        let begin_ns = system::now_ns();
        send(outlet, b"w").map(|()| (system::now_ns() - begin_ns) as f64)
    };
    let failed = |error| MeasureError::system("use a pipe", error);
    let Some([here, there]) = cpus else {
        let mut times = vec![];
        for _ in 0..WAKE_UPS {
            system::sleep_ns(SETTLE_NS);
            times.push(timed(&outlet).map_err(failed)?);
            receive(&inlet, &mut [0]).map_err(failed)?;
        }
        return Ok(times);
    };
    let mut crew = Crew::new(Tasks::Processes, 1)?;
    crew.add("the task that is woken".into(), move |gate: Gate| {
        keep_on(there)?;
        if here == there {
            system::set_class(libc::SCHED_IDLE, 0).map_err(std::io::Error::from_raw_os_error)?;
        }
        gate.wait()?;
        for _ in 0..WAKE_UPS {
            receive(&inlet, &mut [0])?;
        }
        Ok(())
    })?;
    crew.begin()?;
    let mut times = vec![];
    for _ in 0..WAKE_UPS {
        system::sleep_ns(SETTLE_NS);
        times.push(timed(&outlet).map_err(failed)?);
    }
    crew.finish()?;
    Ok(times)
}
