//! Goal: what `schedlab check` must find, it finds, at the line where it is. Method: policies with
//! one mistake each, of a kind that a person makes, whose line is marked `//!`; each is run
//! strictly. Those that are not found are known, and why.

use crate::support::{MS, costless, once, run, task, together, try_object};
use policy::Policy;
use scenario::workload::{Amount, Op};
use simulator::{Options, simulate};
use std::fmt::Write;

/// Of the mistakes, how many percent must be found.
const FOUND_PERCENT_MIN: usize = 90;

/// A mistake.
struct Mistake {
    /// What stands before the operations.
    before: &'static str,
    /// What `enqueue` does first.
    enqueue: &'static str,
    /// What other operations do.
    others: &'static [(&'static str, &'static str, &'static str)],
    /// What is said of it; empty if it is known not to be found.
    said: &'static str,
}

const fn row(enqueue: &'static str, said: &'static str) -> Mistake {
    Mistake { before: "", enqueue, others: &[], said }
}

const fn with(before: &'static str, enqueue: &'static str, said: &'static str) -> Mistake {
    Mistake { before, enqueue, others: &[], said }
}

/// A mistake in another operation, which has this name and these parameters.
const fn other(
    operation: &'static [(&'static str, &'static str, &'static str)],
    said: &'static str,
) -> Mistake {
    Mistake { before: "", enqueue: "", others: operation, said }
}

