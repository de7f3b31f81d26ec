//! Goal: files mean what their reference says. Method: small files with every construct.

#![allow(clippy::unwrap_used)]

use crate::digests::assert_all_differ;
use scenario::machine::{Bus, Distance, Linux, Machine, Release};
use scenario::workload::{
    Amount, Cgroup, Change, ChangeKind, Channel, GroupFile, NO_DEADLINE_NS, Op, Quantiles, Repeat,
    Workload,
};
use scenario::{parse_machine, parse_workload};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn machine(change: impl Fn(&str) -> String) -> Machine {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines/laptop.toml");
    let text = std::fs::read_to_string(path).unwrap();
    parse_machine("m.toml", &change(&text)).unwrap_or_else(|error| panic!("{error}"))
}

fn with_topology(topology: &str) -> Machine {
    machine(|text| text.replace("cores_per_cache = 4\nthreads_per_core = 2", topology))
}

pub(crate) fn workload(text: &str, given: &[(&str, &str)]) -> Workload {
    let given = given.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    parse_workload("some/where/w.toml", text, &given).unwrap_or_else(|error| panic!("{error}"))
}

/// The program of the only task of a file with `program` and the declarations `top`.
fn program(top: &str, program: &str) -> Vec<Op> {
    let text = format!(
        "description = \"d\"\nsource = \"own\"\n{top}\n[[tasks]]\nname = \"a\"\nprogram = {program}"
    );
    let workload = workload(&text, &[]);
    workload.templates[workload.initial[0].template as usize].program.to_vec()
}

#[test]
fn cpus_are_numbered_first_threads_first() {
    let laptop = machine(str::to_string);
    assert_eq!(laptop.cpus.len(), 8);
    assert_eq!(laptop.distance(0, 0), Distance::Same);
    assert_eq!(laptop.distance(0, 4), Distance::Smt);
    assert_eq!(laptop.distance(0, 1), Distance::Cache);
    assert_eq!(laptop.distance(3, 7), Distance::Smt);
}

#[test]
fn sockets_caches_and_nodes_nest() {
    let big = with_topology(
        "numa_nodes = 2\nsockets = 4\ncaches_per_socket = 2\ncores_per_cache = 3\n\
         threads_per_core = 2",
    );
    assert_eq!(big.cpus.len(), 48);
    let of = |cpu: usize| (big.cpus[cpu].core, big.cpus[cpu].cache, big.cpus[cpu].node);
    assert_eq!(of(0), (0, 0, 0));
    assert_eq!(of(5), (5, 1, 0));
    assert_eq!(of(23), (23, 7, 1));
    assert_eq!(of(24), (0, 0, 0));
    assert_eq!(big.distance(0, 3), Distance::Node, "two caches of a socket");
    assert_eq!(big.distance(0, 6), Distance::Node, "two sockets of a node");
    assert_eq!(big.distance(0, 12), Distance::Remote);
}

#[test]
fn a_machine_of_another_size_is_the_one_that_a_file_of_that_size_says() {
    let caches = "caches_per_socket = 2\ncores_per_cache = 2\nthreads_per_core = 2";
    let of = |nodes: u32, sockets: u32| {
        with_topology(&format!("numa_nodes = {nodes}\nsockets = {sockets}\n{caches}"))
    };
    assert_eq!(of(1, 1).with_cpus(24), of(1, 3), "two sockets more");
    assert_eq!(of(2, 2).with_cpus(64), of(8, 8), "which are nodes of their own");
    assert_eq!(of(2, 2).with_cpus(16), of(2, 2), "as it is");
    let first_threads = with_topology("caches_per_socket = 2\ncores_per_cache = 2");
    assert_eq!(of(1, 1).with_cpus(4), first_threads);
    assert_eq!(of(1, 1).with_cpus(11).cpus, of(1, 2).cpus[..11], "a part of the second socket");
    assert_ne!(of(1, 1).with_cpus(4).digest, of(1, 1).digest);
}

