//! Goal: what a loader's file says stands in a copy as the object has it, for any machine, and what
//! it cannot say is refused by name. Method: files for one small policy.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;

use crate::workshop::{EVERYTHING, Workshop, bytes, headers, settings};
use policy::{Call, Loaded, Loader, Policy, PolicyError, Processor, Topology, plan_behind};

/// Two caches of two cores, of which the first two have two threads each; the last two are slow.
fn machine() -> Topology {
    let cpu = |core, llc, speed| Processor { core, llc, node: 9, speed };
    let cpus = [(7, 4, 800), (7, 4, 800), (8, 4, 800), (8, 4, 800), (3, 5, 400), (2, 5, 400)];
    Topology::new(cpus.map(|(core, llc, speed)| cpu(core, llc, speed)).to_vec())
}

/// The policy of one of everything, with arrays of different kinds, and a file `said` beside it.
fn policy(said: &str) -> Result<Policy, PolicyError> {
    policy_with("", said)
}

/// The same, with `besides` in it.
fn policy_with(besides: &str, said: &str) -> Result<Policy, PolicyError> {
    let more = "
struct place { u32 llc; struct { s16 near[2]; }; u32 bit : 1; };
const volatile struct place places[8];
const volatile u64 masks[4][2];
const volatile char motto[6];
u64 counts[3];
u32 grown[1] SEC(\".data.grown\");
const volatile u32 shrunk[16] SEC(\".rodata.shrunk\");
SEC(\"syscall\") int begin(struct place *given) { return given->llc; }
struct given { u64 size; u64 at; };
SEC(\"syscall\") int make(struct given *given) { return given->at; }
SEC(\"syscall\") int take(struct given *given) { return given->at; }
";
    let workshop = Workshop::new();
    let source = workshop.path().join("everything.bpf.c");
    fs::write(&source, format!("{EVERYTHING}{more}{besides}")).unwrap();
    fs::write(workshop.path().join("everything.loader.toml"), said).unwrap();
    workshop.take(&source, &headers(), &workshop.objects())
}

fn loaded(said: &str) -> Result<Loaded, PolicyError> {
    policy(said)?.load(&BTreeMap::new(), &[], &machine())
}

fn numbers(loaded: &Loaded, name: &str) -> Vec<i64> {
    let of = |four: &[u8]| i64::from(i32::from_le_bytes(four.try_into().unwrap()));
    bytes(loaded, name).chunks_exact(4).map(of).collect()
}

#[test]
fn numbers_lists_and_masks_are_those_of_the_machine() {
    let said = "
[variables]
counts = \"sibling_of_cpu\"
bias = \"-nr_llcs * nr_nodes\"
small = \"has_smt + 2 * has_little_cpus + 4 * has_numa\"
mode = \"EAGER\"
motto = \"slow\"
masks = \"mask_of_llc\"
slice_ns = \"7us\"
places = { each = \"cpu\", value = { llc = \"llc\", near = [\"core\", \"capacity\"] } }
";
    let error = loaded(said).unwrap_err().to_string();
    assert!(error.contains("counts = \"sibling_of_cpu\" are 6 elements, and it has 3"), "{error}");
    let loaded = loaded(&said.replace("counts = \"sibling_of_cpu\"\n", "")).unwrap();
    assert_eq!(bytes(&loaded, "bias"), (-2_i32).to_le_bytes());
    assert_eq!((bytes(&loaded, "small"), bytes(&loaded, "mode")), (vec![3], vec![7, 0, 0, 0]));
    assert_eq!(bytes(&loaded, "motto"), b"slow\0\0");
    assert_eq!(bytes(&loaded, "slice_ns"), 7_000_u64.to_le_bytes());
    let masks = bytes(&loaded, "masks");
    assert_eq!((masks[0], masks[16], masks.iter().filter(|byte| **byte > 0).count()), (15, 48, 2));
    let halves = |low: i64, high: i64| high << 16 | low;
    let places = numbers(&loaded, "places");
    let expected = [
        [0, halves(0, 1024)],
        [0, halves(0, 1024)],
        [0, halves(1, 1024)],
        [0, halves(1, 1024)],
        [1, halves(2, 512)],
        [1, halves(3, 512)],
    ];
    let found: Vec<[i64; 2]> = places.chunks_exact(3).map(|one| [one[0], one[1]]).collect();
    assert_eq!(found[..6], expected);
}

#[test]
fn sizes_entries_and_calls_are_as_the_file_has_them() {
    let said = "
[lengths]
grown = \"nr_cpus\"
[variables]
grown = \"cpus_by_capacity\"
\"counts[2]\" = 5
\"places[1].near[0]\" = -2
[maps.table]
max_entries = \"nr_cpus * 2\"
entries = [{ each = \"llc\", key = \"llc\", value = \"cpu\" }]
[maps.per_cpu]
entries = [{ key = 2, value = { each = \"cpu\", value = [1, \"cpu\"] } }]
[ops]
timeout_ms = 1234
[[call]]
program = \"begin\"
each = \"sibling\"
context = { llc = \"sibling\" }
[[call]]
program = \"begin\"
attached = true
cpu = \"nr_cpus - 1\"
";
    let loaded = loaded(said).unwrap();
    assert_eq!(numbers(&loaded, "grown"), [0, 1, 2, 3, 4, 5]);
    assert_eq!(bytes(&loaded, "counts")[8..], [0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes(&loaded, "places")[12..20], [0, 0, 0, 0, 0xfe, 0xff, 0, 0]);
    let map = |name: &str| loaded.object.maps.iter().position(|map| map.name == name).unwrap();
    assert_eq!(loaded.object.maps[map("table")].entries_max, 12);
    let first: Vec<_> =
        loaded.entries.iter().map(|one| (one.map, one.key[0], one.values.len())).collect();
    assert_eq!(first, [(map("per_cpu"), 2, 6), (map("table"), 0, 1), (map("table"), 1, 1)]);
    assert_eq!(loaded.entries[0].values[3][8..16], 3_u64.to_le_bytes());
    assert_eq!(loaded.entries[2].values[0][..4], 4_u32.to_le_bytes());
    let table = &loaded.object.tables[loaded.operations].values;
    assert_eq!(table["timeout_ms"], 1234_u32.to_le_bytes());
    let calls: Vec<_> = loaded.calls.iter().map(|call| (call.context[0], call.cpu)).collect();
    assert_eq!(calls, [(1, None), (0, None), (3, None), (2, None), (0, Some(5))]);
    assert!(loaded.calls[4].is_attached && !loaded.calls[0].is_attached);
}

#[test]
fn words_tell_how_many_are_together() {
    let said = "[variables]\nplaces = [{ near = [\"cpus_per_core\", \"cpus_per_llc\"] }, \
        { near = [\"cores_per_llc\", \"llcs_per_node\"] }]\n\
        masks = { each = \"llc\", value = [\"llc_cpus\", \"llc_mask\"] }";
    let loaded = loaded(said).unwrap();
    let halves = |low: i64, high: i64| high << 16 | low;
    let places = numbers(&loaded, "places");
    assert_eq!([places[1], places[4]], [halves(2, 4), halves(2, 2)]);
    assert_eq!(numbers(&loaded, "masks")[..8], [4, 0, 15, 0, 2, 0, 48, 0]);
}

#[test]
fn lists_are_in_the_order_of_what_is_near() {
    let list = |word: &str| {
        let said = format!(
            "[variables]\nshrunk = \"{word}\"\n\"shrunk[6:]\" = {{ each = 10, value = 9 }}"
        );
        let numbers = numbers(&loaded(&said).unwrap(), "shrunk");
        assert_eq!(numbers[6..], [9; 10], "{word}");
        numbers[..6].to_vec()
    };
    assert_eq!(list("cpus_by_core"), [0, 1, 2, 3, 4, 5]);
    // The first thread of each core, the fastest first; then the second ones.
    assert_eq!(list("cpus_by_thread"), [0, 2, 4, 5, 1, 3]);
    assert_eq!(list("other_cpus")[..5], [1, 2, 3, 4, 5]);
    assert_eq!((list("llcs")[..2].to_vec(), list("other_llcs")[0]), (vec![0, 1], 1));
    assert_eq!((list("near_llcs")[0], list("far_llcs")[0], list("other_nodes")[0]), (1, 0, 0));
    let said = "[variables]\nplaces = [{ near = [\"total_capacity - 5000\", \"node_cpus\"] }]";
    assert!(loaded(said).is_err(), "node_cpus is of a CPU");
    let near = "{ near = [\"core_cpus\", \"node_llcs\"] }";
    let of_cpus = format!("places = {{ each = \"cpu\", value = {near} }}");
    let said = format!("[variables]\nbias = \"total_capacity\"\n{of_cpus}");
    let loaded = loaded(&said).unwrap();
    let halves = |low: i64, high: i64| high << 16 | low;
    let places = numbers(&loaded, "places");
    assert_eq!([places[1], places[13]], [halves(2, 2), halves(1, 2)]);
    assert_eq!(bytes(&loaded, "bias"), 5120_u32.to_le_bytes());
}

#[test]
fn what_another_program_makes_is_filled_for_each() {
    let said = "[[call]]\nprogram = \"take\"\neach = \"llc\"\ncontext.size = \"llc\"\n\
        context.at = { program = \"make\", of = \"place\", value = { llc = \"llc + 7\" } }";
    let loaded = loaded(said).unwrap();
    let called = |call: &Call| &loaded.object.functions[call.function].name[..];
    assert_eq!(loaded.calls.len(), 2);
    for (call, llc) in loaded.calls.iter().zip(0..) {
        assert_eq!((called(call), &call.context[..8]), ("take", &[llc, 0, 0, 0, 0, 0, 0, 0][..]));
        let [made] = &call.made[..] else { panic!("{call:?}") };
        assert_eq!((called(&made.by), made.from, made.to), ("make", 8, 8));
        assert_eq!(made.pieces, [(0, vec![llc + 7, 0, 0, 0])]);
    }
    for (from, to, why) in [
        ("\"make\"", "\"made\"", "there is no program made of section syscall"),
        ("\"place\"", "\"palace\"", "at: there is no structure palace"),
        ("\"make\"", "\"begin\"", "the context of begin has no number at of 8 bytes"),
        ("context.at", "context.it", "has no member it"),
        ("llc =", "lcc =", "at has no member lcc; did you mean llc?"),
    ] {
        let error = self::loaded(&said.replace(from, to)).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(why), "{why}: {error}");
    }
}

#[test]
fn what_a_machine_has_none_of_has_no_value_and_arrays_may_be_shorter() {
    let said = "[maps.per_cpu]
entries = [{ key = 1, value = { each = \"sibling\", value = [1, 2] } }]";
    let alone = Processor { core: 0, llc: 0, node: 0, speed: 1 };
    let policy_of = |said: &str| policy(said).unwrap();
    let error = policy_of(said).load(&BTreeMap::new(), &[], &Topology::new(vec![alone]));
    let error = error.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("the machine has none of what it is for each of"), "{error}");
    let shorter = loaded("[lengths]\nshrunk = 2\n[variables]\nshrunk = [1, 2]").unwrap();
    assert_eq!(numbers(&shorter, "shrunk"), [1, 2]);
    let mut sections = shorter.object.data.iter().zip(&shorter.data);
    assert!(sections.all(|(section, begins)| begins.len() <= section.len));
}

#[test]
fn a_variable_in_a_section_of_zeros_costs_its_own_bytes() {
    let said = "[variables]\ncounts = [0, 0, 7]\n\"far[200000]\" = 9";
    let policy = policy_with("u32 far[1 << 24];\n", said).unwrap();
    let loaded = policy.load(&BTreeMap::new(), &[], &machine()).unwrap();
    let of = |name: &str| {
        let mut sections = loaded.object.data.iter().zip(&loaded.data);
        let found = sections.find(|(section, _)| section.variables.contains_key(name)).unwrap();
        (found.0.bytes.len(), found.0.len >= 4 << 24, found.1.len())
    };
    assert_eq!((of("far"), of("counts")), ((0, true, 0), (0, true, 0)));
    assert_eq!(loaded.writes.iter().map(|write| write.bytes.len()).sum::<usize>(), 4 + 3 * 8);
    assert_eq!(bytes(&loaded, "counts")[16..], 7_u64.to_le_bytes());
    assert_eq!(bytes(&loaded, "far")[4 * 200_000..][..4], 9_u32.to_le_bytes());
}

#[test]
fn who_sets_a_tunable_sets_it_and_what_the_machine_decides_is_none() {
    let said = "[variables]\nslice_ns = \"7us\"\nsmall = \"nr_cpus\"\n";
    let policy = policy(said).unwrap();
    let default = |name| policy.tunables.iter().find(|one| one.name == name).map(|one| one.default);
    assert_eq!(
        (default("slice_ns"), default("small"), default("bias")),
        (Some(7_000), None, Some(-5))
    );
    let loaded = policy.load(&settings(&[("slice_ns", 9)]), &[], &machine()).unwrap();
    assert_eq!(bytes(&loaded, "slice_ns"), 9_u64.to_le_bytes());
    assert_eq!(bytes(&loaded, "small"), [6]);
}

#[test]
fn what_cannot_be_is_refused_by_its_name() {
    let cases = [
        ("[variable]", "unknown key variable; did you mean variables?"),
        ("[variables]\nbios = 1", "there is no variable bios; did you mean bias?"),
        (
            "[variables]\nsmall = 256",
            "small = 256 is 256, outside what its type can hold (0 to 255)",
        ),
        (
            "[variables]\nsmall = \"cpu\"",
            "small = \"cpu\": cpu is not known there\nhint: it is known in what is made for each",
        ),
        ("[variables]\nsmall = \"nr_cpu + 1\"", "known there; did you mean nr_cpus?"),
        ("[variables]\nmode = \"EAGR\"", "did you mean EAGER?"),
        ("[variables]\nsmall = \"1 + * 2\"", "a number is missing before \"* 2\""),
        ("[variables]\nsmall = \"cheeses\"", "hint: words are those of the machine"),
        ("[variables]\nfair = 1.5", "fair = 1.5 is no number"),
        (
            "[variables]\nslice_ns = \"9223372036854775807 * 4\"",
            "outside what its type can hold (0 to 18446744073709551615)",
        ),
        ("sources = []", "sources is empty"),
        ("sources = [\"everything.loader.toml\"]", "everything.loader.toml is no source"),
        ("[variables]\n\"counts[3]\" = 1", "counts has 3 elements"),
        ("[variables]\n\"bias.x\" = 1", "bias is no structure, so there is no bias.x"),
        ("[variables]\n\"places[0].lcc\" = 1", "has no member lcc; did you mean llc?"),
        ("[variables]\n\"places[0].bit\" = 1", "bit is a bit field"),
        ("[variables]\nmotto = \"longer\"", "has more than 5 bytes"),
        ("[variables]\ncounts = \"cpu_of_cup\"", "is no list"),
        (
            "[variables]\ncounts = { each = 65537, value = 1 }",
            "counts: each = 65537 is no number from 0 to 65536, how often a list may have one",
        ),
        ("[lengths]\nnr_calls = 4", "nr_calls is not an array at the end of section .bss"),
        ("[lengths]\ngrown = 0", "grown cannot have 0 elements"),
        ("[maps.tabel]", "there is no map tabel; did you mean table?"),
        ("[maps.table]\nentries = [{ key = 1 }]", "[maps.table]: entries[0] has no value"),
        ("[maps.task_ctxs]\nentries = [{ key = 1, value = 2 }]", "cannot be filled"),
        ("[maps.table]\ninner_maps = 1", "inner_maps = 1: it is no map of maps"),
        ("[maps.table]\ninner_maps = 9999", "inner_maps = 9999: it has room for"),
        ("[ops]\nname = 1", "the operations have no number name"),
        ("[ops]\nflags = 0x200000", "unknown bits"),
        ("[[call]]\nprogram = \"begun\"", "did you mean begin?"),
        ("[[call]]\nprogram = \"begin\"\neach = \"socket\"", "each = \"socket\" is no group"),
        ("[[call]]\nprogram = \"begin\"\ncpu = 6", "there are 6 CPUs"),
    ];
    for (said, why) in cases {
        let error = loaded(said).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(why), "{said}: {error}");
    }
}

#[test]
fn entries_of_a_file_have_a_limit_together() {
    let list = format!("[{}]", vec!["1"; 4096].join(", "));
    let entries = format!("{{ each = \"cpu\", key = \"cpu\", value = {list} }}");
    let said = format!("[maps.large]\nentries = [{}]", vec![entries; 80].join(",\n"));
    let cpu = Processor { core: 0, llc: 0, node: 0, speed: 1 };
    let large = "struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 9);
        __type(key, u64); __type(value, u64[4096]); } large SEC(\".maps\");";
    let policy = policy_with(large, &said).unwrap();
    assert!(policy.load(&BTreeMap::new(), &[], &Topology::new(vec![cpu; 2])).is_ok());
    let error = policy.load(&BTreeMap::new(), &[], &Topology::new(vec![cpu; 64]));
    let error = error.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("of the file take more than 64 MiB\nhint: "), "{error}");
}

#[test]
fn what_a_file_repeats_has_the_same_limit() {
    let many = "u64 many[65536]; struct page { u64 words[512]; };
        struct page *page(void) { return (struct page *)many; }
        struct inner { __uint(type, 27); __uint(max_entries, 4096); };
        struct { __uint(type, 12); __uint(max_entries, 3000000); __type(key, u32);
            __array(values, struct inner); } rings SEC(\".maps\");";
    let words = format!("[{}]", vec!["1"; 512].join(", "));
    let made = format!("{{ program = \"make\", of = \"page\", value = {{ words = {words} }} }}");
    let again =
        |from: u32| format!("\"many[{from}:]\" = {{ each = {}, value = 1 }}\n", 65536 - from);
    let cpu = Processor { core: 0, llc: 0, node: 0, speed: 1 };
    let machine = Topology::new(vec![cpu; 4096]);
    // As much as a scheduler of Linux has in queues.
    let policy = policy_with(many, "[maps.rings]\ninner_maps = 16384").unwrap();
    policy.load(&BTreeMap::new(), &[], &machine).unwrap();
    let policy = policy_with(many, "[maps.rings]\ninner_maps = 65537").unwrap();
    let error = policy.load(&BTreeMap::new(), &[], &machine).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("inner_maps = 65537: they hold more than 256 MiB\nhint: "), "{error}");
    for said in [
        &format!("[variables]\n{}", (0..12).map(again).collect::<String>()),
        &format!("[[call]]\nprogram = \"take\"\neach = \"cpu\"\ncontext.at = {made}"),
    ] {
        let error = policy_with(many, said).unwrap().load(&BTreeMap::new(), &[], &machine);
        let error = error.map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("of the file take more than 64 MiB\nhint: "), "{error}");
    }
    let said = format!("[variables]\ncounts = {{ each = 65536, value = {words} }}");
    let error = loaded(&said).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("... are 65536 elements, and it has 3\nhint"), "{error}");
    assert!(error.len() < 500, "{error}");
}

/// The file lies behind the object that a kernel is given, so that both are one policy.
#[test]
fn an_object_in_the_cache_has_its_file_behind_it() {
    let workshop = Workshop::new();
    let plain = workshop.build("everything", EVERYTHING).unwrap();
    let path = workshop.path().join("other.loader.toml");
    fs::write(&path, "object = \"everything.bpf.c\"\n[variables]\nbias = 3\n").unwrap();
    let policy = workshop.take(&path, &headers(), &workshop.objects()).unwrap();
    assert_eq!((&policy.name[..], &policy.source), ("other", &path));
    assert_ne!(policy.digest, plain.digest);
    let file = fs::read(&policy.object_path).unwrap();
    assert!(Loader::behind(&fs::read(&plain.object_path).unwrap()).unwrap().is_none());
    let plan = plan_behind(&file, &machine()).unwrap().unwrap();
    assert_eq!(plan.writes.iter().map(|one| &one.variable).collect::<Vec<_>>(), ["bias"]);
    // So it is the same policy where nothing else is there.
    let alone = workshop.path().join("alone/other.bpf.o");
    fs::create_dir(alone.parent().unwrap()).unwrap();
    fs::write(&alone, &file).unwrap();
    let found = Policy::read(&alone).unwrap();
    assert_eq!((&found.digest, found.tunables.len()), (&policy.digest, policy.tunables.len()));
    let plan_of = |policy: &Policy| {
        let loaded = policy.load(&BTreeMap::new(), &[], &machine()).unwrap();
        format!("{:?} {:?}", loaded.data, loaded.writes)
    };
    assert_eq!(plan_of(&found), plan_of(&policy));
    fs::write(&path, "[variables]\n").unwrap();
    let error = workshop.take(&path, &headers(), &workshop.objects()).unwrap_err().to_string();
    assert!(error.contains("neither other.bpf.o nor other.bpf.c"), "{error}");
}

#[test]
fn a_table_in_a_table_that_has_too_much_is_named_with_the_limit() {
    let said = "[variables]\nwide = { each = 64, value = { each = 65536, value = 1 } }";
    let policy = policy_with("u8 wide[64][65536];", said).unwrap();
    let error = policy.load(&BTreeMap::new(), &[], &machine()).map(|_| ()).unwrap_err().to_string();
    let named = "wide, up to wide[32][0], has more than 2097152 numbers and texts\nhint: ";
    assert!(error.contains(named), "{error}");
}