const MAPS: &str = "
struct load { u64 runs, waits; u32 cpu; };
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 4);
	__type(key, u32); __type(value, struct load); } loads SEC(\".maps\");
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, 1);
	__type(key, u32); __type(value, struct load); } here SEC(\".maps\");
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 64);
	__type(key, u64); __type(value, u64); } by_number SEC(\".maps\");
struct { __uint(type, BPF_MAP_TYPE_TASK_STORAGE); __uint(map_flags, 1);
	__type(key, int); __type(value, struct load); } of_tasks SEC(\".maps\");
";

/// A policy with a mistake, and the mistake's line.
fn text_of(mistake: &Mistake) -> (String, usize) {
    let mut text = String::from(
        "#include <scx/common.bpf.h>
char _license[] SEC(\"license\") = \"GPL\";
volatile u64 total, zero, one = 1, two = 2, four = 4, eight = 8;
",
    );
    text.push_str(MAPS);
    let _ = write!(
        text,
        "{}
void BPF_STRUCT_OPS(wrong_enqueue, struct task_struct *p, u64 enq_flags)
{{
{}
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}}
",
        mistake.before, mistake.enqueue
    );
    let mut members = String::from(".enqueue = (void *)wrong_enqueue,");
    for (name, parameters, body) in mistake.others {
        let returns =
            if ["init", "select_cpu", "init_task"].contains(name) { "s32" } else { "void" };
        let _ =
            writeln!(text, "{returns} BPF_STRUCT_OPS(wrong_{name}{parameters})\n{{\n{body}\n}}");
        let _ = write!(members, " .{name} = (void *)wrong_{name},");
    }
    let _ = writeln!(text, "SCX_OPS_DEFINE(wrong_ops, {members} .name = \"wrong\");");
    let line = text.lines().position(|line| line.contains("//!")).expect("a mark");
    (text, line + 1)
}

fn built(text: &str) -> Policy {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("wrong.bpf.c");
    std::fs::write(&source, text).expect("a file");
    try_object(&source).unwrap_or_else(|error| panic!("{error}"))
}

/// What a strict run of two tasks on one CPU ends with.
fn said(policy: &Policy) -> String {
    let works = once(&[run(MS), Op::Sleep(Amount::Fixed(3 * MS)), run(MS)]);
    let workload = together(vec![task("one", 0, works.clone()), task("two", 0, works)]);
    let options = Options { strict: true, ..Options::default() };
    match simulate(policy, &costless(1, 1000), &workload, &options) {
        Ok(result) => result.error.map_or(String::new(), |failure| failure.message),
        Err(error) => error.to_string(),
    }
}

/// Arrays, structures, values of maps.
const OBJECTS: &[Mistake] = &[
    with(
        "u64 table[4];",
        "for (u64 i = 0; i <= four; i++)\n\ttable[i] = i; //!",
        "writes 8 bytes right behind the end of variable table, which has 32 bytes",
    ),
    with("u64 table[4];", "total += table[four]; //!", "behind the end of variable table"),
    with(
        "u64 table[4];",
        "total += table[(s64)zero - 1]; //!",
        "8 bytes before the beginning of variable table",
    ),
    with(
        "u64 table[4];",
        "u32 i = zero - 1;\ntotal += table[i]; //!",
        "behind the end of variable table",
    ),
    with(
        "const volatile u32 weights[40] = {1};",
        "total += weights[p->static_prio - 80]; //!",
        "reads 4 bytes right behind the end of variable weights, which has 160 bytes",
    ),
    with("u32 grid[4][8];", "grid[eight - 1][two] = 1; //!", "behind the end of variable grid"),
    with(
        "char name[8];",
        "for (int i = 0; i <= eight; i++)\n\tname[i] = p->comm[i]; //!",
        "writes 1 byte right behind the end of variable name",
    ),
    with("u8 flags[64];", "flags[1 << (four + two)] = 1; //!", "behind the end of variable flags"),
    with("struct { u64 a[4], sum; } both;", "both.a[four] = 1; //!", ""),
    with(
        "u64 table[4];\nstatic void clear(u64 *from, u64 count)\n{\n\tfor (u64 i = 0; i < count; i++)\n\t\tfrom[i] = zero; //!\n}",
        "clear(table, sizeof(table));",
        "behind the end of variable table",
    ),
    with(
        "u64 *volatile where;\nu64 table[4];",
        "where = table;\ntotal += where[1]; //!",
        "through a number that is no pointer",
    ),
    row(
        "u32 key = 0;\nu64 *value = bpf_map_lookup_elem(&loads, &key);\nif (value)\n\tvalue[3] = 1; //!",
        "a value of map loads, which has 24 bytes",
    ),
    row(
        "u32 key = 0;\nstruct load *value = bpf_map_lookup_elem(&loads, &key);\nif (value)\n\ttotal += value[one].runs; //!",
        "right behind the end of a value of map loads",
    ),
    row(
        "u32 key = 1;\nstruct load *value = bpf_map_lookup_elem(&loads, &key);\nif (value)\n\ttotal += value[-1].runs; //!",
        "24 bytes before the beginning of a value of map loads",
    ),
    row(
        "u64 key = 5;\nstruct load *value = bpf_map_lookup_elem(&by_number, &key);\nif (!value)\n\tbpf_map_update_elem(&by_number, &key, &key, 0);\nelse\n\ttotal += value->waits; //!",
        "right behind the end of a value of map by_number, which has 8 bytes",
    ),
    row(
        "struct { struct load load; u64 more; } *own = bpf_task_storage_get(&of_tasks, p, 0, 1);\nif (own)\n\town->more = 1; //!",
        "a value of map of_tasks, which has 24 bytes",
    ),
    row(
        "u32 key = 0;\nchar *value = bpf_map_lookup_elem(&here, &key);\nif (value)\n\t__builtin_memset(value, one, 32); //!",
        "a value of map here",
    ),
    row(
        "u32 key = four;\nstruct load *value = bpf_map_lookup_elem(&loads, &key);\nvalue->runs++; //!",
        "next to NULL",
    ),
    row(
        "struct load *own = bpf_task_storage_get(&of_tasks, p, 0, 0);\nown->runs++; //!",
        "next to NULL",
    ),
    row(
        "u32 key = 0;\nstruct load *value = bpf_map_lookup_percpu_elem(&here, &key, scx_bpf_nr_cpu_ids());\ntotal += value->waits; //!",
        "next to NULL",
    ),
    row(
        "struct load { struct sched_ext_entity scx; u64 weight; } *l;\nl = (void *)&p->scx - 64;\ntotal += *(u64 *)l; //!",
        "64 bytes before the beginning of task two[2]",
    ),
    row(
        "u64 *bits = (u64 *)p->cpus_ptr;\ntotal += bits[16]; //!",
        "right behind the end of the mask of all CPUs, which has 128 bytes",
    ),
    row(
        "u64 *bits = (u64 *)p->cpus_ptr;\ntotal += bits[zero - 1]; //!",
        "8 bytes before the beginning of the mask of all CPUs",
    ),
    row(
        "total += ((struct task_struct *)p->cpus_ptr)->start_time; //!",
        "behind the end of the mask of all CPUs",
    ),
    row("total += p->comm[4096]; //!", "task_struct.comm[4096] does not exist"),
    row(
        "total += ((volatile struct sched_entity *)&p->pid)[eight * eight].sum_exec_runtime; //!",
        "behind the end of task two[2]",
    ),
    row(
        "total += ((struct task_struct *)((u64 *)p + 48))->pid; //!",
        "behind the end of task two[2]",
    ),
    row("total += ((u64 *)ctx)[5]; //!", "behind the end of the operation's arguments"),
    row("total += ((struct task_struct *)(u64)p->pid)->tgid; //!", "next to NULL"),
    row(
        "u32 half = (u64)p;\nasm volatile(\"\" : \"+r\"(half));\ntotal += ((struct task_struct *)(u64)half)->pid; //!",
        "through a number that is no pointer",
    ),
    with(
        "u64 last;",
        "if (last)\n\ttotal += ((struct task_struct *)last)->pid; //!\nlast = (u64)p;",
        "through a number that is no pointer",
    ),
    row(
        "u64 key = 1, *kept = bpf_map_lookup_elem(&by_number, &key), now = (u64)p;\nif (kept)\n\ttotal += ((struct task_struct *)*kept)->pid; //!\nbpf_map_update_elem(&by_number, &key, &now, 0);",
        "through a number that is no pointer",
    ),
    row("p->prio = 120; //!", "which it may only read"),
    row("p->scx.weight = 100; //!", "which it may only read"),
    with(
        "const volatile u64 slice_ns = 5;",
        "*(volatile u64 *)&slice_ns = one; //!",
        "which it may only read",
    ),
    row("((u64 *)p->cpus_ptr)[0] &= ~1ULL; //!", "which it may only read"),
    row(
        "bpf_cpumask_set_cpu(0, (struct bpf_cpumask *)p->cpus_ptr); //!",
        "is given for a mask of its own and is none",
    ),
];

/// The stack.
const STACK: &[Mistake] = &[
    with(
        "static __noinline void set(u32 *to)\n{\n\tif (zero)\n\t\t*to = 1;\n}",
        "u32 key;\nset(&key);\nstruct load *value = bpf_map_lookup_elem(&loads, &key); //!\nif (value)\n\tvalue->runs++;",
        "reads 4 bytes of its stack, which nobody wrote",
    ),
    row(
        "u8 key = zero;\nstruct load *value = bpf_map_lookup_elem(&loads, &key); //!\nif (value)\n\tvalue->runs++;",
        "reads 4 bytes",
    ),
    row(
        "u32 key = zero;\nu64 *value = bpf_map_lookup_elem(&by_number, &key); //!\nif (value)\n\ttotal += *value;",
        "reads 8 bytes",
    ),
    row("u64 key = 1;\nu32 value = 2;\nbpf_map_update_elem(&by_number, &key, &value, 0); //!", ""),
    row(
        "u32 key = 0;\nu64 value = 2;\nbpf_map_update_elem(&loads, &key, &value, 0); //!",
        "of its stack, of which nobody wrote 4",
    ),
    with(
        "struct pair { u32 a; u64 b; };\nstruct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 4);\n__type(key, struct pair); __type(value, u64); } by_pair SEC(\".maps\");",
        "struct pair key;\nkey.a = one;\nkey.b = two;\nu64 *value = bpf_map_lookup_elem(&by_pair, &key); //!\nif (value)\n\ttotal += *value;",
        "of its stack, of which nobody wrote 4",
    ),
    with(
        "static __noinline int get(u64 *to)\n{\n\tif (!one)\n\t\t*to = 1;\n\treturn 0;\n}",
        "u64 got;\nget(&got);\ntotal += got; //!",
        "reads 8 bytes of its stack, which nobody wrote",
    ),
    row(
        "volatile u64 seen[8];\nfor (u64 i = 0; i < four; i++)\n\tseen[i] = i;\nfor (u64 i = 0; i < eight; i++)\n\ttotal += seen[i]; //!",
        "of its stack, which nobody wrote",
    ),
    row(
        "volatile u64 seen[8];\nfor (u64 i = 0; i <= eight; i++)\n\tseen[i] = i; //!",
        "right behind the end of a frame of its stack, which has 512 bytes",
    ),
    row(
        "volatile u64 seen[4] = {1, 2, 3, 4};\ntotal += seen[(s64)zero - 1]; //!",
        "of its stack, which nobody wrote",
    ),
    row(
        "volatile u64 seen[4] = {1, 2, 3, 4};\ntotal += seen[-64 * (s64)one]; //!",
        "before the beginning of a frame of its stack",
    ),
    row(
        "char name[8];\nbpf_probe_read_kernel(name, 16, p->comm); //!\ntotal += name[two];",
        "writes 16 bytes, of which only 8 lie in a frame of its stack",
    ),
    with(
        "static __noinline void show(u64 **to)\n{\n\tvolatile u64 mine = one;\n\t*to = (u64 *)&mine;\n}",
        "u64 *where;\nshow(&where);\nasm volatile(\"\" ::: \"memory\");\ntotal += *where; //!",
        "the stack of a function that has returned",
    ),
    row(
        "u64 low[4], high[4];\nfor (u64 i = 0; i < 4; i++)\n\tlow[i] = high[i] = one;\nhigh[four] = 7; //!\ntotal += high[two] + low[two];",
        "",
    ),
];

/// Loops, calls, arithmetic.
const LOOPS: &[Mistake] = &[
    with("volatile int stop;", "while (!stop) //!\n\t;", "has not returned after"),
    row("for (u8 i = 0; i < four * 64; i++)\n\ttotal += i; //!", "has not returned after"),
    row("for (u32 i = four; i >= 0; i--)\n\ttotal += i; //!", "has not returned after"),
    with(
        "u32 next[4] = {1, 2, 1, 3};",
        "u32 at = zero;\nwhile (next[at] != 3) //!\n\tat = next[at];\ntotal += at;",
        "has not returned after",
    ),
    with(
        "static __noinline u64 sum(u64 n)\n{\n\treturn n + (n != 1000 ? sum(n + 1) : 0); //!\n}",
        "total += sum(zero);",
        "functions are in each other",
    ),
    with(
        "u64 tree[8] = {1, 0, 0, 0, 0, 0, 0, 0};\nstatic __noinline u64 depth(u64 at)\n{\n\tif (at >= 8)\n\t\treturn 0;\n\treturn 1 + depth(tree[at]); //!\n}",
        "total += depth(zero);",
        "has not returned after",
    ),
    with(
        "u64 table[4];",
        "for (u32 i = four - 1; i >= 0; i--)\n\ttable[i] = total; //!",
        "behind the end of variable table",
    ),
    with(
        "u32 count[8];",
        "for (u32 at = 1; at < 100; at *= 2)\n\tcount[at]++; //!",
        "right behind the end of variable count",
    ),
    with(
        "u64 buckets[10];",
        "buckets[(u32)p->static_prio / 8] += 1; //!",
        "behind the end of variable buckets",
    ),
    with(
        "u64 heap[4], last;",
        "for (u64 i = zero; 2 * i + 1 <= four; i = 2 * i + 1)\n\ttotal += heap[2 * i + 2]; //!",
        "right behind the end of variable heap",
    ),
];

/// Calls that the kernel forbids, and what is to be given back.
const CALLS: &[Mistake] = &[
    other(
        &[(
            "running",
            ", struct task_struct *p",
            "scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, 0); //!",
        )],
        "may not dispatch",
    ),
    other(
        &[
            (
                "tick",
                ", struct task_struct *p",
                "scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0); //!",
            ),
            (
                "init_task",
                ", struct task_struct *p, struct scx_init_task_args *args",
                "p->scx.slice = 1; return 0;",
            ),
        ],
        "may not dispatch",
    ),
    row("scx_bpf_dsq_move_to_local(3); //!", "outside ops.dispatch()"),
    row(
        "scx_bpf_create_dsq(p->pid, -1); //!",
        "called in enqueue; it is for operations that may sleep",
    ),
    other(
        &[("init", "", "return scx_bpf_create_dsq(3, -1); //!")],
        "called in init; it is for operations that may sleep",
    ),
    other(
        &[(
            "running",
            ", struct task_struct *p",
            "bool is_idle;\ntotal += scx_bpf_select_cpu_dfl(p, 0, 0, &is_idle); //!",
        )],
        "called in running; it is for select_cpu",
    ),
    row("total += scx_bpf_dispatch_nr_slots(); //!", "called in enqueue; it is for dispatch"),
    row("scx_bpf_dispatch_cancel(); //!", "called in enqueue; it is for dispatch"),
    row("scx_bpf_reenqueue_local(); //!", "outside ops.cpu_release()"),
    row("scx_bpf_kick_cpu(scx_bpf_nr_cpu_ids(), 0); //!", "invalid CPU 1"),
    row(
        "scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);\nscx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, enq_flags); //!",
        "already direct-dispatched",
    ),
    other(
        &[
            ("update_idle", ", s32 cpu, bool idle", "if (idle)\n\tscx_bpf_kick_cpu(cpu, 0);"),
            ("dispatch", ", s32 cpu, struct task_struct *prev", "total += prev->pid; //!"),
        ],
        "next to NULL",
    ),
    row("struct task_struct *q = bpf_task_from_pid(-1);\ntotal += q->pid; //!", "next to NULL"),
    row("total += scx_bpf_task_cpu((void *)&total); //!", "is given for a task and is none"),
    row("total += (u64)bpf_task_storage_get(&loads, p, 0, 1); //!", "of another kind of map"),
    row(
        "total += (u64)bpf_task_storage_get(p, (void *)&of_tasks, 0, 1); //!",
        "is given for a map and is none",
    ),
    row("total += (u64)bpf_map_lookup_elem(&loads, &loads); //!", "it reads 4 bytes at 0xe"),
    row("scx_bpf_error(\"%s\", (char *)(u64)p->pid); //!", "it reads 1 byte at 0x2, next to NULL"),
    row(
        "struct bpf_cpumask *m = bpf_cpumask_create(); //!\nif (m)\n\tbpf_cpumask_set_cpu(0, m);",
        "what it gets here is never given back",
    ),
    row(
        "struct task_struct *q = bpf_task_from_pid(p->pid); //!\nif (q)\n\ttotal += q->prio;",
        "what it gets here is never given back",
    ),
    row(
        "const struct cpumask *idle = scx_bpf_get_idle_cpumask(); //!\ntotal += bpf_cpumask_weight(idle);",
        "what it gets here is never given back",
    ),
    row(
        "struct bpf_cpumask *m = bpf_cpumask_create();\nif (!m)\n\treturn;\nbpf_cpumask_release(m);\nbpf_cpumask_release(m); //!",
        "it gives back what it did not get",
    ),
    row(
        "struct bpf_cpumask *m = bpf_cpumask_create();\nif (!m)\n\treturn;\nbpf_cpumask_release(m);\ntotal += bpf_cpumask_weight(&m->cpumask); //!",
        "it uses what it has given back",
    ),
    row(
        "struct task_struct *q = bpf_task_from_pid(p->pid);\nif (!q)\n\treturn;\nbpf_task_release(q);\ntotal += q->pid; //!",
        "it uses what it has given back",
    ),
    row("bpf_task_release(p); //!", "it gives back what it did not get"),
    row("scx_bpf_put_idle_cpumask(p->cpus_ptr); //!", "it gives back what it did not get"),
    row(
        "struct bpf_iter_scx_dsq it;\ntotal += (u64)bpf_iter_scx_dsq_next(&it); //!",
        "uses an iterator that was not begun",
    ),
    row(
        "struct bpf_iter_scx_dsq it;\nbpf_iter_scx_dsq_new(&it, 3, 0);\nbpf_iter_scx_dsq_destroy(&it);\nbpf_iter_scx_dsq_destroy(&it); //!",
        "uses an iterator that was not begun, or is destroyed",
    ),
    row(
        "struct bpf_iter_scx_dsq it;\nbpf_iter_scx_dsq_new(&it, 3, 0); //!\ntotal += (u64)bpf_iter_scx_dsq_next(&it);",
        "the iterator that begins here is never destroyed",
    ),
    row(
        "struct bpf_iter_num it;\nbpf_iter_num_new(&it, 0, 3);\nbpf_iter_num_new(&it, 0, 4); //!\nbpf_iter_num_destroy(&it);",
        "begins an iterator that was begun and not destroyed",
    ),
    Mistake {
        before: "private(A) struct bpf_spin_lock lock;",
        enqueue: "",
        others: &[("running", ", struct task_struct *p", "bpf_spin_lock(&lock); //!\ntotal++;")],
        said: "the lock that it takes here is never given up",
    },
    with(
        "private(A) struct bpf_spin_lock lock;",
        "bpf_spin_lock(&lock);\ntotal += bpf_ktime_get_ns(); //!\nbpf_spin_unlock(&lock);",
        "it calls something while it holds a lock",
    ),
    with(
        "private(A) struct bpf_spin_lock lock;",
        "bpf_spin_unlock(&lock); //!",
        "gives up a lock that it does not hold",
    ),
    with(
        "private(A) struct bpf_spin_lock lock;",
        "bpf_spin_lock(&lock);\nbpf_spin_lock(&lock); //!\nbpf_spin_unlock(&lock);",
        "it calls something while it holds a lock",
    ),
    row(
        "u32 key = 0;\nstruct bpf_timer *timer = bpf_map_lookup_elem(&loads, &key);\nif (timer)\n\tbpf_timer_set_callback(timer, (void *)one); //!",
        "is given for a callback and is none",
    ),
    other(
        &[("exit", ", struct scx_exit_info *info", "total += info->msg[2000]; //!")],
        "behind the end of a text",
    ),
];

/// What came of a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Found,
    /// Its line is taken for that of a statement before it: it is in a function of a header that
    /// became part of the operation, and nothing of the call itself is an instruction.
    OtherLine,
    /// As is known.
    NotFound,
}

#[test]
fn mistakes_are_found_at_their_lines() {
    let all: Vec<&Mistake> = [OBJECTS, STACK, LOOPS, CALLS].into_iter().flatten().collect();
    let outcomes: Vec<_> = all.iter().map(|mistake| outcome(mistake)).collect();
    let wrong: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.clone().err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let count = |which| outcomes.iter().filter(|&outcome| *outcome == Ok(which)).count();
    let found = count(Outcome::Found);
    println!("{found} of {} mistakes are found at their lines", all.len());
    println!("{} at another line", count(Outcome::OtherLine));
    assert!(100 * found >= FOUND_PERCENT_MIN * all.len(), "only {found} of {}", all.len());
}

/// What is found of a mistake; an error if that is not what is expected.
fn outcome(mistake: &Mistake) -> Result<Outcome, String> {
    let (text, line) = text_of(mistake);
    let said = said(&built(&text));
    let is_here = said.contains(&format!("wrong.bpf.c:{line}: "));
    match mistake.said {
        "" if said.is_empty() => Ok(Outcome::NotFound),
        words if !words.is_empty() && said.contains(words) && is_here => Ok(Outcome::Found),
        words if !words.is_empty() && said.contains(words) && said.contains("(in kernel_") => {
            Ok(Outcome::OtherLine)
        }
        _ => {
            let place = text.lines().nth(line - 1).unwrap_or_default();
            Err(format!("line {line}: {place}\n  {said}"))
        }
    }
}
