//! Channels: what is in them, who waits at them, and what using them takes.

use super::{Outcome, RETRY};
use crate::kernel::Kernel;
use crate::requests::Request;
use crate::scheduling::flags::{WAKE_SYNC, WAKE_TTWU};
use crate::task::TaskId;
use scenario::workload::{self, Op};
use std::collections::VecDeque;

/// A channel while it is used.
#[derive(Debug)]
pub struct Channel {
    /// Its size and manners.
    pub spec: workload::Channel,
    /// Bytes in use, overheads included.
    pub used_bytes: u64,
    /// Messages, oldest first.
    pub messages: VecDeque<Message>,
    /// The CPU that used the channel last.
    pub last_cpu: Option<u32>,
    /// Bytes that can be received.
    pub content_bytes: u64,
    /// Tasks that wait for data, longest first.
    pub receivers: VecDeque<TaskId>,
    /// Tasks that wait for room, longest first, each with its number among all that ever did.
    pub senders: VecDeque<(u64, TaskId)>,
    /// Tasks that ever waited for room.
    pub nr_blocked: u64,
}

/// A message on its way.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Bytes that nobody has received.
    pub left: u32,
    /// The CPU it was sent from.
    pub cpu: u32,
    /// What its sender worked on, and so its receiver will.
    pub request: Option<Request>,
}

impl Channel {
    /// An empty channel.
    pub fn new(spec: workload::Channel) -> Self {
        Channel {
            spec,
            used_bytes: 0,
            messages: VecDeque::new(),
            last_cpu: None,
            content_bytes: 0,
            receivers: VecDeque::new(),
            senders: VecDeque::new(),
            nr_blocked: 0,
        }
    }

    fn has_room_for(&self, bytes: u32) -> bool {
        // A message larger than the whole channel fits into an empty one, as with sockets.
        let size = u64::from(bytes) + u64::from(self.spec.overhead_bytes);
        self.used_bytes == 0 || self.used_bytes + size <= u64::from(self.spec.capacity_bytes)
    }

    fn put(&mut self, message: Message) {
        let bytes = u64::from(message.left);
        self.used_bytes += bytes + u64::from(self.spec.overhead_bytes);
        self.content_bytes += bytes;
        self.messages.push_back(message);
    }

    /// Takes up to `wanted` bytes out; returns how many, and the request of the last.
    fn get(&mut self, wanted: u32) -> (u32, Option<Request>) {
        let mut got = 0;
        let mut request = None;
        while got < wanted {
            let Some(message) = self.messages.front_mut() else { break };
            let part = message.left.min(wanted - got);
            message.left -= part;
            request = message.request;
            got += part;
            self.used_bytes -= u64::from(part);
            if message.left == 0 {
                self.used_bytes -= u64::from(self.spec.overhead_bytes);
                self.messages.pop_front();
            }
        }
        self.content_bytes -= u64::from(got);
        (got, request)
    }
}

impl Kernel<'_> {
    /// What copying so many bytes takes.
    pub(super) fn copy_ns(&self, bytes: u32) -> u64 {
        (u64::from(bytes) * self.costs.copy_ns_per_kib) >> 10
    }

    /// What a CPU pays for a channel's state when another one used it last.
    pub(super) fn fetch_channel_ns(&self, channel: u32, cpu: usize) -> u64 {
        let last = self.channels[channel as usize].last_cpu.map_or(cpu, |last| last as usize);
        self.costs.channel_lines * self.costs.line_transfer_ns[self.distance(last, cpu)]
    }

    /// What a CPU pays for the first `bytes` of a channel, a message at the most, when they were
    /// sent from another one.
    pub(super) fn fetch_message_ns(&self, channel: u32, bytes: u32, cpu: usize) -> u64 {
        let Some(message) = self.channels[channel as usize].messages.front() else { return 0 };
        let lines = self.costs.message_lines + u64::from(bytes).div_ceil(self.costs.line_bytes);
        lines * self.costs.line_transfer_ns[self.distance(message.cpu as usize, cpu)]
    }

    /// `WAKE_SYNC` if this channel's messages wake synchronously.
    pub(super) fn sync_of(&self, index: usize) -> u64 {
        let sync = self.channels[index].spec.sync_wakeups || self.sync_wakeups;
        if sync { WAKE_SYNC } else { 0 }
    }

    /// Writes a message, or waits for room.
    pub(super) fn send(&mut self, task: TaskId, index: usize, bytes: u32) -> Outcome {
        let cpu = self.host.cpu as u32;
        let channel = &mut self.channels[index];
        channel.last_cpu = Some(cpu);
        if !channel.has_room_for(bytes) {
            channel.nr_blocked += 1;
            channel.senders.push_back((channel.nr_blocked, task));
            self.tasks.state_mut(task).phase = RETRY;
            return Outcome::Blocks;
        }
        let request = self.tasks.state(task).request;
        channel.put(Message { left: bytes, cpu, request });
        let receiver = channel.receivers.pop_front();
        let sync = self.sync_of(index);
        self.next_operation(task);
        if let Some(receiver) = receiver {
            self.wake_up(receiver, WAKE_TTWU | sync);
        }
        Outcome::Goes
    }

    /// Reads what there is, or waits for data; wakes senders once enough has been read.
    pub(super) fn receive(&mut self, task: TaskId, op: Op, index: usize, bytes: u32) -> Outcome {
        let state = self.tasks.state_mut(task);
        if state.bytes_left == 0 {
            state.bytes_left = bytes;
        }
        let channel = &mut self.channels[index];
        channel.last_cpu = Some(self.host.cpu as u32);
        if channel.content_bytes == 0 {
            channel.receivers.push_back(task);
            state.phase = RETRY;
            return Outcome::Blocks;
        }
        let (got, request) = channel.get(state.bytes_left);
        state.request = request;
        state.bytes_left -= got;
        let whole = state.bytes_left == 0;
        self.metrics.messages += u64::from(whole);
        let drained = channel.used_bytes <= u64::from(channel.spec.wake_senders_at_bytes);
        state.to_wake = if drained { channel.senders.len() as u32 } else { 0 };
        state.last_to_wake = channel.nr_blocked;
        if channel.content_bytes > 0
            && let Some(next) = channel.receivers.pop_front()
        {
            // There is more than this task wanted.
            let sync = self.sync_of(index);
            self.wake_up(next, WAKE_TTWU | sync);
            self.end_if_all_are_awake(task);
        } else {
            self.wake_next(task, op);
        }
        Outcome::Goes
    }
}
