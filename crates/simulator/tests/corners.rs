//! Goal: what few policies do is right all the same. Method: one small policy or workload for each
//! corner, and what a kernel would make of it.

use crate::support::*;
use scenario::machine::{Machine, Release};
use scenario::workload::Op;
use simulator::{FailureKind, Options, Status};

const HZ: u32 = 1000;

fn corner(name: &str) -> policy::Policy {
    compile(&format!("crates/simulator/tests/corners/{name}.bpf.c"))
}

const SLEEPERS: &str = r#"
[[tasks]]
name = "sleeper"
count = 40
program = [{ repeat = 50, do = [{ run = "20us" }, { sleep = { uniform = ["50us", "200us"] } }] }]
"#;

#[test]
fn nobody_runs_before_a_policy_without_queues_has_taken_it() {
    // Operations take time on this machine, so CPUs look into the ring while others fill it.
    let result = attempt(&corner("own_ring"), &machine(4, HZ), &parsed(SLEEPERS), 1);
    assert_eq!((result.status, result.error), (Status::Completed, None));
    assert!(result.wait_ns.max < 100 * MS, "{:?}", result.wait_ns);
}

#[test]
fn what_preempts_goes_before_those_that_wait() {
    let text = r#"
stop = "60ms"
[[tasks]]
name = "hog"
count = 2
program = [{ run = "1s" }]
[[tasks]]
name = "urgent"
nice = -5
start = "5ms"
program = [{ run = "1ms" }]
"#;
    let policy = corner("local_preempt");
    let result = outcome_of(&policy, &costless(1, HZ), &parsed(text), 60 * MS, [].into());
    // A system call takes at least 1 ns: the exit.
    assert_eq!(group(&result, "urgent").last_exit_ns, 6 * MS + 1);
}

#[test]
fn a_timer_that_never_rests_ends_the_run_with_the_reason() {
    let text = r#"
[[tasks]]
name = "hog"
program = [{ run = "1ms" }]
"#;
    let result = attempt(&corner("restless_timer"), &costless(1, HZ), &parsed(text), 1);
    let failure = result.error.expect("failed");
    assert_eq!(failure.kind, FailureKind::Limit);
    assert!(failure.message.contains("such as a timer of 0 ns"), "{}", failure.message);
}

#[test]
fn an_update_of_a_value_leaves_its_timer_and_its_lock_alone() {
    let policy = corner("rewrites_values");
    let result = attempt(&policy, &machine(1, HZ), &parsed(SLEEPERS), 1);
    let failure = result.error.expect("the policy exits by itself");
    assert_eq!(failure.kind, FailureKind::PolicyExit);
    assert_eq!(failure.message, "policy asked to exit with code 5 (slot 1 expired)");
    let cost_ns = MS / 10; // Generous: what the five expiries take.
    assert!((5 * MS..5 * MS + cost_ns).contains(&failure.at_ns), "{}", failure.at_ns);
}

#[test]
fn a_timer_moves_tasks_between_queues() {
    let text = r#"
[[tasks]]
name = "early"
count = 2
program = [{ run = "1500us" }]
[[tasks]]
name = "late"
start = "1500us"
program = [{ run = "100us" }]
"#;
    let result =
        outcome_of(&corner("gate_keeper"), &costless(1, HZ), &parsed(text), None, [].into());
    assert_eq!(result.status, Status::Completed);
    // The gate opens at 1 ms for two and at 2 ms, while one of them still waits, for the third.
    let both_ns = MS + 2 * 1_500_001; // An exit takes 1 ns.
    assert_eq!(group(&result, "early").last_exit_ns, both_ns);
    assert_eq!(group(&result, "late").last_exit_ns, both_ns + 100_001);
}

#[test]
fn a_walk_that_is_left_open_is_named() {
    let result = attempt(&corner("open_walk"), &machine(2, HZ), &parsed(SLEEPERS), 1);
    let failure = result.error.expect("failed");
    assert_eq!(failure.kind, FailureKind::BadCall);
    assert_eq!(failure.message, "a walk over a dispatch queue was begun and not destroyed");
}

#[test]
fn a_walk_gives_nobody_who_left_since_it_began() {
    let text = "[[tasks]]\nname = \"hog\"\ncount = 20\nprogram = [{ run = \"2ms\" }]";
    let result = attempt(&corner("nested_walks"), &machine(1, HZ), &parsed(text), 1);
    assert_eq!((result.status, result.error), (Status::Completed, None));
}

