//! Exact order is verified in each heat, before anything is timed.
//!
//! A plain queue's pops are the reference. Every exact entrant goes through the same operations,
//! with keys of the heat, and each of its pops must give the same item with the same key.

use runqueue::before;
use runqueue::hold::{Increments, Random, mix};

use crate::raced::{Raced, increment};
use crate::setting::Setting;
use crate::trace::{Operation, Trace};

/// Turns of each kind.
const TURNS: u64 = 10_000;
/// Items that are taken out at the end, if there are so many.
const TAKEN_MAX: u32 = 20_000;
/// Items that come at once, at the most.
const BURST_MAX: u32 = 5_000;
/// Where numbers begin again, signed ones and unsigned ones: keys pass both and keep their order.
const ENDS: [u64; 2] = [1 << 63, 0];
/// Keys of a burst that nearly ties are less than this apart.
const NEARLY: u64 = 16;

/// The item that was popped and its key; `None` from an empty queue.
pub type Popped = Option<(u32, u64)>;

/// The pops of an entrant, compared with those of the reference as they come.
pub struct Pops<'r> {
    hash: u64,
    count: usize,
    recorded: Vec<Popped>,
    reference: Option<&'r [Popped]>,
    /// The first pop that was another one: its number from 1, what it was, what it should be.
    pub different: Option<(usize, Popped, Popped)>,
}

impl<'r> Pops<'r> {
    /// Of the reference.
    pub fn recording() -> Self {
        Pops { hash: 0, count: 0, recorded: Vec::new(), reference: None, different: None }
    }

    /// Of an entrant that must give the same.
    pub fn like(reference: &'r [Popped]) -> Self {
        Pops { reference: Some(reference), ..Pops::recording() }
    }

    /// What was recorded.
    pub fn into_recorded(self) -> Vec<Popped> {
        self.recorded
    }

    /// What all who give the same order have alike.
    pub fn hash(&self) -> String {
        format!("{:016x}", self.hash)
    }

    /// Notes a pop; `None` if it is another one than the reference's.
    fn note(&mut self, popped: Popped) -> Option<()> {
        let (item, key) = popped.unwrap_or((u32::MAX, 0));
        self.hash = mix(self.hash, item, key);
        self.count += 1;
        let Some(reference) = self.reference else {
            self.recorded.push(popped);
            return Some(());
        };
        let expected = reference.get(self.count - 1).copied().flatten();
        if popped != expected {
            self.different = Some((self.count, popped, expected));
            return None;
        }
        Some(())
    }

    /// Pops and notes it; `None` if it is not what the reference gave.
    fn pop<Q: Raced>(&mut self, queue: &mut Q, items: u32) -> Option<(u32, u64)> {
        let popped = queue.pop();
        // A plug-in may say any number, but it is not asked for the key of one that is no item.
        let popped = popped.map(|item| (item, if item < items { queue.key(item) } else { 0 }));
        self.note(popped)?;
        popped
    }
}

/// Takes `queue`, which holds items 0 to n - 1 and nothing was done with, through every operation
/// of the heat. It holds the same items afterwards, unless the heat replays a trace: then it was
/// empty and is so again. `None` as soon as a pop differs.
pub fn examine<Q: Raced>(queue: &mut Q, setting: &Setting, pops: &mut Pops) -> Option<()> {
    if let Some(trace) = &setting.trace {
        let shifts = ENDS.map(|end| end.wrapping_sub(trace.middle_key()));
        return [0].into_iter().chain(shifts).try_for_each(|shift| {
            let items = setting.n;
            replay(queue, trace, items, shift, pops)
        });
    }
    let (n, increments) = (setting.n, &setting.increments);
    let mut random = Random::new(TURNS);
    turns(queue, setting, 0..TURNS, pops)?;
    if setting.removes() {
        for round in 0..TURNS {
            turns(queue, setting, round..round + 1, pops)?;
            let sleeper = random.below(u64::from(n)) as u32;
            let key = queue.key(sleeper);
            queue.remove(sleeper);
            queue.push(sleeper, key);
        }
        exodus(queue, setting, pops)?;
    }
    // The loops that are timed: a plug-in has its own, whose pops are not seen here but later.
    queue.hold(increments, TURNS, TURNS);
    if setting.removes() {
        queue.hold_and_remove(n, increments, 2 * TURNS, TURNS, &mut random);
    }
    bursts(queue, setting, &mut random, pops)?;
    turns(queue, setting, 0..TURNS, pops)?;
    if n > TAKEN_MAX {
        return take_and_return(queue, n, None, pops);
    }
    for end in ENDS {
        take_and_return(queue, n, Some(end), pops)?;
        turns(queue, setting, 0..TURNS, pops)?;
    }
    take_and_return(queue, n, None, pops)
}

