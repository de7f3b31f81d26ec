//! Goal: a fault that shows in one order of simultaneous events only is found, and a failing
//! scenario becomes as small as it can be. Method: a policy that fails in another order than the
//! usual one; a failure that is known to need two steps of one task.

use conformance::promises::{DEFAULTS, Promises};
use conformance::scenarios::{CHECKS, SMALL};
use conformance::shrink::shrink;
use conformance::{ProblemKind, Scenario, Subject, Verdict, replay, swarm};
use policy::Policy;
use scenario::workload::{Change, ChangeKind, Op};
use simulator::FailureKind;
use std::path::{Path, PathBuf};

const ORDERS_MAX: u64 = 1000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn compile(source: &str) -> Policy {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("policies");
    policy::compile(&root().join(source), &[root().join("policies/include")], &cache)
        .unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn subject(policy: &Policy) -> Subject<'_> {
    Subject::of(policy, Default::default(), None).expect("the promises are sound")
}

#[test]
fn a_fault_of_another_order_is_found_and_repeats() {
    let policy = compile("crates/conformance/tests/orders.bpf.c");
    let subject = subject(&policy);
    let scope = SMALL.iter().find(|scope| scope.name == "small_turns").expect("it is there");
    let usual = subject.attempt(&scope.scenario(), 1, None);
    assert_eq!(usual.problem, None, "the usual order does not show it");
    let found = scope.explore(&subject, ORDERS_MAX);
    let failed = found.failed.expect("another order does");
    assert_eq!(failed.problem.kind, ProblemKind::Failure(FailureKind::PolicyError));
    assert!(found.tried > 1 && !found.is_exhaustive);
    let again = subject.attempt(&scope.scenario(), 1, Some(failed.choices));
    assert_eq!(again.problem, Some(failed.problem));
}

#[test]
fn all_orders_of_a_small_scenario_are_tried_and_none_twice() {
    let policy = compile("policies/fifo.bpf.c");
    let subject = subject(&policy);
    let scope = SMALL.iter().find(|scope| scope.name == "small_pipes").expect("it is there");
    let found = scope.explore(&subject, ORDERS_MAX);
    assert!(found.is_exhaustive && found.failed.is_none(), "{found:?}");
    assert!(found.distinct > 1, "some orders are other schedules");
    let half = scope.explore(&subject, found.tried / 2);
    assert_eq!((half.tried, half.is_exhaustive), (found.tried / 2, false), "it says that more are");
}

#[test]
fn whoever_leaves_tasks_on_their_first_cpus_does_not_conserve_work() {
    let policy = compile("crates/conformance/tests/stays.bpf.c");
    let subject = subject(&policy);
    let check = CHECKS.iter().find(|check| check.name == "leftover").expect("it is there");
    let rows = check.judge(&subject, 1);
    let row = rows.iter().find(|row| row.property == "idle_ms_max").expect("it is asked");
    assert_eq!((row.verdict, row.limit), (Verdict::Violated, Some(100.0)));
    assert!(row.measured.is_some_and(|idle_ms| idle_ms > 1_000.0), "{row:?}");
    let others = rows.iter().filter(|row| row.property != "idle_ms_max");
    assert!(others.into_iter().all(|row| row.verdict != Verdict::Violated), "{rows:?}");
}

#[test]
fn nobody_is_asked_by_default_for_more_than_the_shipped_policies_promise() {
    let (_, property, default) = DEFAULTS[0];
    let mut nr_promises = 0;
    for file in std::fs::read_dir(root().join("policies")).expect("policies are there") {
        let path = file.expect("it can be read").path();
        if path.to_string_lossy().ends_with(".promises.toml") {
            let text = std::fs::read_to_string(&path).expect("it can be read");
            let limit = Promises::parse(&text).expect("it is sound").limit("everywhere", property);
            assert!(limit.is_some_and(|limit| limit <= default), "{}: {limit:?}", path.display());
            nr_promises += 1;
        }
    }
    assert_eq!(nr_promises, 11);
}

