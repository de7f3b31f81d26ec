//! Channels and gates while they are used: what is in them, and who waits at them.

use crate::content::{Content, Message};
use crate::line::Line;
use crate::place::TaskId;
use crate::task::Request;
use scenario::machine::Machine;
use scenario::workload;
use std::collections::VecDeque;

/// A channel while it is used. Thousands are used in turn, so it takes two lines of a cache.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Channel {
    /// Its size and manners.
    pub spec: workload::Channel,
    /// Bytes in use, overheads included.
    pub used_bytes: u64,
    /// What is in it.
    pub content: Content,
    /// The CPU that used the channel last.
    pub last_cpu: Option<u16>,
    /// Bytes that can be received.
    pub content_bytes: u64,
    /// Tasks that wait for data, longest first.
    pub receivers: Line<TaskId>,
    /// Whether a receiver waits for the lock with which it goes to sleep: the next sender takes it,
    /// too, to see that it need not be woken.
    pub dozes: bool,
    /// Tasks that wait for room, longest first, each with its number among all that ever did.
    pub senders: Line<(u64, TaskId)>,
    /// Tasks that ever waited for room.
    pub nr_blocked: u64,
}

const _: () = assert!(size_of::<Channel>() == 128);

impl Channel {
    /// An empty channel, as the machine's kernel makes it.
    pub fn new(mut spec: workload::Channel, machine: &Machine) -> Self {
        if spec.capacity_bytes == 0 {
            spec.capacity_bytes = machine.pipe_bytes();
            spec.wake_senders_at_bytes = spec.capacity_bytes - 1;
        }
        Channel { spec, ..Channel::default() }
    }

    /// Whether a message of this size can be put into it now.
    pub fn has_room_for(&self, bytes: u32) -> bool {
        // A message larger than the whole channel fits into an empty one, as with sockets.
        let size = u64::from(bytes) + u64::from(self.spec.overhead_bytes);
        self.used_bytes == 0 || self.used_bytes + size <= u64::from(self.spec.capacity_bytes)
    }

    /// Adds a message.
    #[inline]
    pub fn put(&mut self, message: Message) {
        let bytes = u64::from(message.bytes);
        self.used_bytes += bytes + u64::from(self.spec.overhead_bytes);
        self.content_bytes += bytes;
        self.content.put(message);
    }

    /// Takes up to `wanted` bytes out; returns how many, and the request of the last. `end` sees
    /// each message of which nothing is left.
    #[inline]
    pub fn get(&mut self, wanted: u32, mut end: impl FnMut(&Message)) -> (u32, Option<Request>) {
        let mut got = 0;
        let mut request = None;
        while got < wanted {
            let Some(part) = self.content.receive(wanted - got) else { break };
            request = part.of.request;
            got += part.bytes;
            if part.is_all {
                self.used_bytes -= u64::from(self.spec.overhead_bytes);
                end(&part.of);
            }
        }
        self.used_bytes -= u64::from(got);
        self.content_bytes -= u64::from(got);
        (got, request)
    }
}

/// A gate while it is used.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    /// Whether everybody passes.
    pub open: bool,
    /// Who may pass a shut gate.
    pub tokens: u64,
    /// Tasks that wait, longest first.
    pub waiters: VecDeque<TaskId>,
}

impl Gate {
    /// A task comes: whether it passes; if not, it waits.
    pub fn pass(&mut self, task: TaskId) -> bool {
        let passes = self.open || self.tokens > 0;
        if !passes {
            self.waiters.push_back(task);
        } else if !self.open {
            self.tokens -= 1;
        }
        passes
    }
}
