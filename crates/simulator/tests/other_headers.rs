//! Goal: objects that other people's headers and linkers make run where what they call is there,
//! and are told by name what is not. Method: small policies with one such construct each.

use crate::support::*;
use policy::Policy;
use scenario::workload::Op;
use simulator::Options;

const INSERTS: &str = "scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);";

/// A table of other headers than those that are here.
const TABLE: &str = "
    struct sched_ext_ops___other {
        void (*enqueue)(struct task_struct *, u64);
        void (*cpu_release)(s32, struct scx_cpu_release_args *);
        s32 (*init_task)(struct task_struct *, struct scx_init_task_args *);
        u64 flags;
        char name[128];
    };";

/// A policy with these declarations, statements of `enqueue` in its 6th line, and members of its
/// table.
fn built(before: &str, enqueue: &str, members: &str) -> Policy {
    let table = TABLE.replace('\n', " ");
    let before = before.replace('\n', " ");
    let text = format!(
        "#include <scx/common.bpf.h>\n\
         char _license[] SEC(\"license\") = \"GPL\";\n\
         {before}\n\
         void BPF_STRUCT_OPS(other_enqueue, struct task_struct *p, u64 enq_flags)\n\
         {{\n\
         {enqueue}\n\
         }}\n\
         {table}\n\
         SEC(\".struct_ops.link\") struct sched_ext_ops___other other_ops = {{\n\
         .enqueue = (void *)other_enqueue, {members} .name = \"other\" }};\n"
    );
    compile_text(&text)
}

/// What a run of it ends with, and what it prints.
fn said(before: &str, enqueue: &str, members: &str) -> (String, Vec<String>) {
    let policy = built(before, enqueue, members);
    let printed = Printed::default();
    let options = Options { prints: Some(printed.show()), ..Options::default() };
    (said_at_end(&policy, &[run(MS)], &options), printed.lines())
}

