//! lrzip: one thread finds long repetitions, others compress what is left, block by block.
//!
//! The main thread goes through the whole file, and whenever what is left of it fills a block it
//! starts a thread for this one and goes on. There is a block for each thread and one more, so that
//! none waits to be compressed; as scanning leaves only a part of the file, fewer are filled, the
//! last not to its end. A thread codes its block while another finds matches for it, and then waits
//! until the block before has been written: the file is written in order. With one thread all is
//! one block, coded by itself when all has been scanned. Work is split by what blocks hold, so all
//! of it is the same for every number of threads.
//!
//! Source: lrzip 0.614, stream.c and rzip.c: each thread writes when it is its turn. Own: runs of
//! lrzip 0.651 on 128 MiB with 1, 2, 4 and 8 threads, whose threads were sampled.

use crate::made::builder::ProgramBuilder;
use crate::model::error::ScenarioError;
use crate::model::workload::{Amount, InitialTask, Op, Program, TaskTemplate, Workload};
use crate::reading::parameters::Settings;

/// The most threads: each block is two kinds of task.
pub const THREADS_MAX: u32 = 100_000;

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
    /// What writing takes, over all blocks.
    pub write_ns: u64,
    /// How far blocks differ: each part takes its share give or take so many thousandths.
    pub spread_permille: u32,
    /// Memory that each thread touches.
    pub footprint_kib: u32,
}

/// Names of the parameters in the workload's file.
pub(crate) const PARAMETERS: [&str; 8] = [
    "threads",
    "left_permille",
    "scan",
    "compress",
    "finder_permille",
    "write",
    "spread_permille",
    "footprint_kib",
];

/// The lrzip that the parameters of a file describe.
pub(crate) fn read(settings: &Settings) -> Result<Workload, ScenarioError> {
    let lrzip = Lrzip {
        threads: settings.number("threads", 1, THREADS_MAX)?,
        left_permille: settings.number("left_permille", 1, 1000)?,
        scan_ns: settings.duration_ns("scan")?,
        compress_ns: settings.duration_ns("compress")?,
        finder_permille: settings.number("finder_permille", 0, 1000)?,
        write_ns: settings.duration_ns("write")?,
        spread_permille: settings.number("spread_permille", 0, 1000)?,
        footprint_kib: settings.number("footprint_kib", 0, u32::MAX)?,
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
        let mut templates = vec![self.template("lrzip", self.main_program())];
        for block in 0..self.blocks() {
            templates.push(self.template("compress", self.coder_program(block)));
            templates.push(self.template("find", self.finder_program(block)));
        }
        Workload {
            name: "lrzip".to_string(),
            templates,
            initial: vec![InitialTask { template: MAIN, start_at_ns: 0 }],
            // One for the turn of each block to write, and of who would come after them.
            nr_gates: self.blocks() + 1,
            ..Workload::default()
        }
        .with_digest()
    }

    fn template(&self, name: &str, program: Program) -> TaskTemplate {
        TaskTemplate {
            name: name.to_string(),
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
        let finder_ns = self.finder_ns();
        let mut program = ProgramBuilder::new();
        if finder_ns > 0 {
            program.push(Op::Fork { template: coder_of(block) + 1 });
        }
        program.push(Op::Run(self.part(self.compress_ns - finder_ns, block)));
        if finder_ns > 0 {
            program.push(Op::Join);
        }
        program.push(Op::Wait { gate: block });
        program.push(Op::Run(self.part(self.write_ns, block)));
        program.push(Op::Wake { gate: block + 1 }).push(Op::Exit);
        program.build()
    }

    fn finder_program(&self, block: u32) -> Program {
        let mut program = ProgramBuilder::new();
        program.push(Op::Run(self.part(self.finder_ns(), block))).push(Op::Exit);
        program.build()
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
    fn part(&self, total_ns: u64, block: u32) -> Amount {
        let left = u128::from(self.left_blocks_permille());
        let until = |block: u32| u128::from(total_ns) * left.min(u128::from(block) * 1000) / left;
        let share_ns = (until(block + 1) - until(block)) as u64;
        spread(share_ns, self.spread_permille)
    }
}

/// `mean_ns` give or take so many thousandths, each value as likely.
pub(crate) fn spread(mean_ns: u64, permille: u32) -> Amount {
    if permille == 0 {
        return Amount::Fixed(mean_ns);
    }
    let by_ns = (u128::from(mean_ns) * u128::from(permille) / 1000) as u64;
    Amount::Uniform { low: mean_ns - by_ns, high: mean_ns + by_ns }
}
