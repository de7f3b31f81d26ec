//! Places that each hold one key, and which of them is first: a simulator's next events.
//!
//! A complete binary tree in an array. The places are its leaves; every inner node repeats the
//! earlier of its two children, so the winner stands at the root. Replacing a place's key
//! re-plays the matches on its way up and leaves nothing stale behind, which is what makes it fit
//! where keys are replaced more often than they win.
//!
//! Cost: O(log places) to set, with neither branch that depends on keys nor pointer; O(1) for the
//! first. Choose it where every place has a key at most and there are at most some hundred.
//!
//! Source: D. Knuth, "The Art of Computer Programming", volume 3, 5.4.1 (trees of winners).

/// Keys of the places `0..places`. Which of two equal keys wins follows from the order in which
/// they were set; whoever minds makes keys differ.
#[derive(Clone, Debug)]
pub struct Tournament<K> {
    /// `nodes[1]` is the root; the places follow the inner nodes.
    nodes: Vec<(K, u32)>,
    leaves: usize,
    never: K,
}

impl<K: Ord + Copy> Tournament<K> {
    /// All places hold `never`, a key that comes after all others.
    pub fn new(places: usize, never: K) -> Self {
        let leaves = places.next_power_of_two();
        let nodes = (0..2 * leaves).map(|node| (never, node.saturating_sub(leaves) as u32));
        Tournament { nodes: nodes.collect(), leaves, never }
    }

    /// Sets the key of `place`. O(log places).
    pub fn set(&mut self, place: usize, key: K) {
        let mut node = self.leaves + place;
        if self.nodes[node].0 == key {
            return;
        }
        self.nodes[node].0 = key;
        while node > 1 {
            let (here, beside) = (self.nodes[node], self.nodes[node ^ 1]);
            node /= 2;
            self.nodes[node] = if beside.0 < here.0 { beside } else { here };
        }
    }

    /// The earliest key and its place.
    pub fn first(&self) -> (K, usize) {
        let (key, place) = self.nodes[1];
        (key, place as usize)
    }

    /// The earliest key of all other places than `place`. O(log places).
    pub fn first_beside(&self, place: usize) -> K {
        let mut node = self.leaves + place;
        let mut earliest = self.never;
        while node > 1 {
            earliest = earliest.min(self.nodes[node ^ 1].0);
            node /= 2;
        }
        earliest
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the winner is the minimum, whatever was replaced. Method: a plain array beside it.

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn first_is_the_minimum(
            places in 1usize..70,
            updates in prop::collection::vec((0usize..70, 0u64..50), 1..300),
        ) {
            const NEVER: u64 = u64::MAX;
            let mut tournament = Tournament::new(places, NEVER);
            let mut model = vec![NEVER; places];
            for (place, key) in updates {
                let place = place % places;
                let key = if key == 0 { NEVER } else { key };
                tournament.set(place, key);
                model[place] = key;
                let first = *model.iter().min().expect("there is a place");
                prop_assert_eq!(tournament.first().0, first);
                prop_assert_eq!(model[tournament.first().1], first);
                let beside = (0..places).filter(|&other| other != place).map(|other| model[other]);
                prop_assert_eq!(tournament.first_beside(place), beside.min().unwrap_or(NEVER));
            }
        }
    }
}
