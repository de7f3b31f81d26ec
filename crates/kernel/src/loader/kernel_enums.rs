//! The running kernel's values of constants that its releases move, for objects that ask for them
//! the way the kernel's example schedulers do: by constants called like the enumerators, with two
//! underscores in front, that whoever loads the object fills. schedlab's own headers need none.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use libbpf_rs::btf::types::{Enum, Enum64};
use libbpf_rs::{Btf, OpenObject};

use super::settings;
use super::variables::Variable;

const ASKS: &str = "__SCX_";

/// Fills all that the object asks for; what this kernel lacks stays 0, which the examples expect.
pub(super) fn fill(object: &mut OpenObject, variables: &[Variable]) {
    let mut asked: BTreeMap<&str, &Variable> = variables
        .iter()
        .filter(|v| v.is_constant() && v.name.starts_with(ASKS))
        .map(|v| (v.name.trim_start_matches("__"), v))
        .collect();
    if asked.is_empty() {
        return;
    }
    let Ok(kernel) = Btf::from_vmlinux() else { return };
    let mut answer = |name: Option<&OsStr>, value: i128| {
        if let Some(variable) = name.and_then(|name| asked.remove(name.to_str()?)) {
            let bytes = value.to_le_bytes();
            settings::write(object, variable, &bytes[..variable.size.min(bytes.len())]);
        }
    };
    for one in kernel.type_by_kind::<Enum<'_>>() {
        one.iter().for_each(|member| answer(member.name, member.value.into()));
    }
    for one in kernel.type_by_kind::<Enum64<'_>>() {
        one.iter().for_each(|member| answer(member.name, member.value));
    }
}
