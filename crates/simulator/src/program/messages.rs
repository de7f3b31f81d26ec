//! Sending and receiving: what they do to channels, and what they take.

use super::{Outcome, RETRY, entry_ns};
use crate::allocator::{Batch, Memory, looker};
use crate::caches::{Mark, Touched};
use crate::content::Message;
use crate::flags::WAKE_TTWU;
use crate::kernel::Kernel;
use crate::place::TaskId;
use scenario::machine::Distance;

impl Kernel<'_> {
    /// What it takes the active CPU to write a message, beside waiting for its bus.
    pub(super) fn sending_ns(&mut self, channel: u32, bytes: u32, is_first: bool) -> u64 {
        let at_ns = self.getting_at_ns(channel, is_first);
        at_ns + self.cold_writing_ns(channel, bytes, at_ns) + self.copying_ns(bytes)
    }

    /// What it takes the active CPU beside that if the memory of its message is not in its cache.
    fn cold_writing_ns(&mut self, channel: u32, bytes: u32, behind_ns: u64) -> u64 {
        let core = &mut self.core;
        let is_cold = core.caches.are_there()
            && self.programs.channel(channel).has_room_for(bytes)
            && !core.caches.is_warm(core.here(), core.allocator.next(core.here()));
        if !is_cold {
            return 0;
        }
        let costs = core.cpus.costs();
        let (bytes, ns_per_kib) = (costs.message_bytes(bytes.into()), costs.cold_write_ns_per_kib);
        // Its lines come over the bus, and those whose place they take go.
        core.fetch_memory(bytes, ns_per_kib, (2 * bytes, behind_ns))
    }

    /// What it takes the active CPU to read up to so many bytes, or to see that there is none,
    /// beside waiting for its bus.
    pub(super) fn receiving_ns(&mut self, channel: u32, wanted: u32, is_first: bool) -> u64 {
        let at_ns = self.getting_at_ns(channel, is_first);
        let channel = self.programs.channel(channel);
        let first = channel.content.first().filter(|_| channel.content_bytes > 0);
        let Some(Message { sent, .. }) = first else { return at_ns };
        let bytes = u64::from(wanted).min(channel.content_bytes);
        let core = &mut self.core;
        let costs = core.cpus.costs();
        let fetch_ns = if core.caches.are_there() && !core.caches.has(sent) {
            let ns_per_kib = costs.refill_ns_per_kib[Distance::Same as usize];
            let bytes = costs.message_bytes(bytes);
            core.fetch_memory(bytes, ns_per_kib, (bytes, at_ns))
        } else {
            // Of a message that was sent from another CPU its lines are fetched.
            core.fetch_lines(costs.message_lines_of(bytes), sent.cpu, at_ns)
        };
        at_ns + fetch_ns + self.copying_ns(bytes as u32)
    }

    /// What it takes to get at a channel's state, which another CPU may have used last.
    fn getting_at_ns(&mut self, channel: u32, is_first: bool) -> u64 {
        let last =
            self.programs.channel(channel).last_cpu.map_or(self.core.here() as u32, u32::from);
        let lines = self.core.cpus.costs().channel_lines;
        let entry_ns = entry_ns(is_first, self.core.cpus.costs());
        entry_ns + self.core.fetch_lines(lines, last, entry_ns)
    }

    /// What copying a message of so many bytes takes.
    fn copying_ns(&self, bytes: u32) -> u64 {
        let costs = self.core.cpus.costs();
        costs.message_ns + ((u64::from(bytes) * costs.copy_ns_per_kib) >> 10)
    }

    /// Writes a message, or waits for room.
    pub(super) fn send(&mut self, task: TaskId, index: u32, bytes: u32) -> Outcome {
        let cpu = self.core.here() as u32;
        let channel = self.programs.channel_mut(index);
        channel.last_cpu = Some(cpu as u16);
        if !channel.has_room_for(bytes) {
            channel.nr_blocked += 1;
            channel.senders.push_back((channel.nr_blocked, task));
            self.core.tasks.state_mut(task).phase = RETRY;
            return Outcome::Blocks;
        }
        let state = self.core.tasks.state_mut(task);
        let (caches, cpus) = (&mut self.core.caches, &self.core.cpus);
        let mut sent = Touched { cpu, mark: Mark::COLD };
        let (mut batch, mut slab) = (Batch::default(), None);
        if caches.are_there() {
            let memory;
            let looks = looker(caches, cpus, cpu as usize);
            (memory, batch) = self.core.allocator.get(cpu as usize, looks);
            let all_told = cpus.costs().message_bytes(bytes.into());
            sent = caches.touch(cpu as usize, all_told, memory.map(|memory| memory.touched));
            slab = memory.and_then(|memory| memory.slab);
        }
        channel.put(Message { bytes, sent, slab, request: state.request });
        state.next_operation();
        let receiver = channel.receivers.pop_front();
        let dozes = std::mem::take(&mut channel.dozes);
        self.core.carry_out(batch);
        if let Some(receiver) = receiver {
            let sync = self.programs.sync_of(index);
            self.core.wake_up(receiver, WAKE_TTWU | sync);
        } else if dozes {
            self.core.find_awake();
        }
        Outcome::Goes
    }

    /// Reads what there is, or waits for data; wakes senders once enough has been read.
    pub(super) fn receive(&mut self, task: TaskId, index: u32, bytes: u32) -> Outcome {
        let cpu = self.core.here() as u32;
        let state = self.core.tasks.state_mut(task);
        if state.bytes_left == 0 {
            state.bytes_left = bytes;
        }
        let channel = self.programs.channel_mut(index);
        channel.last_cpu = Some(cpu as u16);
        if channel.content_bytes == 0 {
            state.phase = RETRY;
            channel.dozes = self.core.waits_to_decide();
            if channel.dozes {
                self.core.cpus[cpu as usize].has_spun = true;
                return Outcome::Spins;
            }
            self.core.cpus[cpu as usize].has_spun = false;
            channel.receivers.push_back(task);
            return Outcome::Blocks;
        }
        if std::mem::take(&mut self.core.cpus[cpu as usize].has_spun) {
            // It was about to sleep, so its CPU picks, from it and from those that wait.
            self.core.cpus[cpu as usize].need_resched = true;
            self.core.tasks.seen_mut(task).scx.slice = 0;
        }
        let state = self.core.tasks.state_mut(task);
        let (caches, allocator) = (&mut self.core.caches, &mut self.core.allocator);
        let cpus = &self.core.cpus;
        let mut batch = Batch::default();
        let (got, request) = channel.get(state.bytes_left, |message| {
            if caches.are_there() {
                let bytes = cpus.costs().message_bytes(message.bytes.into());
                let touched = caches.touch(cpu as usize, bytes, Some(message.sent));
                let memory = Memory { touched, slab: message.slab };
                let looks = looker(caches, cpus, cpu as usize);
                batch = batch.and(allocator.free(cpu as usize, memory, looks));
            }
        });
        if request.is_some() || state.request.is_some() {
            state.request = request;
        }
        state.bytes_left -= got;
        let whole = state.bytes_left == 0;
        if whole {
            self.core.recorder.message();
        }
        let drained = channel.used_bytes <= u64::from(channel.spec.wake_senders_at_bytes);
        let to_wake = if drained { channel.senders.len() as u32 } else { 0 };
        state.to_wake = to_wake;
        state.last_to_wake = channel.nr_blocked;
        let any = channel.content_bytes > 0;
        let next = if any { channel.receivers.pop_front() } else { None };
        self.core.carry_out(batch);
        if let Some(next) = next {
            // There is more than this task wanted.
            let sync = self.programs.sync_of(index);
            self.core.wake_up(next, WAKE_TTWU | sync);
        } else if to_wake > 0 {
            self.wake_one(task);
        }
        self.end_if_all_are_awake(task);
        Outcome::Goes
    }
}
