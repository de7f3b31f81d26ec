//! Timers and locks inside values of maps.

use super::{Map, Maps, errno, kind};
use std::collections::BTreeMap;
use std::ops::Range;

/// Timers that there may be, and locks.
pub const PLACES_MAX: usize = 1 << 20;

/// What a timer callback is called with, and the callback.
#[derive(Clone, Debug)]
pub struct TimerCall {
    /// The function, as the program gave it.
    pub callback: u64,
    /// The number of the map it is in.
    pub map: usize,
    /// Where in an array.
    pub number: u32,
    /// The key of a hash.
    pub key: Option<Vec<u8>>,
    /// The address of the value it is in.
    pub value: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    callback: u64,
    map: usize,
    key: u32,
    value: u64,
    cpu: u32,
    generation: u32,
    /// Whether an expiry is to come.
    armed: bool,
}

/// Numbers of things that are known by their addresses, counted from 1 in the order in which they
/// were seen first, so that no number depends on an address.
#[derive(Debug, Default)]
pub(super) struct Places {
    addresses: Vec<u64>,
    numbers: BTreeMap<u64, u32>,
}

impl Places {
    /// Number of what is at `address`; `kept` is where to look first.
    #[inline]
    fn find(&self, address: u64, kept: u64) -> Option<u32> {
        let place = usize::try_from(kept.wrapping_sub(1)).ok();
        if place.and_then(|place| self.addresses.get(place)) == Some(&address) {
            return Some(kept as u32);
        }
        self.find_elsewhere(address)
    }

    #[cold]
    #[inline(never)]
    fn find_elsewhere(&self, address: u64) -> Option<u32> {
        self.numbers.get(&address).copied()
    }

    fn add(&mut self, address: u64) -> u32 {
        self.addresses.push(address);
        let number = self.addresses.len() as u32;
        self.numbers.insert(address, number);
        number
    }

    /// Nothing is at these addresses any more; the numbers of what was.
    fn remove(&mut self, addresses: Range<u64>) -> Vec<u32> {
        let numbers: Vec<u32> = self.numbers.range(addresses).map(|(_, &number)| number).collect();
        for &number in &numbers {
            self.numbers.remove(&std::mem::take(&mut self.addresses[number as usize - 1]));
        }
        numbers
    }

    /// Gives a number that was removed to what is at an address now.
    fn put(&mut self, number: u32, address: u64) {
        self.addresses[number as usize - 1] = address;
        self.numbers.insert(address, number);
    }
}

impl Maps {
    /// Makes a timer inside a value of `map`; its number, or a negative error number.
    pub fn add_timer(&mut self, map: usize, timer: u64) -> Result<u64, i32> {
        let (value, key) = self.maps[map].value_around(timer).ok_or(-errno::EINVAL)?;
        if self.timer_places.numbers.contains_key(&timer) {
            return Err(-errno::EBUSY);
        }
        let new = Timer { callback: 0, map, key, value, cpu: 0, generation: 0, armed: false };
        if let Some(number) = self.free_timers.pop() {
            // No expiry of the one before holds.
            let generation = self.timers[number as usize - 1].generation;
            self.timers[number as usize - 1] = Timer { generation, ..new };
            self.timer_places.put(number, timer);
            return Ok(number.into());
        }
        if self.timers.len() >= PLACES_MAX {
            return Err(-errno::ENOMEM);
        }
        self.timers.push(new);
        Ok(u64::from(self.timer_places.add(timer)))
    }

    /// Values of a hash are gone, or another one is in the place of one: so are timers in them,
    /// and do not expire any more (`bpf_map_free_internal_structs`).
    #[cold]
    pub(super) fn end_timers(&mut self, map: usize, changed: Option<u64>) {
        let map = &mut self.maps[map];
        let bytes = map.value_bytes as u64;
        for value in map.entries.take_gone().into_iter().chain(changed) {
            for number in self.timer_places.remove(value..value + bytes) {
                self.disarm(number);
                self.timers[number as usize - 1].callback = 0;
                self.free_timers.push(number);
                if self.is_running(number) {
                    self.end_timer_call();
                }
            }
        }
    }

