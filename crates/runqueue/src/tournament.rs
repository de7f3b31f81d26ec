//! Places that each hold one key, and which of them is first: a simulator's next events.
//!
//! A tree of matches of four, in an array. The places are its leaves; every inner node repeats the
//! earliest of its four children, and the winner of all stands beside the tree. Replacing a place's
//! key re-plays the matches on its way up and leaves nothing stale behind, which is what makes it
//! fit where keys are replaced more often than they win.
//!
//! Cost: O(log places) to set; O(1) for the first. A match has no branch that depends on keys, for
//! a wrong guess of the processor costs more than a match. Four keys of 16 bytes take as much as a
//! cache line holds, and of 9 places each is at most two matches deep. Choose it where every place
//! has a key at most and there are at most some hundred.
//!
//! Source: D. Knuth, "The Art of Computer Programming", volume 3, 5.4.1 (trees of winners).

/// How many meet in a match.
const WIDTH: usize = 4;

/// Keys of the places `0..places`. Nothing but keys is kept: whoever wants to know whose the first
/// one is has that in the keys.
#[derive(Clone, Debug)]
pub struct Tournament<K> {
    /// `matches[i]` is played by the children of node `i`: nodes `WIDTH * i + 1` and the three
    /// behind it. Node 0 is the root, and the places are the last nodes.
    matches: Vec<[K; WIDTH]>,
    first: K,
}

impl<K: Ord + Copy> Tournament<K> {
    /// All places hold `never`, a key that comes after all others.
    pub fn new(places: usize, never: K) -> Self {
        let nr_matches = places.saturating_sub(1).div_ceil(WIDTH - 1).max(1);
        Tournament { matches: vec![[never; WIDTH]; nr_matches], first: never }
    }

    /// Sets the key of `place`. O(log places).
    pub fn set(&mut self, place: usize, key: K) {
        let (mut node, mut winner) = (self.matches.len() + place, key);
        loop {
            let played = (node - 1) / WIDTH;
            let keys = &mut self.matches[played];
            keys[(node - 1) % WIDTH] = winner;
            winner = earliest(*keys);
            if played == 0 {
                break;
            }
            node = played;
        }
        self.first = winner;
    }

    /// The earliest key.
    pub fn first(&self) -> K {
        self.first
    }
}

/// In two rounds, so that the matches of the first do not wait for each other. The compiler makes
/// selections of this, and branches of a loop that compares key after key.
fn earliest<K: Ord>([a, b, c, d]: [K; WIDTH]) -> K {
    a.min(c).min(b.min(d))
}

#[cfg(test)]
mod tests {
    //! Goal: the winner is the minimum, whatever was replaced. Method: a plain array beside it.

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn first_is_the_minimum(
            places in 1usize..300,
            updates in prop::collection::vec((0usize..300, 0u64..50), 1..300),
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
            }
        }
    }
}
