//! Timers and locks inside values of maps.

use super::{Maps, errno};
use std::collections::BTreeMap;

/// Timers that there may be, and locks.
pub const PLACES_MAX: usize = 1 << 20;

/// What a timer callback is called with, and the callback.
#[derive(Clone, Copy, Debug)]
pub struct TimerCall {
    /// The function, as the program gave it.
    pub callback: u64,
    /// The number of the map it is in.
    pub map: usize,
    /// Where in the map.
    pub key: u32,
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
}

impl Maps {
    /// Makes a timer inside a value of `map`; its number, or a negative error number.
    pub fn add_timer(&mut self, map: usize, timer: u64) -> Result<u64, i32> {
        if self.timers.len() >= PLACES_MAX {
            return Err(-errno::ENOMEM);
        }
        let view = &self.maps[map].view;
        let stride = u64::from(view.value_stride).max(1);
        let key = timer.checked_sub(view.values).ok_or(-errno::EINVAL)? / stride;
        if view.values == 0 || key >= view.max_entries.into() {
            return Err(-errno::EINVAL);
        }
        if self.timer_places.numbers.contains_key(&timer) {
            return Err(-errno::EBUSY);
        }
        let value = view.values + key * stride;
        let key = key as u32;
        let (cpu, generation, armed) = (0, 0, false);
        self.timers.push(Timer { callback: 0, map, key, value, cpu, generation, armed });
        Ok(u64::from(self.timer_places.add(timer)))
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

    /// What to call when a timer expires, which it does now.
    pub fn timer_call(&mut self, index: u32) -> Option<TimerCall> {
        let timer = self.timers.get_mut(index as usize)?;
        timer.armed = false;
        let &mut Timer { callback, map, key, value, .. } = timer;
        Some(TimerCall { callback, map, key, value })
    }
}