/// Takes `queue` through the same operations with books kept of what is queued, and then takes out
/// everything: no item is lost and none doubled, whatever the order is.
pub fn conserve<Q: Raced>(queue: &mut Q, setting: &Setting) -> Result<(), String> {
    let is_queued = vec![true; setting.n as usize];
    let mut booked = Booked { queue, queued: is_queued.len(), is_queued, wrong: None };
    let mut pops = Pops::recording();
    if examine(&mut booked, setting, &mut pops).is_some() {
        while booked.queued > 0 && booked.pop().is_some() {}
        booked.pop();
    }
    booked.wrong.map_or(Ok(()), Err)
}

/// Takes everything out of `queue`: it must be those of `is_queued`, each once, and in the order of
/// keys if the queue `is_exact`. What is wrong, if something is.
pub fn take_all<Q: Raced>(
    queue: &mut Q,
    is_queued: Vec<bool>,
    is_exact: bool,
) -> Result<(), String> {
    let queued = is_queued.iter().filter(|&&is_queued| is_queued).count();
    let mut booked = Booked { queue, queued, is_queued, wrong: None };
    let mut last: Option<u64> = None;
    while booked.queued > 0
        && let Some(item) = booked.pop()
    {
        let key = booked.key(item);
        if is_exact && let Some(last) = last.filter(|&last| before(key, last)) {
            let late = || format!("item {item} with key {key} came after one with key {last}");
            booked.wrong.get_or_insert_with(late);
        }
        last = Some(key);
    }
    booked.pop();
    booked.wrong.map_or(Ok(()), Err)
}

/// A queue and the books of it.
struct Booked<'q, Q> {
    queue: &'q mut Q,
    is_queued: Vec<bool>,
    queued: usize,
    /// What the first pop was that cannot be.
    wrong: Option<String>,
}

impl<Q> Booked<'_, Q> {
    /// What the books say of a pop: the item, unless it was not queued.
    fn note(&mut self, popped: Option<u32>) -> Option<u32> {
        let found = match popped {
            None if self.queued == 0 => return None,
            None => Err(format!("a pop gave nothing while {} items were queued", self.queued)),
            Some(item) => match self.is_queued.get_mut(item as usize) {
                Some(is_queued) if *is_queued => {
                    (*is_queued, self.queued) = (false, self.queued - 1);
                    Ok(item)
                }
                Some(_) => Err(format!("a pop gave item {item}, which was not queued")),
                None => Err(format!("a pop gave item {item}, which nobody pushed")),
            },
        };
        found.map_err(|wrong| self.wrong.get_or_insert(wrong)).ok()
    }
}

