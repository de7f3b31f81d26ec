//! Dispatch queues: where runnable tasks wait, first-in-first-out or by virtual time.
//!
//! A queue is one or the other as long as it holds tasks, as in the kernel. Its lock is a
//! resource in virtual time: whoever comes while it is held waits.

use crate::abi;
use crate::place::TaskId;
use crate::visible::{Placed, Visible};
use bytecode::errno;
use runqueue::{Fifo, Key, Ordered};
use std::collections::BTreeMap;

/// A lock as the simulation sees it: when it is free, and in whose cache it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lock {
    /// The end of the last critical section that is known.
    pub free_at_ns: u64,
    /// The CPU that held it last.
    pub holder: u32,
}

#[derive(Debug)]
enum Order {
    Fifo(Fifo),
    Vtime(Ordered),
}

/// One dispatch queue.
#[derive(Debug)]
pub struct DispatchQueue {
    /// What the policy may look at.
    view: Placed<abi::DispatchQueueView>,
    order: Order,
    /// Its lock.
    pub lock: Lock,
    /// Walks in progress; the list is not squeezed meanwhile.
    pub walks: u32,
}

/// Where in a queue a task stands.
#[derive(Clone, Copy, Debug)]
pub enum Standing {
    /// Position in a first-in-first-out queue.
    Position(i64),
    /// Key in a queue ordered by virtual time.
    Key(Key),
}

/// A task cannot be put into this queue in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixedOrders;

impl DispatchQueue {
    fn new(visible: &mut Visible, id: u64) -> Self {
        DispatchQueue {
            view: visible.place(abi::DispatchQueueView { id, nr: 0 }),
            order: Order::Fifo(Fifo::default()),
            lock: Lock::default(),
            walks: 0,
        }
    }

    /// Its number.
    pub fn id(&self) -> u64 {
        self.view.id
    }

    /// How many tasks wait in it.
    pub fn len(&self) -> usize {
        self.view.nr as usize
    }

    /// The address by which tasks point to it.
    pub fn address(&self) -> *mut abi::DispatchQueueView {
        self.view.address()
    }

    /// Whether it is in use in the other order.
    pub fn refuses(&self, by_vtime: bool) -> bool {
        self.len() > 0 && matches!(self.order, Order::Vtime(_)) != by_vtime
    }

    /// Adds a task at the head or the tail and returns its position.
    pub fn push(&mut self, task: TaskId, at_head: bool) -> Result<i64, MixedOrders> {
        if self.refuses(false) {
            return Err(MixedOrders);
        }
        if !matches!(self.order, Order::Fifo(_)) {
            self.order = Order::Fifo(Fifo::default());
        }
        let Order::Fifo(fifo) = &mut self.order else { unreachable!("set above") };
        self.view.nr += 1;
        Ok(if at_head { fifo.push_front(task) } else { fifo.push_back(task) })
    }

    /// Adds a task by its key.
    pub fn push_vtime(&mut self, task: TaskId, key: Key) -> Result<(), MixedOrders> {
        if self.refuses(true) {
            return Err(MixedOrders);
        }
        if !matches!(self.order, Order::Vtime(_)) {
            self.order = Order::Vtime(Ordered::default());
        }
        let Order::Vtime(queue) = &mut self.order else { unreachable!("set above") };
        self.view.nr += 1;
        queue.push(key, task);
        Ok(())
    }

    /// Takes a task out.
    pub fn remove(&mut self, standing: Standing) -> TaskId {
        self.view.nr -= 1;
        match (&mut self.order, standing) {
            (Order::Fifo(fifo), Standing::Position(position)) => fifo.remove(position),
            (Order::Vtime(queue), Standing::Key(key)) => queue.remove(key),
            (order, standing) => panic!("{standing:?} does not fit {order:?}"),
        }
    }

    /// Whether it orders its tasks by virtual time at present.
    pub fn is_by_vtime(&self) -> bool {
        matches!(self.order, Order::Vtime(_))
    }

    /// The first task.
    pub fn first(&self) -> Option<TaskId> {
        match &self.order {
            Order::Fifo(fifo) => fifo.first(),
            Order::Vtime(queue) => queue.first(),
        }
    }

    /// Tasks in order.
    pub fn iter(&self) -> Box<dyn Iterator<Item = TaskId> + '_> {
        match &self.order {
            Order::Fifo(fifo) => Box::new(fifo.iter()),
            Order::Vtime(queue) => Box::new(queue.after(None).map(|(_, task)| task)),
        }
    }

    /// Squeezes holes out where that is due, telling tasks' new positions.
    pub fn squeeze(&mut self, moved: impl FnMut(TaskId, i64)) {
        if let Order::Fifo(fifo) = &mut self.order
            && self.walks == 0
            && fifo.has_too_many_holes()
        {
            fifo.squeeze(moved);
        }
    }

    /// Copies the next tasks of a walk to `out`, moves the cursor behind them and returns how
    /// many there were. A walk begins with [`Cursor::START`].
    pub fn walk(&self, cursor: &mut Cursor, backwards: bool, out: &mut [TaskId]) -> usize {
        match &self.order {
            Order::Fifo(fifo) => walk_fifo(fifo, cursor, backwards, out),
            Order::Vtime(queue) => walk_ordered(queue, cursor, backwards, out),
        }
    }
}

