//! Which of several CPUs goes first when they have something to do at the same nanosecond.
//!
//! A run settles this in one fixed way. Whoever wants to see every way gives a run a list of
//! choices: it follows the list, then the fixed order, and says where there was a choice.

use crate::agenda::When;
use crate::kernel::Kernel;

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
    fn choose(&mut self, of: usize) -> usize {
        if of < 2 {
            return 0;
        }
        let of = of as u32;
        let taken = self.given.get(self.made.len()).map_or(0, |&given| given.min(of - 1));
        self.made.push(Choice { taken, of });
        taken as usize
    }
}

impl Kernel<'_> {
    /// The next event and its place: the first of the agenda, or the one that is chosen among
    /// those of its time. Events of one CPU keep their order, and what belongs to no CPU comes
    /// first.
    pub fn next_event(&mut self) -> (When, usize) {
        let first = self.agenda.first();
        if self.choices.is_none() || first.0 == When::NEVER {
            return first;
        }
        let at_ns = first.0.at_ns;
        // When each CPU that has something to do begins with it.
        let mut due: Vec<(When, usize)> = (0..self.cpus.len())
            .map(|cpu| (self.cpus[cpu].next_event(), cpu))
            .filter(|(when, _)| when.at_ns == at_ns)
            .collect();
        for (when, timer) in self.timers.due_at(at_ns) {
            let Some(cpu) = self.cpu_of(timer) else {
                return self.bring_forward(when);
            };
            match due.iter_mut().find(|(_, other)| *other == cpu) {
                Some(entry) => entry.0 = entry.0.min(when),
                None => due.push((when, cpu)),
            }
        }
        due.sort_unstable();
        let choices = self.choices.as_mut().expect("there are choices");
        let (when, cpu) = due[choices.choose(due.len())];
        if self.cpus[cpu].next_event() == when { (when, cpu) } else { self.bring_forward(when) }
    }

    /// Makes the timer that is due `when` the first of all.
    fn bring_forward(&mut self, when: When) -> (When, usize) {
        self.timers.bring_forward(when);
        let place = self.cpus.len();
        self.agenda.set(place, self.timers.first());
        (self.timers.first(), place)
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
