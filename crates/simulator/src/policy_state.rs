//! What a policy was given and holds: arguments, sets of CPUs.

use crate::abi::{CpuMask, ExitTaskArgs, InitTaskArgs, RunQueue};
use crate::linked::Mode;
use crate::operations::Operation;
use crate::visible::{Placed, Visible};
use std::collections::BTreeMap;

/// What a policy was given and holds.
#[derive(Debug)]
pub struct Given {
    /// What `init_task` is given.
    pub init_task: Placed<InitTaskArgs>,
    /// What `exit_task` is given.
    pub exit_task: Placed<ExitTaskArgs>,
    /// What stands for a run queue: its task.
    pub rq: Placed<RunQueue>,
    /// How an object is run.
    pub mode: Mode,
    /// Instructions of it that were watched.
    pub watched: u64,
    /// What of it runs, or ran last.
    pub operation: Operation,
    /// Where its arguments are, and how many bytes of them it has.
    pub arguments: (u64, u64),
    /// Whether that may sleep.
    pub may_sleep: bool,
    /// The instruction that inserts or moves a task, if one does.
    pub call: Option<u32>,
    /// Whether the run had failed before the present call.
    pub had_failed: bool,
    /// The instruction whose call was wrong, if one was.
    pub failed_at: Option<u32>,
    /// Sets of CPUs of an object's.
    pub masks: OwnMasks,
}

impl Given {
    /// Nothing yet.
    pub fn new(visible: &mut Visible, mode: Mode) -> Given {
        Given {
            init_task: visible.place(InitTaskArgs::default()),
            exit_task: visible.place(ExitTaskArgs::default()),
            rq: visible.place(RunQueue::default()),
            mode,
            watched: 0,
            operation: Operation::Init,
            arguments: (0, 0),
            may_sleep: false,
            call: None,
            had_failed: false,
            failed_at: None,
            masks: OwnMasks::default(),
        }
    }
}

/// Sets of CPUs that the policy made.
#[derive(Debug, Default)]
pub struct OwnMasks {
    /// How many hold each, by its address.
    pub users: BTreeMap<u64, u32>,
    /// Those that nobody holds.
    pub free: Vec<Placed<CpuMask>>,
    /// Those that somebody holds.
    pub used: BTreeMap<u64, Placed<CpuMask>>,
}

impl OwnMasks {
    /// Nobody holds any more, as when the policy is gone.
    pub fn forget_all(&mut self) {
        self.users.clear();
        self.free.extend(std::mem::take(&mut self.used).into_values());
    }
}
