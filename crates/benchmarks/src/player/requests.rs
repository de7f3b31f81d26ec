//! Requests of a play: what tasks note of them while they work, and what comes of the notes.
//!
//! A request begins when a task was due to release it, as in a simulation, however late the task
//! comes. It is known by a number, which messages carry in their last bytes and children have from
//! their parents. Notes lie in memory that all tasks share, because a task may be killed at any
//! time; they are counted when all is over.

use crate::player::distribution::Distribution;
use crate::player::error::PlayError;
use crate::player::stage::Stage;
use crate::system::SharedMemory;
use scenario::draw::Random;
use scenario::workload::{Amount, NO_DEADLINE_NS, Op, TaskTemplate, Workload};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering::SeqCst;

/// The requests of tasks of one name, as in simulated results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlayedRequests {
    /// The name of the tasks that released them.
    pub name: String,
    /// How many were done.
    pub done: u64,
    /// Deadlines that were met or missed: those that are due after the play's end are not in it.
    pub deadlines: u64,
    /// Deadlines that passed before the request was done.
    pub deadline_misses: u64,
    /// From release to done.
    pub response_ns: Distribution,
}

/// Releases and ends that a play can note.
pub const NOTES_MAX: usize = 1 << 22;
/// Releases that a task which is late at the end of a play may have missed, at the most.
const LATE_RELEASES_MAX: u64 = 1_000_000;
/// The size of messages that carry requests: such a number fits, and the kernel takes and gives
/// them as a whole, whoever else writes and reads (`PIPE_BUF`).
pub const MESSAGE_BYTES: RangeInclusive<u32> = 4..=4096;

/// What a note says, in its highest bits; 0 where its task was killed before it was written.
const KIND_SHIFT: u32 = 62;
const RELEASED: u64 = 1;
const DONE: u64 = 2;
/// Where in its task's program a release stands, above what the note is of.
const OP_SHIFT: u32 = 32;
const OPS_MAX: u64 = 1 << (KIND_SHIFT - OP_SHIFT);
const _: () = assert!(scenario::check::PROGRAM_OPS_MAX as u64 <= OPS_MAX);

/// Something that happened to a request. Its number is one more than that of its first note.
#[derive(Clone, Copy, Debug)]
enum Note {
    /// A task released it by an operation of its program.
    Released { by: u32, op: u32 },
    /// The request of this number is done.
    Done(u32),
}

/// What the tasks of a play share about their requests.
#[derive(Debug)]
pub struct Requests {
    /// The number of notes; then two words for each: what it says, and when.
    memory: SharedMemory,
    /// Whether requests may go through the channel with this index.
    carries: Vec<bool>,
}

impl Requests {
    /// Those of a workload; none if no task releases any.
    ///
    /// # Errors
    /// The kernel's error number if it has no room for the notes.
    pub fn new(workload: &Workload) -> Result<Option<Requests>, i32> {
        let Some(carries) = carriers(workload) else { return Ok(None) };
        let memory = SharedMemory::new((1 + 2 * NOTES_MAX) * size_of::<u64>())?;
        Ok(Some(Requests { memory, carries }))
    }

    /// What was noted, with its numbers and times.
    fn notes(&self) -> impl Iterator<Item = (u32, Note, u64)> {
        let (nr_notes, words) = self.memory.words().split_first().expect("it has words");
        let nr_notes = (nr_notes.load(SeqCst) as usize).min(NOTES_MAX);
        words.chunks_exact(2).take(nr_notes).zip(1..).filter_map(|(words, number)| {
            let said = words[0].load(SeqCst);
            let op = (said >> OP_SHIFT & (OPS_MAX - 1)) as u32;
            let note = match said >> KIND_SHIFT {
                RELEASED => Note::Released { by: said as u32, op },
                DONE => Note::Done(said as u32),
                _ => return None,
            };
            Some((number, note, words[1].load(SeqCst)))
        })
    }

    fn write(&self, said: u64, at_ns: u64) -> Result<u32, i32> {
        let words = self.memory.words();
        let index = words[0].fetch_add(1, SeqCst) as usize;
        if index >= NOTES_MAX {
            return Err(libc::ENOBUFS);
        }
        words[2 + 2 * index].store(at_ns, SeqCst);
        words[1 + 2 * index].store(said, SeqCst);
        Ok(index as u32 + 1)
    }

