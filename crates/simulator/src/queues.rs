//! All dispatch queues: what is in them, and which of them somebody walks.

use crate::dispatch_queue::{DispatchQueue, GLOBAL, LOCAL_ON, MixedOrders, Standing};
use crate::place::TaskId;
use crate::visible::Visible;
use bytecode::errno;
use runqueue::Key;
use std::collections::BTreeMap;

/// All dispatch queues: those of the CPUs first, then one a node, then the policy's own.
#[derive(Debug)]
pub struct Queues {
    queues: Vec<DispatchQueue>,
    /// Tasks in all of them.
    nr_queued: u32,
    /// Insertions into all of them so far.
    nr_insertions: u64,
    /// Those whose locks walks of the policy's hold now.
    walked: Vec<u32>,
    /// Tasks of which the policy is to hear when its operation is over.
    stranded: Vec<Stranded>,
    nr_cpus: usize,
    nr_nodes: usize,
    /// Indices of the policy's queues with small numbers, up to the largest that there was.
    small: Vec<u32>,
    /// Indices of the policy's other queues.
    large: BTreeMap<u64, u32>,
}

/// Why the policy is to hear of a task that came into a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranded {
    /// It is the own queue of a CPU that is gone: the task has to be pushed away.
    OnGoneCpu(TaskId),
    /// It has left the policy's custody.
    OutOfCustody(TaskId),
    /// All tasks in the queue with this index are to be enqueued again.
    InQueue(u32),
}

const SMALL_IDS: u64 = 4096;
const NO_QUEUE: u32 = u32::MAX;

/// The most queues there may ever be, built-in and destroyed ones included.
pub const QUEUES_MAX: usize = 1 << 20;

impl Queues {
    /// The built-in queues of a machine.
    pub fn new(visible: &mut Visible, nr_cpus: usize, nr_nodes: usize) -> Self {
        let local = (0..nr_cpus).map(|cpu| LOCAL_ON | cpu as u64);
        let built_in = local.chain((0..nr_nodes).map(|_| GLOBAL));
        Queues {
            queues: built_in.map(|id| DispatchQueue::new(visible, id)).collect(),
            nr_queued: 0,
            nr_insertions: 0,
            walked: Vec::new(),
            stranded: Vec::new(),
            nr_cpus,
            nr_nodes,
            small: Vec::new(),
            large: BTreeMap::new(),
        }
    }

    /// How many nodes the machine has.
    pub fn nr_nodes(&self) -> usize {
        self.nr_nodes
    }

    /// Creates a queue of the policy's; a negative error number if there is one of that number or
    /// there have been [`QUEUES_MAX`] queues.
    pub fn create(&mut self, visible: &mut Visible, id: u64) -> Result<(), i32> {
        if self.find(id).is_some() {
            return Err(-errno::EEXIST);
        }
        if self.queues.len() >= QUEUES_MAX {
            return Err(-errno::ENOMEM);
        }
        let index = self.queues.len() as u32;
        self.queues.push(DispatchQueue::new(visible, id));
        if id >= SMALL_IDS {
            self.large.insert(id, index);
            return Ok(());
        }
        let place = id as usize;
        if place >= self.small.len() {
            self.small.resize(place + 1, NO_QUEUE);
        }
        self.small[place] = index;
        Ok(())
    }

    /// Forgets an empty queue of the policy's, if there is one of this number, which may be used
    /// again.
    pub fn destroy(&mut self, id: u64) {
        if id >= SMALL_IDS {
            self.large.remove(&id);
        } else if let Some(place) = self.small.get_mut(id as usize) {
            *place = NO_QUEUE;
        }
    }

    /// Forgets all of the policy's queues, which must be empty.
    pub fn destroy_all(&mut self) {
        self.small.clear();
        self.large.clear();
    }

    /// Index of the policy's queue with this number.
    pub fn find(&self, id: u64) -> Option<u32> {
        if id < SMALL_IDS {
            return self.small.get(id as usize).copied().filter(|&index| index != NO_QUEUE);
        }
        self.large.get(&id).copied()
    }

    /// Index of a CPU's own queue.
    pub fn local(&self, cpu: usize) -> u32 {
        cpu as u32
    }

    /// Index of a node's global queue.
    pub fn global(&self, node: usize) -> u32 {
        debug_assert!(node < self.nr_nodes);
        (self.nr_cpus + node) as u32
    }

    /// The node whose global queue has this index.
    pub fn node_of(&self, index: u32) -> usize {
        index as usize - self.nr_cpus
    }

    /// Whether the queue with this index is one of the policy's.
    pub fn is_own(&self, index: u32) -> bool {
        index as usize >= self.nr_cpus + self.nr_nodes
    }

    /// The CPU whose own queue has this index.
    pub fn cpu_of(&self, index: u32) -> Option<usize> {
        ((index as usize) < self.nr_cpus).then_some(index as usize)
    }

    /// The queue with this index.
    pub fn get(&self, index: u32) -> &DispatchQueue {
        &self.queues[index as usize]
    }

