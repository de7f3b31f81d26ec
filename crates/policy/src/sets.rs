//! Named tunable sets: the values that make several schedulers of one policy.
//!
//! They stand in `NAME.sets.toml` beside `NAME.bpf.c`; without that file a policy has none. A file
//! that says `same_as = "OTHER"` stands for `OTHER.sets.toml`, for policies with the same tunables.
//! Whoever names a set means nothing but its values, so a set decides no more than they do. A file
//! may say by `plain = "SET"` which set is meant where a policy is named without one.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::error::unknown_hint;
use crate::tunable::Tunable;
use crate::{Policy, PolicyError};

const SUFFIX: &str = ".sets.toml";
const SAME_AS: &str = "same_as";
const PLAIN: &str = "plain";
const KEYS: [&str; 4] = ["name", "description", "source", "tunables"];

/// `eevdf@kernel` already means a kernel's own scheduler.
const RESERVED_NAME: &str = "kernel";

/// Units of time and their nanoseconds; the first that a text ends in counts.
const UNITS: [(&str, i64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
const VALUE_HINT: &str =
    "write a whole number, true, false, or a time such as \"20ms\" or \"750us\"";

/// Values of a policy's tunables that belong together, such as those of one release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunableSet {
    /// What follows the `@` in `cfs@2.6.31`.
    pub name: String,
    /// What the policy is with these values, in one line.
    pub description: String,
    /// Where the values are from.
    pub source: String,
    /// Value of each tunable that the set settles; the others keep their defaults.
    pub values: BTreeMap<String, i64>,
    /// Whether it is meant where a user names the policy without a set.
    pub is_plain: bool,
}

impl Policy {
    /// The named tunable set `name`.
    ///
    /// # Errors
    ///
    /// [`PolicyError::UnknownSet`] if the policy has no such set.
    pub fn set(&self, name: &str) -> Result<&TunableSet, PolicyError> {
        let found = self.sets.iter().find(|set| set.name == name);
        found.ok_or_else(|| PolicyError::UnknownSet {
            policy: self.name.clone(),
            name: name.to_owned(),
            valid: self.sets.iter().map(|set| set.name.clone()).collect(),
        })
    }
}

/// The sets beside the C file `source` of the policy `policy`, in the order of their file.
pub(crate) fn read(
    source: &Path,
    policy: &str,
    tunables: &[Tunable],
) -> Result<Vec<TunableSet>, PolicyError> {
    let path = source.with_file_name(format!("{policy}{SUFFIX}"));
    let Some(text) = text_of(&path)? else { return Ok(Vec::new()) };
    let wrong = |reason| PolicyError::Sets { path: path.clone(), reason };
    let table = table_of(&text).map_err(wrong)?;
    let Some(other) = same_as(&table).map_err(wrong)? else {
        return sets_of(&table, policy, tunables).map_err(wrong);
    };
    let path = source.with_file_name(format!("{other}{SUFFIX}"));
    let text = text_of(&path)?.ok_or_else(|| {
        wrong(format!(
            "{SAME_AS} = {other:?}, and there is no {other}{SUFFIX} beside it\n\
             hint: name the policy whose sets these are"
        ))
    })?;
    let sets = table_of(&text).and_then(|table| sets_of(&table, policy, tunables));
    sets.map_err(|reason| PolicyError::Sets { path, reason })
}

/// The text of a file; `None` if there is none.
fn text_of(path: &PathBuf) -> Result<Option<String>, PolicyError> {
    // A pipe would be waited for, and a device read without end.
    let is_file = fs::metadata(path).map(|found| found.is_file());
    if is_file.is_ok_and(|is_file| !is_file) {
        let cause = std::io::Error::other("it is not a file");
        return Err(PolicyError::Io { action: "read", path: path.clone(), cause });
    }
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(PolicyError::Io { action: "read", path: path.clone(), cause }),
    }
}

fn table_of(text: &str) -> Result<Table, String> {
    let parsed: Result<Table, toml::de::Error> = text.parse();
    parsed.map_err(|error| format!("is not TOML: {}", error.to_string().trim()))
}

/// The policy whose sets these are, if the file says so.
fn same_as(table: &Table) -> Result<Option<String>, String> {
    let Some(other) = table.get(SAME_AS) else { return Ok(None) };
    refuse_unknown_keys(table, &[SAME_AS], "a file that is the same as another")?;
    let is_sound = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match other.as_str() {
        Some(name) if !name.is_empty() && name.chars().all(is_sound) => Ok(Some(name.to_owned())),
        _ => Err(format!(
            "{SAME_AS} = {other} is no name of a policy\n\
             hint: name one of this folder, as in \"cfs\""
        )),
    }
}

