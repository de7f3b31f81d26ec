//! Goal: what a policy does that no program may do ends its run, with the line; and strictly run,
//! sound policies do the same.

use crate::support::*;
use policy::Policy;
use scenario::random_scenario;
use simulator::Options;

/// Random scenarios for each policy that run strictly; `STRICT_SCENARIOS` says another number.
const STRICT_SCENARIOS: u64 = 4;

#[test]
fn every_policy_and_set_does_the_same_strictly_in_random_scenarios() {
    let given = std::env::var("STRICT_SCENARIOS").ok().and_then(|text| text.parse().ok());
    let scenarios: u64 = given.unwrap_or(STRICT_SCENARIOS);
    for name in POLICIES {
        let policy = shipped(name);
        let sets = policy.sets.iter().map(|set| set.values.clone());
        let tunables: Vec<_> = std::iter::once(Default::default()).chain(sets).collect();
        for seed in 0..scenarios {
            let (machine, workload) = random_scenario(seed);
            let tunables = tunables[seed as usize % tunables.len()].clone();
            let plain = Options { seed, tunables, ..Options::default() };
            let strict = Options { strict: true, ..plain.clone() };
            let [plain, strict] =
                [plain, strict].map(|options| attempt_with(&policy, &machine, &workload, &options));
            assert_eq!(plain.error, strict.error, "{name}, seed {seed}");
            assert_eq!(plain.digest, strict.digest, "{name}, seed {seed}");
        }
    }
}

/// A policy whose `enqueue` does something wrong in its 7th line, before it does what is right.
fn with_mistake(before: &str, mistake: &str) -> Policy {
    let text = format!(
        "#include <scx/common.bpf.h>\n\
         char _license[] SEC(\"license\") = \"GPL\";\n\
         u64 total;\n\
         {before}\n\
         void BPF_STRUCT_OPS(wrong_enqueue, struct task_struct *p, u64 enq_flags)\n\
         {{\n\
         {mistake}\n\
         scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);\n\
         }}\n\
         SCX_OPS_DEFINE(wrong_ops, .enqueue = (void *)wrong_enqueue, .name = \"wrong\");\n"
    );
    compile_text(&text)
}

/// What a run ends with, translated and interpreted.
fn said(policy: &Policy) -> String {
    let texts = [false, true].map(|interpreted| {
        let options = Options { interpreted, ..Options::default() };
        said_at_end(policy, &[run(MS)], &options)
    });
    assert_eq!(texts[0], texts[1]);
    let [text, _] = texts;
    text
}

