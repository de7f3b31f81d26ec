//! Places that each hold one key, and which of them is first: a simulator's next events.
//!
//! A binary tree in an array. The places are its leaves; every inner node repeats the earlier of
//! its two children, so the winner stands at the root. Replacing a place's key re-plays the matches
//! on its way up and leaves nothing stale behind, which is what makes it fit where keys are replaced
//! more often than they win.
//!
//! Cost: O(log places) to set, with neither branch that depends on keys nor pointer; O(1) for the
//! first. Choose it where every place has a key at most and there are at most some hundred.
//!
//! Source: D. Knuth, "The Art of Computer Programming", volume 3, 5.4.1 (trees of winners).

/// Keys of the places `0..places`. Nothing but keys is kept: whoever wants to know whose the first
/// one is has that in the keys.
#[derive(Clone, Debug)]
pub struct Tournament<K> {
    /// `nodes[1]` is the root, the children of `nodes[i]` are `nodes[2 * i]` and the next, and the
    /// places follow the inner nodes: so each node but the root has a sibling.
    nodes: Vec<K>,
    never: K,
}

impl<K: Ord + Copy> Tournament<K> {
    /// All places hold `never`, a key that comes after all others.
    pub fn new(places: usize, never: K) -> Self {
        Tournament { nodes: vec![never; 2 * places.max(1)], never }
    }

    /// Sets the key of `place`. O(log places).
    pub fn set(&mut self, place: usize, key: K) {
        let mut node = self.nodes.len() / 2 + place;
        let mut winner = key;
        self.nodes[node] = key;
        while node > 1 {
            let beside = self.nodes[node ^ 1];
            winner = if beside < winner { beside } else { winner };
            node /= 2;
            self.nodes[node] = winner;
        }
    }

    /// The earliest key.
    pub fn first(&self) -> K {
        self.nodes[1]
    }

    /// The earliest key of all other places than `place`. O(log places).
    pub fn first_beside(&self, place: usize) -> K {
        let mut node = self.nodes.len() / 2 + place;
        let mut earliest = self.never;
        while node > 1 {
            let beside = self.nodes[node ^ 1];
            earliest = if beside < earliest { beside } else { earliest };
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
                prop_assert_eq!(tournament.first(), first);
                let beside = (0..places).filter(|&other| other != place).map(|other| model[other]);
                prop_assert_eq!(tournament.first_beside(place), beside.min().unwrap_or(NEVER));
            }
        }
    }
}
