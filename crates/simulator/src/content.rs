//! What is in a channel: messages, oldest first.
//!
//! Thousands of channels may hold dozens of messages each, more than the cache of the computer that
//! simulates them has room for. So equal messages behind each other lie as one, and what only some
//! runs ask of messages lies apart and takes no memory elsewhere.

use crate::caches::{Mark, Touched};
use crate::task::Request;
use std::collections::VecDeque;

/// A message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its bytes.
    pub bytes: u32,
    /// The CPU it was sent from, and when.
    pub sent: Touched,
    /// What its sender worked on, and so its receiver will.
    pub request: Option<Request>,
}

/// Messages of one size that one CPU sent after each other.
#[derive(Clone, Copy, Debug)]
struct Equals {
    bytes: u32,
    cpu: u16,
    nr: u16,
}

/// Messages, oldest first.
#[derive(Debug, Default)]
pub struct Content {
    messages: VecDeque<Equals>,
    nr: usize,
    /// Bytes of the first one that nobody has received.
    left: u32,
    marks: Sparse<Mark>,
    requests: Sparse<Option<Request>>,
}

impl Content {
    /// Adds a message.
    #[inline]
    pub fn put(&mut self, message: Message) {
        let Message { bytes, sent, request } = message;
        let cpu = u16::try_from(sent.cpu).expect("machines have fewer CPUs");
        match self.messages.back_mut() {
            Some(last) if (last.bytes, last.cpu) == (bytes, cpu) && last.nr < u16::MAX => {
                last.nr += 1;
            }
            _ => self.messages.push_back(Equals { bytes, cpu, nr: 1 }),
        }
        if self.nr == 0 {
            self.left = bytes;
        }
        self.marks.put(sent.mark, self.nr);
        self.requests.put(request, self.nr);
        self.nr += 1;
    }

    /// The oldest message.
    #[inline]
    pub fn first(&self) -> Option<Message> {
        let first = self.messages.front()?;
        let sent = Touched { cpu: first.cpu.into(), mark: self.marks.first() };
        Some(Message { bytes: first.bytes, sent, request: self.requests.first() })
    }

    /// Receives up to `wanted` bytes of the oldest message; how many, and the message once nothing
    /// is left of it.
    #[inline]
    pub fn receive(&mut self, wanted: u32) -> (u32, Option<Message>) {
        let got = self.left.min(wanted);
        self.left -= got;
        let ended = if self.left == 0 { self.take() } else { None };
        (got, ended)
    }

    #[inline]
    fn take(&mut self) -> Option<Message> {
        let ended = self.first()?;
        if let Some(first) = self.messages.front_mut() {
            first.nr -= 1;
            if first.nr == 0 {
                self.messages.pop_front();
            }
        }
        self.marks.take();
        self.requests.take();
        self.nr -= 1;
        self.left = self.messages.front().map_or(0, |first| first.bytes);
        Some(ended)
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
                    let message = Message { bytes, sent, request };
                    content.put(message);
                    model.push_back((message, bytes));
                } else {
                    let wanted = 1 + draw(15) as u32;
                    assert_eq!(content.first(), model.front().map(|(message, _)| *message));
                    let expected = model.front_mut().map_or((0, None), |(message, left)| {
                        let got = wanted.min(*left);
                        *left -= got;
                        (got, (*left == 0).then_some(*message))
                    });
                    assert_eq!(content.receive(wanted), expected);
                    if expected.1.is_some() {
                        model.pop_front();
                    }
                }
                assert_eq!(content.nr, model.len());
            }
        }
    }

    #[test]
    fn equal_messages_take_the_room_of_one() {
        let mut content = Content::default();
        let sent = Touched { cpu: 5, mark: Mark::COLD };
        for _ in 0..70_000 {
            content.put(Message { bytes: 100, sent, request: None });
        }
        assert_eq!((content.messages.len(), content.marks.0.len()), (2, 0));
        assert_eq!(std::mem::size_of::<Equals>(), 8);
    }
}
