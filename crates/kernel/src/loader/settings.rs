//! What is set or read of an object before it is loaded: tunables, the `const volatile` integers of
//! a policy that whoever loads it may set, and its `sched_ext_ops`.

use std::collections::BTreeMap;

use libbpf_rs::{MapType, OpenMapMut, OpenObject};

use super::variables::{Shape, Variable};
use super::{LoadError, holds_section};

/// Writes every value of `set` into the object before it is loaded.
pub(super) fn apply(
    object: &mut OpenObject,
    variables: &[Variable],
    set: &BTreeMap<String, String>,
) -> Result<(), LoadError> {
    for (name, text) in set {
        let variable = variables
            .iter()
            .find(|v| v.name == *name && v.is_constant())
            .ok_or_else(|| no_tunable(name, variables))?;
        let bytes = encode(variable, text)?;
        write(object, variable, &bytes);
    }
    Ok(())
}

/// Writes `bytes` over the beginning of a constant.
pub(super) fn write(object: &mut OpenObject, variable: &Variable, bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(variable.size)];
    let holds = |map: &OpenMapMut<'_>| holds_section(map.name(), &variable.section);
    put(object, holds, variable.offset, bytes);
}

/// Writes `bytes` into what a map begins with; whether they have a place there.
pub(super) fn put(
    object: &mut OpenObject,
    is_meant: impl Fn(&OpenMapMut<'_>) -> bool,
    offset: usize,
    bytes: &[u8],
) -> bool {
    let Some(mut map) = object.maps_mut().find(is_meant) else { return false };
    let place = map.initial_value_mut().and_then(|all| all.get_mut(offset..offset + bytes.len()));
    place.map(|place| place.copy_from_slice(bytes)).is_some()
}

/// Writes a member of the object's `sched_ext_ops`, if it has that.
pub(super) fn write_operation(
    object: &mut OpenObject,
    variables: &[Variable],
    member: &str,
    bytes: &[u8],
) {
    let Some(offset) = offset_in_ops(variables, member) else { return };
    put(object, |map| map.map_type() == MapType::StructOps, offset, bytes);
}

/// Adds to the `flags` of the object's `sched_ext_ops`.
pub(super) fn raise_ops_flags(object: &mut OpenObject, variables: &[Variable], flags: u64) {
    let Some(offset) = offset_in_ops(variables, "flags") else { return };
    let map = object.maps_mut().find(|map| map.map_type() == MapType::StructOps);
    let Some(mut map) = map else { return };
    let place = map.initial_value_mut().and_then(|data| data.get_mut(offset..offset + 8));
    if let Some(place) = place {
        let before = place.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        place.copy_from_slice(&(before | flags).to_le_bytes());
    }
}

/// The `name` in the object's `sched_ext_ops`, by which the kernel calls the policy.
///
/// The kernel's own file of it is gone as soon as the policy is, which may be at once.
pub(super) fn ops_name(object: &OpenObject, variables: &[Variable]) -> Option<String> {
    let offset = offset_in_ops(variables, "name")?;
    let map = object.maps().find(|map| map.map_type() == MapType::StructOps)?;
    let name = map.initial_value()?.get(offset..)?.split(|&byte| byte == 0).next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// Where a member of the object's `sched_ext_ops` begins in it: libbpf has a map for each.
fn offset_in_ops(variables: &[Variable], member: &str) -> Option<usize> {
    variables.iter().find_map(|variable| {
        let Shape::Structure(members) = &variable.shape else { return None };
        let found = members.iter().find(|one| one.name == member)?;
        variable.section.starts_with(".struct_ops").then_some(found.offset)
    })
}

fn no_tunable(name: &str, variables: &[Variable]) -> LoadError {
    let is_tunable = |v: &&Variable| v.is_constant() && matches!(v.shape, Shape::Integer { .. });
    let known = variables.iter().filter(is_tunable).map(|v| v.name.clone()).collect();
    LoadError::NoTunable { name: name.to_owned(), known }
}

/// The bytes of `text` as a value of the variable.
fn encode(variable: &Variable, text: &str) -> Result<Vec<u8>, LoadError> {
    let Shape::Integer { signed, boolean } = variable.shape else {
        return Err(LoadError::NotANumber { name: variable.name.clone() });
    };
    let bits = 8 * u32::try_from(variable.size.min(8)).unwrap_or(8);
    let (least, most) = match (boolean, signed) {
        (true, _) => (0, 1),
        (false, true) => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
        (false, false) => (0, (1_i128 << bits) - 1),
    };
    let value = parse(text).filter(|value| (least..=most).contains(value)).ok_or_else(|| {
        LoadError::BadValue { name: variable.name.clone(), value: text.to_owned(), least, most }
    })?;
    Ok(value.to_le_bytes()[..variable.size.min(8)].to_vec())
}

fn parse(text: &str) -> Option<i128> {
    match text {
        "true" => return Some(1),
        "false" => return Some(0),
        _ => {}
    }
    let digits = text.replace('_', "");
    match digits.strip_prefix("0x") {
        Some(hexadecimal) => i128::from_str_radix(hexadecimal, 16).ok(),
        None => digits.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(size: usize, signed: bool, boolean: bool) -> Variable {
        Variable {
            name: "x".into(),
            section: ".rodata".into(),
            offset: 0,
            size,
            shape: Shape::Integer { signed, boolean },
        }
    }

    #[test]
    fn a_value_becomes_the_bytes_of_its_type() {
        assert_eq!(encode(&variable(2, false, false), "0x102").unwrap(), [2, 1]);
        assert_eq!(encode(&variable(4, true, false), "-1").unwrap(), [255; 4]);
        assert_eq!(encode(&variable(8, false, false), "3_000").unwrap(), 3000_u64.to_le_bytes());
        assert_eq!(encode(&variable(1, false, true), "true").unwrap(), [1]);
    }

    #[test]
    fn a_value_that_its_type_cannot_hold_is_refused_with_the_range() {
        for (size, signed, boolean, text) in [
            (1, false, true, "2"),
            (1, false, false, "256"),
            (1, true, false, "-129"),
            (8, false, false, "18446744073709551616"),
            (4, false, false, "-1"),
            (4, false, false, "three"),
        ] {
            let refused = encode(&variable(size, signed, boolean), text).unwrap_err().to_string();
            assert!(refused.contains(text) && refused.contains(" to "), "{refused}");
        }
    }
}