#[test]
fn speeds_are_one_for_all_or_one_for_each() {
    let two = |speed: &str| {
        let machine = machine(|text| {
            text.replace("cores_per_cache = 4", "cores_per_cache = 2")
                .replace("threads_per_core = 2", "threads_per_core = 1")
                .replace("speed_permille = 1000", speed)
        });
        machine.cpus.iter().map(|cpu| cpu.speed_permille).collect::<Vec<u32>>()
    };
    assert_eq!(two("speed_permille = 600"), [600, 600]);
    assert_eq!(two("speed_permille = [1000, 400]"), [1000, 400]);
    assert_eq!(two("speed_permille = { value = 600, source = \"own\" }"), [600, 600]);
    assert_eq!(two(""), [1000, 1000]);
}

#[test]
fn turbo_counts_only_where_there_is_one() {
    let with = |more: &str| machine(|text| text.replace("\nhz = ", &format!("\n{more}hz = ")));
    let turbo = |speeds: &str| {
        with(&format!("turbo_permille = {{ value = {speeds}, source = \"own\" }}\n"))
    };
    assert_eq!(turbo("[1300, 1200, 1200]").turbo_permille, [1300, 1200, 1200]);
    assert!(with("").turbo_permille.is_empty());
    assert_ne!(turbo("[1300]").digest, with("").digest);
    assert_ne!(turbo("[1300]").digest, turbo("[1300, 1200]").digest);
}

/// A machine of four cores of two threads with more at the end of its file.
fn with_more(more: &str) -> Machine {
    machine(|text| format!("{text}\n{more}"))
}

#[test]
fn interrupts_come_to_the_cpus_that_are_named() {
    let entry = |cpus: &str| {
        format!(
            "[[interrupts]]\nname = \"n\"\nsource = \"own\"\n{cpus}\n\
             every = \"1.5ms\"\ntakes_ns = 7\n"
        )
    };
    let cpus = |text: &str| with_more(&entry(text)).interrupts.remove(0).cpus;
    let all: Vec<u32> = (0..8).collect();
    for text in ["", "cpus = \"all\"", "cpus = \"0-7\"", "cpus = \"4 - 7, 0-3,2\""] {
        assert_eq!(cpus(text), all, "{text}");
    }
    assert_eq!(cpus("cpus = [5, 2, 5]"), [2, 5]);
    assert_eq!(cpus("cpus = \"6\""), [6]);
    let both = with_more(&(entry("cpus = [1]") + &entry("")));
    let [one, two] = &both.interrupts[..] else { panic!("{:?}", both.interrupts) };
    assert_eq!((one.name.as_str(), one.every_ns, one.takes_ns), ("n", 1_500_000, 7));
    assert_eq!((&one.cpus[..], &two.cpus), (&[1][..], &all));
}

#[test]
fn speeds_change_in_the_order_of_time() {
    let text = "speeds = [{ at = \"0s\", permille = 900 },\n\
                { at = \"1s\", cpus = \"0-3\", permille = 500 },\n\
                { at = \"1s\", cpus = [4], permille = 2000 }]\nhz = ";
    let machine = machine(|all| all.replace("\nhz = ", &format!("\n{text}")));
    let steps: Vec<(u64, usize, u32)> =
        machine.speeds.iter().map(|step| (step.at_ns, step.cpus.len(), step.permille)).collect();
    assert_eq!(steps, [(0, 8, 900), (1_000_000_000, 4, 500), (1_000_000_000, 1, 2000)]);
}

#[test]
fn copies_of_cpus_are_disturbed_as_their_originals_are() {
    let machine = with_more(
        "[[interrupts]]\nname = \"n\"\nsource = \"own\"\ncpus = [1, 4]\nevery = \"1ms\"\n\
         takes_ns = 7\n[[speeds]]\nat = \"1s\"\ncpus = [7]\npermille = 500\n",
    );
    let cpus = |nr_cpus| {
        let Machine { interrupts, speeds, .. } = machine.clone().with_cpus(nr_cpus);
        let of_first = interrupts.first().map(|one| one.cpus.clone());
        (of_first.unwrap_or_default(), speeds.first().map(|step| step.cpus.clone()))
    };
    assert_eq!(cpus(8), (vec![1, 4], Some(vec![7])));
    assert_eq!(cpus(2), (vec![1], None), "whom there is nobody left to disturb");
    // The first threads of two sockets, then the second ones.
    assert_eq!(cpus(16), (vec![1, 5, 8, 12], Some(vec![11, 15])));
}