#[test]
fn what_no_program_may_do_ends_the_run_and_names_its_line() {
    let on_one_line = |map: String| map.replace('\n', " ");
    let two = on_one_line(map_of("ARRAY", 4, 8, 2));
    let own = on_one_line(map_of("TASK_STORAGE", 4, 8, 0));
    let mistakes = [
        ("", "total += ((struct task_struct *)total)->pid;", "next to NULL"),
        ("", "*(volatile u64 *)(total + 8) = 1;", "it writes 8 bytes at 0x8, next to NULL"),
        ("", "*(volatile u64 *)(total - 8) = 1;", "next to NULL"),
        ("", "*(volatile char *)0x123456789000 = 1;", "it writes 1 byte at 0x123456789000"),
        ("", "total = *(volatile u64 *)&wrong_enqueue;", "it reads 8 bytes at 0xf"),
        ("", "p->prio = 3;", "which it may only read"),
        ("", "p->scx.weight = 3;", "which it may only read: scx.weight of a task"),
        (
            "",
            "*(volatile u64 *)&p->scx.slice = total; *(volatile u32 *)&p->scx.slice = 1;",
            "only read",
        ),
        ("", "((u64 *)p->cpus_ptr)[0] = 3;", "which it may only read"),
        ("const volatile u64 set_once = 1;", "*(volatile u64 *)&set_once = 2;", "only read"),
        ("int stop;", "while (!*(volatile int *)&stop);", "has not returned after 1073741824"),
        ("", "for (;;) asm volatile(\"\");", "has not returned after"),
        ("", "scx_bpf_task_cpu((void *)&total);", "is given for a task and is none"),
        ("", "scx_bpf_task_cpu((void *)p + 8);", "is given for a task and is none"),
        ("", "bpf_cpumask_set_cpu(0, (void *)p->cpus_ptr);", "a mask of its own and is none"),
        ("", "bpf_cpumask_weight((void *)total);", "it reads 128 bytes at 0x0, next to NULL"),
        ("", "bpf_task_storage_get(&total, p, 0, 0);", "is given for a map and is none"),
        ("", "bpf_timer_start((void *)p, 1, 0);", "writes 16 bytes"),
        ("", "bpf_spin_lock((void *)8);", "next to NULL"),
        ("", "total = bpf_cpumask_test_cpu(0, (void *)8);", "it reads 128 bytes at 0x8"),
        (
            &two,
            "u32 n = 2; *(u64 *)bpf_map_lookup_elem(&odd, &n) = 1;",
            "it writes 8 bytes at 0x0, next to NULL",
        ),
        (
            &own,
            "total += *(u64 *)bpf_task_storage_get(&odd, p, 0, 0);",
            "it reads 8 bytes at 0x0, next to NULL",
        ),
        ("", "bpf_iter_scx_dsq_next((void *)p);", "writes 8 bytes"),
        ("", "((struct task_struct *)((void *)p + 8))->scx.slice = 1;", "which it may only read"),
        ("", "((struct task_struct *)((void *)p + 64))->scx.dsq_vtime = 1;", "only read"),
        (
            "",
            "((struct task_struct *)((void *)p - (1 << 20)))->scx.slice = 1;",
            "nothing of its own",
        ),
        (
            "char text[1 << 20];",
            "for (;;) bpf_probe_read_kernel(text, sizeof(text), text);",
            "has not returned after",
        ),
        (
            "struct sched_entity___own { u64 vruntime; } __attribute__((preserve_access_index));",
            "total += ((struct sched_entity___own *)&p->se)->vruntime;",
            "vruntime",
        ),
        ("extern u64 scx_bpf_brew_coffee(void) __ksym;", "total += scx_bpf_brew_coffee();", "brew"),
    ];
    for (before, mistake, expected) in mistakes {
        let policy = with_mistake(before, mistake);
        let said = said(&policy);
        assert!(said.contains(expected), "{mistake}: {said}");
        assert!(said.contains("wrong.bpf.c:7: wrong_enqueue: "), "{mistake}: {said}");
    }
}

#[test]
fn what_is_allowed_is_no_mistake() {
    let fine = [
        "p->scx.slice = 5; p->scx.dsq_vtime = 7; total = p->scx.dsq_vtime;",
        "total = 100 / total; total = 5 % total;",
        "total = bpf_cpumask_test_cpu(5000, p->cpus_ptr) + bpf_cpumask_test_cpu(-1, p->cpus_ptr);",
        "struct bpf_iter_scx_dsq it; *(volatile u64 *)&it = 3; bpf_iter_scx_dsq_next(&it);",
        "struct task_struct *q = bpf_task_from_pid(p->pid); if (q) bpf_task_release(q);",
        "total = bpf_cpumask_weight(p->cpus_ptr) + bpf_cpumask_first(&p->cpus_mask);",
        "struct bpf_cpumask *m = bpf_cpumask_create(); if (m) bpf_cpumask_release(m);",
    ];
    for line in fine {
        let then = format!("{line} scx_bpf_error(\"so far\");");
        let policy = with_mistake("", &then);
        assert_eq!(said(&policy), "scx_bpf_error (so far)", "{line}");
    }
}

#[test]
fn what_goes_wrong_at_the_very_end_is_told_too() {
    let end = "void BPF_STRUCT_OPS(wrong_exit, struct scx_exit_info *info)
        {
        total = *(volatile u64 *)(total + 8);
        }
        SCX_OPS_DEFINE(wrong_ops, .exit = (void *)wrong_exit, .name = \"wrong\");
        #undef SCX_OPS_DEFINE
        #define SCX_OPS_DEFINE(name, members...)";
    let policy = with_mistake(end, "");
    let said = said(&policy);
    assert!(said.ends_with(": wrong_exit: it reads 8 bytes at 0x8, next to NULL"), "{said}");
}

/// A map of this kind, whose keys and values have so many bytes.
fn map_of(kind: &str, key_bytes: u32, value_bytes: u32, entries: u32) -> String {
    let flags = u32::from(kind == "TASK_STORAGE");
    format!(
        "struct {{ __uint(type, BPF_MAP_TYPE_{kind}); __uint(key_size, {key_bytes});
        __uint(value_size, {value_bytes}); __uint(max_entries, {entries});
        __uint(map_flags, {flags}); }} odd SEC(\".maps\");"
    )
}

