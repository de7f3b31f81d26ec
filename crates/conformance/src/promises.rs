//! What a policy promises: limits on figures, in `NAME.promises.toml` beside `NAME.bpf.c`.
//!
//! Every policy must end what ends, keep to the CPUs that tasks may use, and break no rule of the
//! kernel; that is not in any file. [`DEFAULTS`] is asked of a policy that does not say otherwise.
//! A figure without a limit is shown and not judged.

use crate::scenarios::{CHECKS, SMALL};
use policy::Policy;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};
use toml::{Table, Value};

const SUFFIX: &str = ".promises.toml";
/// The section whose promises hold in every scenario, random and small ones included.
const EVERYWHERE: &str = "everywhere";
/// The section that says what nice values are due, for policies that do not go by weights.
const DUE: &str = "due";
/// The nice values of the scenarios that compare shares.
const NICE_COMPARED: [i8; 4] = [-5, 0, 5, 10];

/// Limits for policies whose file does not say otherwise: section, property, limit.
///
/// A wait of more than the watchdog's time ends a policy in the kernel (Linux 6.12,
/// `SCX_WATCHDOG_MAX_TIMEOUT`). The idle time is generous: the shipped policies promise 20 to
/// 80 ms, though most balance their queues only every now and then. One that never does leaves
/// CPUs idle for more than a second in `leftover`.
pub const DEFAULTS: [(&str, &str, f64); 3] = [
    (EVERYWHERE, "idle_ms_max", 100.0),
    ("crowd", "wait_ms_max", 30_000.0),
    ("extreme", "wait_ms_max", 30_000.0),
];

/// A file of promises that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PromiseError {
    /// The file is there and cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// The file says something that nobody can check.
    #[error("{} {reason}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The rest of the sentence, and a way out.
        reason: String,
    },
}

/// What is asked of a policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Promises {
    /// Limit by section and property; none where the policy says that it promises nothing.
    limits: BTreeMap<(String, String), Option<f64>>,
    /// What nice values are due, if not by the kernel's weights.
    due: BTreeMap<i8, f64>,
}

impl Promises {
    /// What is asked of `policy` with these values of tunables: by `file`, which is of them, or by
    /// the file beside the policy.
    ///
    /// That one speaks of the defaults. With another value only what it does *not* promise still
    /// holds: other slices are other waits.
    ///
    /// # Errors
    /// If the file cannot be read, or says something that nobody can check.
    pub fn of(
        policy: &Policy,
        tunables: &BTreeMap<String, i64>,
        file: Option<&Path>,
    ) -> Result<Self, PromiseError> {
        let beside = policy.source.with_file_name(format!("{}{SUFFIX}", policy.name));
        let path = file.map_or(beside, Path::to_owned);
        let mut promises = match fs::read_to_string(&path) {
            Ok(text) => {
                Promises::parse(&text).map_err(|reason| PromiseError::Wrong { path, reason })?
            }
            Err(cause) if cause.kind() == io::ErrorKind::NotFound && file.is_none() => {
                Promises::default()
            }
            Err(cause) => return Err(PromiseError::Unreadable { path, cause }),
        };
        if file.is_some() {
            return Ok(promises);
        }
        let is_default = |(name, value): (&String, &i64)| {
            policy
                .tunables
                .iter()
                .any(|known| known.name == *name && known.default == i128::from(*value))
        };
        if !tunables.iter().all(is_default) {
            promises.limits.retain(|_, limit| limit.is_none());
            promises.due.clear();
        }
        Ok(promises)
    }

    /// What a file with this text promises.
    ///
    /// # Errors
    /// The rest of a sentence that begins with the file's name.
    pub fn parse(text: &str) -> Result<Self, String> {
        let table: Table =
            text.parse().map_err(|error: toml::de::Error| format!("is not TOML: {error}"))?;
        let mut promises = Promises::default();
        for (section, value) in &table {
            if section == DUE {
                promises.due = due_of(value)?;
                continue;
            }
            let known = properties(section).ok_or_else(|| unknown_section(section))?;
            let table = value.as_table().ok_or_else(|| {
                format!("has {section} = {value}\nhint: write a section [{section}]")
            })?;
            for (property, value) in table {
                if !known.contains(&property.as_str()) {
                    let hint = format!("hint: valid here: {}", known.join(", "));
                    return Err(format!("has an unknown promise {section}.{property}\n{hint}"));
                }
                let limit = limit_of(value).ok_or_else(|| {
                    format!(
                        "has {section}.{property} = {value}\n\
                         hint: write a number of 0 or more, or false to promise nothing"
                    )
                })?;
                promises.limits.insert((section.clone(), property.clone()), limit);
            }
        }
        Ok(promises)
    }

    /// What a nice value is due, in a unit of no meaning: its weight, or what the policy says.
    pub fn due(&self, nice: i8) -> f64 {
        let by_weight = || simulator::nice_weight(i32::from(nice)) as f64;
        self.due.get(&nice).copied().unwrap_or_else(by_weight)
    }