/// Whether a task yields and later changes its nice value.
fn yields_then_changes(scenario: &Scenario) -> bool {
    scenario.workload.initial.iter().any(|task| {
        let program = &scenario.workload.templates[task.template as usize].program;
        let yields = program.iter().position(|op| matches!(op, Op::Yield));
        yields.is_some_and(|at| program[at..].iter().any(|op| matches!(op, Op::Nice(_))))
    })
}

#[test]
fn what_a_failure_does_not_need_is_left_out() {
    let mut nr_shrunk = 0;
    for seed in 0..25 {
        let whole = swarm::scenario(seed);
        if !yields_then_changes(&whole) {
            continue;
        }
        nr_shrunk += 1;
        let found = shrink(&whole, 100_000, &mut yields_then_changes);
        let Scenario { machine, workload } = found.scenario;
        assert!(!found.is_cut_short, "seed {seed}");
        assert_eq!((machine.cpus.len(), workload.initial.len()), (1, 1), "seed {seed}");
        assert_eq!(workload.templates.len(), 1, "seed {seed}");
        let program = &workload.templates[0].program;
        assert!(matches!(program[..], [Op::Yield, Op::Nice(_)]), "seed {seed}: {program:?}");
        assert_eq!((workload.channels.len(), workload.nr_gates), (0, 0), "seed {seed}");
    }
    assert!(nr_shrunk > 3, "only {nr_shrunk} scenarios were of use");
}

/// Whether a CPU goes and a task binds itself.
fn is_disturbed_twice(scenario: &Scenario) -> bool {
    let goes = |change: &Change| matches!(change.what, ChangeKind::Hotplug { online: false, .. });
    let workload = &scenario.workload;
    let started = workload.initial.iter().map(|task| task.template as usize);
    let mut ops = started.flat_map(|template| workload.templates[template].program.iter());
    workload.changes.iter().any(goes) && ops.any(|op| matches!(op, Op::Affinity { .. }))
}

#[test]
fn of_what_is_done_from_outside_only_what_a_failure_needs_is_kept() {
    let mut nr_shrunk = 0;
    for whole in (0..200).map(swarm::scenario).filter(is_disturbed_twice).take(2) {
        nr_shrunk += 1;
        let name = whole.workload.name.clone();
        let found = shrink(&whole, 100_000, &mut is_disturbed_twice);
        assert!(!found.is_cut_short, "{name}");
        let Scenario { machine, workload } = found.scenario;
        assert_eq!((machine.cpus.len(), workload.initial.len()), (2, 1), "{name}");
        let program = &workload.templates[0].program;
        assert!(matches!(program[..], [Op::Affinity { .. }]), "{name}: {workload:?}");
        let gone = ChangeKind::Hotplug { cpu: 1, online: false };
        let [Change { at_ns, what }] = &workload.changes[..] else {
            panic!("{name}: {workload:?}")
        };
        assert!(*what == gone && at_ns.is_multiple_of(10_000_000), "{name}: {what:?} at {at_ns}");
    }
    assert_eq!(nr_shrunk, 2, "only {nr_shrunk} scenarios were of use");
}

#[test]
fn a_limit_on_runs_is_kept_and_told() {
    let mut runs = 0;
    let found = shrink(&swarm::scenario(3), 7, &mut |_| {
        runs += 1;
        true
    });
    assert_eq!((runs, found.tried, found.is_cut_short), (7, 7, true));
}

#[test]
fn nothing_is_made_smaller_where_nothing_fails() {
    let policy = compile("policies/fifo.bpf.c");
    assert!(replay::smallest(&subject(&policy), 1, 100).is_none());
    for name in ["crowd", "small_turns"] {
        assert!(replay::files_of(name).is_some(), "{name}");
    }
    assert!(replay::files_of("crowds").is_none());
}