#[test]
fn a_policy_may_have_its_own_tick_rate() {
    let machine =
        machine(|text| text.replace("[topology]", "[hz_by_policy]\nold = 100\n[topology]"));
    assert_eq!((machine.hz_for("old"), machine.hz_for("new")), (100, 250));
}

#[test]
fn a_policy_may_have_its_own_costs() {
    let old = "[costs_by_policy.old]\nsyscall_ns = { value = 77, source = \"own\" }\n\
               cold_write_ns_per_kib = { value = 5, source = \"own\" }\n[topology]";
    let machine = machine(|text| text.replace("[topology]", old));
    let (usual, costs) = (machine.costs_for("new"), machine.costs_for("old"));
    assert_eq!((costs.syscall_ns, costs.cold_write_ns_per_kib), (77, 5));
    assert_eq!((usual, usual.cold_write_ns_per_kib), (&machine.costs, 0));
    assert_eq!((costs.wakeup_ns, costs.cache_kib), (usual.wakeup_ns, usual.cache_kib));
    assert_eq!(machine.policies().collect::<Vec<_>>(), ["linux_2_4", "o1", "old"]);
    let text = scenario::machine_text(&machine, "written").unwrap();
    let again = scenario::parse_machine("m.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((again.costs_by_policy, again.digest), (machine.costs_by_policy, machine.digest));
}

#[test]
fn the_watchdog_waits_as_long_as_the_kernels_unless_the_machine_says_otherwise() {
    assert_eq!(machine(str::to_string).watchdog_ns, 30_000_000_000);
    let patient = machine(|text| text.replace("\nhz = ", "\nwatchdog_s = 60\nhz = "));
    assert_eq!(patient.watchdog_ns, 60_000_000_000);
}

#[test]
fn a_machine_has_the_sched_ext_of_the_release_that_it_names() {
    assert_eq!(machine(str::to_string).release, None);
    for release in Release::ALL {
        let line = format!("\nsched_ext = \"{release}\"\nhz = ");
        assert_eq!(machine(|text| text.replace("\nhz = ", &line)).release, Some(release));
    }
}

#[test]
fn cpus_share_buses_by_their_caches() {
    let bus = |caches: u32, mb_per_s: u64| {
        format!(
            "[bus]\ncaches = {{ value = {caches}, source = \"own\" }}\n\
             mb_per_s = {{ value = {mb_per_s}, source = \"own\" }}\n[topology]"
        )
    };
    let two = |text: &str| text.replace("cores_per_cache = 4", "sockets = 5\ncores_per_cache = 2");
    let of =
        |caches, mb_per_s| machine(|text| two(text).replace("[topology]", &bus(caches, mb_per_s)));
    let without = machine(two);
    assert_eq!((without.bus, without.bus_of(0)), (None, None));
    let machine = of(2, 30_000);
    assert_eq!(machine.bus, Some(Bus { caches: 2, mb_per_s: 30_000 }));
    let buses = |machine: &Machine| {
        (0..machine.cpus.len()).map(|cpu| machine.bus_of(cpu).unwrap()).collect::<Vec<usize>>()
    };
    assert_eq!(buses(&machine)[..10], [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]);
    assert_eq!(buses(&machine)[10..], buses(&machine)[..10], "second threads");
    assert_eq!(buses(&machine.clone().with_cpus(40))[8..20], [2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4]);
    let digests = [without, of(2, 30_000), of(3, 30_000), of(2, 30_001)].map(|m| m.digest);
    assert_eq!(BTreeSet::from(digests).len(), 4);
}

#[test]
fn every_step_becomes_its_operation() {
    let top = "stop = \"1s\"\n[channels.c]\ncapacity_bytes = 9\n[gates.x]\n[gates.y]\n\
               [templates.child]\nprogram = [\"exit\"]";
    let steps = "[{ run = \"1.5ms\" }, { sleep = \"2us\" }, { send = \"c\", bytes = 7 }, \
         { recv = \"c\", bytes = 8 }, { wake = \"x\" }, { wake_all = \"y\" }, { wait = \"y\" }, \
         \"yield\", { fork = \"child\" }, \"join\", { nice = -5 }, \"mark\", \"exit\", \
         { affinity = [2, 1, 2] }, { affinity = \"all\" }, { affinity = [1, 2] }, \
         { repeat = 3, do = [{ repeat = \"while-children\", do = [{ run = \"1ns\" }] }] }, \
         { repeat = \"forever\", do = [{ sleep = \"1ns\" }] }, { release = \"1ms\" }, \
         { release = { exponential = \"2ns\" }, deadline = \"3ns\" }, \"done\"]";
    let times = |n| Repeat::Times(Amount::Fixed(n));
    assert_eq!(
        program(top, steps),
        [
            Op::Run(Amount::Fixed(1_500_000)),
            Op::Sleep(Amount::Fixed(2_000)),
            Op::Send { channel: 0, bytes: 7 },
            Op::Recv { channel: 0, bytes: 8 },
            Op::Wake { gate: 0 },
            Op::WakeAll { gate: 1 },
            Op::Wait { gate: 1 },
            Op::Yield,
            Op::Fork { template: 0 },
            Op::Join,
            Op::Nice(-5),
            Op::Mark,
            Op::Exit,
            Op::Affinity { set: 0 },
            Op::Affinity { set: 1 },
            Op::Affinity { set: 0 },
            Op::Loop { repeat: times(3), end: 20 },
            Op::Loop { repeat: Repeat::WhileChildren, end: 19 },
            Op::Run(Amount::Fixed(1)),
            Op::End { start: 17 },
            Op::End { start: 16 },
            Op::Loop { repeat: Repeat::Forever, end: 23 },
            Op::Sleep(Amount::Fixed(1)),
            Op::End { start: 21 },
            Op::Release { every: Amount::Fixed(1_000_000), deadline_ns: NO_DEADLINE_NS },
            Op::Release { every: Amount::Exponential { mean: 2 }, deadline_ns: 3 },
            Op::Done,
        ]
    );
}

#[test]
fn every_distribution_can_be_written_for_times_and_counts() {
    let run = |amount: &str| program("", &format!("[{{ run = {amount} }}]"))[0];
    assert_eq!(
        run("{ uniform = [\"1us\", \"2us\"] }"),
        Op::Run(Amount::Uniform { low: 1_000, high: 2_000 })
    );
    assert_eq!(run("{ exponential = \"1us\" }"), Op::Run(Amount::Exponential { mean: 1_000 }));
    assert_eq!(
        run("{ normal = { mean = \"1us\", sd = \"2ns\" } }"),
        Op::Run(Amount::Normal { mean: 1_000, sd: 2 })
    );
    assert_eq!(
        run("{ log_normal = { median = \"1us\", sigma_permille = 500 } }"),
        Op::Run(Amount::LogNormal { median: 1_000, sigma_permille: 500 })
    );
    let list = "[\"1us\", \"2us\", \"3us\", \"4us\", \"5us\", \"6us\", \"7us\", \"8us\", \"9us\"]";
    let recorded = |permille| {
        let at = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        Op::Run(Amount::Recorded(Quantiles { at, unit: 1000, permille }))
    };
    assert_eq!(run(&format!("{{ quantiles = {list} }}")), recorded(1000));
    assert_eq!(run(&format!("{{ quantiles = {{ at = {list}, permille = 7 }} }}")), recorded(7));
    let halves = |amount: &str| {
        program("run_permille = 500", &format!("[{{ run = {amount} }}, {{ sleep = {amount} }}]"))
    };
    assert_eq!(
        halves("\"3us\"")[..2],
        [Op::Run(Amount::Fixed(1_500)), Op::Sleep(Amount::Fixed(3_000))]
    );
    assert_eq!(
        halves("{ uniform = [\"1us\", \"2us\"] }")[0],
        Op::Run(Amount::Uniform { low: 500, high: 1_000 })
    );
    assert_eq!(halves("{ exponential = \"1us\" }")[0], Op::Run(Amount::Exponential { mean: 500 }));
    assert_eq!(
        halves("{ normal = { mean = \"1us\", sd = \"2ns\" } }")[0],
        Op::Run(Amount::Normal { mean: 500, sd: 1 })
    );
    assert_eq!(
        halves("{ log_normal = { median = \"1us\", sigma_permille = 500 } }")[0],
        Op::Run(Amount::LogNormal { median: 500, sigma_permille: 500 })
    );
    assert_eq!(halves(&format!("{{ quantiles = {list} }}"))[0], recorded(500));
    let both = |own: u32, of_all: u32| {
        let amount = format!("{{ quantiles = {{ at = {list}, permille = {own} }} }}");
        program(&format!("run_permille = {of_all}"), &format!("[{{ run = {amount} }}]"))[0]
    };
    for (own, of_all, product) in [(600, 500, 300), (2_500, 1_400, 3_500), (1, 2_000, 2)] {
        assert_eq!(both(own, of_all), recorded(product));
    }
    assert_eq!(both(1_000_000_000, 1_000), recorded(1_000_000_000));
    let repeat = program("", "[{ repeat = { uniform = [2, 4] }, do = [\"yield\"] }]")[0];
    let times = Repeat::Times(Amount::Uniform { low: 2, high: 4 });
    assert_eq!(repeat, Op::Loop { repeat: times, end: 2 });
}

pub(crate) const PAIRS: &str = "description = \"d\"\nsource = \"own\"\n\
    [parameters.pairs]\ndefault = 2\ndoc = \"d\"\n\
    [parameters.work]\ndefault = \"1ms\"\ndoc = \"d\"\n\
    [channels.a]\ncapacity_bytes = 100\n\
    [channels.b]\ncount = \"$pairs\"\ncapacity_bytes = 100\nwake_senders_at_bytes = 20\n\
    overhead_bytes = 3\nsync_wakeups = true\n\
    [[tasks]]\nname = \"own\"\ncount = \"$pairs\"\nstart = \"5ms\"\naddress_space = \"x\"\n\
    program = [{ send = \"b[#]\", bytes = 1 }, { recv = \"b[1]\", bytes = 1 }]\n\
    [[tasks]]\nname = \"same\"\ncount = 3\nnice = 4\ncpus = [2, 0, 2]\nfootprint_kib = 8\n\
    program = [{ run = \"$work\" }, { send = \"a\", bytes = 1 }]\n";

#[test]
fn tasks_of_one_kind_share_a_template_unless_they_use_their_number() {
    let pairs = workload(PAIRS, &[("pairs", "3")]);
    assert_eq!(pairs.templates.len(), 3 + 1);
    let initial: Vec<u32> = pairs.initial.iter().map(|task| task.template).collect();
    assert_eq!(initial, [0, 1, 2, 3, 3, 3]);
    for (i, template) in pairs.templates[..3].iter().enumerate() {
        let own = Op::Send { channel: 1 + i as u32, bytes: 1 };
        assert_eq!(template.program[..], [own, Op::Recv { channel: 2, bytes: 1 }]);
        assert_eq!((template.name.as_str(), template.address_space), ("own", Some(0)));
    }
    let same = &pairs.templates[3];
    assert_eq!((same.nice, same.footprint_kib, same.address_space), (4, 8, None));
    assert_eq!(same.cpus.as_deref(), Some(&[0, 2][..]));
    let anywhere = workload(&PAIRS.replace("[2, 0, 2]", "\"all\""), &[]);
    assert!(anywhere.templates.iter().all(|template| template.cpus.is_none()));
    assert_eq!(pairs.initial[0].start_at_ns, 5_000_000);
    let spread = PAIRS.replace("\"5ms\"", "{ from = \"5ms\", to = \"6ms\" }");
    let starts = workload(&spread, &[("pairs", "3")]).initial;
    let starts_ns: Vec<u64> = starts[..3].iter().map(|task| task.start_at_ns).collect();
    assert_eq!(starts_ns, [5_000_000, 5_333_333, 5_666_666]);
    let plain = Channel {
        capacity_bytes: 100,
        overhead_bytes: 0,
        wake_senders_at_bytes: 99,
        sync_wakeups: false,
    };
    assert_eq!(pairs.channels[0], plain);
    assert_eq!(
        pairs.channels[1..],
        [Channel { wake_senders_at_bytes: 20, overhead_bytes: 3, sync_wakeups: true, ..plain }; 3]
    );
}

#[test]
fn parameters_are_reported_with_their_values_and_defaults() {
    let pairs = workload(PAIRS, &[("work", "7us")]);
    let listed: Vec<(&str, &str)> =
        pairs.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(listed, [("pairs", "2"), ("work", "7us")]);
    assert_eq!((pairs.name.as_str(), pairs.description.as_str()), ("w", "d"));
    assert_eq!(pairs.templates[2].program[0], Op::Run(Amount::Fixed(7_000)));
}

#[test]
fn tasks_are_in_the_cgroups_that_they_name() {
    let text = "description = \"d\"\nsource = \"own\"\n\
        cgroups = [{ path = \"/web\", weight = 300 }, { path = \"/db\", idle = true },\n\
        { path = \"/db/reads\", quota = \"50ms\", period = \"200ms\", burst = \"5ms\" }]\n\
        [templates.child]\nprogram = [\"exit\"]\n\
        [[tasks]]\nname = \"a\"\ncgroup = \"/db/reads\"\nprogram = [{ fork = \"child\" }]\n\
        [[tasks]]\nname = \"b\"\ncgroup = \"/web\"\nprogram = [\"exit\"]\n";
    let workload = workload(text, &[]);
    let [web, db, reads] = &workload.cgroups[..] else { panic!("{:?}", workload.cgroups) };
    assert_eq!(
        (web.weight, web.idle, web.quota_ns, web.period_ns),
        (300, false, None, 100_000_000)
    );
    assert_eq!((db.weight, db.idle, db.place()), (100, true, ("", "db")));
    assert_eq!((reads.quota_ns, reads.burst_ns), (Some(50_000_000), 5_000_000));
    assert_eq!((reads.period_ns, reads.place()), (200_000_000, ("/db", "reads")));
    let groups: Vec<_> = workload.templates.iter().map(|template| template.cgroup).collect();
    assert_eq!(groups, [None, Some(2), Some(0)]);
    let written = scenario::workload_text(&workload.clone().as_written(), "own");
    let again = parse_workload("w.toml", &written, &BTreeMap::new()).unwrap();
    assert_eq!(again.digest, workload.as_written().digest, "{written}");
}

#[test]
fn lines_from_memory_are_read_in_the_order_of_sizes_and_written_as_they_were() {
    let text = |memory: &str| {
        format!(
            "description = \"d\"\nsource = \"own\"\n{memory}\n\
             [[tasks]]\nname = \"a\"\nprogram = [{{ run = \"1ms\" }}]\n"
        )
    };
    let of = |lines: &str| {
        let memory = format!("[memory]\nsource = \"own\"\nlines_per_ms = {{ {lines} }}");
        workload(&text(&memory), &[])
    };
    let with = of("16384 = 0, 512 = 900, 2048 = 300");
    assert_eq!(with.lines_per_ms, [(512, 900), (2048, 300), (16384, 0)]);
    let without = workload(&text(""), &[]);
    assert!(without.lines_per_ms.is_empty());
    let all = [&without, &with, &of("512 = 900"), &of("512 = 901"), &of("513 = 900")];
    assert_all_differ(all.map(|workload| workload.digest.clone()).to_vec());
    let written = scenario::workload_text(&with.clone().as_written(), "own");
    let again = parse_workload("w.toml", &written, &BTreeMap::new()).unwrap();
    assert_eq!(again.digest, with.as_written().digest, "{written}");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let builtin = std::fs::read_to_string(root.join("workloads/counter.toml")).unwrap()
        + "[memory]\nsource = \"own\"\nlines_per_ms = { 512 = 900 }\n";
    assert_eq!(workload(&builtin, &[]).lines_per_ms, [(512, 900)]);
}

#[test]
fn cgroups_change_and_tasks_move_at_their_times() {
    let text = "description = \"d\"\nsource = \"own\"\n\
        [[cgroups]]\npath = \"/a\"\nquota = \"50ms\"\nburst = \"5ms\"\n\
        [[cgroups.changes]]\nat = \"20ms\"\nquota = \"max\"\nburst = \"0s\"\nidle = true\n\
        [[cgroups.changes]]\nat = \"10ms\"\nweight = 3\nquota = \"4ms\"\nburst = \"4ms\"\n\
        [[moves]]\nat = \"20ms\"\ntask = \"t\"\ncgroup = \"/a\"\n\
        [[tasks]]\nname = \"t\"\nprogram = [{ move = \"/a\" }, { move = \"/\" }]\n";
    let workload = workload(text, &[]);
    assert_eq!(
        workload.templates[0].program[..],
        [Op::Move { to: Some(0) }, Op::Move { to: None }]
    );
    let [first, moved, second] = &workload.changes[..] else { panic!("{:?}", workload.changes) };
    assert_eq!((first.at_ns, moved.at_ns, second.at_ns), (10_000_000, 20_000_000, 20_000_000));
    assert_eq!(moved.what, ChangeKind::Move { task: "t".to_string(), to: Some(0) });
    let of = |change: &Change| match &change.what {
        ChangeKind::Cgroup { number: 0, now } => now.clone(),
        other => panic!("{other:?}"),
    };
    let (before, first, second) = (&workload.cgroups[0], of(first), of(second));
    let first_is =
        Cgroup { weight: 3, quota_ns: Some(4_000_000), burst_ns: 4_000_000, ..before.clone() };
    assert_eq!(first, first_is);
    assert_eq!(second, Cgroup { quota_ns: None, burst_ns: 0, idle: true, ..first_is });
    let files = |before: &Cgroup, now: &Cgroup| {
        before.steps_to(now).into_iter().map(|(file, _)| file).collect::<Vec<_>>()
    };
    use GroupFile::{Burst, Idle, Max, Weight};
    assert_eq!(files(before, &first), [Weight, Burst, Max], "the burst falls below the quota");
    assert_eq!(files(&first, &second), [Burst, Max, Idle]);
    assert_eq!(files(&second, before), [Idle, Weight, Max, Burst], "not while it is idle");
    let written = scenario::workload_text(&workload.clone().as_written(), "own");
    let again = parse_workload("w.toml", &written, &BTreeMap::new()).unwrap();
    assert_eq!(again.digest, workload.as_written().digest, "{written}");
}

#[test]
fn versions_of_linux_are_ordered_by_their_numbers_and_read_as_they_are_written() {
    let named = |name: &str| Linux::named(name);
    let versions = ["2.4", "2.6", "2.6.10", "2.6.11", "2.6.31", "3.6", "5.5", "5.6", "6.12"];
    for pair in versions.windows(2) {
        assert!(named(pair[0]) < named(pair[1]), "{pair:?}");
    }
    for version in versions {
        assert_eq!(named(version).unwrap().to_string(), version);
    }
    for wrong in ["", "6", "6.", "6.12.1.1", "06.12", "+6.12", "6.12-rc1", "6.70000", "v6.12"] {
        assert_eq!(named(wrong), None, "{wrong}");
    }
    let told = versions.map(named).map(|version| version.unwrap());
    let told = told.map(|version| (version.pipe_bytes() >> 12, version.wakes_synchronously()));
    let [old, grown, today] = [(1, false), (16, false), (16, true)];
    assert_eq!(told, [old, old, old, grown, today, today, today, today, today]);
}

/// A chain of templates of which each forks the next, and tasks of some of them, in this order.
fn forking_chain(nr: usize, tasks: &[usize]) -> String {
    let mut text = "description = \"d\"\nsource = \"own\"\n".to_owned();
    for number in 0..nr {
        let fork = if number + 1 < nr {
            format!("{{ fork = \"t{}\" }}", number + 1)
        } else {
            "\"exit\"".to_owned()
        };
        text += &format!("[templates.t{number}]\nprogram = [{fork}]\n");
    }
    for task in tasks {
        let program = format!("[{{ fork = \"t{task}\" }}]");
        text += &format!("[[tasks]]\nname = \"r{task}\"\nprogram = {program}\n");
    }
    text
}

#[test]
fn forks_go_as_deep_whichever_task_comes_first() {
    for (nr, is_allowed) in [(63, true), (64, false), (70, false)] {
        for tasks in [&[0][..], &[0, 30], &[30, 0]] {
            let read = parse_workload("w.toml", &forking_chain(nr, tasks), &BTreeMap::new());
            assert_eq!(read.is_ok(), is_allowed, "{nr} templates, tasks that fork {tasks:?}");
        }
    }
}