#[test]
fn constants_that_stand_for_enumerators_are_filled_and_are_no_tunables() {
    let constants = "
        const volatile u64 __SCX_DSQ_GLOBAL __weak;
        const volatile u64 __SCX_SLICE_DFL __weak;
        const volatile u64 __SCX_OF_ANOTHER_KERNEL __weak;
        const volatile u64 mine = 5;";
    let enqueue = "
        if (__SCX_SLICE_DFL != 20000000 || __SCX_OF_ANOTHER_KERNEL)
            scx_bpf_error(\"not filled\");
        scx_bpf_dsq_insert(p, __SCX_DSQ_GLOBAL, __SCX_SLICE_DFL, enq_flags);";
    let (text, _) = said(constants, enqueue, "");
    assert_eq!(text, "");
    let policy = built(constants, enqueue, "");
    let names: Vec<_> = policy.tunables.iter().map(|tunable| &tunable.name[..]).collect();
    assert_eq!(names, ["mine"]);
}

#[test]
fn operations_that_nothing_calls_may_need_what_is_not_here() {
    let before = "
        extern void scx_bpf_of_others(s32 cpu) __ksym;
        void BPF_STRUCT_OPS(other_release, s32 cpu, struct scx_cpu_release_args *args)
        { scx_bpf_of_others(cpu); }";
    let (text, _) = said(before, INSERTS, ".cpu_release = (void *)other_release,");
    assert_eq!(text, "");
}

#[test]
fn short_messages_of_libbpf_are_printed_and_texts_compared() {
    let before = "
        static long (*const print)(const char *, u32, ...) = (void *)6;
        static long (*const compare)(const char *, u32, const char *) = (void *)182;";
    let enqueue = format!(
        "static const char format[] = \"%s is %d %d\";
        if (p->pid != 1)
            print(format, sizeof(format), p->comm, compare(p->comm, 3, \"two\") == 0,
                  compare(p->comm, 16, \"twp\") < 0);
        {INSERTS}"
    )
    .replace('\n', " ");
    let (text, lines) = said(before, &enqueue, "");
    assert_eq!(text, "");
    assert!(lines[0].ends_with("two is 1 1"), "{lines:?}");
}

/// A kernel obeys it for tasks of the class SCHED_EXT when the policy is loaded, and refuses it for
/// a new task.
#[test]
fn a_task_is_disallowed_where_a_kernel_would_and_not_during_fork() {
    let init_task = |when: &str| {
        format!(
            "struct sched_ext_entity___own {{ bool disallow; }}
             __attribute__((preserve_access_index));
             struct task_struct___own {{ struct sched_ext_entity___own scx; }}
             __attribute__((preserve_access_index));
             s32 BPF_STRUCT_OPS(other_init_task, struct task_struct *p,
                                struct scx_init_task_args *args)
             {{ struct task_struct___own *own = (void *)p;
                if ({when}) own->scx.disallow = true; return 0; }}"
        )
    };
    let whole = ".init_task = (void *)other_init_task,";
    let partial = ".init_task = (void *)other_init_task, .flags = SCX_OPS_SWITCH_PARTIAL,";
    assert_eq!(said(&init_task("!args->fork"), INSERTS, whole).0, "");
    assert_eq!(said(&init_task("false"), INSERTS, partial).0, "");
    let (text, _) = said(&init_task("true"), INSERTS, partial);
    let begin = "ops.init_task() set task->scx.disallow for one[1]: a kernel runs it in the fair";
    assert!(text.starts_with(begin) && text.ends_with("--on vm"), "{text}");

    let policy = built(&init_task("args->fork"), INSERTS, whole);
    let parent = task("parent", 0, once(&[Op::Fork { template: 1 }]));
    let workload = workload_of(vec![parent, task("child", 0, once(&[run(MS)]))], 1);
    let failure = attempt(&policy, &costless(1, 1000), &workload, 1).error.expect("it is refused");
    assert_eq!(failure.message, "ops.init_task() set task->scx.disallow for child[2] during fork");
}

/// What a policy may write of a task is that field and no other byte.
#[test]
fn bytes_beside_a_field_that_may_be_written_may_not() {
    let enqueue = format!("*((char *)p + 8) = 1; {INSERTS}");
    let (text, _) = said("", &enqueue, "");
    assert!(text.contains("may only read"), "{text}");
}

/// A structure of the kernel's that the simulator does not have lies in the policy's own memory.
#[test]
fn a_structure_that_nothing_here_leads_to_is_as_the_object_has_it() {
    let before = "
        struct seen { u32 first; s16 second[3]; u64 third; }
            __attribute__((preserve_access_index));
        struct seen own;
        static bool is_told;";
    let enqueue = format!(
        "struct seen *at = &own;
         at->second[2] = -5;
         at->third = 7;
         if (!is_told)
             bpf_printk(\"%d %d %d\", at->second[2], (int)at->third,
                 (int)__builtin_preserve_field_info(at->second[1], 1));
         is_told = true;
         {INSERTS}"
    );
    let (text, lines) = said(before, &enqueue, "");
    assert_eq!(text, "");
    assert!(lines[0].ends_with("-5 7 2"), "{lines:?}");
}

#[test]
fn what_is_lacking_is_named() {
    let bloom = "struct { __uint(type, 30); __uint(max_entries, 4096); } told SEC(\".maps\");";
    let nested = "
        struct inner { __uint(type, 2); __type(key, u32); __type(value, u32);
                       __uint(max_entries, 4); } first SEC(\".maps\");
        struct outer { __uint(type, 12); __uint(max_entries, 1); __type(key, u32);
                       __array(values, struct inner); } outer SEC(\".maps\") = {
                       .values = { &first } };
        struct { __uint(type, 12); __uint(max_entries, 1); __type(key, u32);
                 __array(values, struct outer); } outermost SEC(\".maps\") = {
                 .values = { &outer } };";
    let arena = "u64 counted SEC(\".addr_space.1\");";
    let helper = "static long (*const jump)(void *, void *, u32) = (void *)12;";
    let counting = format!("counted++; {INSERTS}");
    let programs = "int of_maps(void *context) { return 0; }
        struct { __uint(type, 3); __uint(max_entries, 1); __type(key, u32);
                 __array(values, int(void *)); } jumps SEC(\".maps\") = {
                 .values = { (void *)&of_maps } };";
    let cases = [
        (programs, INSERTS, "map jumps has type BPF_MAP_TYPE_PROG_ARRAY (3)"),
        (bloom, INSERTS, "map told has type BPF_MAP_TYPE_BLOOM_FILTER (30)"),
        (
            helper,
            "jump(p, p, 0);",
            "wrong.bpf.c:6: other_enqueue: the helper bpf_tail_call (12) is not offered",
        ),
    ];
    for (before, enqueue, expected) in cases {
        let (text, _) = said(before, enqueue, "");
        assert!(text.contains(expected), "{expected}:\n{text}");
        assert!(text.ends_with("`schedlab run` has --on vm"), "{text}");
    }
    let (text, _) = said(arena, &counting, "");
    assert!(text.contains("section .addr_space.1 are an arena's, and no map"), "{text}");
    let (text, _) = said(nested, INSERTS, "");
    assert!(text.contains("outer inside; no kernel takes it there"), "{text}");
}

#[test]
fn what_a_kernel_was_configured_with_and_what_it_lacks_is_told() {
    let before = "
        extern int LINUX_KERNEL_VERSION __kconfig;
        extern unsigned long CONFIG_NR_CPUS __kconfig;
        extern bool CONFIG_PREEMPT_RCU __kconfig __weak;
        extern bool CONFIG_OF_NO_KERNEL __kconfig __weak;
        extern const char CONFIG_LOCALVERSION[64] __kconfig __weak;
        extern int sd_llc_id __ksym __weak;
        static void *(*const of_cpu)(const void *, u32) = (void *)153;";
    let configured = "LINUX_KERNEL_VERSION, CONFIG_NR_CPUS, CONFIG_PREEMPT_RCU";
    let lacking = "CONFIG_OF_NO_KERNEL, CONFIG_LOCALVERSION[0], id ? *id : -1";
    let enqueue = format!(
        "int *id = &sd_llc_id ? of_cpu(&sd_llc_id, 0) : NULL; \
         scx_bpf_error(\"%x %lu %d %d %d %d\", {configured}, {lacking}); {INSERTS}"
    );
    let (text, _) = said(before, &enqueue, "");
    assert_eq!(text, "scx_bpf_error (70300 1024 1 0 0 -1)");
    let before = "
        extern int sd_llc_size __ksym;
        static void *(*const of_cpu)(const void *, u32) = (void *)153;";
    let (text, _) = said(before, &format!("if (of_cpu(&sd_llc_size, 0)) {INSERTS}"), "");
    assert!(text.contains("`sd_llc_size` is not offered"), "{text}");
}
