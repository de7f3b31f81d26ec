//! Sending and receiving: what they do to channels, and what they take.

use super::{Outcome, RETRY};
use crate::channel::Message;
use crate::flags::WAKE_TTWU;
use crate::kernel::Kernel;
use crate::place::TaskId;
use scenario::workload::Op;

impl Kernel<'_> {
    /// What copying so many bytes takes.
    pub(super) fn copy_ns(&self, bytes: u32) -> u64 {
        (u64::from(bytes) * self.core.cpus.costs().copy_ns_per_kib) >> 10
    }

    /// What a CPU pays for a channel's state when another one used it last.
    pub(super) fn fetch_channel_ns(&self, channel: u32, cpu: usize) -> u64 {
        let last = self.programs.channel(channel).last_cpu.map_or(cpu, |last| last as usize);
        self.core.cpus.costs().channel_lines * self.core.cpus.transfer_ns(last, cpu)
    }

    /// What a CPU pays for the first `bytes` of a channel, a message at the most, when they were
    /// sent from another one.
    pub(super) fn fetch_message_ns(&self, channel: u32, bytes: u32, cpu: usize) -> u64 {
        let Some(message) = self.programs.channel(channel).messages.front() else {
            return 0;
        };
        let lines = self.core.cpus.costs().message_lines
            + u64::from(bytes).div_ceil(self.core.cpus.costs().line_bytes);
        lines * self.core.cpus.transfer_ns(message.cpu as usize, cpu)
    }

    /// Writes a message, or waits for room.
    pub(super) fn send(&mut self, task: TaskId, index: u32, bytes: u32) -> Outcome {
        let cpu = self.core.here() as u32;
        let channel = self.programs.channel_mut(index);
        channel.last_cpu = Some(cpu);
        if !channel.has_room_for(bytes) {
            channel.nr_blocked += 1;
            channel.senders.push_back((channel.nr_blocked, task));
            self.core.tasks.state_mut(task).phase = RETRY;
            return Outcome::Blocks;
        }
        let state = self.core.tasks.state_mut(task);
        channel.put(Message { left: bytes, cpu, request: state.request });
        state.next_operation();
        let receiver = channel.receivers.pop_front();
        let sync = self.programs.sync_of(index);
        if let Some(receiver) = receiver {
            self.core.wake_up(receiver, WAKE_TTWU | sync);
        }
        Outcome::Goes
    }

    /// Reads what there is, or waits for data; wakes senders once enough has been read.
    pub(super) fn receive(&mut self, task: TaskId, op: Op, index: u32, bytes: u32) -> Outcome {
        let cpu = self.core.here() as u32;
        let state = self.core.tasks.state_mut(task);
        if state.bytes_left == 0 {
            state.bytes_left = bytes;
        }
        let channel = self.programs.channel_mut(index);
        channel.last_cpu = Some(cpu);
        if channel.content_bytes == 0 {
            channel.receivers.push_back(task);
            state.phase = RETRY;
            return Outcome::Blocks;
        }
        let (got, request) = channel.get(state.bytes_left);
        state.request = request;
        state.bytes_left -= got;
        let whole = state.bytes_left == 0;
        if whole {
            self.core.recorder.message();
        }
        let drained = channel.used_bytes <= u64::from(channel.spec.wake_senders_at_bytes);
        state.to_wake = if drained { channel.senders.len() as u32 } else { 0 };
        state.last_to_wake = channel.nr_blocked;
        if channel.content_bytes > 0
            && let Some(next) = channel.receivers.pop_front()
        {
            // There is more than this task wanted.
            let sync = self.programs.sync_of(index);
            self.core.wake_up(next, WAKE_TTWU | sync);
            self.end_if_all_are_awake(task);
        } else {
            self.wake_next(task, op);
        }
        Outcome::Goes
    }
}
