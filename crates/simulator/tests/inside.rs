//! Goal: whoever looks into a running policy sees what is there, and changes nothing by it.
//! Method: a policy that tells of itself and counts what its run's result counts too.

use crate::support::*;
use policy::Policy;
use scenario::machine::Bus;
use scenario::workload::{TaskTemplate, Workload};
use simulator::{Dumps, FailureKind, Options, RunResult, Sample, SimulateError, simulate};

fn policy() -> Policy {
    compile("tests/interface/dumps.bpf.c")
}

fn hogs() -> Workload {
    together(["one", "two", "three"].map(|name| hog(name, 0)).to_vec())
}

fn ran(options: Options) -> RunResult {
    let options = Options { until_ns: Some(40 * MS), seed: 3, ..options };
    attempt_with(&policy(), &machine(2, 1000), &hogs(), &options)
}

fn dumped(at_ns: &[u64], at_end: bool) -> Dumps {
    Dumps { at_ns: at_ns.to_vec(), at_end, on_failure: true }
}

fn watching(expressions: &[&str]) -> Options {
    let watch = expressions.iter().map(|&expression| expression.to_owned()).collect();
    Options { watch, ..Options::default() }
}

fn last(result: &RunResult, number: usize) -> Option<i128> {
    let samples = &result.watched.as_ref().expect("asked for")[number].samples;
    samples.iter().last().expect("a sample").expect("it was kept").1
}

#[test]
fn who_looks_changes_nothing() {
    let alone = ran(Options::default());
    // Its operation `dump` counts itself in a variable, which another run sees.
    let looked = ran(Options { dumps: dumped(&[7 * MS, 20 * MS], true), ..Options::default() });
    assert_eq!(
        looked.dumps.iter().map(|dump| dump.at_ns).collect::<Vec<_>>()[..2],
        [7 * MS, 20 * MS]
    );
    assert_eq!(looked.dumps.len(), 3);
    assert!(looked.dumps[2].text.contains("u64 nr_dumps = 3\n"), "{}", looked.dumps[2].text);
    assert_eq!(RunResult { dumps: vec![], ..looked }, alone);
    let watched = ran(watching(&["all.enqueued", "nr_dumps"]));
    assert_eq!(watched.digest, alone.digest);
    assert_eq!((last(&watched, 1), alone.dumps.len()), (Some(0), 0));
}

const WALKS: &str = r#"
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 0

s32 BPF_STRUCT_OPS_SLEEPABLE(walks_init)
{
	return scx_bpf_create_dsq(SHARED_DSQ, -1);
}

void BPF_STRUCT_OPS(walks_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SHARED_DSQ, NSEC_PER_MSEC, enq_flags);
}

void BPF_STRUCT_OPS(walks_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

void BPF_STRUCT_OPS(walks_dump, struct scx_dump_ctx *dump)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, SHARED_DSQ, 0)
		scx_bpf_dump("%d ", p->pid);
}

SCX_OPS_DEFINE(walks_ops, .init = (void *)walks_init, .enqueue = (void *)walks_enqueue,
	       .dispatch = (void *)walks_dispatch, .dump = (void *)walks_dump, .name = "walks");
"#;

#[test]
fn what_a_dump_fetches_occupies_no_bus() {
    let mut machine = costless(2, 1000);
    machine.costs.refill_ns_per_kib = [1000; 5];
    (machine.costs.scan_miss_ns, machine.costs.scan_cached_tasks) = (300_000, 0);
    machine.bus = Some(Bus { caches: 4, mb_per_s: 1 });
    let hog = |number| TaskTemplate { footprint_kib: 1, ..hog(&format!("hog{number}"), 0) };
    let (machine, workload) = (machine.with_digest(), together((0..8).map(hog).collect()));
    let policy = compile_text(WALKS);
    let ran = |dumps| {
        let options = Options { until_ns: Some(40 * MS), dumps, ..Options::default() };
        attempt_with(&policy, &machine, &workload, &options)
    };
    let (alone, once, twice) = (
        ran(Dumps::default()),
        ran(dumped(&[20 * MS], false)),
        ran(dumped(&[7 * MS, 20 * MS], false)),
    );
    assert!(alone.cpu_time_ns.bus_wait > 0);
    assert_eq!([&once.digest, &twice.digest], [&alone.digest; 2]);
    assert!(twice.dumps[0].text.contains(" 7 8\n"), "it walks: {}", twice.dumps[0].text);
    assert_eq!(twice.dumps[1], once.dumps[0]);
}

