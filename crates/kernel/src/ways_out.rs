//! What to do about a mistake of a policy, whoever found it: a verifier, a kernel that ejects the
//! policy, or the simulator, which says what they say and more. A workload may make mistakes that
//! only its run shows, too.
//!
//! One table, so that one mistake has one hint in both worlds.

/// Words of a message, and what to do about it. The first that fits counts.
const WAYS_OUT: [(&[&str], &str); 27] = [
    (
        &["next to NULL", "may be NULL", "or_null'", "or_null_'"],
        "a pointer may be NULL, as where a lookup finds no entry: compare it with NULL before it \
         is used",
    ),
    (
        &[
            "infinite loop detected",
            "back-edge",
            "has not returned after",
            "does not end in an exit",
            "last insn is not an exit",
        ],
        "the verifier must see that every loop ends: use bpf_for, bpf_repeat or can_loop",
    ),
    (
        &["BPF program is too large"],
        "it went through too many paths: use bpf_for for loops, and static __noinline functions",
    ),
    (
        &["jumps is too complex"],
        "use bpf_for for inner loops, and keep no counter across iterations of an iterator",
    ),
    (
        &[
            " behind the end of ",
            " before the beginning of ",
            "invalid access to map value",
            "unbounded memory access",
            "is unbounded or outside",
            "min value is negative",
        ],
        "compare the index with the number of entries just before it is used, as an unsigned \
         number",
    ),
    (
        &["combined stack size of"],
        "functions that call each other share 512 bytes of stack: make what is large a global \
         variable or the value of a BPF_MAP_TYPE_PERCPU_ARRAY",
    ),
    (&["divides by 0"], "compare the divisor with 0 before: a BPF program goes on with 0"),
    (
        // The last two are a task of the kernel's that was not run.
        &["failed to run for", "check in for", "RCU CPU stall"],
        "enqueue must put every task into a queue that dispatch takes from, within timeout_ms",
    ),
    (&["non-existent DSQ", "invalid DSQ ID"], "create the queue by scx_bpf_create_dsq in init"),
    (
        &[
            "that may sleep",
            "in non-sleepable",
            "must be sleepable",
            "scx_bpf_create_dsq is not",
            "function scx_bpf_create_dsq",
        ],
        "only operations that may sleep may call it, such as init, and only if they are declared \
         with BPF_STRUCT_OPS_SLEEPABLE",
    ),
    (&["target CPU"], "ask bpf_cpumask_test_cpu(cpu, p->cpus_ptr) before a task goes to a CPU"),
    (&["already direct-dispatched"], "insert a task into one queue only"),
    (&["dispatch buffer overflow"], "insert at most dispatch_max_batch tasks in one dispatch"),
    (
        &["cannot use vtime ordering for built-in DSQs"],
        "only a queue that the policy created orders by virtual time: scx_bpf_create_dsq",
    ),
    (
        &["which it may only read", "cannot write into"],
        "of a task a policy may write scx.slice, scx.dsq_vtime and scx.disallow, of other \
         structures of the kernel's nothing",
    ),
    (&["PRIQ"], "a queue is either in order of arrival or of virtual time until it is empty"),
    (
        &["_impl in BTF"],
        "this kernel's type information is broken (packaged with pahole before 1.31); take \
         another build of the kernel",
    ),
    (
        &["incompatible with vmlinux"],
        "the call's arguments differ in this kernel; if it is 7.1 or later, its type information \
         may be broken (packaged with pahole before 1.31)",
    ),
    (
        &["system Kconfig"],
        "the object asks for the kernel's configuration: put its file at /boot/config-RELEASE",
    ),
    (
        &["': failed to create"],
        "if the map has no size yet, the scheduler's own program sets it: start that one instead",
    ),
    (&["not found in kernel"], "this kernel is too old, or has dropped the call"),
    (
        &["invalid mem access 'scalar'", "through a number that is no pointer"],
        "the verifier takes this for a number, not a pointer",
    ),
    (&["Unreleased reference"], "release what was acquired on every path, as by bpf_task_release"),
    (
        &["is not allowed"],
        "the call does not belong into this operation; scx_bpf_dsq_move* only into dispatch",
    ),
    (
        &["operations in no time"],
        "the workload's task goes round a loop whose steps take no time: add a run, a sleep or a \
         wait to it, or repeat it less often",
    ),
    (
        &["ns in one step, more than"],
        "the workload draws too long a run: lower its median or sigma, or write several runs",
    ),
    (
        &["longer than can be simulated"],
        "end the workload earlier, such as by stop = \"10s\", or draw shorter times in it",
    ),
];

