//! lat_ctx of lmbench: a token goes round a ring of processes joined by pipes.
//!
//! The main task is one of the ring. It forks the others, sends the token round once so that
//! all are known to be there, starts the clock and sends it round `rounds` times. Elapsed time
//! divided by `rounds` * `n` is the time of a hop: the context switch and the pipe's own cost.
//! That cost lmbench measures first, in a single process that writes to a pipe of the ring and
//! reads from it, and subtracts; with `less_pipes` so does this.

use crate::made::builder::ProgramBuilder;
use crate::model::error::ScenarioError;
use crate::model::workload::{
    Amount, Channel, InitialTask, Op, Program, Repeat, TaskTemplate, Workload,
};
use crate::reading::parameters::Settings;

/// The most processes in the ring.
pub const RING_MAX: u32 = 10_000;

/// Size of the token: lmbench passes an `int`.
pub const TOKEN_BYTES: u32 = 4;

/// What shapes a run of lat_ctx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatCtx {
    /// Processes in the ring, the main task included.
    pub n: u32,
    /// Memory that each process touches whenever it has the token (`-s`).
    pub size_kib: u32,
    /// Measured rounds of the token.
    pub rounds: u32,
    /// The pipes of the ring.
    pub pipe: Channel,
    /// Whether what as many hops through pipes cost in one process is taken from the makespan.
    pub less_pipes: bool,
}

/// Names of the parameters in the workload's file.
pub(crate) const PARAMETERS: [&str; 6] =
    ["n", "size_kib", "rounds", "pipe_buffer_bytes", "pipe_sync_wakeups", "less_pipes"];

/// The lat_ctx that the parameters of a file describe.
pub(crate) fn read(settings: &Settings) -> Result<Workload, ScenarioError> {
    let capacity_bytes = settings.number("pipe_buffer_bytes", TOKEN_BYTES, u32::MAX)?;
    let lat_ctx = LatCtx {
        n: settings.number("n", 2, RING_MAX)?,
        size_kib: settings.number("size_kib", 0, u32::MAX)?,
        rounds: settings.number("rounds", 1, u32::MAX)?,
        pipe: Channel {
            capacity_bytes,
            overhead_bytes: 0,
            wake_senders_at_bytes: capacity_bytes - 1,
            sync_wakeups: settings.truth("pipe_sync_wakeups")?,
        },
        less_pipes: settings.truth("less_pipes")?,
    };
    Ok(lat_ctx.build())
}

impl LatCtx {
    /// The workload. Process `i` reads pipe `i` and writes pipe `i + 1`, the last one pipe 0.
    ///
    /// # Panics
    /// If `n` is below 2: one process has nobody to switch to.
    pub fn build(&self) -> Workload {
        assert!(self.n >= 2, "a ring of {} has nobody to switch to", self.n);
        let mut templates = vec![self.template(self.main_program())];
        templates.extend((1..self.n).map(|i| self.template(self.member_program(i))));
        Workload {
            name: "lat_ctx".to_string(),
            templates,
            initial: vec![InitialTask { template: 0, start_at_ns: 0 }],
            channels: vec![self.pipe; self.n as usize],
            ..Workload::default()
        }
        .with_digest()
    }

    fn template(&self, program: Program) -> TaskTemplate {
        TaskTemplate {
            name: "lat_ctx".to_string(),
            program,
            footprint_kib: self.size_kib,
            ..TaskTemplate::default()
        }
    }

    fn main_program(&self) -> Program {
        let mut program = ProgramBuilder::new();
        if self.less_pipes {
            program.push(Op::Tare);
            program.begin(Repeat::Times(Amount::Fixed(self.rounds.into())));
            for channel in 0..self.n {
                program.push(Op::Send { channel, bytes: TOKEN_BYTES });
                program.push(Op::Recv { channel, bytes: TOKEN_BYTES });
            }
            program.end().push(Op::Tare);
        }
        (1..self.n).for_each(|member| {
            program.push(Op::Fork { template: member });
        });
        let out = Op::Send { channel: 1, bytes: TOKEN_BYTES };
        let back = Op::Recv { channel: 0, bytes: TOKEN_BYTES };
        program.push(out).push(back).push(Op::Mark);
        program.begin(Repeat::Times(Amount::Fixed(self.rounds.into())));
        program.push(out).push(back).end().push(Op::Exit);
        program.build()
    }

    fn member_program(&self, i: u32) -> Program {
        let mut program = ProgramBuilder::new();
        // One round more than is measured: the one that shows that all are there.
        program.begin(Repeat::Times(Amount::Fixed(u64::from(self.rounds) + 1)));
        program.push(Op::Recv { channel: i, bytes: TOKEN_BYTES });
        program.push(Op::Send { channel: (i + 1) % self.n, bytes: TOKEN_BYTES });
        program.end().push(Op::Exit);
        program.build()
    }
}