    /// `task` releases a request at this time, by the operation `op` of its program; its number.
    ///
    /// # Errors
    /// `ENOBUFS` if there are too many.
    pub fn release(&self, task: u32, op: usize, at_ns: u64) -> Result<u32, i32> {
        self.write(RELEASED << KIND_SHIFT | (op as u64) << OP_SHIFT | u64::from(task), at_ns)
    }

    /// The request of this number is done.
    ///
    /// # Errors
    /// `ENOBUFS` if there are too many.
    pub fn end(&self, request: u32, at_ns: u64) -> Result<(), i32> {
        self.write(DONE << KIND_SHIFT | u64::from(request), at_ns).map(|_| ())
    }

    /// Writes what the sender of a message works on into it.
    pub fn put(&self, channel: u32, message: &mut [u8], request: u32) {
        if self.carries[channel as usize]
            && let Some(place) = message.last_chunk_mut()
        {
            *place = request.to_le_bytes();
        }
    }

    /// What the receiver of these messages works on from now on.
    pub fn get(&self, channel: u32, messages: &[u8]) -> u32 {
        let number = messages.last_chunk().filter(|_| self.carries[channel as usize]);
        number.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// What came of them by the end of the play: by name, and the response times of all.
    pub fn score(
        &self,
        stage: &Stage,
        workload: &Workload,
        seed: u64,
    ) -> (Vec<PlayedRequests>, Distribution) {
        let end_at_ns = stage.play().ended_at_ns.load(SeqCst);
        let (released, last, groups) = Default::default();
        let mut account = Account { workload, stage, end_at_ns, released, last, groups };
        for (number, note, at_ns) in self.notes() {
            match note {
                Note::Released { by, op } => account.release(number, by, op, at_ns),
                Note::Done(request) if at_ns <= end_at_ns => account.done(request, at_ns),
                Note::Done(_) => {}
            }
        }
        account.count_overdue();
        account.count_late(seed);
        account.result()
    }
}

/// Notes on their way to a result.
struct Account<'a> {
    workload: &'a Workload,
    stage: &'a Stage,
    end_at_ns: u64,
    released: BTreeMap<u32, Released>,
    /// The last release of each task.
    last: BTreeMap<u32, Released>,
    groups: BTreeMap<&'a str, Group>,
}

#[derive(Clone, Copy, Debug)]
struct Released {
    by: u32,
    every: Amount,
    deadline_ns: u64,
    at_ns: u64,
    /// Children of one parent may each be done with its request; its deadline is one.
    is_done: bool,
}

#[derive(Debug, Default)]
struct Group {
    deadlines: u64,
    misses: u64,
    responses_ns: Vec<u64>,
}

