//! Goal: what the policy interface offers also works. Method: run a policy that says every word.

use crate::support::*;
use simulator::{Options, Status};

#[test]
fn a_policy_that_says_every_word_of_the_interface_runs_to_the_end() {
    let workload = shipped_workload("hackbench", &[("groups", "1"), ("loops", "5")]);
    let policy = compile("tests/interface/all_words.bpf.c");
    let result = attempt(&policy, &shipped_machine("osdl-2"), &workload, 1);
    assert_eq!(result.status, Status::Completed, "{:?}", result.error);
    assert!(result.messages > 0 && result.switches > result.nr_tasks);
}

/// Whether a policy that asks, and ends by the line of an answer that is wrong, goes on; a kernel
/// judges the same file in `tests/policies/test_answers.py`.
fn ask(file: &str) {
    let workload = shipped_workload("hackbench", &[("groups", "1"), ("loops", "5")]);
    let policy = compile(file);
    for machine in ["osdl-1", "osdl-4"] {
        let result = attempt(&policy, &shipped_machine(machine), &workload, 1);
        assert_eq!(result.status, Status::Completed, "{file}: {:?}", result.error);
    }
}

#[test]
fn a_policy_that_waits_for_another_program_is_told_so() {
    let policy = compile_text(
        "#include <scx/common.bpf.h>
        char _license[] SEC(\"license\") = \"GPL\";
        struct { __uint(type, 31); __uint(max_entries, 4096); } decided SEC(\".maps\");
        static long (*const drain)(void *, void *, void *, u64) = (void *)209;
        static long take(void *data, void *context) { return 0; }
        void BPF_STRUCT_OPS(waits_enqueue, struct task_struct *p, u64 enq_flags) {}
        void BPF_STRUCT_OPS(waits_dispatch, s32 cpu, struct task_struct *prev)
        { drain(&decided, take, NULL, 0); }
        SCX_OPS_DEFINE(waits_ops, .enqueue = (void *)waits_enqueue,
            .dispatch = (void *)waits_dispatch, .name = \"waits\");",
    );
    let said = said_at_end(&policy, &[run(MS)], &Options::default());
    assert!(said.ends_with("nobody writes its map decided"), "{said}");
}

#[test]
fn work_is_done_once_each_time_it_is_started() {
    let policy = compile_text(
        "#include <scx/common.bpf.h>
        char _license[] SEC(\"license\") = \"GPL\";
        struct bpf_wq { u64 opaque[2]; } __attribute__((aligned(8)));
        extern int bpf_wq_init(struct bpf_wq *work, void *map, u32 flags) __ksym;
        extern int bpf_wq_set_callback_impl(struct bpf_wq *work, void *callback, u32 flags,
            void *more) __ksym;
        extern int bpf_wq_start(struct bpf_wq *work, u32 flags) __ksym;
        struct value { u64 done; struct bpf_wq work; };
        struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 3);
            __type(key, u32); __type(value, struct value); } values SEC(\".maps\");
        static int work(void *map, u32 *key, struct value *value)
        {
            value->done++;
            bpf_printk(\"%d %d\", *key, (s32)value->done);
            return *key == 2 && value->done < 3 ? bpf_wq_start(&value->work, 0) : 0;
        }
        s32 BPF_STRUCT_OPS_SLEEPABLE(works_init)
        {
            u32 key = 2;
            struct value *value = bpf_map_lookup_elem(&values, &key);
            if (!value)
                return -ENOENT;
            s32 init = bpf_wq_init(&value->work, &values, 0);
            s32 again = bpf_wq_init(&value->work, &values, 0);
            s32 early = bpf_wq_start(&value->work, 0);
            s32 set = bpf_wq_set_callback_impl(&value->work, work, 0, NULL);
            s32 wrong = bpf_wq_start(&value->work, 1);
            bpf_printk(\"%d %d %d\", init, again, early);
            bpf_printk(\"%d %d\", set, wrong);
            return bpf_wq_start(&value->work, 0);
        }
        SCX_OPS_DEFINE(works_ops, .init = (void *)works_init, .name = \"works\");",
    );
    let printed = Printed::default();
    let options = Options { prints: Some(printed.show()), ..Options::default() };
    assert_eq!(said_at_end(&policy, &[run(MS)], &options), "");
    let lines = printed.lines();
    let said: Vec<_> = lines.iter().filter_map(|line| line.rsplit(": ").next()).collect();
    assert_eq!(said, ["0 -16 -22", "0 -22", "2 1", "2 2", "2 3"]);
}

#[test]
fn maps_of_each_kind_answer_as_a_kernels() {
    ask("tests/interface/maps.bpf.c");
    ask("tests/interface/rings.bpf.c");
}

#[test]
fn lists_trees_and_what_they_hold_answer_as_a_kernels() {
    ask("tests/interface/objects.bpf.c");
}

#[test]
fn fields_of_a_task_say_what_a_kernels_do() {
    ask("tests/interface/fields.bpf.c");
}

#[test]
fn an_arena_answers_as_a_kernels() {
    ask("tests/interface/arena.bpf.c");
}

#[test]
fn calls_about_nodes_and_heads_of_queues_answer_as_a_kernels() {
    ask("tests/interface/nodes.bpf.c");
    let workload = shipped_workload("hackbench", &[("groups", "1"), ("loops", "5")]);
    let policy = compile("tests/interface/nodes.bpf.c");
    let result = attempt(&policy, &shipped_machine("server-96"), &workload, 1);
    assert_eq!(result.status, Status::Completed, "{:?}", result.error);
}

/// Tasks that wait and tasks that run change their CPUs meanwhile.
#[test]
fn a_policy_hears_of_each_task_that_it_has_no_longer() {
    ask("tests/interface/custody.bpf.c");
    let text = r#"
        [[tasks]]
        name = "t"
        count = 12
        program = [{ repeat = 40, do = [
            { affinity = [0] }, { run = "2ms" }, { affinity = [1] }, { run = "3ms" },
            { sleep = "1ms" }, { affinity = "all" },
        ] }]
        [[tasks]]
        name = "told"
        count = 4
        program = [{ run = "100ms" }]
        [[affinity]]
        at = "50ms"
        task = "told"
        cpus = [1]
        [[affinity]]
        at = "80ms"
        task = "told"
        cpus = [0]"#;
    let policy = compile("tests/interface/custody.bpf.c");
    let result = attempt(&policy, &machine(2, 1000), &parsed(text), 1);
    assert_eq!(result.status, Status::Completed, "{:?}", result.error);
}
