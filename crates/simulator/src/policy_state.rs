//! The policy that runs: its code, its operations, what it was given and what it holds.

use crate::abi::{CpuMask, EVENTS, EnableArgs, ExitTaskArgs, InitTaskArgs, Key, RunQueue};
use crate::cids::{Cids, KernelMasks};
use crate::linked::{Adopted, Code, Linked, Mode};
use crate::operations::{Function, Operation, Operations};
use crate::place::TaskId;
use crate::policy_time::PolicyTime;
use crate::prints::{Prints, Said};
use crate::releases;
use crate::visible::{Placed, Visible};
use bytecode::{Arena, Maps, Object};
use policy::{Loaded, PolicyError};
use scenario::draw::Random;
use scenario::machine::Release;
use std::collections::BTreeMap;
use std::sync::Arc;

/// `ops.dispatch_max_batch` where the policy names none.
const DISPATCH_BATCH_DEFAULT: u32 = 32;
/// Stream of random numbers of the policy; no task is likely to have it.
const RANDOM_STREAM: u64 = u64::MAX;
/// What is no policy's fault.
const ONE_AT_A_TIME: &str = "no operation runs inside another";

/// What `scx_bpf_dsq_insert` was asked to do.
#[derive(Clone, Copy, Debug)]
pub struct Insertion {
    /// The task.
    pub task: TaskId,
    /// The queue's number.
    pub dsq: u64,
    /// `SCX_ENQ_*`
    pub flags: u64,
    /// Whether the queue is ordered by virtual time.
    pub by_vtime: bool,
    /// The instruction of the policy that asked for it, if one did.
    pub asked_at: Option<u32>,
}

/// Which operation of the policy is running, as far as calls depend on it.
#[derive(Clone, Copy, Debug, Default)]
pub enum Context {
    /// Any other.
    #[default]
    Plain,
    /// `select_cpu` or `enqueue` of this task: it may be dispatched directly.
    Enqueueing {
        /// The task that is being enqueued.
        task: TaskId,
        /// Where the policy dispatched it.
        direct: Option<Insertion>,
    },
    /// `dispatch`: insertions are collected in a buffer.
    Dispatching,
    /// A timer's callback: no run queue is locked, so tasks may be moved between queues.
    Unlocked,
}

/// Makes another copy of the policy.
pub type Load<'a> = &'a dyn Fn() -> Result<Loaded, PolicyError>;

/// The policy that runs.
pub struct PolicyState<'a> {
    code: Code,
    ops: Operations,
    load: Load<'a>,
    /// Times that it was loaded again, see `restart`.
    nr_restarts: u64,
    /// Where operations find their arguments, as the policy sees that.
    arguments_at: u64,
    /// Its maps and timers.
    pub maps: Maps,
    /// What it was given.
    pub given: Given,
    context: Context,
    /// Insertions of the present `dispatch`.
    buffer: Vec<Insertion>,
    /// Draws of it and of nobody else.
    random: Random,
    /// See [`Options::prints`](crate::Options).
    pub prints: Prints,
    /// What its own instructions have taken.
    pub time: PolicyTime,
}

impl<'a> PolicyState<'a> {
    /// A policy of which nothing has run.
    pub fn new(
        adopted: Adopted,
        load: Load<'a>,
        given: Given,
        options: &crate::Options,
        time: PolicyTime,
    ) -> Self {
        PolicyState {
            code: adopted.code,
            ops: adopted.ops,
            load,
            nr_restarts: 0,
            arguments_at: adopted.arguments_at,
            maps: adopted.maps,
            given,
            context: Context::Plain,
            buffer: Vec::new(),
            random: Random::new(options.seed, RANDOM_STREAM),
            prints: Prints::to(options.prints.clone()),
            time,
        }
    }

    // ---- operations -------------------------------------------------------------------------

    /// The function that is this operation, if it has it.
    #[inline]
    pub fn operation(&self, operation: Operation) -> Option<Function> {
        self.ops.get(operation)
    }

    /// Whether it has this operation.
    #[inline]
    pub fn has(&self, operation: Operation) -> bool {
        self.ops.has(operation)
    }

    /// `ops.flags`
    pub fn flags(&self) -> u64 {
        self.ops.flags
    }

    /// `ops.timeout_ms`, 0 if it names none.
    pub fn timeout_ms(&self) -> u32 {
        self.ops.timeout_ms
    }

    /// Whether the kernel knows for it which CPUs are idle.
    pub fn tracks_idle(&self) -> bool {
        self.ops.track_idle
    }

    /// Whether it hears of each task that leaves its custody.
    #[inline]
    pub fn hears_of_custody(&self) -> bool {
        self.has(Operation::Dequeue) && releases::tells_custody(self.given.release)
    }

