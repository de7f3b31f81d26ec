//! ffmpeg: one thread decodes, others encode whole frames that depend on each other.
//!
//! The main thread decodes a frame and hands it to the next encoder thread in turn, as soon as that
//! one has done its last frame. A frame is encoded in rows from top to bottom, and predicts from
//! the frame before: a row may begin when the frame before has encoded the rows down to `lag` rows
//! below it. So encoders follow each other like waves, and how many run at a time is the least of
//! their number, of CPUs, and of what the dependency allows: `rows / (1 + lag)`.
//!
//! Source: L. Merritt and R. Vanam, "x264: A high performance H.264/AVC encoder", 2006, section on
//! frame threads; ffmpeg 1.0, where one thread decodes MPEG-2 and feeds the encoder.

use crate::made::builder::ProgramBuilder;
use crate::made::lrzip::spread;
use crate::model::error::ScenarioError;
use crate::model::workload::{Amount, InitialTask, Op, Program, Repeat, TaskTemplate, Workload};
use crate::reading::parameters::Settings;

/// The most encoder threads.
pub const THREADS_MAX: u32 = 1_000;
/// The most rows of a frame.
pub const ROWS_MAX: u32 = 10_000;

/// What shapes a run of ffmpeg. Times are those of the reference CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ffmpeg {
    /// Frames of the film.
    pub frames: u32,
    /// Encoder threads.
    pub threads: u32,
    /// Parts of a frame that others may wait for.
    pub rows: u32,
    /// Rows below its own that a row needs of the frame before; less than `rows`.
    pub lag: u32,
    /// What decoding takes, over all frames.
    pub decode_ns: u64,
    /// What encoding takes, over all frames.
    pub encode_ns: u64,
    /// How far frames differ in decoding and rows in encoding: give or take so many thousandths.
    pub spread_permille: u32,
    /// Memory that each thread touches.
    pub footprint_kib: u32,
}

/// Names of the parameters in the workload's file.
pub(crate) const PARAMETERS: [&str; 8] =
    ["frames", "threads", "rows", "lag", "decode", "encode", "spread_permille", "footprint_kib"];

/// The ffmpeg that the parameters of a file describe.
pub(crate) fn read(settings: &Settings) -> Result<Workload, ScenarioError> {
    let rows = settings.number("rows", 1, ROWS_MAX)?;
    let ffmpeg = Ffmpeg {
        frames: settings.number("frames", 1, u32::MAX)?,
        threads: settings.number("threads", 1, THREADS_MAX)?,
        rows,
        lag: settings.number("lag", 0, rows - 1)?,
        decode_ns: settings.duration_ns("decode")?,
        encode_ns: settings.duration_ns("encode")?,
        spread_permille: settings.number("spread_permille", 0, 1000)?,
        footprint_kib: settings.number("footprint_kib", 0, u32::MAX)?,
    };
    Ok(ffmpeg.build())
}

/// The main thread's template; that of encoder `t` is `1 + t`.
const MAIN: u32 = 0;

/// The gates of an encoder.
struct Gates {
    /// It has no frame.
    idle: u32,
    /// It has been given one.
    work: u32,
    /// Rows that the frame before its own has done.
    rows: u32,
}

impl Gates {
    const EACH: u32 = 3;

    fn of(encoder: u32) -> Gates {
        let first = encoder * Gates::EACH;
        Gates { idle: first, work: first + 1, rows: first + 2 }
    }
}

impl Ffmpeg {
    /// The workload. O(threads x rows) operations.
    pub fn build(&self) -> Workload {
        let mut templates = vec![self.template("ffmpeg", self.main_program())];
        let encoders = 0..self.threads;
        templates.extend(encoders.map(|t| self.template("encode", self.encoder_program(t))));
        Workload {
            name: "ffmpeg".to_string(),
            templates,
            initial: vec![InitialTask { template: MAIN, start_at_ns: 0 }],
            nr_gates: Gates::EACH * self.threads,
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
        program.push(Op::Mark);
        for encoder in 0..self.threads {
            program.push(Op::Fork { template: 1 + encoder });
            program.push(Op::Wake { gate: Gates::of(encoder).idle });
        }
        // There is no frame before the first: all of its rows are done.
        program.begin(times(self.rows)).push(Op::Wake { gate: Gates::of(0).rows }).end();
        let decode = spread(self.decode_ns / u64::from(self.frames), self.spread_permille);
        let hand_out = |program: &mut ProgramBuilder, encoders: u32| {
            for gates in (0..encoders).map(Gates::of) {
                program.push(Op::Run(decode));
                program.push(Op::Wait { gate: gates.idle }).push(Op::Wake { gate: gates.work });
            }
        };
        program.begin(times(self.frames / self.threads));
        hand_out(&mut program, self.threads);
        program.end();
        hand_out(&mut program, self.frames % self.threads);
        program.push(Op::Join).push(Op::Exit);
        program.build()
    }

    /// Waits for `1 + lag` rows before its first, then for one a row, until it has waited for all.
    fn encoder_program(&self, encoder: u32) -> Program {
        let (own, next) = (Gates::of(encoder), Gates::of((encoder + 1) % self.threads));
        let nr_rows = u64::from(self.frames) * u64::from(self.rows);
        let encode = Op::Run(spread(self.encode_ns / nr_rows, self.spread_permille));
        let wait = Op::Wait { gate: own.rows };
        let tell = Op::Wake { gate: next.rows };
        let has_one_more = encoder < self.frames % self.threads;
        let mut program = ProgramBuilder::new();
        program.begin(times(self.frames / self.threads + u32::from(has_one_more)));
        program.push(Op::Wait { gate: own.work });
        program.begin(times(self.lag)).push(wait).end();
        program.begin(times(self.rows - self.lag)).push(wait).push(encode).push(tell).end();
        program.begin(times(self.lag)).push(encode).push(tell).end();
        program.push(Op::Wake { gate: own.idle }).end().push(Op::Exit);
        program.build()
    }
}

fn times(count: u32) -> Repeat {
    Repeat::Times(Amount::Fixed(count.into()))
}