impl<'a> Account<'a> {
    fn template(&self, task: u32) -> &'a TaskTemplate {
        &self.workload.templates[self.stage.slot(task).template.load(SeqCst) as usize]
    }

    fn group(&mut self, task: u32) -> &mut Group {
        self.groups.entry(&self.template(task).name).or_default()
    }

    fn release(&mut self, number: u32, by: u32, op: u32, at_ns: u64) {
        let op = self.template(by).program[op as usize];
        let Op::Release { every, deadline_ns } = op else { unreachable!("{op:?} released") };
        let released = Released { by, every, deadline_ns, at_ns, is_done: false };
        self.released.insert(number, released);
        self.last.insert(by, released);
    }

    fn done(&mut self, number: u32, at_ns: u64) {
        // A number that no release had was read from bytes that no sender wrote as a whole.
        let Some(request) = self.released.get_mut(&number) else { return };
        let response_ns = at_ns.saturating_sub(request.at_ns);
        let is_due = !request.is_done && request.deadline_ns != NO_DEADLINE_NS;
        let is_missed = is_due && response_ns > request.deadline_ns;
        request.is_done = true;
        let by = request.by;
        let group = self.group(by);
        group.responses_ns.push(response_ns);
        group.deadlines += u64::from(is_due);
        group.misses += u64::from(is_missed);
    }

    fn is_over(&self, at_ns: u64, deadline_ns: u64) -> bool {
        deadline_ns != NO_DEADLINE_NS && at_ns.saturating_add(deadline_ns) <= self.end_at_ns
    }

    fn miss(&mut self, task: u32, count: u64) {
        let group = self.group(task);
        group.deadlines += count;
        group.misses += count;
    }

    /// Deadlines that passed and nobody was done.
    fn count_overdue(&mut self) {
        for request in std::mem::take(&mut self.released).into_values() {
            if !request.is_done && self.is_over(request.at_ns, request.deadline_ns) {
                self.miss(request.by, 1);
            }
        }
    }

    /// Deadlines of requests that a task was too late to release. A random task would have drawn
    /// others than are drawn here, just as many on average.
    fn count_late(&mut self, seed: u64) {
        for (task, last) in std::mem::take(&mut self.last) {
            if self.stage.slot(task).exited_at_ns.load(SeqCst) > 0 {
                continue;
            }
            let mut random = Random::new(seed, self.stage.slot(task).stream.load(SeqCst));
            let mut at_ns = last.at_ns;
            let mut nr_late = 0;
            while nr_late < LATE_RELEASES_MAX {
                at_ns = at_ns.saturating_add(last.every.draw(&mut random));
                if !self.is_over(at_ns, last.deadline_ns) {
                    break;
                }
                nr_late += 1;
            }
            if nr_late > 0 {
                self.miss(task, nr_late);
            }
        }
    }

    fn result(self) -> (Vec<PlayedRequests>, Distribution) {
        let all_ns = self.groups.values().flat_map(|group| group.responses_ns.clone()).collect();
        let of = |(name, group): (&str, Group)| PlayedRequests {
            name: name.to_owned(),
            done: group.responses_ns.len() as u64,
            deadlines: group.deadlines,
            deadline_misses: group.misses,
            response_ns: Distribution::with_histogram(group.responses_ns),
        };
        (self.groups.into_iter().map(of).collect(), Distribution::with_histogram(all_ns))
    }
}

// ---- what messages can carry --------------------------------------------------------------------

/// The channels through which requests may go; none if no task releases any.
fn carriers(workload: &Workload) -> Option<Vec<bool>> {
    let kinds = &workload.templates;
    let has = |program: &[Op], wanted: &dyn Fn(Op) -> bool| program.iter().any(|op| wanted(*op));
    let releases = |op: Op| matches!(op, Op::Release { .. });
    let mut works: Vec<bool> = kinds.iter().map(|kind| has(&kind.program, &releases)).collect();
    let mut carries = vec![false; workload.channels.len()];
    if !works.contains(&true) {
        return None;
    }
    loop {
        let before = (works.clone(), carries.clone());
        for (kind, template) in kinds.iter().enumerate() {
            for op in template.program.iter() {
                match *op {
                    Op::Send { channel, .. } if works[kind] => carries[channel as usize] = true,
                    Op::Fork { template } if works[kind] => works[template as usize] = true,
                    Op::Recv { channel, .. } if carries[channel as usize] => works[kind] = true,
                    _ => {}
                }
            }
        }
        if before == (works.clone(), carries.clone()) {
            return Some(carries);
        }
    }
}

/// Whether each message that may have a request carries its number as a whole, to one receiver:
/// the messages of a channel have one size, and are received whole.
///
/// # Errors
/// With a task whose messages do not.
pub fn check_messages(workload: &Workload) -> Result<(), PlayError> {
    let Some(carries) = carriers(workload) else { return Ok(()) };
    let mut sent_bytes = vec![0; carries.len()];
    let refused = |task: &str, key, bytes, sent_bytes| PlayError::Request {
        workload: workload.name.clone(),
        task: task.to_owned(),
        key,
        bytes,
        sent_bytes,
    };
    for kind in &workload.templates {
        for op in kind.program.iter() {
            let Op::Send { channel, bytes } = *op else { continue };
            let first = &mut sent_bytes[channel as usize];
            *first = if *first == 0 { bytes } else { *first };
            let fits = MESSAGE_BYTES.contains(&bytes) && bytes == *first;
            if carries[channel as usize] && !fits {
                return Err(refused(&kind.name, "send", bytes, *first));
            }
        }
    }
    for kind in &workload.templates {
        for op in kind.program.iter() {
            let Op::Recv { channel, bytes } = *op else { continue };
            let sent = sent_bytes[channel as usize];
            if carries[channel as usize] && !bytes.is_multiple_of(sent) {
                return Err(refused(&kind.name, "recv", bytes, sent));
            }
        }
    }
    Ok(())
}