#[test]
fn a_map_that_no_kernel_makes_is_refused() {
    let maps = [
        (map_of("HASH", 513, 8, 1), "keys of 513 bytes"),
        (map_of("HASH", 0, 8, 1), "keys of 0 bytes"),
        (map_of("HASH", 8, u32::MAX, 1), "values of 4294967295 bytes"),
        (map_of("ARRAY", 0, 8, 1), "keys of 0 bytes"),
        (map_of("PERCPU_ARRAY", 8, 8, 1), "keys of 8 bytes"),
        (map_of("ARRAY", 4, 0, 1), "values of 0 bytes"),
        (map_of("TASK_STORAGE", 2, 8, 0), "keys of 2 bytes"),
        (map_of("TASK_STORAGE", 4, 65_536, 0), "values of 65536 bytes"),
        (map_of("TASK_STORAGE", 4, 8, 7), "7 entries and flags 0x1"),
        (map_of("TASK_STORAGE", 4, 8, 0).replace("flags, 1", "flags, 0"), "0 entries and flags 0"),
        (map_of("HASH", 8, 8, 0), "no entries"),
        (map_of("PERCPU_ARRAY", 4, 8, 0), "no entries"),
    ];
    for (map, expected) in maps {
        let said = said(&with_mistake(&map, "bpf_map_lookup_elem(&odd, p);"));
        assert!(said.contains(&format!("map odd has {expected}")), "{said}");
    }
}

#[test]
fn keys_of_a_hash_take_room_besides_their_values() {
    // What can be written is 1047 MiB. Another map leaves 47 MiB of it.
    let other = map_of("ARRAY", 4, 1 << 20, 1000).replace("odd", "other");
    let maps = format!("{other}\n{}", map_of("HASH", 512, 8, u32::MAX));
    let fill = "static u64 key[64]; u64 one = 1; bpf_map_lookup_elem(&other, key);
        while (!bpf_map_update_elem(&odd, key, &one, BPF_ANY)) key[0]++;
        scx_bpf_error(\"%llu keys\", key[0]);"
        .replace('\n', " ");
    let policy = with_mistake(&maps, &fill);
    // Keys have 512 bytes, values 8, and an entry 96 more; nine lines are for variables.
    let keys = ((47 << 20) - 9 * 64) / (512 + 8 + 96);
    let said = said_at_end(&policy, &[run(MS)], &Options::default());
    assert_eq!(said, format!("scx_bpf_error ({keys} keys)"));
}

/// Source of the numbers: Linux, kernel/bpf/arraymap.c, hashtab.c, helpers.c, bpf_task_storage.c.
#[test]
fn calls_answer_as_a_kernels_do() {
    let [array, hash] = [("ARRAY", "odd"), ("HASH", "hash")]
        .map(|(kind, name)| map_of(kind, 4, 8, 1).replace("odd", name));
    let own = map_of("TASK_STORAGE", 4, 8, 0).replace("odd", "own");
    let timers = "struct slot { struct bpf_timer timer; };
        struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1);
        __type(key, u32); __type(value, struct slot); } timers SEC(\".maps\");
        static int expired(void *map, int *key, struct bpf_timer *timer) { return 0; }
        static long (*const compare)(const char *, u32, const char *) = (void *)182;
        static long (*const print)(const char *, u32, ...) = (void *)6;
        extern int CONFIG_NOBODY_HAS_THIS __kconfig __weak;
        char text[1400], other[1400];
        static __always_inline struct bpf_timer *begun(void) { u32 n = 0;
        struct slot *slot = bpf_map_lookup_elem(&timers, &n);
        bpf_timer_init(&slot->timer, &timers, 1); bpf_timer_set_callback(&slot->timer, expired);
        return &slot->timer; }";
    let before = [array, hash, own, timers.to_owned()].join(" ").replace('\n', " ");
    let answers = [
        ("u32 n = 0; u64 v = 5;", "bpf_map_update_elem(&odd, &n, &v, BPF_NOEXIST)", -17),
        ("u32 n = 0; u64 v = 5;", "bpf_map_update_elem(&odd, &n, &v, 8)", -22),
        ("u32 n = 0; u64 v = 5;", "bpf_map_update_elem(&hash, &n, &v, 3)", -22),
        ("u32 n = 0; u64 v = 5;", "bpf_map_update_elem(&odd, &n, &v, BPF_EXIST)", 0),
        ("", "bpf_task_storage_delete(&own, p)", -2),
        ("bpf_task_storage_get(&own, p, 0, 1);", "bpf_task_storage_delete(&own, p)", 0),
        ("struct bpf_timer *t = begun();", "bpf_timer_start(t, NSEC_PER_MSEC, 64)", -22),
        ("struct bpf_timer *t = begun();", "bpf_timer_cancel(t)", 0),
        ("struct bpf_timer *t = begun(); bpf_timer_start(t, 9, 0);", "bpf_timer_cancel(t)", 1),
        (
            "int i; bpf_for(i, 0, 1399) text[i] = other[i] = 'x'; text[1200] = 'y';",
            "compare(text, 1400, other)",
            1,
        ),
        ("char f[] = {'%', 'q', 0};", "print(f, 3, 5)", -22),
        ("char f[] = {'%', 'd', 0};", "print(f, 3, 512)", 3),
        ("char f[] = {'%', 's', '!', 0};", "print(f, 4, 8)", 1),
        ("", "CONFIG_NOBODY_HAS_THIS", 0),
    ];
    for (first, call, expected) in answers {
        let line = format!("{first} long got = {call}; scx_bpf_error(\"%ld\", got);");
        let policy = with_mistake(&before, &line);
        assert_eq!(said(&policy), format!("scx_bpf_error ({expected})"), "{call}");
    }
}