    /// Number of the timer at this address, if one was made there; `kept` is the number in it.
    pub fn find_timer(&self, timer: u64, kept: u64) -> Option<u32> {
        self.timer_places.find(timer, kept)
    }

    /// Number of the lock at this address, if it was ever taken; `kept` is the number in it.
    pub fn find_lock(&self, lock: u64, kept: u32) -> Option<u32> {
        self.lock_places.find(lock, u64::from(kept))
    }

    /// A number for a lock that is taken for the first time; `None` if there are too many.
    pub fn add_lock(&mut self, lock: u64) -> Option<u32> {
        let has_room = self.lock_places.addresses.len() < PLACES_MAX;
        has_room.then(|| self.lock_places.add(lock))
    }

    /// Sets what a timer calls.
    pub fn set_callback(&mut self, number: u32, callback: u64) {
        self.timers[number as usize - 1].callback = callback;
    }

    /// Arms a timer on a CPU; its index and generation for the timer list.
    pub fn arm(&mut self, number: u32, cpu: usize) -> Option<(u32, u32)> {
        let timer = &mut self.timers[number as usize - 1];
        if timer.callback == 0 {
            return None;
        }
        timer.cpu = cpu as u32;
        timer.generation += 1;
        self.nr_stale += usize::from(std::mem::replace(&mut timer.armed, true));
        Some((number - 1, timer.generation))
    }

    /// Disarms a timer; whether it was armed.
    pub fn disarm(&mut self, number: u32) -> bool {
        let timer = &mut self.timers[number as usize - 1];
        timer.generation += 1;
        self.nr_stale += usize::from(timer.armed);
        std::mem::take(&mut timer.armed)
    }

    /// Whether it is this timer's callback that runs.
    pub fn is_running(&self, number: u32) -> bool {
        self.running_timer == number
    }

    /// The callback of the timer that expired last has returned.
    pub fn end_timer_call(&mut self) {
        self.running_timer = 0;
    }

    /// Whether more than `most` expiries were given out that do not hold any more, since this was
    /// said last: whoever keeps them may look for those.
    pub fn has_stale_expiries(&mut self, most: usize) -> bool {
        let has = self.nr_stale > most;
        if has {
            self.nr_stale = 0;
        }
        has
    }

    /// The CPU on which an expiry of this generation is to be handled; `None` if it was disarmed.
    pub fn expiry_cpu(&self, index: u32, generation: u32) -> Option<usize> {
        let timer = self.timers.get(index as usize)?;
        (timer.generation == generation).then_some(timer.cpu as usize)
    }

    /// What to call when a timer expires, which it does now: until [`Maps::end_timer_call`].
    pub fn timer_call(&mut self, index: u32) -> Option<TimerCall> {
        let timer = self.timers.get_mut(index as usize)?;
        self.running_timer = index + 1;
        timer.armed = false;
        let &mut Timer { callback, map, key: number, value, .. } = timer;
        let map_of = &mut self.maps[map];
        let is_hash = map_of.view.is_hash();
        let key = is_hash.then(|| map_of.entries.with_value(value)).flatten();
        Some(TimerCall { callback, map, number, key: key.map(|(_, key)| key.to_vec()), value })
    }
}

impl Map {
    /// The value that has the byte at an address, and its number in an array. Timers and work may
    /// be in values of these kinds. Source: Linux, kernel/bpf/syscall.c, `map_check_btf`.
    fn value_around(&mut self, address: u64) -> Option<(u64, u32)> {
        let stride = u64::from(self.view.value_stride).max(1);
        match self.view.kind {
            kind::HASH | kind::LRU_HASH => {
                let (value, _) = self.entries.with_value(address)?;
                (address - value < stride).then_some((value, 0))
            }
            kind::ARRAY => {
                let number = address.checked_sub(self.view.values)? / stride;
                let is_there = number < self.view.max_entries.into();
                is_there.then(|| (self.view.values + number * stride, number as u32))
            }
            _ => None,
        }
    }
}