#[test]
fn numbers_that_are_followed_are_those_of_the_run() {
    let expressions = [
        "by_cpu[0]",
        "by_cpu[1]",
        "switches[0][1]",
        "all.last_pid",
        "balance",
        "by_pid[2].enqueued",
        "task_states[2].wakeups",
        "by_pid[77].enqueued",
        "all.is_odd",
        "all.flags",
    ];
    let result = ran(watching(&expressions));
    let number = |at: usize| last(&result, at);
    assert_eq!(number(0).zip(number(1)).map(|(a, b)| a + b), Some(result.switches.into()));
    assert_eq!((number(1), number(4)), (number(2), Some(-3)));
    assert_eq!(number(5), number(6), "both count enqueues of one task");
    assert_eq!(number(7), None);
    let pid = number(3).expect("somebody was enqueued");
    assert_eq!((number(8), number(9)), (Some(pid & 1), Some(pid & 7)));
    let watched = result.watched.expect("asked for");
    assert_eq!(watched[3].type_name, "s32");
    let samples = watched[0].samples.to_vec().expect("kept");
    assert_eq!(samples[0].1, Some(0));
    let steps = samples.windows(2).all(|two| {
        let [Sample(before_ns, before), Sample(at_ns, now)] = two else { unreachable!() };
        before_ns <= at_ns && before.map(|before| before + 1) == *now
    });
    assert!(steps, "each change of a counter is a sample: {samples:?}");
}

#[test]
fn what_is_not_there_is_refused_with_what_is() {
    let refused = |expression: &str| {
        let options = watching(&[expression]);
        match simulate(&policy(), &machine(2, 1000), &hogs(), &options) {
            Err(error @ SimulateError::Watch { .. }) => error.to_string(),
            other => panic!("{expression}: {other:?}"),
        }
    };
    let cases = [
        ("al.enqueued", "no variable or map al; did you mean all?\nhint: there is: "),
        (
            "all.enqueue",
            "all has no field enqueue; did you mean enqueued?\nhint: there is: enqueued,",
        ),
        ("all", "all is of type struct counts; only numbers can be followed"),
        ("all.name", "all.name is of type char [16]; only numbers"),
        ("by_cpu[64]", "by_cpu has elements 0 to 63"),
        ("balance.x", "balance is of type s64"),
        ("by_cpu[", "cannot be read; write NAME"),
        ("by_pid", "by_pid is a map: name an entry of it, by_pid[key]"),
        ("task_states.x", "name an entry of it, task_states[pid]"),
        ("switches[0]", "each CPU has its own: name one, switches[0][cpu]"),
        ("switches[2][0]", "switches has entries 0 to 1"),
        ("switches[0][2]", "there is no CPU 2: the machine has 2"),
    ];
    for (expression, expected) in cases {
        let told = refused(expression);
        let begin = format!("policy dumps: to watch {expression}: ");
        assert!(told.starts_with(&begin) && told.contains(expected), "{told}");
    }
}

#[test]
fn a_run_that_fails_is_told_of_as_a_kernel_does() {
    let text = std::fs::read_to_string(root().join("tests/interface/dumps.bpf.c")).expect("there");
    let fails = "if (all.enqueued == 3)\n\t\tscx_bpf_error(\"third\");\n\tlast_queue =";
    let failing = compile_text(&text.replacen("last_queue =", fails, 1));
    let options = Options { dumps: dumped(&[], false), ..Options::default() };
    let result = attempt_with(&failing, &machine(2, 1000), &hogs(), &options);
    let failure = result.error.as_ref().expect("it fails");
    assert_eq!(failure.kind, FailureKind::PolicyError);
    let [dump] = &result.dumps[..] else { panic!("one dump: {:?}", result.dumps) };
    let mut lines = dump.text.lines().skip(1);
    assert!(lines.next().is_some_and(|line| line.contains(" triggered exit kind 1025 on CPU ")));
    assert_eq!(lines.next(), Some("  scx_bpf_error (third)"));
    assert!(dump.text.contains("\n4 enqueued, kind 1025, "), "{}", dump.text);
    let silent = attempt_with(&failing, &machine(2, 1000), &hogs(), &Options::default());
    assert_eq!(RunResult { dumps: vec![], ..result }, silent);
}