    /// Whether its operations take cids where others take CPUs.
    pub fn takes_cids(&self) -> bool {
        self.ops.take_cids
    }

    /// `ops.cid_shard_size`
    pub fn cid_shard_size(&self) -> u32 {
        self.ops.cid_shard_size
    }

    /// Its arena, unless an operation runs, and what it was given.
    pub fn arena_and_given(&mut self) -> Option<(&mut Arena, &mut Given)> {
        let linked = self.code.as_mut()?;
        Some((linked.machine.memory_mut().arena()?, &mut self.given))
    }

    /// Whether each of its instructions is looked at.
    #[inline]
    pub fn is_strict(&self) -> bool {
        self.given.mode == Mode::Strict
    }

    // ---- the operation that runs ------------------------------------------------------------

    /// Calls depend on this from now on.
    pub fn begin(&mut self, context: Context) {
        self.context = context;
    }

    /// What calls depended on; they do on nothing now.
    pub fn end(&mut self) -> Context {
        std::mem::take(&mut self.context)
    }

    /// What calls depend on.
    pub fn context(&self) -> Context {
        self.context
    }

    /// Insertions that one `dispatch` may make.
    fn batch(&self) -> usize {
        match self.ops.dispatch_max_batch {
            0 => DISPATCH_BATCH_DEFAULT as usize,
            batch => batch as usize,
        }
    }

    /// Insertions that the present `dispatch` may still make.
    pub fn nr_slots(&self) -> usize {
        self.batch() - self.buffer.len()
    }

    /// Keeps an insertion of the present `dispatch`.
    pub fn keep(&mut self, insertion: Insertion) {
        self.buffer.push(insertion);
    }

