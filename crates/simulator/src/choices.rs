//! Which of several CPUs goes first when they have something to do at the same nanosecond.
//!
//! A run settles this in one fixed way. Whoever wants to see every way gives a run a list of
//! choices: it follows the list, then the fixed order, and says where there was a choice.

/// One point of a run at which several CPUs had something to do at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The CPU that went first, counted among them in the fixed order.
    pub taken: u32,
    /// How many there were, at least 2.
    pub of: u32,
}

/// What a run is to choose, and what it has chosen.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    given: Vec<u32>,
    made: Vec<Choice>,
}

impl Choices {
    /// Choices to follow; beyond their end the first of each is taken, which is the fixed order.
    pub fn of(given: Vec<u32>) -> Self {
        Choices { given, made: Vec::new() }
    }

    /// All that were made, in their order.
    pub fn into_made(self) -> Vec<Choice> {
        self.made
    }

    /// One of `of`. A number that is too large, of a list for another run, means the last.
    pub fn choose(&mut self, of: usize) -> usize {
        if of < 2 {
            return 0;
        }
        let of = of as u32;
        let taken = self.given.get(self.made.len()).map_or(0, |&given| given.min(of - 1));
        self.made.push(Choice { taken, of });
        taken as usize
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a list of choices is followed as far as it goes. Method: examples.
    use super::*;

    #[test]
    fn the_list_is_followed_and_then_the_first_is_taken() {
        let mut choices = Choices::of(vec![1, 7]);
        assert_eq!([choices.choose(2), choices.choose(1), choices.choose(3)], [1, 0, 2]);
        assert_eq!(choices.choose(3), 0);
        let made: Vec<_> = choices.into_made().iter().map(|c| (c.taken, c.of)).collect();
        assert_eq!(made, [(1, 2), (2, 3), (0, 3)], "one of one is no choice");
    }
}
