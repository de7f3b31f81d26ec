//! lrzip: one thread finds long repetitions, others compress what is left, block by block.
//!
//! The main thread goes through the whole file, and whenever what is left of it fills a block it
//! starts a thread for this one and goes on. There is a block for each thread and one more, so that
//! none waits to be compressed; as scanning leaves only a part of the file, fewer are filled, the
//! last not to its end. A thread codes its block while another finds matches for it: batch by batch
//! they wait for each other, over a ring of batches. What blocks differ by, the two do apart at the
//! end. Then the thread waits until the block before has been written: the file is written in
//! order.
//! With one thread all is one block, coded by itself when all has been scanned. Work is split by
//! what blocks hold, so all of it is the same for every number of threads. The main thread has half
//! the nice value of the others.
//!
//! Source: lrzip 0.614, stream.c and rzip.c: each thread writes when it is its turn; main.c: nice
//! values. The LZMA SDK in it, LzFindMt.c and LzFindMt.h: the ring. Own: runs of lrzip 0.651 on 128
//! MiB and 470 MB with 1 to 16 threads, whose threads were sampled, and whose waits were counted.

use crate::made::builder::ProgramBuilder;
use crate::model::error::ScenarioError;
use crate::model::workload::{Amount, InitialTask, Op, Program, Repeat, TaskTemplate, Workload};
use crate::reading::parameters::Settings;

/// The most threads: each block is two kinds of task.
pub const THREADS_MAX: u32 = 100_000;

/// The most batches of a block.
pub const BATCHES_MAX: u64 = 1_000_000_000;

/// Batches that who finds matches may be ahead of who codes (LZMA SDK: `kMtBtNumBlocks`).
const RING: u64 = 64;

/// What shapes a run of lrzip. Times are those of the reference CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lrzip {
    /// CPUs that it takes to have: blocks are the file by so many and one, or all of it with one.
    pub threads: u32,
    /// What scanning leaves of the file, in thousandths.
    pub left_permille: u32,
    /// What finding repetitions takes, over the whole file.
    pub scan_ns: u64,
    /// What compressing takes, over all blocks.
    pub compress_ns: u64,
    /// The part of compressing that another thread does beside the one that codes, in thousandths.
    pub finder_permille: u32,
    /// What finding takes of the matches that are handed over at a time; 0 if the two threads of a
    /// block do not wait for each other.
    pub batch_ns: u64,
    /// What writing takes, over all blocks.
    pub write_ns: u64,
    /// How far blocks differ: each part takes its share give or take so many thousandths.
    pub spread_permille: u32,
    /// Memory that each thread touches.
    pub footprint_kib: u32,
    /// The nice value of the threads of blocks.
    pub nice: i8,
}

/// Values below 0 are left out: lrzip does not halve those.
const NICE_MAX: u32 = 19;

/// Names of the parameters in the workload's file.
pub(crate) const PARAMETERS: [&str; 10] = [
    "threads",
    "left_permille",
    "scan",
    "compress",
    "finder_permille",
    "batch",
    "write",
    "spread_permille",
    "footprint_kib",
    "nice",
];

/// The lrzip that the parameters of a file describe.
pub(crate) fn read(settings: &Settings) -> Result<Workload, ScenarioError> {
    let lrzip = Lrzip {
        threads: settings.number("threads", 1, THREADS_MAX)?,
        left_permille: settings.number("left_permille", 1, 1000)?,
        scan_ns: settings.duration_ns("scan")?,
        compress_ns: settings.duration_ns("compress")?,
        finder_permille: settings.number("finder_permille", 0, 1000)?,
        batch_ns: settings.duration_ns("batch")?,
        write_ns: settings.duration_ns("write")?,
        spread_permille: settings.number("spread_permille", 0, 1000)?,
        footprint_kib: settings.number("footprint_kib", 0, u32::MAX)?,
        nice: settings.number("nice", 0, NICE_MAX)? as i8,
    };
    Ok(lrzip.build())
}

/// The main thread's template; those of block `i` are `1 + 2 * i` and the next one.
const MAIN: u32 = 0;
const fn coder_of(block: u32) -> u32 {
    1 + 2 * block
}

impl Lrzip {
    /// The workload. O(threads) templates.
    pub fn build(&self) -> Workload {
        let mut templates = vec![self.template("lrzip", self.nice / 2, self.main_program())];
        for block in 0..self.blocks() {
            templates.push(self.template("compress", self.nice, self.coder_program(block)));
            templates.push(self.template("find", self.nice, self.finder_program(block)));
        }
        Workload {
            name: "lrzip".to_string(),
            templates,
            initial: vec![InitialTask { template: MAIN, start_at_ns: 0 }],
            // One for the turn of each block to write, and of who would come after them; and two
            // for each ring.
            nr_gates: self.blocks() + 1 + 2 * self.blocks(),
            ..Workload::default()
        }
        .with_digest()
    }

    fn template(&self, name: &str, nice: i8, program: Program) -> TaskTemplate {
        TaskTemplate {
            name: name.to_string(),
            nice,
            program,
            address_space: Some(0),
            footprint_kib: self.footprint_kib,
            ..TaskTemplate::default()
        }
    }