/// What to do about what these words say; nothing where that is not known, or where they end with
/// it themselves.
pub fn way_out(words: &str) -> Option<&'static str> {
    let fits = |known: &&(&[&str], &'static str)| known.0.iter().any(|part| words.contains(part));
    let found = WAYS_OUT.iter().find(fits).map(|known| known.1);
    found.filter(|_| !words.ends_with("in `init` creates it"))
}

#[cfg(test)]
mod tests {
    //! Goal: a mistake has one way out, whoever tells it. Method: the words of each.
    use super::*;

    #[test]
    fn a_mistake_has_the_same_way_out_in_both_worlds() {
        for words in [
            [
                "mine.bpf.c:9: mine_enqueue: it reads 8 bytes at 0x0, next to NULL",
                "R0 may be NULL here (a nullable map value pointer).",
                "R0 invalid mem access 'map_value_or_null'",
            ],
            [
                "mine.bpf.c:9: mine_enqueue: it writes 4 bytes at 0x1a660, which it may only read: \
                 scx.weight of a task",
                "R1 cannot write into ptr_task_struct at off=892 size=4",
                "R1 cannot write into ptr_task_struct at off=892 size=4",
            ],
            [
                "mine.bpf.c:9: mine_enqueue: cannot use vtime ordering for built-in DSQs",
                "runtime error: cannot use vtime ordering for built-in DSQs",
                "cannot use vtime ordering for built-in DSQs",
            ],
            [
                "combined stack size of 3 calls is 640. Too large",
                "combined stack size of 3 calls is 640. Too large: a_enqueue 0, b 320, c 320 bytes",
                "mine_enqueue: combined stack size of 3 calls is 640. Too large",
            ],
            [
                "mine.bpf.c:9: mine_enqueue: it has not returned after 1073741824 instructions",
                "infinite loop detected at insn 2",
                "back-edge from insn 9 to 2",
            ],
            [
                "mine.bpf.c:9: mine_enqueue: it reads 8 bytes right behind the end of variable x",
                "The scalar offset used with R5 is unbounded or outside the verifier's range",
                "R1 unbounded memory access, make sure to bounds check any such access",
            ],
            [
                "scx_bpf_create_dsq() is called in enqueue; it is for operations that may sleep",
                "The kfunc scx_bpf_create_dsq is not allowed: this program cannot call the kfunc.",
                "program must be sleepable to call sleepable kfunc scx_bpf_create_dsq",
            ],
            [
                "runnable task stall (worker[3] failed to run for 44.997s); last enqueued on cpu 2",
                "runnable task stall: worker[3] failed to run for 30.272s",
                "worker[3] failed to run for 2.9s",
            ],
        ] {
            let [first, rest @ ..] = words.map(way_out);
            assert!(first.is_some(), "{words:?}");
            assert!(rest.iter().all(|other| *other == first), "{words:?}");
        }
    }

    #[test]
    fn a_workload_that_cannot_go_on_has_a_way_out() {
        for (words, way) in [
            ("a[1] passed 65536 operations in no time", "add a run, a sleep or a wait"),
            ("a[1] is to compute 9 ns in one step, more than 8", "lower its median"),
            ("the tasks take longer than can be simulated, 2^63 ns or 292 years", "earlier"),
        ] {
            assert!(way_out(words).is_some_and(|hint| hint.contains(way)), "{words}");
        }
    }

    #[test]
    fn who_says_the_way_out_gets_no_second_one() {
        let invalid = "invalid DSQ ID 0x0000000000000009";
        assert!(way_out(invalid).is_some());
        let said = format!("{invalid}; scx_bpf_create_dsq(0x9, -1) in `init` creates it");
        assert_eq!(way_out(&said), None);
        assert_eq!(way_out("nobody knows"), None);
    }
}
