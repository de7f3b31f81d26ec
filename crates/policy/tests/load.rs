//! Goal: every loaded copy is private, set as asked, and understood alike by both sides.
//! Method: policies that write what they see into globals, which the test reads back.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ptr;
use std::thread;

use crate::workshop::{
    COUNTING, EVERYTHING, Workshop, call_init, compilers, native, number, settings,
};
use policy::abi::{self, Map};
use policy::{Policy, PolicyError};

const THREADS: u64 = 4;
const LOADS_IN_A_ROW: u32 = 200;

fn counting() -> Policy {
    Workshop::new("cc").build("counting", COUNTING).unwrap()
}

#[test]
fn copies_alive_at_once_share_no_global() {
    for compiler in compilers() {
        let policy = Workshop::new(compiler).build("counting", COUNTING).unwrap();
        let one = native(policy.load(&BTreeMap::new(), &[]).unwrap());
        let ten = native(policy.load(&settings(&[("step", 10)]), &[]).unwrap());
        assert_ne!(one.ops, ten.ops);
        assert_eq!((call_init(&one), call_init(&ten), call_init(&one)), (1, 10, 2), "{compiler}");
        assert_eq!((number(&one, "count"), number(&ten, "count")), (2, 10), "{compiler}");
    }
}

#[test]
fn each_load_starts_anew_however_many_came_before() {
    let policy = counting();
    for _ in 0..LOADS_IN_A_ROW {
        let loaded = native(policy.load(&BTreeMap::new(), &[]).unwrap());
        assert_eq!(call_init(&loaded), 1);
    }
}

#[test]
fn a_copy_outlives_its_neighbours_of_either_age() {
    let policy = counting();
    let older = native(policy.load(&BTreeMap::new(), &[]).unwrap());
    let middle = native(policy.load(&settings(&[("step", 3)]), &[]).unwrap());
    drop(older);
    let younger = native(policy.load(&settings(&[("step", 5)]), &[]).unwrap());
    assert_eq!((call_init(&middle), call_init(&younger)), (3, 5));
    drop(younger);
    assert_eq!(call_init(&middle), 6);
}

#[test]
fn threads_load_run_and_unload_without_meeting() {
    let policy = counting();
    thread::scope(|scope| {
        for step in 1..=THREADS {
            let policy = &policy;
            scope.spawn(move || {
                for _ in 0..LOADS_IN_A_ROW {
                    let step_setting = settings(&[("step", step as i64)]);
                    let loaded = native(policy.load(&step_setting, &[]).unwrap());
                    for calls in 1..=3 {
                        assert_eq!(call_init(&loaded) as u64, calls * step);
                    }
                }
            });
        }
    });
}

#[test]
fn a_copy_may_be_used_by_another_thread_than_loaded_it() {
    let loaded = native(counting().load(&BTreeMap::new(), &[]).unwrap());
    let loaded = thread::spawn(move || {
        call_init(&loaded);
        loaded
    });
    assert_eq!(number(&loaded.join().unwrap(), "count"), 1);
}

#[test]
fn the_policy_sees_tunables_arrays_and_maps() {
    for compiler in compilers() {
        let policy = Workshop::new(compiler).build("everything", EVERYTHING).unwrap();
        let cores: Vec<u8> = [4_u16, 77].iter().flat_map(|core| core.to_ne_bytes()).collect();
        let offers = [("topology_core", cores.as_slice()), ("not_declared", &[1])];
        let mut loaded =
            native(policy.load(&settings(&[("bias", -70_000), ("small", 255)]), &offers).unwrap());

        let mut value = [0_u64; 5];
        let mut map = Map {
            kind: 6,
            key_size: 4,
            value_size: 40,
            max_entries: 1,
            index: 0,
            value_stride: 40,
            cpu_stride: 40,
            values: value.as_mut_ptr().cast(),
        };
        for found in &loaded.maps {
            let target = if found.name == "per_cpu" { &raw mut map } else { ptr::null_mut() };
            // SAFETY: a variable of the copy, which is loaded.
            unsafe { found.variable.write(target) };
        }
        let mut host = host();
        loaded.set_host(&raw mut host);

        assert_eq!(call_init(&loaded), 0, "{compiler}: the map was not found");
        let bias = i32::from_ne_bytes(loaded.read_global("seen_bias").unwrap().try_into().unwrap());
        assert_eq!(bias, -70_000 + 255, "{compiler}");
        assert_eq!(number(&loaded, "seen_core"), 77, "{compiler}");
        assert_eq!(number(&loaded, "nr_calls"), 1, "{compiler}");
        assert_eq!(number(&loaded, "slice_ns"), 3_000_000, "{compiler}");
        assert_eq!(number(&loaded, "private_constant"), 1, "{compiler}");
        assert_eq!(loaded.read_global("no_such_variable"), None);
        // SAFETY: the copy is loaded.
        let name = unsafe { (*loaded.ops).name };
        assert_eq!(&name[..11], b"everything\0");
    }
}

