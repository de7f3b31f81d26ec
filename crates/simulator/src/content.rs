//! What is in a channel: messages, oldest first.
//!
//! Thousands of channels may hold dozens of messages each, more than the cache of the computer that
//! simulates them has room for. So equal messages behind each other lie as one, and what only some
//! runs ask of messages lies apart and takes no memory elsewhere.

use crate::caches::{Mark, Touched};
use crate::line::Line;
use crate::task::Request;
use std::collections::VecDeque;
use std::num::NonZeroU16;

/// A message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its bytes.
    pub bytes: u32,
    /// The CPU it was sent from, and when.
    pub sent: Touched,
    /// The slab of which its memory is, where there are slabs.
    pub slab: Option<u32>,
    /// What its sender worked on, and so its receiver will.
    pub request: Option<Request>,
}

/// Messages of one size that one CPU sent after each other.
#[derive(Clone, Copy, Debug)]
struct Equals {
    bytes: u32,
    cpu: u16,
    nr: NonZeroU16,
}

/// Messages, oldest first.
#[derive(Debug, Default)]
pub struct Content {
    messages: Line<Equals>,
    /// Bytes of the first one that nobody has received.
    left: u32,
    /// What only some runs ask of messages.
    rare: Option<Box<Rare>>,
}

#[derive(Debug, Default)]
struct Rare {
    /// How many messages there are.
    nr: usize,
    marks: Sparse<Mark>,
    slabs: Sparse<Option<u32>>,
    requests: Sparse<Option<Request>>,
}

/// What was received of the oldest message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// So many bytes.
    pub bytes: u32,
    /// The message.
    pub of: Message,
    /// Whether nothing is left of it.
    pub is_all: bool,
}

impl Content {
    /// Adds a message.
    #[inline]
    pub fn put(&mut self, message: Message) {
        let Message { bytes, sent, slab, request } = message;
        let is_plain = sent.mark == Mark::COLD && slab.is_none() && request.is_none();
        if self.rare.is_some() || !is_plain {
            let messages = &self.messages;
            let new = || Box::new(Rare { nr: nr(messages), ..Rare::default() });
            let rare = self.rare.get_or_insert_with(new);
            rare.marks.put(sent.mark, rare.nr);
            rare.slabs.put(slab, rare.nr);
            rare.requests.put(request, rare.nr);
            rare.nr += 1;
        }
        let cpu = u16::try_from(sent.cpu).expect("machines have fewer CPUs");
        match self.messages.back_mut() {
            Some(last) if (last.bytes, last.cpu) == (bytes, cpu) && last.nr < NonZeroU16::MAX => {
                last.nr = last.nr.saturating_add(1);
            }
            Some(_) => self.messages.push_back(Equals { bytes, cpu, nr: NonZeroU16::MIN }),
            None => {
                self.messages.push_back(Equals { bytes, cpu, nr: NonZeroU16::MIN });
                self.left = bytes;
            }
        }
    }

    /// The oldest message.
    #[inline]
    pub fn first(&self) -> Option<Message> {
        let first = self.messages.front()?;
        let rare = self.rare.as_ref();
        let (mark, slab, request) = rare.map_or((Mark::COLD, None, None), |rare| rare.first());
        let sent = Touched { cpu: first.cpu.into(), mark };
        Some(Message { bytes: first.bytes, sent, slab, request })
    }

    /// Receives up to `wanted` bytes of the oldest message.
    #[inline]
    pub fn receive(&mut self, wanted: u32) -> Option<Received> {
        let of = self.first()?;
        let bytes = self.left.min(wanted);
        self.left -= bytes;
        let is_all = self.left == 0;
        if is_all {
            self.drop_first();
        }
        Some(Received { bytes, of, is_all })
    }

    #[inline]
    fn drop_first(&mut self) {
        let Some(first) = self.messages.front_mut() else { return };
        match NonZeroU16::new(first.nr.get() - 1) {
            Some(nr) => first.nr = nr,
            None => drop(self.messages.pop_front()),
        }
        if let Some(rare) = &mut self.rare {
            rare.nr -= 1;
            rare.marks.take();
            rare.slabs.take();
            rare.requests.take();
        }
        self.left = self.messages.front().map_or(0, |first| first.bytes);
    }
}

/// How many messages there are. O(runs of equal ones).
fn nr(messages: &Line<Equals>) -> usize {
    messages.iter().map(|equals| usize::from(equals.nr.get())).sum()
}

impl Rare {
    fn first(&self) -> (Mark, Option<u32>, Option<Request>) {
        (self.marks.first(), self.slabs.first(), self.requests.first())
    }
}

/// A value of each of several things in a row; none is kept until one is not the default.
#[derive(Debug, Default)]
struct Sparse<T>(VecDeque<T>);

impl<T: Clone + Default + PartialEq> Sparse<T> {
    /// That of the next one, behind so many.
    #[inline]
    fn put(&mut self, value: T, nr: usize) {
        if !self.0.is_empty() || value != T::default() {
            self.0.resize(nr, T::default());
            self.0.push_back(value);
        }
    }

    /// That of the first one.
    #[inline]
    fn first(&self) -> T {
        self.0.front().cloned().unwrap_or_default()
    }

    /// The first one goes.
    #[inline]
    fn take(&mut self) {
        if !self.0.is_empty() {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: what is put in comes out, in its order and as large. Method: random messages beside a
    //! queue of whole ones.

    use super::*;
    use scenario::draw::Random;

    #[test]
    fn messages_come_out_as_they_were_put_in() {
        let mut draws = Random::new(7, 0);
        let mut draw = |below: u64| draws.next_u64() % below;
        for few in [1, 2, 3] {
            let (mut content, mut model) = (Content::default(), VecDeque::new());
            for number in 0..20_000 {
                if draw(2) == 0 {
                    let bytes = draw(few) as u32 * 10;
                    let mark = if draw(3) < few - 1 { Mark::of(number) } else { Mark::COLD };
                    let by = |by| Request { number, released_at_ns: 0, deadline_ns: 0, by };
                    let request = (few == 3 && draw(4) == 0).then(|| by(draw(9) as u32));
                    let sent = Touched { cpu: draw(few) as u32, mark };
                    let slab = (few == 3 && draw(2) == 0).then(|| draw(3) as u32);
                    let message = Message { bytes, sent, slab, request };
                    content.put(message);
                    model.push_back((message, bytes));
                } else {
                    let wanted = 1 + draw(15) as u32;
                    assert_eq!(content.first(), model.front().map(|(message, _)| *message));
                    let expected = model.front_mut().map(|(message, left)| {
                        let bytes = wanted.min(*left);
                        *left -= bytes;
                        Received { bytes, of: *message, is_all: *left == 0 }
                    });
                    assert_eq!(content.receive(wanted), expected);
                    if expected.is_some_and(|received| received.is_all) {
                        model.pop_front();
                    }
                }
                assert_eq!(nr(&content.messages), model.len());
                assert!(content.rare.as_ref().is_none_or(|rare| rare.nr == model.len()));
            }
        }
    }

    #[test]
    fn equal_messages_take_the_room_of_one() {
        let mut content = Content::default();
        let sent = Touched { cpu: 5, mark: Mark::COLD };
        for _ in 0..70_000 {
            content.put(Message { bytes: 100, sent, slab: None, request: None });
        }
        assert_eq!((content.messages.len(), nr(&content.messages)), (2, 70_000));
        assert!(content.rare.is_none());
        assert_eq!(size_of::<Option<Equals>>(), 8);
    }
}
