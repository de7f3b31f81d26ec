//! After a race: did the timed loops do what they were to do?
//!
//! The order is verified before anything is timed, with other operations. Who did less afterwards,
//! or lost an item, would only seem fast.

use super::Course;
use crate::Workload;
use crate::order;
use crate::raced::Raced;

impl<Q: Raced> Course<'_, Q> {
    /// The rounds so far and the sum of all keys, which wraps as keys do. `None` where loops are
    /// not all that is done, or where keys grow by the weight of an item: the sum says nothing.
    pub(super) fn standing(&self) -> Option<(u64, u64)> {
        let loops = matches!(
            self.setting.workload,
            Workload::Hold
                | Workload::HoldRemove
                | Workload::Cold
                | Workload::Single
                | Workload::SingleRemove
        );
        if !loops || self.setting.increments.slowness().is_some() {
            return None;
        }
        let keys =
            self.queues.iter().flat_map(|queue| (0..self.setting.n).map(|item| queue.key(item)));
        Some((self.round, keys.fold(0, u64::wrapping_add)))
    }

    /// Whether keys moved on by all increments, whoever got them.
    pub(super) fn turns_were_done(&self) -> Result<(), String> {
        let (Some((first, begun)), Some((end, sum))) = (self.begun, self.standing()) else {
            return Ok(());
        };
        let (moved, expected) = (sum.wrapping_sub(begun), self.sum_of_increments(first, end));
        if moved == expected {
            return Ok(());
        }
        let loops = end - first;
        Err(format!(
            "in {loops} loops its keys grew by {moved} together, and should have by {expected}"
        ))
    }

    /// What the loops of these rounds add to keys.
    fn sum_of_increments(&self, first: u64, end: u64) -> u64 {
        let table = self.setting.increments.table();
        let length = table.len() as u64;
        let all = table.iter().fold(0, |sum: u64, &next| sum.wrapping_add(next));
        let (turns, rest) = ((end - first) / length, (end - first) % length);
        (first..first + rest).fold(all.wrapping_mul(turns), |sum, round| {
            sum.wrapping_add(table[(round % length) as usize])
        })
    }

    /// Whether every queue holds what it should, each item once.
    pub(super) fn items_are_there(&mut self, is_exact: bool) -> Result<(), String> {
        let (n, capacity) = (self.setting.n as usize, self.setting.capacity() as usize);
        for (number, queue) in self.queues.iter_mut().enumerate() {
            let mut is_queued = vec![false; capacity];
            match self.setting.workload {
                Workload::UpDown | Workload::MassExit | Workload::Trace => {}
                Workload::Drain if number > 0 => {}
                Workload::Markov | Workload::Storm | Workload::ForkBurst => {
                    is_queued.fill(true);
                    self.free.iter().for_each(|&item| is_queued[item as usize] = false);
                }
                _ => is_queued[..n].fill(true),
            }
            order::take_all(queue, is_queued, is_exact)?;
        }
        Ok(())
    }
}
