//! Goal: every loaded copy is set as asked, and shares nothing with any other.
//! Method: what the variables of a copy begin with, read by the object's own description.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use crate::workshop::{COUNTING, EVERYTHING, Workshop, bytes, settings};
use policy::{Policy, PolicyError, Topology};

fn everything() -> Policy {
    Workshop::new().build("everything", EVERYTHING).unwrap()
}

#[test]
fn copies_are_set_each_on_its_own_and_the_policy_stays_as_it_was() {
    let policy = Workshop::new().build("counting", COUNTING).unwrap();
    let before = policy.image.clone();
    let ten = policy.load(&settings(&[("step", 10)]), &[], &Topology::default()).unwrap();
    let one = policy.load(&BTreeMap::new(), &[], &Topology::default()).unwrap();
    assert_eq!((bytes(&one, "step"), bytes(&ten, "step")), (vec![1, 0, 0, 0], vec![10, 0, 0, 0]));
    assert_eq!(bytes(&ten, "count"), [0; 8]);
    assert_eq!(policy.image, before);
}

#[test]
fn tunables_and_arrays_lie_where_the_object_has_them() {
    let cores: Vec<u8> = [4_u16, 77].iter().flat_map(|core| core.to_le_bytes()).collect();
    let offers = [("topology_core", cores.as_slice()), ("not_declared", &[1])];
    let tunables = settings(&[("bias", -70_000), ("small", 255)]);
    let loaded = everything().load(&tunables, &offers, &Topology::default()).unwrap();
    assert_eq!(bytes(&loaded, "bias"), (-70_000_i32).to_le_bytes());
    assert_eq!(bytes(&loaded, "small"), [255]);
    assert_eq!(bytes(&loaded, "topology_core")[..6], [4, 0, 77, 0, 0, 0]);
    assert_eq!(bytes(&loaded, "slice_ns"), 3_000_000_u64.to_le_bytes());
}

#[test]
fn limits_of_a_type_are_values_and_what_lies_beyond_is_not() {
    let policy = everything();
    let load = |name, value| policy.load(&settings(&[(name, value)]), &[], &Topology::default());
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
        let found = bytes(&load(name, value).unwrap(), name);
        assert_eq!(found, value.to_le_bytes()[..found.len()], "{name}");
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
    let policy = everything();
    let error = policy.load(&settings(&[("slice_us", 1)]), &[], &Topology::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "policy everything has no tunable slice_us; did you mean slice_ns?\n\
         hint: it has slice_ns, bias, fair, small, mode, forever_ns"
    );
    // What is static, not volatile, or an array is not the user's to set.
    for name in ["private_constant", "plain_constant", "topology_core", "nr_calls"] {
        let error = policy.load(&settings(&[(name, 1)]), &[], &Topology::default()).unwrap_err();
        assert!(matches!(error, PolicyError::UnknownTunable { .. }), "{error}");
    }
}

#[test]
fn an_array_takes_what_it_holds_and_not_a_byte_more() {
    let policy = everything();
    let load = |bytes: &[u8]| {
        policy.load(&BTreeMap::new(), &[("topology_node", bytes)], &Topology::default())
    };
    assert_eq!(bytes(&load(&[7; 8192]).unwrap(), "topology_node"), [7; 8192]);
    assert_eq!(
        load(&[7; 8193]).unwrap_err().to_string(),
        "policy everything: array topology_node has 8192 bytes, 8193 were given"
    );
}