    fn main_program(&self) -> Program {
        let mut program = ProgramBuilder::new();
        program.push(Op::Mark).push(Op::Wake { gate: 0 });
        for block in 0..self.blocks() {
            program.push(Op::Run(self.part(self.scan_ns, block)));
            program.push(Op::Fork { template: coder_of(block) });
        }
        program.push(Op::Join).push(Op::Exit);
        program.build()
    }

    fn coder_program(&self, block: u32) -> Program {
        let coder = self.part_by_batches(self.compress_ns - self.finder_ns(), block);
        let mut program = ProgramBuilder::new();
        if self.finder_ns() > 0 {
            program.begin(times(RING)).push(Op::Wake { gate: self.free_of(block) }).end();
            program.push(Op::Fork { template: coder_of(block) + 1 });
        }
        if coder.nr > 0 {
            program.begin(times(coder.nr));
            program.push(Op::Wait { gate: self.filled_of(block) });
            program.push(Op::Run(Amount::Fixed(coder.each_ns)));
            program.push(Op::Wake { gate: self.free_of(block) }).end();
        }
        program.push(Op::Run(coder.rest));
        if self.finder_ns() > 0 {
            program.push(Op::Join);
        }
        program.push(Op::Wait { gate: block });
        program.push(Op::Run(self.part(self.write_ns, block)));
        program.push(Op::Wake { gate: block + 1 }).push(Op::Exit);
        program.build()
    }

    fn finder_program(&self, block: u32) -> Program {
        let finder = self.part_by_batches(self.finder_ns(), block);
        let mut program = ProgramBuilder::new();
        if finder.nr > 0 {
            program.begin(times(finder.nr));
            program.push(Op::Wait { gate: self.free_of(block) });
            program.push(Op::Run(Amount::Fixed(finder.each_ns)));
            program.push(Op::Wake { gate: self.filled_of(block) }).end();
        }
        program.push(Op::Run(finder.rest)).push(Op::Exit);
        program.build()
    }

    /// The gate that has a token for each batch of a block that may be coded.
    fn filled_of(&self, block: u32) -> u32 {
        self.blocks() + 1 + 2 * block
    }

    /// The gate that has a token for each free place in a block's ring.
    fn free_of(&self, block: u32) -> u32 {
        self.filled_of(block) + 1
    }

    /// What finding matches takes, over all blocks; with one thread who codes finds them, too.
    fn finder_ns(&self) -> u64 {
        let of_all = u128::from(self.compress_ns) * u128::from(self.finder_permille) / 1000;
        if self.threads > 1 { of_all as u64 } else { 0 }
    }

    /// What is left, in thousandths of a block.
    fn left_blocks_permille(&self) -> u64 {
        let pieces = if self.threads > 1 { u64::from(self.threads) + 1 } else { 1 };
        u64::from(self.left_permille) * pieces
    }

    fn blocks(&self) -> u32 {
        self.left_blocks_permille().div_ceil(1000) as u32
    }

    /// The share of block `block` in work of `total_ns`; shares add up to all of it.
    fn share_ns(&self, total_ns: u64, block: u32) -> u64 {
        let left = u128::from(self.left_blocks_permille());
        let until = |block: u32| u128::from(total_ns) * left.min(u128::from(block) * 1000) / left;
        (until(block + 1) - until(block)) as u64
    }

    /// The share of block `block`, as far as blocks differ.
    fn part(&self, total_ns: u64, block: u32) -> Amount {
        spread(self.share_ns(total_ns, block), self.spread_permille)
    }

    /// The same as equal batches, and a rest that makes the difference.
    fn part_by_batches(&self, total_ns: u64, block: u32) -> Batches {
        let share_ns = self.share_ns(total_ns, block);
        let by_ns = spread_ns(share_ns, self.spread_permille);
        let nr = self.batches_of(block);
        let each_ns = (share_ns - by_ns).checked_div(nr).unwrap_or(0);
        Batches { nr, each_ns, rest: amount(share_ns - nr * each_ns, by_ns) }
    }

    /// As many for both threads of a block.
    fn batches_of(&self, block: u32) -> u64 {
        let share_ns = self.share_ns(self.finder_ns(), block);
        let least_ns = share_ns - spread_ns(share_ns, self.spread_permille);
        if self.batch_ns == 0 { 0 } else { least_ns.div_ceil(self.batch_ns).min(BATCHES_MAX) }
    }
}

/// The work of a block's thread.
struct Batches {
    nr: u64,
    each_ns: u64,
    /// What does not divide, and what blocks differ by.
    rest: Amount,
}

const fn times(nr: u64) -> Repeat {
    Repeat::Times(Amount::Fixed(nr))
}

/// `mean_ns` give or take so many thousandths, each value as likely.
pub(crate) fn spread(mean_ns: u64, permille: u32) -> Amount {
    amount(mean_ns, spread_ns(mean_ns, permille))
}

fn spread_ns(mean_ns: u64, permille: u32) -> u64 {
    (u128::from(mean_ns) * u128::from(permille) / 1000) as u64
}

fn amount(mean_ns: u64, by_ns: u64) -> Amount {
    match by_ns {
        0 => Amount::Fixed(mean_ns),
        _ => Amount::Uniform { low: mean_ns - by_ns, high: mean_ns + by_ns },
    }
}