impl<Q: Raced> Raced for Booked<'_, Q> {
    fn push(&mut self, item: u32, key: u64) {
        self.queue.push(item, key);
        self.is_queued[item as usize] = true;
        self.queued += 1;
    }

    fn pop(&mut self) -> Option<u32> {
        let popped = self.queue.pop();
        self.note(popped)
    }

    fn remove(&mut self, item: u32) {
        self.queue.remove(item);
        self.is_queued[item as usize] = false;
        self.queued -= 1;
    }

    fn key(&self, item: u32) -> u64 {
        self.queue.key(item)
    }

    fn memory_bytes(&self) -> u64 {
        self.queue.memory_bytes()
    }

    fn hold(&mut self, increments: &Increments, round: u64, loops: u64) {
        self.queue.hold(increments, round, loops);
    }

    fn hold_and_remove(
        &mut self,
        items: u32,
        increments: &Increments,
        round: u64,
        loops: u64,
        random: &mut Random,
    ) {
        self.queue.hold_and_remove(items, increments, round, loops, random);
    }
}

fn turns<Q: Raced>(
    queue: &mut Q,
    setting: &Setting,
    rounds: std::ops::Range<u64>,
    pops: &mut Pops,
) -> Option<()> {
    for round in rounds {
        let (item, key) = pops.pop(queue, setting.n)?;
        queue.push(item, key.wrapping_add(increment(&setting.increments, round, item)));
    }
    Some(())
}

/// Half of the items, or many, are removed at once, and come back after the others' turns.
fn exodus<Q: Raced>(queue: &mut Q, setting: &Setting, pops: &mut Pops) -> Option<()> {
    let half = (setting.n / 2).min(TAKEN_MAX);
    for item in 0..half {
        queue.remove(item);
    }
    turns(queue, setting, 0..TURNS, pops)?;
    for item in (0..half).rev() {
        queue.push(item, queue.key(item));
    }
    Some(())
}

/// Some leave and come back: once in front of all others, once nearly at the same time.
fn bursts<Q: Raced>(
    queue: &mut Q,
    setting: &Setting,
    random: &mut Random,
    pops: &mut Pops,
) -> Option<()> {
    let burst = (setting.n / 4).clamp(1, BURST_MAX);
    let leave = |queue: &mut Q, pops: &mut Pops| {
        (0..burst).map(|_| pops.pop(queue, setting.n)).collect::<Option<Vec<_>>>()
    };
    for (item, key) in leave(queue, pops)? {
        queue.push(item, key.wrapping_sub(increment(&setting.increments, key, item)));
    }
    let left = leave(queue, pops)?;
    let now = left.last().map_or(0, |&(_, key)| key);
    for (item, _) in left {
        queue.push(item, now.wrapping_add(random.below(NEARLY)));
    }
    Some(())
}

/// Takes out what there is, or much of it, and puts it back in the same order; with the keys that
/// it had, or, if all is taken, with keys around `end` that are as far apart.
fn take_and_return<Q: Raced>(
    queue: &mut Q,
    n: u32,
    end: Option<u64>,
    pops: &mut Pops,
) -> Option<()> {
    let taken = (0..n.min(TAKEN_MAX)).map(|_| pops.pop(queue, n)).collect::<Option<Vec<_>>>()?;
    if n <= TAKEN_MAX {
        // Nothing was doubled.
        pops.note(queue.pop().map(|item| (item, 0)))?;
    }
    let shift = end.map_or(0, |end| end.wrapping_sub(taken[taken.len() / 2].1));
    for (item, key) in taken {
        queue.push(item, key.wrapping_add(shift));
    }
    Some(())
}

fn replay<Q: Raced>(
    queue: &mut Q,
    trace: &Trace,
    items: u32,
    shift: u64,
    pops: &mut Pops,
) -> Option<()> {
    let mut queued = 0u32;
    for &operation in &trace.operations {
        match operation {
            Operation::Push { item, key } => {
                queue.push(item, key.wrapping_add(shift));
                queued += 1;
            }
            Operation::Pop => {
                pops.pop(queue, items)?;
                queued -= 1;
            }
            Operation::Remove { item } => {
                queue.remove(item);
                queued -= 1;
            }
        }
    }
    for _ in 0..queued {
        pops.pop(queue, items)?;
    }
    pops.note(queue.pop().map(|item| (item, 0)))
}
