//! A line of things in which there is mostly one at the most: that one lies in the line itself, and
//! the others somewhere else.

use std::collections::VecDeque;

/// Things, longest there first.
#[derive(Debug)]
pub struct Line<T> {
    first: Option<T>,
    /// Those behind it; none without a first one. Once there were any it stays.
    #[allow(clippy::box_collection)] // Most lines never have any, and there are thousands.
    rest: Option<Box<VecDeque<T>>>,
}

impl<T> Default for Line<T> {
    fn default() -> Line<T> {
        Line { first: None, rest: None }
    }
}

impl<T> Line<T> {
    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.as_ref().map_or(0, |rest| rest.len())
    }

    /// The first one.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.first.as_ref()
    }

    /// The first one.
    #[inline]
    pub fn front_mut(&mut self) -> Option<&mut T> {
        self.first.as_mut()
    }

    /// The last one.
    #[inline]
    pub fn back_mut(&mut self) -> Option<&mut T> {
        match self.rest.as_mut().and_then(|rest| rest.back_mut()) {
            None => self.first.as_mut(),
            last => last,
        }
    }

    /// One comes.
    #[inline]
    pub fn push_back(&mut self, one: T) {
        match &self.first {
            None => self.first = Some(one),
            Some(_) => self.rest.get_or_insert_default().push_back(one),
        }
    }

    /// The first one goes.
    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        let first = self.first.take()?;
        if let Some(rest) = &mut self.rest {
            self.first = rest.pop_front();
        }
        Some(first)
    }

    /// All, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.rest.iter().flat_map(|rest| rest.iter()))
    }
}

#[cfg(test)]
mod tests {
    //! Goal: it is a queue. Method: random operations beside one.

    use super::*;
    use scenario::draw::Random;

    #[test]
    fn what_comes_goes_in_its_order() {
        let mut draws = Random::new(3, 0);
        let (mut line, mut queue) = (Line::default(), VecDeque::new());
        for number in 0..10_000_u32 {
            match draws.below(5) {
                0..=1 => {
                    line.push_back(number);
                    queue.push_back(number);
                }
                2 => assert_eq!(line.pop_front(), queue.pop_front()),
                3 => {
                    let changed = line.back_mut().map(|last| std::mem::replace(last, number));
                    assert_eq!(
                        changed,
                        queue.back_mut().map(|last| std::mem::replace(last, number))
                    );
                }
                _ if number % 50 == 0 => {
                    while line.pop_front().is_some() | queue.pop_front().is_some() {}
                }
                _ => {}
            }
            assert_eq!(line.front(), queue.front());
            assert_eq!(line.front_mut(), queue.front_mut());
            assert_eq!(line.len(), queue.len());
            assert!(line.iter().eq(&queue));
        }
    }
}
