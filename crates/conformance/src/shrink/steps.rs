//! Programs as nested steps, so that leaving one out keeps loops whole.

use super::{plainer_amount, plainer_repeat};
use scenario::builder::ProgramBuilder;
use scenario::workload::{Op, Program, Repeat, Workload};

/// A step of a program.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// An operation that is no loop.
    Op(Op),
    /// A loop and its body.
    Loop(Repeat, Vec<Step>),
}

impl Step {
    /// The steps of a program.
    pub fn of(program: &[Op]) -> Vec<Step> {
        let mut open: Vec<(Repeat, Vec<Step>)> = Vec::new();
        let mut steps = Vec::new();
        for op in program {
            match *op {
                Op::Loop { repeat, .. } => open.push((repeat, std::mem::take(&mut steps))),
                Op::End { .. } => {
                    let Some((repeat, before)) = open.pop() else { continue };
                    let body = std::mem::replace(&mut steps, before);
                    steps.push(Step::Loop(repeat, body));
                }
                op => steps.push(Step::Op(op)),
            }
        }
        steps
    }

    /// The program of these steps; loops without a body are left out.
    pub fn program(steps: &[Step]) -> Program {
        let mut builder = ProgramBuilder::new();
        Step::build(steps, &mut builder);
        builder.build()
    }

    fn build(steps: &[Step], builder: &mut ProgramBuilder) {
        for step in steps {
            match step {
                Step::Op(op) => {
                    builder.push(*op);
                }
                Step::Loop(repeat, body) if !body.is_empty() => {
                    builder.begin(*repeat);
                    Step::build(body, builder);
                    builder.end();
                }
                Step::Loop(..) => {}
            }
        }
    }
}

/// Every list that is one change shorter or simpler, the largest changes first.
pub fn shorter(steps: &[Step]) -> Vec<Vec<Step>> {
    let mut found = vec![Vec::new()];
    let mut size = steps.len() / 2;
    while size > 0 {
        for from in (0..steps.len()).step_by(size) {
            let to = (from + size).min(steps.len());
            found.push([&steps[..from], &steps[to..]].concat());
        }
        size /= 2;
    }
    for (place, step) in steps.iter().enumerate() {
        let with = |others: &[Step]| [&steps[..place], others, &steps[place + 1..]].concat();
        found.extend(simpler(step).iter().map(|others| with(others)));
    }
    found.retain(|shorter| shorter != steps);
    found
}

/// What may stand in the place of a step.
fn simpler(step: &Step) -> Vec<Vec<Step>> {
    let op = |op: Op| vec![Step::Op(op)];
    match step {
        Step::Op(Op::Run(amount)) => {
            plainer_amount(amount).into_iter().map(|amount| op(Op::Run(amount))).collect()
        }
        Step::Op(Op::Sleep(amount)) => {
            plainer_amount(amount).into_iter().map(|amount| op(Op::Sleep(amount))).collect()
        }
        Step::Op(_) => Vec::new(),
        Step::Loop(repeat, body) => {
            let fewer = plainer_repeat(repeat).into_iter();
            let fewer = fewer.map(|repeat| vec![Step::Loop(repeat, body.clone())]);
            let smaller = shorter(body).into_iter();
            let smaller = smaller.map(|body| vec![Step::Loop(*repeat, body)]);
            std::iter::once(body.clone()).chain(fewer).chain(smaller).collect()
        }
    }
}

/// The workload without the steps that `uses` names.
pub fn without(workload: &Workload, uses: &dyn Fn(&Op) -> bool) -> Workload {
    fn kept(steps: &[Step], uses: &dyn Fn(&Op) -> bool) -> Vec<Step> {
        let keep = |step: &Step| match step {
            Step::Op(op) if uses(op) => None,
            Step::Op(op) => Some(Step::Op(*op)),
            Step::Loop(repeat, body) => Some(Step::Loop(*repeat, kept(body, uses))),
        };
        steps.iter().filter_map(keep).collect()
    }
    let mut smaller = workload.clone();
    for template in &mut smaller.templates {
        template.program = Step::program(&kept(&Step::of(&template.program), uses));
    }
    smaller
}