    /// The queue with this index.
    pub fn get_mut(&mut self, index: u32) -> &mut DispatchQueue {
        &mut self.queues[index as usize]
    }

    /// Indices of the policy's queues, by their numbers.
    pub fn of_policy(&self) -> impl Iterator<Item = u32> {
        let small = self.small.iter().filter(|&&index| index != NO_QUEUE);
        small.chain(self.large.values()).copied()
    }

    /// All queues.
    pub fn all(&self) -> &[DispatchQueue] {
        &self.queues
    }

    // ---- tasks ------------------------------------------------------------------------------

    /// Adds a task at the head or the tail of a queue, or by `vtime`. Where it stands: its
    /// position, if it has one, and the number of the insertion.
    pub fn add(
        &mut self,
        index: u32,
        task: TaskId,
        vtime: Option<u64>,
        at_head: bool,
    ) -> Result<(i64, u64), MixedOrders> {
        self.nr_insertions += 1;
        let seq = self.nr_insertions;
        let queue = &mut self.queues[index as usize];
        let position = match vtime {
            Some(vtime) => {
                queue.push_vtime(task, Key { at: vtime as i64, arrival: seq })?;
                0
            }
            None => queue.push(task, at_head)?,
        };
        self.nr_queued += 1;
        Ok((position, seq))
    }

    /// Takes a task out of a queue.
    pub fn remove(&mut self, index: u32, standing: Standing) -> TaskId {
        self.nr_queued -= 1;
        self.queues[index as usize].remove(standing)
    }

    /// Takes the first task out of a queue that is not empty.
    #[inline]
    pub fn remove_first(&mut self, index: u32) -> TaskId {
        self.nr_queued -= 1;
        self.queues[index as usize].remove_first().expect("the queue is not empty")
    }

    /// Tasks in all queues.
    pub fn nr_queued(&self) -> u32 {
        self.nr_queued
    }

    /// Insertions into all queues so far.
    pub fn nr_insertions(&self) -> u64 {
        self.nr_insertions
    }

    // ---- walks ------------------------------------------------------------------------------

    /// A walk over a queue begins: its lock is held.
    pub fn begin_walk(&mut self, index: u32) {
        self.walked.push(index);
    }

    /// The walk ends.
    pub fn end_walk(&mut self, index: u32) {
        let place = self.walked.iter().rposition(|&walked| walked == index);
        let place = place.expect("a walk that is open");
        // Nobody asks for their order.
        self.walked.swap_remove(place);
    }

    /// Ends all walks.
    pub fn end_walks(&mut self) {
        self.walked.clear();
    }

    /// Whether a walk is open.
    #[inline]
    pub fn has_walks(&self) -> bool {
        !self.walked.is_empty()
    }

    /// Whether a walk over this queue is open.
    #[inline]
    pub fn is_walked(&self, index: u32) -> bool {
        self.has_walks() && self.walked.contains(&index)
    }

    /// The policy is to hear of a task or a queue, but not during a walk.
    pub fn strand(&mut self, stranded: Stranded) {
        self.stranded.push(stranded);
    }

    /// All tasks of a queue are to be enqueued again, once, however often that is asked.
    pub fn strand_queue(&mut self, index: u32) {
        if !self.stranded.contains(&Stranded::InQueue(index)) {
            self.stranded.push(Stranded::InQueue(index));
        }
    }

    /// Whether there are such and no walk is open.
    #[inline]
    pub fn has_stranded(&self) -> bool {
        !self.stranded.is_empty() && !self.has_walks()
    }

    /// Those tasks and queues.
    pub fn take_stranded(&mut self) -> Vec<Stranded> {
        std::mem::take(&mut self.stranded)
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a number leads to the policy's queue as long as that is there.

    use super::*;

    #[test]
    fn a_queue_is_found_until_it_is_destroyed_and_one_that_is_not_there_may_be() {
        let mut visible = Visible::new(1000, 2, false).expect("addresses");
        let mut queues = Queues::new(&mut visible, 2, 1);
        let unknown = [0, 7, SMALL_IDS - 1, SMALL_IDS, u64::MAX >> 1];
        unknown.into_iter().for_each(|id| queues.destroy(id));
        for id in [5, SMALL_IDS + 3, 2] {
            assert_eq!(queues.create(&mut visible, id), Ok(()));
        }
        unknown.into_iter().for_each(|id| queues.destroy(id));
        let by_number = [2, 5, SMALL_IDS + 3].map(|id| queues.find(id).expect("it is there"));
        assert!(queues.of_policy().eq(by_number));
        assert_eq!(queues.create(&mut visible, 2), Err(-errno::EEXIST));
        queues.destroy(5);
        assert_eq!((queues.find(5), queues.of_policy().count()), (None, 2));
        assert_eq!(queues.create(&mut visible, 5), Ok(()));
        queues.destroy_all();
        assert_eq!((queues.find(2), queues.of_policy().count()), (None, 0));
        queues.destroy(2);
    }
}