    /// Whether there are any.
    #[inline]
    pub fn keeps_any(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Forgets the last of them; whether there was one.
    pub fn forget_last(&mut self) -> bool {
        self.buffer.pop().is_some()
    }

    /// Takes them, to be given back by [`PolicyState::reuse`].
    pub fn take_buffer(&mut self) -> Vec<Insertion> {
        std::mem::take(&mut self.buffer)
    }

    /// Room for the next ones.
    pub fn reuse(&mut self, mut buffer: Vec<Insertion>) {
        buffer.clear();
        self.buffer = buffer;
    }

    /// Its next random number.
    pub fn draw(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// Where operations find their arguments, as it sees that.
    pub fn arguments_at(&self) -> u64 {
        self.arguments_at
    }

    // ---- its code ---------------------------------------------------------------------------

    /// What runs, which must be put back.
    #[inline]
    pub fn take_code(&mut self) -> Box<Linked> {
        self.code.take().expect(ONE_AT_A_TIME)
    }

    /// Puts it back.
    #[inline]
    pub fn put_code(&mut self, code: Box<Linked>) {
        // It was taken, so that nothing is there that would be lost.
        std::mem::forget(self.code.replace(code));
    }

    /// What runs, unless an operation does.
    pub fn code(&self) -> Option<&Linked> {
        self.code.as_deref()
    }

    // ---- another copy -----------------------------------------------------------------------

    /// Times that it was loaded again.
    pub fn nr_restarts(&self) -> u64 {
        self.nr_restarts
    }

    /// It is ended, to be loaded again.
    pub fn restarts(&mut self) {
        self.nr_restarts += 1;
    }

    /// Another copy.
    pub fn load(&self) -> Result<Loaded, PolicyError> {
        (self.load)()
    }

    /// What ran is gone.
    pub fn drop_code(&mut self) -> Code {
        self.code.take()
    }

    /// Another copy is there in place of the old one; none, and nothing is called any more.
    pub fn replace(&mut self, adopted: Option<Adopted>) {
        let Some(Adopted { code, ops, maps, arguments_at }) = adopted else {
            self.ops = Operations::default();
            return;
        };
        (self.code, self.ops, self.maps) = (code, ops, maps);
        self.arguments_at = arguments_at;
        self.time.begin_anew();
        self.given.masks.forget_all();
        self.given.bits.clear();
        self.given.events = [0; _];
    }
}

/// What a policy was given and holds.
#[derive(Debug)]
pub struct Given {
    /// What `init_task` is given.
    pub init_task: Placed<InitTaskArgs>,
    /// What `enable` is given, where operations take cids.
    pub enable: Placed<EnableArgs>,
    /// What `exit_task` is given.
    pub exit_task: Placed<ExitTaskArgs>,
    /// Run queues that it was shown, by CPU.
    pub run_queues: Vec<Placed<RunQueue>>,
    /// The cids of CPUs.
    pub cids: Cids,
    /// Sets of them in the policy's arena.
    pub cid_masks: KernelMasks,
    /// How an object is run.
    pub mode: Mode,
    /// The release whose interface it finds; none in particular, and it finds that of all.
    pub release: Option<Release>,
    /// Whether operations are called as they are: nothing is looked at, nor made of CPUs.
    pub runs_as_is: bool,
    /// Whether the same is true of calls.
    pub calls_as_is: bool,
    /// Instructions of it that were watched.
    pub watched: u64,
    /// What of it runs, or ran last.
    pub operation: Operation,
    /// Where its arguments are, and how many bytes of them it has.
    pub arguments: (u64, u64),
    /// Whether that may sleep.
    pub may_sleep: bool,
    /// The instruction that inserts or moves a task, if one does.
    pub call: Option<u32>,
    /// Whether the run had failed before the present call.
    pub had_failed: bool,
    /// The instruction whose call was wrong, if one was.
    pub failed_at: Option<u32>,
    /// Sets of CPUs of an object's.
    pub masks: OwnMasks,
    /// What it was linked from, each time that it was loaded.
    pub object: Arc<Object>,
    /// Which of the object's tables has its operations.
    pub table: usize,
    /// Places for the keys that callbacks are given.
    pub keys: Vec<Placed<Key>>,
    /// What its iterators over bits have yet to give, by their addresses.
    pub bits: BTreeMap<u64, Bits>,
    /// What its present dump operation has said.
    pub said: Option<Said>,
    /// What `scx_bpf_events` tells it, by the places in `EVENTS`.
    pub events: [u64; EVENTS.len()],
}

impl Given {
    /// Nothing yet.
    pub fn new(
        visible: &mut Visible,
        mode: Mode,
        release: Option<Release>,
        policy: &Loaded,
        takes_time: bool,
    ) -> Given {
        let takes_cids = policy.takes_cids();
        Given {
            init_task: visible.place(InitTaskArgs::default()),
            enable: visible.place(EnableArgs::default()),
            exit_task: visible.place(ExitTaskArgs::default()),
            run_queues: Vec::new(),
            cids: Cids::default(),
            cid_masks: KernelMasks::default(),
            mode,
            release,
            runs_as_is: mode == Mode::Translated && !takes_cids && !takes_time,
            calls_as_is: mode != Mode::Strict && !takes_cids && !takes_time,
            watched: 0,
            operation: Operation::Init,
            arguments: (0, 0),
            may_sleep: false,
            call: None,
            had_failed: false,
            failed_at: None,
            masks: OwnMasks::default(),
            object: policy.object.clone(),
            table: policy.operations,
            keys: Vec::new(),
            bits: BTreeMap::new(),
            said: None,
            events: [0; _],
        }
    }
}

impl Given {
    /// A place for a key that a callback is given: one for each of those that are in each other.
    /// Whoever takes it puts it back into `keys`.
    pub fn key_place(&mut self, visible: &mut Visible) -> Placed<Key> {
        self.keys.pop().unwrap_or_else(|| visible.place([0; _]))
    }

    /// Keeps the place of the call that ended the run.
    #[cold]
    pub fn failed_in_call(&mut self, place: u32) {
        if !std::mem::replace(&mut self.had_failed, true) {
            self.failed_at.get_or_insert(place);
        }
    }
}

/// Sets of CPUs that the policy made.
#[derive(Debug, Default)]
pub struct OwnMasks {
    /// How many hold each, by its address.
    pub users: BTreeMap<u64, u32>,
    /// Those that nobody holds.
    pub free: Vec<Placed<CpuMask>>,
    /// Those that somebody holds.
    pub used: BTreeMap<u64, Placed<CpuMask>>,
    /// Those of nodes' idle CPUs, by node and by what they were made of. They are the machine's.
    pub of_nodes: BTreeMap<(i32, usize), Placed<CpuMask>>,
}

impl OwnMasks {
    /// Nobody holds any more, as when the policy is gone.
    pub fn forget_all(&mut self) {
        self.users.clear();
        self.free.extend(std::mem::take(&mut self.used).into_values());
    }
}

/// What an iterator over bits has not given yet.
#[derive(Debug)]
pub struct Bits {
    /// The instruction that began it.
    pub begun_at: u32,
    words: Vec<u64>,
    /// Those before this one are done.
    at: usize,
}

impl Bits {
    /// Bits of these words, of which none was given.
    pub fn new(begun_at: u32, words: Vec<u64>) -> Bits {
        Bits { begun_at, words, at: 0 }
    }
}

impl Iterator for Bits {
    /// The number of a bit.
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        loop {
            let word = self.words.get_mut(self.at)?;
            if *word != 0 {
                let bit = word.trailing_zeros();
                *word &= *word - 1;
                return Some(64 * self.at as u64 + u64::from(bit));
            }
            self.at += 1;
        }
    }
}
