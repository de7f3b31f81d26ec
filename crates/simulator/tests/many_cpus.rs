//! Goal: a machine may have 4,096 CPUs, and all that names CPUs knows them. Method: tasks bound to
//! the last CPUs, on machines with as many; calls on masks whose answers follow from the CPUs that
//! were put into them, translated, interpreted and strict; a machine with one CPU more.

use crate::support::*;
use scenario::machine::Machine;
use simulator::{Options, Status, simulate};

const CPUS: usize = 4096;

/// Nodes of 64 CPUs, each of which has two caches.
fn many(nr_cpus: usize) -> Machine {
    let mut machine = costless(nr_cpus, 1000);
    for (number, cpu) in machine.cpus.iter_mut().enumerate() {
        (cpu.cache, cpu.node) = (number as u32 / 32, number as u32 / 64);
    }
    machine
}

#[test]
fn a_task_bound_to_the_last_cpu_runs_there_under_every_policy() {
    let text = r#"
        [[tasks]]
        name = "last"
        cpus = [4095]
        program = [{ repeat = 3, do = [{ run = "1ms" }, { sleep = "1ms" }] }]
        [[tasks]]
        name = "beyond"
        cpus = [1023, 1024]
        count = 4
        program = [{ repeat = 3, do = [{ run = "1ms" }, { sleep = "1ms" }] }]
        [[tasks]]
        name = "moves"
        program = [{ run = "1ms" }, { affinity = [2048] }, { run = "1ms" }, { affinity = "all" }]
        [[tasks]]
        name = "any"
        count = 1100
        program = [{ run = "1ms" }]
    "#;
    let machine = many(CPUS);
    // o1 keeps a number for each pair of CPUs, and refuses so many.
    for policy in POLICIES.iter().filter(|&&policy| policy != "o1") {
        let result = outcome(policy, &machine, &parsed(text), None, &[]);
        assert_eq!(result.status, Status::Completed, "{policy}");
        let ran_on = |name| {
            let mut cpus: Vec<u32> = stays(&result, name).iter().map(|stay| stay.2).collect();
            cpus.sort_unstable();
            cpus.dedup();
            cpus
        };
        assert_eq!(ran_on("last"), [4095], "{policy}");
        assert!(ran_on("beyond").iter().all(|cpu| [1023, 1024].contains(cpu)), "{policy}");
        assert!(ran_on("moves").contains(&2048), "{policy}");
        assert!(*ran_on("any").last().expect("they run") > 1023, "{policy}");
    }
}

#[test]
fn calls_on_masks_know_cpus_beyond_the_thousandth() {
    let policy = compile_text(
        r#"#include <scx/common.bpf.h>
        char _license[] SEC("license") = "GPL";
        #define CHECK(what) if (!(what)) scx_bpf_error("not so: %s", #what)
        #define OF(own) ((const struct cpumask *)own)

        void BPF_STRUCT_OPS(masks_enqueue, struct task_struct *p, u64 enq_flags)
        {
            struct bpf_cpumask *a = bpf_cpumask_create(), *b = bpf_cpumask_create();
            const struct cpumask *all = scx_bpf_get_possible_cpumask();

            if (!a || !b)
                return;
            bpf_cpumask_set_cpu(1500, a);
            bpf_cpumask_set_cpu(4095, a);
            bpf_cpumask_set_cpu(4096, a);
            CHECK(bpf_cpumask_test_cpu(1500, OF(a)) && bpf_cpumask_test_cpu(4095, OF(a)));
            CHECK(!bpf_cpumask_test_cpu(1501, OF(a)) && !bpf_cpumask_test_cpu(4096, OF(a)));
            CHECK(bpf_cpumask_first(OF(a)) == 1500 && bpf_cpumask_weight(OF(a)) == 2);
            bpf_cpumask_set_cpu(4095, b);
            CHECK(bpf_cpumask_subset(OF(b), OF(a)) && !bpf_cpumask_subset(OF(a), OF(b)));
            CHECK(bpf_cpumask_first_and(OF(a), OF(b)) == 4095);
            CHECK(bpf_cpumask_and(b, OF(a), OF(b)) && bpf_cpumask_first(OF(b)) == 4095);
            bpf_cpumask_clear_cpu(4095, a);
            CHECK(!bpf_cpumask_intersects(OF(a), OF(b)));
            bpf_cpumask_or(b, OF(a), OF(b));
            CHECK(bpf_cpumask_weight(OF(b)) == 2 && bpf_cpumask_first(OF(b)) == 1500);
            CHECK(bpf_cpumask_weight(all) == 4096 && bpf_cpumask_full(all));
            bpf_cpumask_setall(a);
            CHECK(bpf_cpumask_equal(OF(a), all));
            CHECK(bpf_cpumask_weight(p->cpus_ptr) == 1 && bpf_cpumask_first(p->cpus_ptr) == 4094);
            CHECK(bpf_cpumask_test_cpu(4094, &p->cpus_mask));
            CHECK(scx_bpf_pick_any_cpu(&p->cpus_mask, 0) == 4094);
            bpf_cpumask_release(a);
            bpf_cpumask_release(b);
            scx_bpf_put_cpumask(all);
            scx_bpf_error("all is so");
        }
        SCX_OPS_DEFINE(masks_ops, .enqueue = (void *)masks_enqueue, .name = "masks");
        "#,
    );
    let workload =
        parsed("[[tasks]]\nname = \"t\"\ncpus = [4094]\nprogram = [{ run = \"1ms\" }]\n");
    let (interpreted, strict) = (true, true);
    for options in [
        Options::default(),
        Options { interpreted, ..Options::default() },
        Options { strict, ..Options::default() },
    ] {
        let result = attempt_with(&policy, &many(CPUS), &workload, &options);
        let said = result.error.expect("it says so").message;
        assert_eq!(said, "scx_bpf_error (all is so)");
    }
}

#[test]
fn a_machine_of_one_cpu_more_is_refused() {
    let workload = parsed("[[tasks]]\nname = \"t\"\nprogram = [{ run = \"1ms\" }]\n");
    let refused = simulate(&shipped("fifo"), &many(CPUS + 1), &workload, &Options::default());
    let said = refused.expect_err("it is too large").to_string();
    assert_eq!(said, "machine costless-4097 has 4097 CPUs; 1 to 4096 can be simulated");
}
