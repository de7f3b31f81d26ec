//! lrzip: one thread finds long repetitions, others compress what is left, block by block.
//!
//! The main thread goes through the whole file. Whenever it has filled a block it waits until fewer
//! than `threads` blocks are being compressed, starts a thread for this one, and goes on. A thread
//! compresses its block and then waits until the block before has been written: the file is written
//! in order. Work is split evenly over the blocks, so all of it is the same for every number of
//! threads and blocks.
//!
//! Source: lrzip 0.614, stream.c and rzip.c: threads of compression are limited to the number of
//! CPUs, and each writes when it is its turn.

use crate::made::builder::ProgramBuilder;
use crate::model::error::ScenarioError;
use crate::model::workload::{Amount, InitialTask, Op, Program, Repeat, TaskTemplate, Workload};
use crate::reading::parameters::Settings;

/// The most blocks: each is a kind of task.
pub const BLOCKS_MAX: u32 = 100_000;

/// What shapes a run of lrzip. Times are those of the reference CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lrzip {
    /// Blocks that are compressed at a time, at the most.
    pub threads: u32,
    /// Blocks in all.
    pub blocks: u32,
    /// What finding repetitions takes, over the whole file.
    pub scan_ns: u64,
    /// What compressing takes, over all blocks.
    pub compress_ns: u64,
    /// What writing takes, over all blocks.
    pub write_ns: u64,
    /// How far blocks differ: each part takes its share give or take so many thousandths.
    pub spread_permille: u32,
    /// Memory that each thread touches.
    pub footprint_kib: u32,
}

/// Names of the parameters in the workload's file.
pub(crate) const PARAMETERS: [&str; 7] =
    ["threads", "blocks", "scan", "compress", "write", "spread_permille", "footprint_kib"];

/// The lrzip that the parameters of a file describe.
pub(crate) fn read(settings: &Settings) -> Result<Workload, ScenarioError> {
    let lrzip = Lrzip {
        threads: settings.number("threads", 1, BLOCKS_MAX)?,
        blocks: settings.number("blocks", 1, BLOCKS_MAX)?,
        scan_ns: settings.duration_ns("scan")?,
        compress_ns: settings.duration_ns("compress")?,
        write_ns: settings.duration_ns("write")?,
        spread_permille: settings.number("spread_permille", 0, 1000)?,
        footprint_kib: settings.number("footprint_kib", 0, u32::MAX)?,
    };
    Ok(lrzip.build())
}

/// The main thread's template; that of block `i` is `1 + i`.
const MAIN: u32 = 0;
/// The gate with a token for each block that may be compressed now.
const SLOTS: u32 = 0;
/// The gate that block 0 passes to write; that of block `i` is so much further.
const FIRST_TURN: u32 = 1;

impl Lrzip {
    /// The workload. O(blocks) templates.
    pub fn build(&self) -> Workload {
        let mut templates = vec![self.template("lrzip", self.main_program())];
        let blocks = 0..self.blocks;
        templates.extend(blocks.map(|i| self.template("compress", self.block_program(i))));
        Workload {
            name: "lrzip".to_string(),
            templates,
            initial: vec![InitialTask { template: MAIN, start_at_ns: 0 }],
            nr_gates: FIRST_TURN + self.blocks + 1,
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
        program.push(Op::Mark).push(Op::Wake { gate: FIRST_TURN });
        let threads = Repeat::Times(Amount::Fixed(self.threads.into()));
        program.begin(threads).push(Op::Wake { gate: SLOTS }).end();
        for block in 0..self.blocks {
            program.push(Op::Run(self.part(self.scan_ns, block)));
            program.push(Op::Wait { gate: SLOTS }).push(Op::Fork { template: 1 + block });
        }
        program.push(Op::Join).push(Op::Exit);
        program.build()
    }

    fn block_program(&self, block: u32) -> Program {
        let turn = FIRST_TURN + block;
        let mut program = ProgramBuilder::new();
        program.push(Op::Run(self.part(self.compress_ns, block)));
        program.push(Op::Wait { gate: turn });
        program.push(Op::Run(self.part(self.write_ns, block)));
        program.push(Op::Wake { gate: turn + 1 }).push(Op::Wake { gate: SLOTS });
        program.push(Op::Exit);
        program.build()
    }

    /// The share of block `block` in work of `total_ns`; shares add up to all of it.
    fn part(&self, total_ns: u64, block: u32) -> Amount {
        let (total, blocks) = (u128::from(total_ns), u128::from(self.blocks));
        let until = |block: u32| total * u128::from(block) / blocks;
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