#[test]
fn multiplying_by_a_reciprocal_divides() {
    let result = attempt(&corner("reciprocals"), &machine(1, HZ), &parsed(SLEEPERS), 1);
    assert_eq!((result.status, result.error), (Status::Completed, None));
}

#[test]
fn a_reader_that_leaves_data_behind_wakes_the_next() {
    let text = r#"
[channels.pipe]
capacity_bytes = 1000
[[tasks]]
name = "reader"
count = 2
program = [{ recv = "pipe", bytes = 50 }]
[[tasks]]
name = "writer"
program = [{ sleep = "1ms" }, { send = "pipe", bytes = 100 }]
"#;
    let result = attempt(&shipped("fifo"), &costless(1, HZ), &parsed(text), 1);
    assert_eq!((result.status, result.error), (Status::Completed, None));
    assert_eq!(result.messages, 2);
}

#[test]
fn a_sleep_longer_than_time_itself_never_ends() {
    let text = r#"
stop = "1s"
[[tasks]]
name = "sleeper"
count = 300
program = [{ sleep = { log_normal = { median = "1s", sigma_permille = 10000 } } }]
"#;
    let result = attempt(&shipped("fifo"), &costless(2, HZ), &parsed(text), 1);
    assert_eq!((result.status, result.error), (Status::Completed, None));
}

const TEXTS_AND_BITS: &str = r#"
#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
struct bpf_iter_bits { u64 opaque[2]; };
extern int bpf_iter_bits_new(struct bpf_iter_bits *it, const u64 *words, u32 nr_words) __ksym;
extern int *bpf_iter_bits_next(struct bpf_iter_bits *it) __ksym;
extern void bpf_iter_bits_destroy(struct bpf_iter_bits *it) __ksym;
extern int bpf_strstr(const char *text, const char *part) __ksym;
char text[65536], part[32800];
u64 words[16];

s32 BPF_STRUCT_OPS_SLEEPABLE(corner_init)
{
	struct bpf_iter_bits it;
	int *bit, i;
@INIT@
	return 0;
}
void BPF_STRUCT_OPS(corner_enqueue, struct task_struct *p, u64 enq_flags)
{ scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags); }
SCX_OPS_DEFINE(corner_ops, .init = (void *)corner_init, .enqueue = (void *)corner_enqueue,
	       .name = "corner");
"#;

/// What a run of a policy ends with whose `init` has these statements.
fn said_of_init(init: &str, strict: bool) -> String {
    let policy = compile_text(&TEXTS_AND_BITS.replace("@INIT@", init));
    said_at_end(&policy, &[run(MS)], &Options { strict, ..Options::default() })
}