/// Where a walk over a queue has got to, in two words that an iterator carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(pub [u64; 2]);

impl Cursor {
    /// Before the first task. No position and no arrival has this value.
    pub const START: Cursor = Cursor([u64::MAX, u64::MAX]);
}

fn walk_fifo(fifo: &Fifo, cursor: &mut Cursor, backwards: bool, out: &mut [TaskId]) -> usize {
    let (first, end) = fifo.bounds();
    let started = *cursor != Cursor::START;
    if !backwards {
        let from = if started { cursor.0[0] as i64 } else { first };
        let (filled, next) = fifo.copy_from(from.max(first), out);
        *cursor = Cursor([next as u64, 0]);
        return filled;
    }
    // Backwards the cursor is where the last chunk ended, too.
    let mut position = if started { (cursor.0[0] as i64).min(end) } else { end };
    let mut filled = 0;
    while position > first && filled < out.len() {
        position -= 1;
        if let Some(task) = fifo.get(position) {
            out[filled] = task;
            filled += 1;
        }
    }
    *cursor = Cursor([position as u64, 0]);
    filled
}

fn walk_ordered(
    queue: &Ordered,
    cursor: &mut Cursor,
    backwards: bool,
    out: &mut [TaskId],
) -> usize {
    let here =
        (*cursor != Cursor::START).then_some(Key { at: cursor.0[0] as i64, arrival: cursor.0[1] });
    let mut filled = 0;
    let mut take = |(key, task): (Key, TaskId)| {
        out[filled] = task;
        *cursor = Cursor([key.at as u64, key.arrival]);
        filled += 1;
        filled < out.len()
    };
    if backwards {
        let _ = queue.before(here).all(&mut take);
    } else {
        let _ = queue.after(here).all(&mut take);
    }
    filled
}

/// All dispatch queues: those of the CPUs first, then one a node, then the policy's own.
#[derive(Debug)]
pub struct DispatchQueues {
    queues: Vec<DispatchQueue>,
    nr_cpus: usize,
    nr_nodes: usize,
    /// Indices of the policy's queues with small numbers.
    small: Vec<u32>,
    /// Indices of the policy's other queues.
    large: BTreeMap<u64, u32>,
}

const SMALL_IDS: u64 = 4096;
const NO_QUEUE: u32 = u32::MAX;

/// The most queues there may ever be, built-in and destroyed ones included.
pub const QUEUES_MAX: usize = 1 << 20;

impl DispatchQueues {
    /// The built-in queues of a machine.
    pub fn new(visible: &mut Visible, nr_cpus: usize, nr_nodes: usize) -> Self {
        let local = (0..nr_cpus).map(|cpu| LOCAL_ON | cpu as u64);
        let built_in = local.chain((0..nr_nodes).map(|_| GLOBAL));
        DispatchQueues {
            queues: built_in.map(|id| DispatchQueue::new(visible, id)).collect(),
            nr_cpus,
            nr_nodes,
            small: vec![NO_QUEUE; SMALL_IDS as usize],
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
        match self.small.get_mut(id as usize) {
            Some(place) if id < SMALL_IDS => *place = index,
            _ => drop(self.large.insert(id, index)),
        }
        Ok(())
    }

    /// Forgets an empty queue of the policy's; its number may be used again.
    pub fn destroy(&mut self, id: u64) {
        if id < SMALL_IDS {
            self.small[id as usize] = NO_QUEUE;
        } else {
            self.large.remove(&id);
        }
    }

    /// Forgets all of the policy's queues, which must be empty.
    pub fn destroy_all(&mut self) {
        self.small.fill(NO_QUEUE);
        self.large.clear();
    }

    /// Index of the policy's queue with this number.
    pub fn find(&self, id: u64) -> Option<u32> {
        if id < SMALL_IDS {
            let index = self.small[id as usize];
            return (index != NO_QUEUE).then_some(index);
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

    /// All queues.
    pub fn all(&self) -> &[DispatchQueue] {
        &self.queues
    }
}

/// `SCX_DSQ_FLAG_BUILTIN`
pub const BUILTIN: u64 = 1 << 63;
/// `SCX_DSQ_GLOBAL`
pub const GLOBAL: u64 = BUILTIN | 1;
/// `SCX_DSQ_LOCAL`
pub const LOCAL: u64 = BUILTIN | 2;
/// `SCX_DSQ_LOCAL_ON`
pub const LOCAL_ON: u64 = BUILTIN | 1 << 62;
/// `SCX_DSQ_LOCAL_CPU_MASK`
pub const LOCAL_CPU_MASK: u64 = 0xffff_ffff;
