//! Dispatch queues: where runnable tasks wait, first-in-first-out or by virtual time.
//!
//! A queue is one or the other as long as it holds tasks, as in the kernel. Its lock is a
//! resource in virtual time: whoever comes while it is held waits.

use crate::abi;
use crate::place::TaskId;
use crate::visible::{Placed, Visible};
use runqueue::{Fifo, Key, Ordered, Reached};

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
    /// An empty queue of this number.
    pub fn new(visible: &mut Visible, id: u64) -> Self {
        DispatchQueue {
            view: visible.place(abi::DispatchQueueView { id, nr: 0 }),
            order: Order::Fifo(Fifo::default()),
            lock: Lock::default(),
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

    /// Takes the first task out.
    #[inline]
    pub fn remove_first(&mut self) -> Option<TaskId> {
        let first = match &mut self.order {
            Order::Fifo(fifo) => fifo.pop_front()?,
            Order::Vtime(queue) => queue.pop_first()?,
        };
        self.view.nr -= 1;
        Some(first)
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

    /// Copies what `shown` makes of the next tasks of a walk to `out`, moves the cursor behind
    /// them and returns how many there were. A walk begins with [`Cursor::START`].
    pub fn walk<T>(
        &self,
        cursor: &mut Cursor,
        backwards: bool,
        out: &mut [T],
        shown: impl Fn(TaskId) -> T,
    ) -> usize {
        match &self.order {
            Order::Fifo(fifo) => walk_fifo(fifo, cursor, backwards, out, shown),
            Order::Vtime(queue) => walk_ordered(queue, cursor, backwards, out, shown),
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

fn walk_fifo<T>(
    fifo: &Fifo,
    cursor: &mut Cursor,
    backwards: bool,
    out: &mut [T],
    shown: impl Fn(TaskId) -> T,
) -> usize {
    let Cursor([position, index]) = *cursor;
    let reached = || Reached { position: position as i64, index: index as usize };
    let here = (*cursor != Cursor::START).then(reached);
    // Forwards the cursor is behind the last task that was copied, backwards it is where that was.
    let (filled, here) = if backwards {
        fifo.copy_before(here, out, shown)
    } else {
        fifo.copy_from(here, out, shown)
    };
    if let Some(Reached { position, index }) = here {
        *cursor = Cursor([position as u64, index as u64]);
    }
    filled
}

fn walk_ordered<T>(
    queue: &Ordered,
    cursor: &mut Cursor,
    backwards: bool,
    out: &mut [T],
    shown: impl Fn(TaskId) -> T,
) -> usize {
    let here =
        (*cursor != Cursor::START).then_some(Key { at: cursor.0[0] as i64, arrival: cursor.0[1] });
    let (filled, last) = if backwards {
        queue.copy_before(here, out, shown)
    } else {
        queue.copy_after(here, out, shown)
    };
    if let Some(key) = last {
        *cursor = Cursor([key.at as u64, key.arrival]);
    }
    filled
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

/// What to do where there is no queue of a number.
pub fn way_to_queue(id: u64) -> String {
    if id & BUILTIN != 0 {
        return String::new();
    }
    format!("; scx_bpf_create_dsq({id:#x}, -1) in `init` creates it")
}