    /// The most that `property` may be in the scenario `check`; none if nobody promises it.
    pub fn limit(&self, check: &str, property: &str) -> Option<f64> {
        let said =
            |section: &str| self.limits.get(&(section.to_owned(), property.to_owned())).copied();
        let default = |section: &str| {
            let mut found = DEFAULTS.iter().filter(|d| (d.0, d.1) == (section, property));
            found.next().map(|(_, _, limit)| *limit)
        };
        let said = said(check).or_else(|| said(EVERYWHERE));
        said.unwrap_or_else(|| default(check).or_else(|| default(EVERYWHERE)))
    }
}

/// What the nice values of the scenarios that compare shares are due.
fn due_of(value: &Value) -> Result<BTreeMap<i8, f64>, String> {
    let hint = format!(
        "hint: below [{DUE}] give each of the nice values {NICE_COMPARED:?} a number above 0, such \
         as \"-5\" = 3"
    );
    let entries = value.as_table().ok_or_else(|| format!("has {DUE} = {value}\n{hint}"))?;
    let entry = |(nice, due): (&String, &Value)| {
        let known = nice.parse().ok().filter(|nice| NICE_COMPARED.contains(nice));
        let due = limit_of(due).flatten().filter(|due| *due > 0.0);
        known.zip(due).ok_or_else(|| format!("has {DUE}.{nice}, which cannot be\n{hint}"))
    };
    let found: BTreeMap<i8, f64> = entries.iter().map(entry).collect::<Result<_, String>>()?;
    if found.len() == NICE_COMPARED.len() {
        return Ok(found);
    }
    Err(format!("says of {} nice values what they are due\n{hint}", found.len()))
}

/// What to say of a section that is not there.
fn unknown_section(section: &str) -> String {
    let sections: Vec<&str> =
        CHECKS.iter().map(|check| check.name).chain([EVERYWHERE, DUE]).collect();
    let is_small = SMALL.iter().any(|scope| scope.name == section) || section == "random";
    let hint = match policy::nearest(section, sections.iter().copied()) {
        _ if is_small => {
            format!("what holds in random and small scenarios stands in [{EVERYWHERE}]")
        }
        Some(nearest) => format!("did you mean [{nearest}]?"),
        None => format!("there can be [{}]", sections.join("], [")),
    };
    format!("has an unknown section [{section}]\nhint: {hint}")
}

/// What may be promised in a section; none if there is no such section.
fn properties(section: &str) -> Option<Vec<&'static str>> {
    if section == EVERYWHERE {
        return Some(vec!["idle_ms_max", "wait_ms_max"]);
    }
    let check = CHECKS.iter().find(|check| check.name == section)?;
    Some(check.asks.iter().map(|ask| ask.property()).collect())
}

/// A limit, or that there is none (`false`); nothing if it is neither.
fn limit_of(value: &Value) -> Option<Option<f64>> {
    let number = match value {
        Value::Boolean(false) => return Some(None),
        Value::Integer(number) => *number as f64,
        Value::Float(number) => *number,
        _ => return None,
    };
    (number.is_finite() && number >= 0.0).then_some(Some(number))
}

#[cfg(test)]
mod tests {
    //! Goal: a file of promises means what it says, and nothing else is taken. Method: examples.
    use super::*;

    #[test]
    fn a_scenario_comes_before_everywhere_and_that_before_the_defaults() {
        let text = "[everywhere]\nidle_ms_max = 3\n[idle]\nidle_ms_max = 1.5\n\
                    [crowd]\nwait_ms_max = false";
        let promises = Promises::parse(text).expect("it is sound");
        assert_eq!(promises.limit("idle", "idle_ms_max"), Some(1.5));
        assert_eq!(promises.limit("masks", "idle_ms_max"), Some(3.0));
        assert_eq!(promises.limit("crowd", "wait_ms_max"), None, "false promises nothing");
        assert_eq!(promises.limit("extreme", "wait_ms_max"), Some(30_000.0));
        assert_eq!(Promises::default().limit("masks", "idle_ms_max"), Some(100.0));
        assert_eq!(promises.limit("shares", "share_error_percent_max"), None);
    }

    #[test]
    fn what_nobody_can_check_is_refused_with_what_could_be() {
        for (text, part) in [
            ("[crowds]\nwait_ms_max = 3", "section [crowds]\nhint: did you mean [crowd]?"),
            ("[small_turns]\nidle_ms_max = 3", "stands in [everywhere]"),
            ("[whenever]\nidle_ms_max = 3", "there can be [crowd], [shares], "),
            ("[crowd]\nwait_max = 3", "valid here: wait_ms_max"),
            ("[crowd]\nwait_ms_max = true", "a number of 0 or more"),
            ("[crowd]\nwait_ms_max = -1", "a number of 0 or more"),
            ("crowd = 3", "write a section [crowd]"),
            ("[crowd", "is not TOML"),
            ("[due]\n0 = 1", "says of 1 nice values"),
            ("[due]\n1 = 1", "has due.1, which cannot be"),
            ("[due]\n0 = 0", "has due.0, which cannot be"),
        ] {
            let said = Promises::parse(text).expect_err(text);
            assert!(said.contains(part), "{text}: {said}");
        }
    }
}
