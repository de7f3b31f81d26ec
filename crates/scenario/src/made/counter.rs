//! The counter test: a parent starts `n` processes that only compute, and polls for their ends.
//!
//! Several such tests may follow each other and be measured together, after others with one process
//! less that are not.
//!
//! The test of a Python script of 2009 that compared BFS with CFS, for 1, 2, 3 processes and so on
//! five times each: with work W for each child, a scheduler that never leaves a CPU idle needs
//! W * max(1, n / CPUs) for a test, plus start-up and polling.

use crate::made::builder::ProgramBuilder;
use crate::model::error::ScenarioError;
use crate::model::workload::{Amount, InitialTask, Op, Program, Repeat, TaskTemplate, Workload};
use crate::reading::parameters::Settings;

/// The most children.
pub const CHILDREN_MAX: u32 = 100_000;

/// The most tests in a row.
pub const PASSES_MAX: u32 = 1_000;

/// What shapes a run of the counter test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Children.
    pub n: u32,
    /// Tests in a row that are measured together.
    pub passes: u32,
    /// Tests with one child less that come before them.
    pub before: u32,
    /// What the parent computes for each child before a test.
    pub create_ns: u64,
    /// What the parent computes to start a child.
    pub start_ns: u64,
    /// What starting a child takes beyond a fork on this machine.
    pub fork_ns: u64,
    /// What ending a child takes beyond an exit on this machine.
    pub end_ns: u64,
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
    /// And for each child.
    pub poll_each_ns: u64,
    /// Memory that each task touches.
    pub footprint_kib: u32,
}

/// Names of the parameters in the workload's file.
pub(crate) const PARAMETERS: [&str; 14] = [
    "n",
    "passes",
    "before",
    "create_work",
    "start_work",
    "fork_work",
    "end_work",
    "work",
    "startup_min",
    "startup_max",
    "poll_interval",
    "poll_work",
    "poll_each",
    "footprint_kib",
];

/// The counter test that the parameters of a file describe.
pub(crate) fn read(settings: &Settings) -> Result<Workload, ScenarioError> {
    let counter = Counter {
        n: settings.number("n", 1, CHILDREN_MAX)?,
        passes: settings.number("passes", 1, PASSES_MAX)?,
        before: settings.number("before", 0, PASSES_MAX)?,
        create_ns: settings.duration_ns("create_work")?,
        start_ns: settings.duration_ns("start_work")?,
        fork_ns: settings.duration_ns("fork_work")?,
        end_ns: settings.duration_ns("end_work")?,
        work_ns: settings.duration_ns("work")?,
        startup_ns_min: settings.duration_ns("startup_min")?,
        startup_ns_max: settings.duration_ns("startup_max")?,
        poll_interval_ns: settings.duration_ns("poll_interval")?,
        poll_work_ns: settings.duration_ns("poll_work")?,
        poll_each_ns: settings.duration_ns("poll_each")?,
        footprint_kib: settings.number("footprint_kib", 0, u32::MAX)?,
    };
    if counter.startup_ns_min > counter.startup_ns_max {
        return Err(settings
            .need("startup_min")?
            .bad("more than startup_max", "make startup_min at most startup_max"));
    }
    if counter.poll_interval_ns == 0 && counter.poll_ns(1) == 0 {
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
        let nr_before = if self.n > 1 { self.before } else { 0 };
        self.push_tests(&mut program, nr_before, self.n - 1);
        program.push(Op::Mark);
        self.push_tests(&mut program, self.passes, self.n);
        program.push(Op::Exit);
        program.build()
    }

    /// So many tests with so many children.
    fn push_tests(&self, program: &mut ProgramBuilder, nr_tests: u32, n: u32) {
        if nr_tests == 0 {
            return;
        }
        let run = |ns| Op::Run(Amount::Fixed(ns));
        program.begin(Repeat::Times(Amount::Fixed(nr_tests.into())));
        program.push(run(self.create_ns.saturating_mul(n.into())));
        program.begin(Repeat::Times(Amount::Fixed(n.into())));
        program.push(run(self.start_ns)).push(Op::Fork { template: CHILD });
        program.push(run(self.fork_ns)).end();
        program.begin(Repeat::WhileChildren);
        program.push(run(self.poll_ns(n)));
        program.push(Op::Sleep(Amount::Fixed(self.poll_interval_ns))).end();
        program.end();
    }

    /// What a poll of so many children takes.
    fn poll_ns(&self, n: u32) -> u64 {
        self.poll_work_ns.saturating_add(self.poll_each_ns.saturating_mul(n.into()))
    }

    fn child_program(&self) -> Program {
        let startup = if self.startup_ns_min == self.startup_ns_max {
            Amount::Fixed(self.startup_ns_min)
        } else {
            Amount::Uniform { low: self.startup_ns_min, high: self.startup_ns_max }
        };
        let mut program = ProgramBuilder::new();
        for work in [startup, Amount::Fixed(self.work_ns), Amount::Fixed(self.end_ns)] {
            program.push(Op::Run(work));
        }
        program.push(Op::Exit);
        program.build()
    }
}
