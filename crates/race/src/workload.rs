//! What can be done with the queues of a heat.

use serde::{Deserialize, Serialize};

/// Most loops before a round, where a round has fewer.
const RUN_UP_MOST: u64 = 100_000;

/// What is done with the queues. Names are part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// The loop of 2007: the first item leaves and is queued again with a later key.
    Hold,
    /// As hold, and each loop a random item leaves and is queued again with the key it had.
    HoldRemove,
    /// As hold, each loop in a random one of many queues, so that caches are cold.
    Cold,
    /// As hold, each operation timed alone.
    Single,
    /// As hold_remove, each operation timed alone.
    SingleRemove,
    /// Items come and leave by a chain of two states, around n of them.
    Markov,
    /// n items come, then all leave.
    UpDown,
    /// n items; a quarter as many wake up with low keys, run, and a quarter sleeps.
    Storm,
    /// n items are removed in a random order.
    MassExit,
    /// All items of one queue are moved to another.
    Drain,
    /// n items; a quarter as many come with nearly equal keys, run, and a quarter exits.
    ForkBurst,
    /// The operations of a file.
    Trace,
}

/// All workloads, in the order of tables.
pub const WORKLOADS: [Workload; 12] = [
    Workload::Hold,
    Workload::HoldRemove,
    Workload::Cold,
    Workload::Single,
    Workload::SingleRemove,
    Workload::Markov,
    Workload::UpDown,
    Workload::Storm,
    Workload::MassExit,
    Workload::Drain,
    Workload::ForkBurst,
    Workload::Trace,
];

impl Workload {
    /// The workload's name in heats and tables.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Hold => "hold",
            Workload::HoldRemove => "hold_remove",
            Workload::Cold => "cold",
            Workload::Single => "single",
            Workload::SingleRemove => "single_remove",
            Workload::Markov => "markov",
            Workload::UpDown => "up_down",
            Workload::Storm => "storm",
            Workload::MassExit => "mass_exit",
            Workload::Drain => "drain",
            Workload::ForkBurst => "fork_burst",
            Workload::Trace => "trace",
        }
    }

    /// All names, for messages.
    pub fn names() -> String {
        WORKLOADS.map(Workload::name).join(", ")
    }

    /// What its ticks are counted for: a "loop" (a pop and a push, and what belongs to them) or
    /// an "operation" (a push, a pop or a removal).
    pub fn per(self) -> &'static str {
        match self {
            Workload::Hold | Workload::HoldRemove | Workload::Cold => "loop",
            Workload::Single | Workload::SingleRemove => "loop",
            _ => "operation",
        }
    }

    /// Loops or operations of a round, if nobody says how many: long enough to be measured, short
    /// enough that nobody disturbs most rounds, and to be run again if somebody did. The loop of
    /// more items is too long for that in any case, and serves each once, so that what a structure
    /// does once in many loops is in each round: of a million uniform keys those beyond the ring
    /// come into `exact_time_ring` once in 501,000 loops, which rounds of 250,000, after as many
    /// of run-up, met always or never. Workloads that fill and empty do so at least once.
    pub fn loops(self, n: u64, queues: u64, recorded: u64) -> u64 {
        match self {
            Workload::Hold | Workload::HoldRemove if n > 100_000 => n,
            Workload::Hold | Workload::HoldRemove => (n / 4).max(20_000),
            Workload::Cold => (queues * n / 4).clamp(20_000, 250_000),
            Workload::Single | Workload::SingleRemove => (n / 4).clamp(50_000, 250_000),
            Workload::Markov => (n / 2).clamp(40_000, 500_000),
            Workload::UpDown | Workload::Drain => (2 * n).max(40_000),
            Workload::Storm | Workload::ForkBurst | Workload::MassExit => n.max(40_000),
            Workload::Trace => recorded.max(20_000),
        }
    }

    /// Loops or operations before each round, untimed, if nobody says how many.
    pub fn run_up(self, n: u64, loops: u64) -> u64 {
        match self {
            Workload::Cold => 0,
            // Ten for each item, as the loop ran warm in 2007: after two of 10,000 items with
            // weighted keys half of those to come were last touched before all others had the
            // caches. More than so many would take longer than all else.
            Workload::Hold | Workload::HoldRemove => {
                (10 * n).clamp(loops / 4, RUN_UP_MOST.max(loops / 4))
            }
            _ => n.clamp(loops / 4, loops),
        }
    }
}
