//! The counter test: a parent starts `n` processes that only compute, and polls for their ends.
//!
//! Several such tests may follow each other, of which the last is measured.
//!
//! The test of a Python script of 2009 that compared BFS with CFS: with work W for each child, a
//! scheduler that never leaves a CPU idle needs W * max(1, n / CPUs) plus start-up and polling.

use crate::made::builder::ProgramBuilder;
use crate::model::error::ScenarioError;
use crate::model::workload::{Amount, InitialTask, Op, Program, Repeat, TaskTemplate, Workload};
use crate::reading::parameters::Settings;

/// The most children.
pub const CHILDREN_MAX: u32 = 100_000;

/// The most tests in a row.
pub const ROUNDS_MAX: u32 = 1_000;

/// What shapes a run of the counter test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Children.
    pub n: u32,
    /// Tests in a row; the last is measured.
    pub rounds: u32,
    /// What each child computes.
    pub work_ns: u64,
    /// The least that a child computes before it begins to count.
    pub startup_ns_min: u64,
    /// The most that a child computes before it begins to count.
    pub startup_ns_max: u64,
    /// What the parent sleeps between two polls.
    pub poll_interval_ns: u64,
    /// What the parent computes in a poll.
    pub poll_work_ns: u64,
    /// Memory that each task touches.
    pub footprint_kib: u32,
}

/// Names of the parameters in the workload's file.
pub(crate) const PARAMETERS: [&str; 8] = [
    "n",
    "rounds",
    "work",
    "startup_min",
    "startup_max",
    "poll_interval",
    "poll_work",
    "footprint_kib",
];

/// The counter test that the parameters of a file describe.
pub(crate) fn read(settings: &Settings) -> Result<Workload, ScenarioError> {
    let counter = Counter {
        n: settings.number("n", 1, CHILDREN_MAX)?,
        rounds: settings.number("rounds", 1, ROUNDS_MAX)?,
        work_ns: settings.duration_ns("work")?,
        startup_ns_min: settings.duration_ns("startup_min")?,
        startup_ns_max: settings.duration_ns("startup_max")?,
        poll_interval_ns: settings.duration_ns("poll_interval")?,
        poll_work_ns: settings.duration_ns("poll_work")?,
        footprint_kib: settings.number("footprint_kib", 0, u32::MAX)?,
    };
    if counter.startup_ns_min > counter.startup_ns_max {
        return Err(settings
            .need("startup_min")?
            .bad("more than startup_max", "make startup_min at most startup_max"));
    }
    if counter.poll_interval_ns == 0 && counter.poll_work_ns == 0 {
        return Err(settings
            .need("poll_interval")?
            .bad("polling would take no time", "give poll_interval or poll_work some time"));
    }
    Ok(counter.build())
}

const PARENT: u32 = 0;
const CHILD: u32 = 1;

impl Counter {
    /// The workload.
    ///
    /// # Panics
    /// If `startup_ns_min` is above `startup_ns_max`.
    pub fn build(&self) -> Workload {
        assert!(self.startup_ns_min <= self.startup_ns_max, "start-up from more to less");
        Workload {
            name: "counter".to_string(),
            templates: vec![
                self.template("parent", self.parent_program()),
                self.template("counter", self.child_program()),
            ],
            initial: vec![InitialTask { template: PARENT, start_at_ns: 0 }],
            ..Workload::default()
        }
        .with_digest()
    }

    fn template(&self, name: &str, program: Program) -> TaskTemplate {
        TaskTemplate {
            name: name.to_string(),
            program,
            footprint_kib: self.footprint_kib,
            ..TaskTemplate::default()
        }
    }

    fn parent_program(&self) -> Program {
        let mut program = ProgramBuilder::new();
        if self.rounds > 1 {
            program.begin(Repeat::Times(Amount::Fixed((self.rounds - 1).into())));
            self.push_test(&mut program);
            program.end();
        }
        program.push(Op::Mark);
        self.push_test(&mut program);
        program.push(Op::Exit);
        program.build()
    }

    fn push_test(&self, program: &mut ProgramBuilder) {
        program.begin(Repeat::Times(Amount::Fixed(self.n.into())));
        program.push(Op::Fork { template: CHILD }).end();
        program.begin(Repeat::WhileChildren);
        program.push(Op::Sleep(Amount::Fixed(self.poll_interval_ns)));
        program.push(Op::Run(Amount::Fixed(self.poll_work_ns))).end();
    }

    fn child_program(&self) -> Program {
        let startup = if self.startup_ns_min == self.startup_ns_max {
            Amount::Fixed(self.startup_ns_min)
        } else {
            Amount::Uniform { low: self.startup_ns_min, high: self.startup_ns_max }
        };
        let mut program = ProgramBuilder::new();
        program.push(Op::Run(startup)).push(Op::Run(Amount::Fixed(self.work_ns))).push(Op::Exit);
        program.build()
    }
}
