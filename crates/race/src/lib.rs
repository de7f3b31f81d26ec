//! The run-queue race: structures against each other, workload by workload.
//!
//! In April 2007 three run queues raced on linux-kernel: the red-black tree of CFS, a time ring, a
//! GAVL tree. This crate runs that race, and others, fairly: [`heat`] takes one workload and one
//! size, verifies that every entrant that promises exact order keeps it, and lets the entrants take
//! turns on one CPU. What comes of it is figures of each round; what they mean is not decided
//! here.
//!
//! Entrants are the structures of [`runqueue`], the standard library's, and plug-ins in C or C++
//! ([`plugin`]). [`entrants`] lists them, [`Workload`] says what is done with them.

mod clock;
mod counters;
mod course;
mod cpu_core;
mod entrants;
mod error;
mod heat;
mod heat_run;
mod memory;
mod order;
mod pin;
pub mod plugin;
mod raced;
mod setting;
mod spec;
mod std_queues;
mod trace;
mod workload;

pub use entrants::{EntrantFacts, entrants};
pub use error::RaceError;
pub use heat::{Counting, Heat, Percentiles, Row, Single};
pub use heat_run::heat;
pub use spec::{HeatSpec, ITEMS_MAX, LOOPS_MAX, Order, ROUNDS_MAX};
pub use std_queues::{StdBTreeMap, StdBinaryHeap};
pub use trace::{Operation, Trace, trace_text};
pub use workload::{WORKLOADS, Workload};