/// The sets that a file holds, or a sentence on what is wrong with it.
fn sets_of(table: &Table, policy: &str, tunables: &[Tunable]) -> Result<Vec<TunableSet>, String> {
    refuse_unknown_keys(table, &["set", PLAIN], "the file")?;
    let tables = table.get("set").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let tables: Option<Vec<&Table>> = tables.iter().map(Value::as_table).collect();
    let tables = tables.filter(|tables| !tables.is_empty());
    let tables = tables.ok_or("has no set\nhint: begin each with a line [[set]]")?;
    let mut sets: Vec<TunableSet> = Vec::new();
    for (table, number) in tables.into_iter().zip(1..) {
        let set = set_of(table, number, policy, tunables)?;
        if sets.iter().any(|other| other.name == set.name) {
            return Err(format!("set {} stands there twice", set.name));
        }
        sets.push(set);
    }
    mark_plain(table.get(PLAIN), &mut sets)?;
    Ok(sets)
}

/// Marks the set that `plain` names, if the file has that key.
fn mark_plain(plain: Option<&Value>, sets: &mut [TunableSet]) -> Result<(), String> {
    let Some(plain) = plain else { return Ok(()) };
    let meant = sets.iter_mut().find(|set| plain.as_str() == Some(&set.name));
    let meant = meant.ok_or_else(|| {
        format!(
            "{PLAIN} = {plain} is no set of this file\n\
             hint: name one that stands below it, or leave the line out"
        )
    })?;
    meant.is_plain = true;
    Ok(())
}

/// The `number`-th set of a file.
fn set_of(
    table: &Table,
    number: usize,
    policy: &str,
    tunables: &[Tunable],
) -> Result<TunableSet, String> {
    let name = text_at(table, "name", &format!("set {number} of the file"))?;
    let place = format!("set {name}");
    refuse_bad_name(&name, policy)?;
    refuse_unknown_keys(table, &KEYS, &place)?;
    let given = table.get("tunables").and_then(Value::as_table).filter(|given| !given.is_empty());
    let given = given.ok_or_else(|| {
        format!("{place} has no tunables\nhint: write NAME = VALUE below [set.tunables]")
    })?;
    let mut values = BTreeMap::new();
    for (name, value) in given {
        let tunable = tunables.iter().find(|tunable| tunable.name == *name).ok_or_else(|| {
            let known: Vec<String> = tunables.iter().map(|tunable| tunable.name.clone()).collect();
            let hint = unknown_hint(name, &known);
            format!("{place}: policy {policy} has no tunable {name}{hint}")
        })?;
        let problem = |why| format!("{place}: {name} = {value} {why}");
        values.insert(name.clone(), number_of(tunable, value).map_err(problem)?);
    }
    let description = text_at(table, "description", &place)?;
    let source = text_at(table, "source", &place)?;
    Ok(TunableSet { name, description, source, values, is_plain: false })
}

fn refuse_bad_name(name: &str, policy: &str) -> Result<(), String> {
    if name == RESERVED_NAME {
        return Err(format!(
            "no set can be named {name}\nhint: {policy}@{name} is the kernel's own scheduler"
        ));
    }
    let is_sound = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    if name.chars().all(is_sound) && name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Ok(());
    }
    Err(format!(
        "{name:?} is no name of a set\n\
         hint: begin with a letter or a digit, and go on with those and . _ + -"
    ))
}

fn refuse_unknown_keys(table: &Table, known: &[&str], place: &str) -> Result<(), String> {
    let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
    let known: Vec<String> = known.iter().map(|&key| key.to_owned()).collect();
    Err(format!("{place} has an unknown key {key}{}", unknown_hint(key, &known)))
}

fn text_at(table: &Table, key: &str, place: &str) -> Result<String, String> {
    let text = table.get(key).and_then(Value::as_str).map(str::trim).filter(|t| !t.is_empty());
    text.map(str::to_owned).ok_or_else(|| {
        format!("{place} does not say its {key}\nhint: write {key} = \"...\" below [[set]]")
    })
}

/// The number that `value` is for `tunable`, or the rest of a sentence on why it is none.
fn number_of(tunable: &Tunable, value: &Value) -> Result<i64, String> {
    let number = match value {
        Value::Integer(number) => Some(*number),
        Value::Boolean(is_true) => Some(i64::from(*is_true)),
        Value::String(text) => units_of(text, &tunable.name),
        _ => None,
    };
    let number = number.ok_or_else(|| format!("is no value\nhint: {VALUE_HINT}"))?;
    let (min, max) = tunable.range();
    if (min..=max).contains(&i128::from(number)) {
        return Ok(number);
    }
    Err(format!("is outside what {} can hold ({min} to {max})", tunable.type_name))
}

/// A time in the unit that the name of its tunable ends in, else in ns; `None` if it is no whole
/// number of those.
pub(crate) fn units_of(text: &str, tunable: &str) -> Option<i64> {
    let (number, ns) = UNITS.iter().find_map(|(unit, ns)| Some((text.strip_suffix(unit)?, *ns)))?;
    let ending = tunable.rsplit('_').next()?;
    let (_, unit_ns) = UNITS.iter().find(|(unit, _)| *unit == ending).unwrap_or(&UNITS[0]);
    let time_ns = number.trim_end().parse::<i64>().ok()?.checked_mul(ns)?;
    (time_ns % unit_ns == 0).then_some(time_ns / unit_ns)
}