#[test]
fn loading_changes_nothing_in_the_policy() {
    let policy = counting();
    let before = policy.image.clone();
    drop(native(policy.load(&settings(&[("step", 1234)]), &[]).unwrap()));
    assert_eq!(policy.image, before);
}

#[test]
fn limits_of_a_type_are_values_and_what_lies_beyond_is_not() {
    let policy = Workshop::new("cc").build("everything", EVERYTHING).unwrap();
    let load = |name, value| policy.load(&settings(&[(name, value)]), &[]);
    let fits = [
        ("bias", i64::from(i32::MIN)),
        ("bias", i64::from(i32::MAX)),
        ("small", 0),
        ("small", 255),
        ("fair", 0),
        ("fair", 1),
        ("slice_ns", i64::MAX),
        ("mode", 0),
    ];
    for (name, value) in fits {
        let loaded = native(load(name, value).unwrap());
        let size = loaded.read_global(name).unwrap().len();
        assert_eq!(loaded.read_global(name).unwrap(), value.to_le_bytes()[..size], "{name}");
    }
    let beyond = [
        ("bias", i64::from(i32::MIN) - 1),
        ("bias", i64::from(i32::MAX) + 1),
        ("small", -1),
        ("small", 256),
        ("fair", 2),
        ("slice_ns", -1),
    ];
    for (name, value) in beyond {
        let error = load(name, value).unwrap_err();
        assert!(matches!(error, PolicyError::TunableRange { .. }), "{name} = {value}: {error}");
    }
    assert_eq!(
        load("small", 256).unwrap_err().to_string(),
        "policy everything: small = 256 is outside what u8 can hold (0 to 255)"
    );
}

#[test]
fn an_unknown_tunable_is_answered_with_the_nearest_and_all() {
    let policy = Workshop::new("cc").build("everything", EVERYTHING).unwrap();
    let error = policy.load(&settings(&[("slice_us", 1)]), &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "policy everything has no tunable slice_us; did you mean slice_ns?\n\
         hint: it has slice_ns, bias, fair, small, mode, forever_ns"
    );
    // What is static, not volatile, or an array is not the user's to set.
    for name in ["private_constant", "plain_constant", "topology_core", "nr_calls"] {
        let error = policy.load(&settings(&[(name, 1)]), &[]).unwrap_err();
        assert!(matches!(error, PolicyError::UnknownTunable { .. }), "{error}");
    }
}

#[test]
fn an_array_takes_what_it_holds_and_not_a_byte_more() {
    let policy = Workshop::new("cc").build("everything", EVERYTHING).unwrap();
    let load = |bytes: &[u8]| policy.load(&BTreeMap::new(), &[("topology_node", bytes)]);
    assert_eq!(native(load(&[7; 2048]).unwrap()).read_global("topology_node").unwrap(), [7; 2048]);
    assert_eq!(
        load(&[7; 2049]).unwrap_err().to_string(),
        "policy everything: array topology_node has 2048 bytes, 2049 were given"
    );
}

#[test]
fn headers_of_another_version_or_layout_are_refused() {
    let error = |header: &str, from: &str, to: &str| {
        let workshop = Workshop::new("cc");
        let include = workshop.copy_headers();
        workshop.edit_header(&include, header, from, to);
        let policy = workshop.build_with("counting", COUNTING, &include).unwrap();
        policy.load(&BTreeMap::new(), &[]).unwrap_err().to_string()
    };
    let version = format!("#define SCX_ABI_VERSION {}", abi::ABI_VERSION);
    let text = error("simulator.h", &version, "#define SCX_ABI_VERSION 4096");
    let said = format!("interface version 4096, this is version {}", abi::ABI_VERSION);
    assert!(text.contains(&said), "{text}");
    let text = error("simulator.h", "u64 now_ns;", "u64 now_ns, later_ns;");
    assert!(text.contains("struct scx_host is 80 bytes in its headers and 72 here"), "{text}");
    let text = error("simulator.h", "u64 nvcsw;", "u64 nvcsw, more;");
    assert!(text.contains("struct task_struct is "), "{text}");
    // Of the same size, in another order.
    let [mask, memory] = ["const struct cpumask *cpus_ptr;", "struct mm_struct *mm;"];
    let (before, after) = (format!("{mask}\n\t{memory}"), format!("{memory}\n\t{mask}"));
    let text = error("simulator.h", &before, &after);
    assert!(text.contains("offset of task_struct.cpus_ptr is "), "{text}");
}

fn host() -> abi::Host {
    abi::Host {
        now_ns: 0,
        cpu: 0,
        nr_cpu_ids: 1,
        hz: 1000,
        nr_online_cpus: 1,
        current: ptr::null_mut(),
        idle_cpus: ptr::null_mut(),
        idle_cores: ptr::null_mut(),
        online_cpus: ptr::null_mut(),
        possible_cpus: ptr::null_mut(),
        calls: ptr::null(),
    }
}