#[test]
fn a_dump_is_for_its_operations() {
    let text = "#include <scx/common.bpf.h>
        char _license[] SEC(\"license\") = \"GPL\";
        void BPF_STRUCT_OPS(w_enqueue, struct task_struct *p, u64 flags) {
            scx_bpf_dump(\"here\"); scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, 1000, flags); }
        SCX_OPS_DEFINE(w_ops, .enqueue = (void *)w_enqueue, .name = \"wrong\");";
    let options = Options { strict: true, ..Options::default() };
    let said = said_at_end(&compile_text(text), &[run(MS)], &options);
    assert!(
        said.contains("scx_bpf_dump() must only be called from ops.dump() and friends"),
        "{said}"
    );
}

#[test]
fn a_key_that_its_type_cannot_hold_is_refused() {
    let text = std::fs::read_to_string(root().join("tests/interface/dumps.bpf.c")).expect("there");
    let narrow = "__type(key, u8);\n\t__type(value, struct counts)";
    let text = text.replace("__type(key, u32);\n\t__type(value, struct counts)", narrow);
    let policy = compile_text(&text.replace("u32 pid = p->pid;", "u8 pid = p->pid;"));
    let watch = |key: &str| {
        let options = watching(&[&format!("by_pid[{key}].enqueued")]);
        let options = Options { until_ns: Some(40 * MS), ..options };
        simulate(&policy, &machine(2, 1000), &hogs(), &options)
    };
    let told = watch("300").expect_err("no such key").to_string();
    assert!(told.contains("by_pid has no key 300: its keys have 8 bits, 0 to 255"), "{told}");
    for key in ["255", "-1", "-128"] {
        watch(key).expect("it is a key");
    }
    watch("-129").expect_err("no such key");
    assert!(last(&watch("2").expect("a key"), 0) > Some(0));
}

#[test]
fn variables_of_an_arena_are_shown_and_followed() {
    let policy = compile("tests/interface/arena.bpf.c");
    let watch = vec!["nr_popped".to_owned(), "nr_pushed".to_owned()];
    let options = Options {
        watch,
        dumps: dumped(&[], true),
        until_ns: Some(40 * MS),
        seed: 3,
        ..Options::default()
    };
    let result = attempt_with(&policy, &machine(2, 1000), &hogs(), &options);
    let popped = last(&result, 0).expect("it is there");
    assert!(popped > 0 && last(&result, 1) >= Some(popped));
    let text = &result.dumps[0].text;
    assert!(text.contains(&format!("u64 nr_popped = {popped}\n")), "{text}");
    assert!(text.contains("\narena: BPF_MAP_TYPE_ARENA (33)\n"), "{text}");
}

#[test]
fn a_map_that_says_only_how_large_its_values_are_has_numbers() {
    let text = std::fs::read_to_string(root().join("tests/interface/dumps.bpf.c")).expect("there");
    let sizes = "__uint(key_size, 4);\n\t__uint(value_size, 8);\n} switches";
    let text = text.replace("__type(key, u32);\n\t__type(value, u64);\n} switches", sizes);
    let options = watching(&["switches[0][1]", "by_cpu[1]"]);
    let options = Options { dumps: dumped(&[], true), until_ns: Some(40 * MS), ..options };
    let result = attempt_with(&compile_text(&text), &machine(2, 1000), &hogs(), &options);
    let number = last(&result, 0).expect("it is there");
    assert!(number > 0 && last(&result, 1) == Some(number));
    let text = &result.dumps[0].text;
    let entry = "\nswitches: BPF_MAP_TYPE_PERCPU_ARRAY (6), 2 of 2\n    [0] CPU 0 = ";
    assert!(
        text.contains(entry) && text.contains(&format!("\n    [0] CPU 1 = {number}\n")),
        "{text}"
    );
}
