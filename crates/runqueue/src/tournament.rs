//! Places that each hold one key, and which of them is first: a simulator's next events.
//!
//! A binary tree in an array. The places are its leaves; every inner node repeats the earlier of
//! its two children, so the winner stands at the root. Replacing a place's key re-plays the matches
//! on its way up and leaves nothing stale behind, which is what makes it fit where keys are
//! replaced more often than they win.
//!
//! Cost: O(log places) to set, with neither branch that depends on keys nor pointer; O(1) for the
//! first. Choose it where every place has a key at most and there are at most some hundred.
//!
//! Source: D. Knuth, "The Art of Computer Programming", volume 3, 5.4.1 (trees of winners).

/// Keys of the places `0..places`. Nothing but keys is kept: whoever wants to know whose the first
/// one is has that in the keys.
#[derive(Clone, Debug)]
pub struct Tournament<K> {
    /// Siblings side by side: `pairs[i]` are nodes `2 * i` and the next, the children of node `i`.
    /// Node 1 is the root, and the places are the last nodes.
    pairs: Vec<[K; 2]>,
}

impl<K: Ord + Copy> Tournament<K> {
    /// All places hold `never`, a key that comes after all others.
    pub fn new(places: usize, never: K) -> Self {
        Tournament { pairs: vec![[never; 2]; places.max(1)] }
    }

    /// Sets the key of `place`. O(log places).
    pub fn set(&mut self, place: usize, key: K) {
        let (mut node, mut winner) = (self.pairs.len() + place, key);
        while node > 1 {
            let pair = &mut self.pairs[node / 2];
            pair[node % 2] = winner;
            // What was just written is not read again, which would have to wait for it.
            winner = winner.min(pair[1 - node % 2]);
            node /= 2;
        }
        self.pairs[0][1] = winner;
    }

    /// The earliest key.
    pub fn first(&self) -> K {
        self.pairs[0][1]
    }

    /// Keys of which one is the earliest of all other places than `place`, if there is one. O(log
    /// places) many.
    pub fn beside(&self, place: usize) -> impl Iterator<Item = K> {
        let leaf = self.pairs.len() + place;
        let up = std::iter::successors(Some(leaf), |node| Some(node / 2));
        up.take_while(|&node| node > 1).map(|node| self.pairs[node / 2][1 - node % 2])
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
                let earliest = tournament.beside(place).min().unwrap_or(NEVER);
                prop_assert_eq!(earliest, beside.min().unwrap_or(NEVER));
            }
        }
    }
}