#[test]
fn a_table_that_is_only_taken_if_asked_for_is_not_the_policy() {
    let optional =
        "SEC(\"?.struct_ops.link\") struct sched_ext_ops first_ops = { .name = \"first\" };";
    let policy = with_mistake(optional, "scx_bpf_error(\"the other\");");
    assert_eq!(said(&policy), "scx_bpf_error (the other)");
}

#[test]
fn more_than_a_kernel_dispatches_at_once_is_refused() {
    let with = |batch: u32| {
        let ops = format!(
            "SCX_OPS_DEFINE(wrong_ops, .dispatch_max_batch = {batch}, .name = \"wrong\");
            #undef SCX_OPS_DEFINE
            #define SCX_OPS_DEFINE(name, members...)"
        );
        said(&with_mistake(&ops, ""))
    };
    assert_eq!(with(1023), "");
    assert!(with(1024).contains("dispatch_max_batch is 1024"), "{}", with(1024));
}

#[test]
fn a_call_through_a_pointer_is_told_as_what_no_kernel_takes() {
    let before = "static u64 one(u64 x) { return x + 1; } u64 (*volatile pointer)(u64) = one;";
    let said = said(&with_mistake(before, "total = pointer(3);"));
    assert!(said.contains("wrong.bpf.c:7: wrong_enqueue: it calls a function through"), "{said}");
    assert!(said.ends_with("no kernel takes\nhint: call the function by its name"), "{said}");
}

#[test]
fn a_call_that_ends_the_run_is_told_with_its_line_and_a_way_out() {
    let insert = "scx_bpf_dsq_insert(p, 7, SCX_SLICE_DFL, 0); return;";
    let way = "; scx_bpf_create_dsq(0x7, -1) in `init` creates it";
    let text = said(&with_mistake("", insert));
    let expected = "wrong.bpf.c:7: wrong_enqueue: non-existent DSQ 0x7 for two[2]";
    assert_eq!(text, format!("{expected}{way}"));
    let text = said(&with_mistake("", "scx_bpf_dsq_insert(0, 7, SCX_SLICE_DFL, 0); return;"));
    assert_eq!(text, "wrong.bpf.c:7: wrong_enqueue: NULL task passed to a kernel function");
}