#[test]
fn an_iterator_over_bits_believes_no_word_of_the_policys() {
    let forged = "
        words[0] = 6; words[15] = 1;
        if (bpf_iter_bits_new(&it, words, 16)) scx_bpf_error(\"none\");
        ((volatile u64 *)&it)[0] = ~0ULL;
        ((volatile u64 *)&it)[1] = ~7ULL;
        words[0] = 0; words[15] = 0;
        bit = bpf_iter_bits_next(&it);
        if (!bit || *bit != 1) scx_bpf_error(\"not 1\");
        *(volatile u64 *)&it = ~0ULL;
        bit = bpf_iter_bits_next(&it);
        if (!bit || *bit != 2) scx_bpf_error(\"not 2\");
        bit = bpf_iter_bits_next(&it);
        if (!bit || *bit != 960) scx_bpf_error(\"not 960\");
        if (bpf_iter_bits_next(&it)) scx_bpf_error(\"one more\");
        bpf_iter_bits_destroy(&it);
        if (bpf_iter_bits_next(&it)) scx_bpf_error(\"one of none\");";
    assert_eq!(said_of_init(forged, false), "");
    let too_many = "
        static struct bpf_iter_bits its[300];
        bpf_for(i, 0, 300)
            if (bpf_iter_bits_new(&its[i % 300U], words, 2) != (i < 256 ? 0 : -ENOMEM))
                scx_bpf_error(\"%d\", i);
        bpf_for(i, 0, 300) bpf_iter_bits_destroy(&its[i % 300U]);";
    assert_eq!(said_of_init(too_many, false), "");
}

#[test]
fn an_iterator_over_bits_that_is_left_open_is_named_with_its_line() {
    let left = "bpf_iter_bits_new(&it, words, 2); /* here */";
    let text = TEXTS_AND_BITS.replace("@INIT@", left);
    let line = text.lines().position(|line| line.contains("here")).expect("it is there") + 1;
    let said = said_of_init(left, false);
    assert!(said.contains(&format!("wrong.bpf.c:{line}")), "{said}");
    assert!(said.ends_with(": an iterator over bits was begun and not destroyed"), "{said}");
}

#[test]
fn a_search_that_takes_too_long_ends_where_it_is() {
    let endless = "
        bpf_for(i, 0, 65535) text[i & 65535] = 'a';
        bpf_for(i, 0, 32700) part[i & 32767] = 'a';
        part[32700] = 'b';
        bpf_strstr(text, part); /* here */";
    let text = TEXTS_AND_BITS.replace("@INIT@", endless);
    let line = text.lines().position(|line| line.contains("here")).expect("it is there") + 1;
    let said = said_of_init(endless, true);
    assert!(said.contains(&format!("wrong.bpf.c:{line}")), "{said}");
    assert!(said.contains("has not returned after 67108864 instructions"), "{said}");
}

#[test]
fn what_catches_an_exception_and_throws_one_is_named() {
    let text = r#"
#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
extern void bpf_throw(u64 cookie) __ksym;
u64 nr;
__noinline int corner_catch(u64 cookie)
{
	if (nr++ < 9)
		bpf_throw(cookie);
	return 0;
}
__attribute__((btf_decl_tag("exception_callback:corner_catch")))
void BPF_STRUCT_OPS(corner_enqueue, struct task_struct *p, u64 enq_flags) { bpf_throw(1); }
SCX_OPS_DEFINE(corner_ops, .enqueue = (void *)corner_enqueue, .name = "corner");
"#;
    let said = said_at_end(&compile_text(text), &[run(MS)], &Options::default());
    assert!(said.contains("corner_catch: it throws an exception, and is what catches"), "{said}");
}

#[test]
fn flags_of_who_leaves_are_those_of_the_release() {
    let text = r#"
#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
void BPF_STRUCT_OPS(corner_quiescent, struct task_struct *p, u64 deq_flags)
{ bpf_printk("%llx", deq_flags); }
void BPF_STRUCT_OPS(corner_enqueue, struct task_struct *p, u64 enq_flags)
{ scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags); }
SCX_OPS_DEFINE(corner_ops, .enqueue = (void *)corner_enqueue,
	       .quiescent = (void *)corner_quiescent, .name = "corner");
"#;
    let policy = compile_text(text);
    let workload = together(vec![task("one", 0, once(&[Op::Nice(3), sleep(MS)]))]);
    for (release, changed) in [
        (None, "20000000a"),
        (Some(Release::Linux7_3), "20000000a"),
        (Some(Release::Linux6_18), "a"),
        (Some(Release::Linux6_12), "a"),
    ] {
        let printed = Printed::default();
        let options = Options { prints: Some(printed.show()), ..Options::default() };
        let machine = Machine { release, ..costless(1, HZ) };
        let result = attempt_with(&policy, &machine, &workload, &options);
        assert_eq!(result.error, None);
        let lines = printed.lines();
        let flags: Vec<&str> = lines.iter().filter_map(|line| line.split(": ").last()).collect();
        assert_eq!(flags[..2], [changed, "1"], "{release:?}");
    }
}

/// The limit that a task with this program runs into.
fn limit_of(program: &str, seed: u64) -> String {
    let text = format!("[[tasks]]\nname = \"a\"\nprogram = [{program}]\n");
    // Or it looks every 15 s for three centuries.
    let machine = Machine { watchdog_ns: 1 << 60, ..costless(1, HZ) }.with_digest();
    let result = attempt(&shipped("fifo"), &machine, &parsed(&text), seed);
    let failure = result.error.expect("failed");
    assert_eq!(failure.kind, FailureKind::Limit);
    failure.message
}

#[test]
fn work_that_cannot_be_counted_is_not_cut() {
    let run = "{ run = { log_normal = { median = \"3600000s\", sigma_permille = 10000 } } }";
    let message = limit_of(run, 2);
    assert!(message.contains("in one step, more than 18446744073709551"), "{message}");
}

#[test]
fn time_has_an_end_and_does_not_go_back() {
    let sleep = "{ sleep = { log_normal = { median = \"3600000s\", sigma_permille = 10000 } } }";
    let message = limit_of(&format!("{{ repeat = 100, do = [{sleep}] }}"), 1);
    assert!(message.contains("2^63 ns or 292 years"), "{message}");
}
