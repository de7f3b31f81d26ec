//! What all tasks of a play are given.

use crate::player::Class;
use crate::player::cgroups::Cgroups;
use crate::player::channel::Ends;
use crate::player::pace::Burner;
use crate::player::requests::Requests;
use crate::player::stage::Stage;
use crate::system::Cpus;
use scenario::workload::Workload;

/// What all tasks of a play are given. Every process has its own copy at the same address.
#[derive(Debug)]
pub struct Setting<'a> {
    /// What is played.
    pub workload: &'a Workload,
    /// What they share.
    pub stage: &'a Stage,
    /// Buffers.
    pub channels: &'a [Ends],
    /// Requests, if the workload has some.
    pub requests: Option<&'a Requests>,
    /// Groups of tasks.
    pub cgroups: &'a Cgroups,
    /// Seed of all draws.
    pub seed: u64,
    /// How work is done.
    pub burner: Burner,
    /// Class of all tasks.
    pub class: Class,
    /// Time for the caller before time 0, in ns.
    pub lead_ns: u64,
    /// CPUs of tasks whose template names none.
    pub all_cpus: Cpus,
    /// Size of the largest message.
    pub message_bytes: usize,
    /// Whether messages count from the mark on only.
    pub has_mark: bool,
}
