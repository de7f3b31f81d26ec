//! What was done to each dispatch queue of a run, for whoever wants to repeat it with queues alone.
//!
//! Only this module knows what "first" means for a record: a task that leaves from the head was
//! popped, whoever took it; any other was removed. Keys are such that an exact queue repeats the
//! order: virtual times as they are, and in a first-in-first-out queue the number of the
//! insertion, counted downwards for one at the head.

use crate::dispatch_queue::{BUILTIN, LOCAL_CPU_MASK, LOCAL_ON};
use crate::place::TaskId;
use crate::queues::Queues;
use crate::record::{Record, Recordable, Recording, Spool, put, put_after, take, take_after};
use std::collections::BTreeMap;

/// What was done to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueOperation {
    /// A task was put into it.
    Push {
        /// Its number.
        task: TaskId,
        /// Its place: keys wrap, the smallest is first, and equal ones keep the order of arrival.
        key: u64,
    },
    /// The first task left.
    Pop,
    /// A task left that was not the first.
    Remove {
        /// Its number.
        task: TaskId,
    },
}

const PUSH: u64 = 0;
const POP: u64 = 1;
const REMOVE: u64 = 2;

impl Recordable for QueueOperation {
    /// The key of the push before.
    type Before = u64;

    fn write(self, before: &mut u64, bytes: &mut Vec<u8>) {
        match self {
            QueueOperation::Push { task, key } => {
                put(u64::from(task) << 2 | PUSH, bytes);
                put_after(before, key, bytes);
            }
            QueueOperation::Pop => put(POP, bytes),
            QueueOperation::Remove { task } => put(u64::from(task) << 2 | REMOVE, bytes),
        }
    }

    fn read(before: &mut u64, bytes: &mut &[u8]) -> Self {
        let first = take(bytes);
        let task = (first >> 2) as TaskId;
        match first & 3 {
            PUSH => QueueOperation::Push { task, key: take_after(before, bytes) },
            POP => QueueOperation::Pop,
            REMOVE => QueueOperation::Remove { task },
            other => unreachable!("an operation {other} was never written"),
        }
    }
}

/// One dispatch queue from the beginning of a run to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueRecord {
    /// "local0" of CPU 0, "global0" of node 0, or the number that the policy gave it, as in "0x3".
    pub queue: String,
    /// Whether the policy created it; the others are the kernel's.
    pub is_policys: bool,
    /// What was done, in this order.
    pub operations: Record<QueueOperation>,
}

/// The records of a run in progress, by the queues' indices.
#[derive(Debug)]
pub struct QueueRecorder {
    spool: Spool,
    operations: BTreeMap<u32, Recording<QueueOperation>>,
}

impl QueueRecorder {
    /// Of no queue yet, in the spool of the run.
    pub fn new(spool: &Spool) -> Self {
        QueueRecorder { spool: spool.clone(), operations: BTreeMap::new() }
    }

    /// A task was put into the queue with this index by its virtual time.
    #[cold]
    pub fn pushed_by_vtime(&mut self, index: u32, task: TaskId, vtime: u64) {
        self.note(index, QueueOperation::Push { task, key: vtime });
    }

    /// A task was put behind all others or before them; `seq` grows with each insertion.
    #[cold]
    pub fn pushed(&mut self, index: u32, task: TaskId, seq: u64, at_head: bool) {
        let key = if at_head { seq.wrapping_neg() } else { seq };
        self.note(index, QueueOperation::Push { task, key });
    }

    /// A task left.
    #[cold]
    pub fn left(&mut self, index: u32, task: TaskId, was_first: bool) {
        let left = if was_first { QueueOperation::Pop } else { QueueOperation::Remove { task } };
        self.note(index, left);
    }

    fn note(&mut self, index: u32, operation: QueueOperation) {
        let new = || Recording::new(&self.spool);
        self.operations.entry(index).or_insert_with(new).push(operation);
    }

    /// What it takes of memory, but for the tree.
    #[cfg(test)]
    pub fn held_bytes(&self) -> usize {
        self.operations.values().map(Recording::held_bytes).sum()
    }

    /// The records of all queues that were used, the kernel's first. A policy's queue is empty
    /// when it is destroyed, so one that is created again with its number goes on in its record.
    pub fn into_records(self, queues: &Queues) -> Vec<QueueRecord> {
        let mut records: Vec<QueueRecord> = Vec::new();
        for (index, operations) in self.operations {
            let (queue, operations) = (name_of(queues, index), operations.finish());
            match records.iter_mut().find(|record| record.queue == queue) {
                Some(record) => record.operations.append(operations),
                None => {
                    let is_policys = queues.get(index).id() & BUILTIN == 0;
                    records.push(QueueRecord { queue, is_policys, operations });
                }
            }
        }
        records
    }
}

fn name_of(queues: &Queues, index: u32) -> String {
    let id = queues.get(index).id();
    match id {
        _ if id & LOCAL_ON == LOCAL_ON => format!("local{}", id & LOCAL_CPU_MASK),
        _ if id & BUILTIN != 0 => format!("global{}", queues.node_of(index)),
        _ => format!("{id:#x}"),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: records have names that tell queues apart. Method: a machine of two CPUs and nodes.

    use super::*;
    use crate::visible::Visible;

    #[test]
    fn a_record_has_the_name_of_its_queue_and_outlives_it() {
        let mut visible = Visible::new(1000, 2, false).expect("addresses");
        let mut queues = Queues::new(&mut visible, 2, 2);
        queues.create(&mut visible, 7).expect("created");
        let first = queues.find(7).expect("there");
        queues.destroy(7);
        queues.create(&mut visible, 7).expect("created again");
        let again = queues.find(7).expect("there");
        assert_ne!(first, again);
        let mut recorder = QueueRecorder::new(&Spool::default());
        recorder.pushed(queues.local(1), 4, 1, false);
        recorder.pushed(queues.global(1), 5, 2, true);
        recorder.pushed_by_vtime(first, 6, 30);
        recorder.left(first, 6, true);
        recorder.pushed_by_vtime(again, 8, 20);
        recorder.left(again, 8, false);
        let records = recorder.into_records(&queues);
        let told: Vec<_> = records.iter().map(|r| (r.queue.as_str(), r.is_policys)).collect();
        assert_eq!(told, [("local1", false), ("global1", false), ("0x7", true)]);
        let push = |task, key| QueueOperation::Push { task, key };
        let operations = |at: usize| records[at].operations.to_vec().expect("readable");
        assert_eq!(operations(0), [push(4, 1)]);
        assert_eq!(operations(1), [push(5, u64::MAX - 1)]);
        let removed = QueueOperation::Remove { task: 8 };
        assert_eq!(operations(2), [push(6, 30), QueueOperation::Pop, push(8, 20), removed]);
    }
}
