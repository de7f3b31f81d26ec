//! Reading TOML so that every error knows the file, the key and the value it is about.

pub mod parameters;

use crate::model::duration::{DURATION_HINT, parse_duration_ns};
use crate::model::error::{ScenarioError, choices};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::Path;
use toml::{Table, Value};

/// Reads and parses the file at `path`.
pub(crate) fn read_table(path: &Path) -> Result<(String, Table), ScenarioError> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| ScenarioError::Unreadable {
        file: file.clone(),
        reason: error.to_string(),
        hint: match error.kind() {
            ErrorKind::PermissionDenied => "give yourself the right to read it",
            ErrorKind::InvalidData => "write it in UTF-8",
            _ => "check the name; `schedlab list` shows what is shipped",
        }
        .to_string(),
    })?;
    let table = parse_table(&file, &text)?;
    Ok((file, table))
}

/// Parses `text`, which stands in `file`.
pub(crate) fn parse_table(file: &str, text: &str) -> Result<Table, ScenarioError> {
    text.parse().map_err(|error: toml::de::Error| ScenarioError::Syntax {
        file: file.to_string(),
        reason: error.to_string().trim_end().to_string(),
    })
}

/// Name of a machine or workload: the name of its file without folders and `.toml`.
pub(crate) fn stem(file: &str) -> String {
    Path::new(file).file_stem().map_or(file, |stem| stem.to_str().unwrap_or(file)).to_string()
}

/// What all values of one file share.
pub(crate) struct Document {
    /// The path as the user gave it.
    pub file: String,
    /// Values that stand for `"$name"`.
    pub parameters: BTreeMap<String, Value>,
}

impl Document {
    /// The value of a parameter, for messages that name it `parameters.NAME`.
    pub fn parameter(&self, name: &str) -> Option<Node<'_>> {
        let value = self.parameters.get(name)?;
        Some(Node { document: self, path: format!("parameters.{name}"), value })
    }
}

/// A value and where it stands.
#[derive(Clone)]
pub(crate) struct Node<'a> {
    document: &'a Document,
    /// Path of the key, such as `tasks[2].program[4].send`.
    pub path: String,
    value: &'a Value,
}

/// A table whose keys have been checked.
#[derive(Clone)]
pub(crate) struct TableNode<'a> {
    document: &'a Document,
    path: String,
    table: &'a Table,
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_string() } else { format!("{path}.{key}") }
}

impl<'a> Node<'a> {
    /// The value at `path`, or the parameter's value if it is `"$name"`.
    fn new(
        document: &'a Document,
        path: String,
        value: &'a Value,
    ) -> Result<Node<'a>, ScenarioError> {
        let Some(name) = value.as_str().and_then(|text| text.strip_prefix('$')) else {
            return Ok(Node { document, path, value });
        };
        match document.parameters.get(name) {
            Some(value) => {
                Ok(Node { document, path: format!("{path} (from parameter {name})"), value })
            }
            None => {
                let known: Vec<&str> = document.parameters.keys().map(String::as_str).collect();
                Err(Node { document, path, value }
                    .bad("no such parameter", choices("declared parameters", name, &known)))
            }
        }
    }

    /// An error about this value: the problem and the way out.
    pub fn bad(&self, problem: impl Into<String>, hint: impl Into<String>) -> ScenarioError {
        ScenarioError::BadValue {
            file: self.document.file.clone(),
            key: self.path.clone(),
            value: one_line(self.value),
            problem: problem.into(),
            hint: hint.into(),
        }
    }

    /// A whole number within `range`.
    pub fn integer(&self, range: RangeInclusive<i64>) -> Result<i64, ScenarioError> {
        let (low, high) = (range.start(), range.end());
        let hint = format!("write a whole number from {low} to {high}");
        match self.value.as_integer() {
            None => Err(self.bad("not a whole number", hint)),
            Some(number) if !range.contains(&number) => Err(self.bad("out of range", hint)),
            Some(number) => Ok(number),
        }
    }

    /// A whole number from `low` to `high` as an unsigned one.
    pub fn unsigned(&self, low: u64, high: u64) -> Result<u64, ScenarioError> {
        let bound = |number| i64::try_from(number).unwrap_or(i64::MAX);
        // The range is not negative, so the number is not either.
        self.integer(bound(low)..=bound(high)).map(i64::unsigned_abs)
    }

    /// A whole number from `low` to the largest `u32` or `high`, whichever is less.
    pub fn unsigned_32(&self, low: u32, high: u32) -> Result<u32, ScenarioError> {
        self.unsigned(low.into(), high.into()).map(|number| number as u32)
    }

    /// Text that is not empty.
    pub fn text(&self) -> Result<&'a str, ScenarioError> {
        match self.value.as_str() {
            None => Err(self.bad("not text", "write text in quotes")),
            Some(text) if text.trim().is_empty() => {
                Err(self.bad("no text", "write at least one word; it may not be left blank"))
            }
            Some(text) => Ok(text),
        }
    }

    /// `true` or `false`.
    pub fn boolean(&self) -> Result<bool, ScenarioError> {
        self.value.as_bool().ok_or_else(|| self.bad("not a truth value", "write true or false"))
    }

    /// A duration with its unit, in nanoseconds.
    pub fn duration_ns(&self) -> Result<u64, ScenarioError> {
        let text = self
            .value
            .as_str()
            .ok_or_else(|| self.bad("a duration needs a unit", DURATION_HINT))?;
        parse_duration_ns(text).map_err(|problem| self.bad(problem, DURATION_HINT))
    }

    /// The elements of an array.
    pub fn elements(&self) -> Result<Vec<Node<'a>>, ScenarioError> {
        let array = self.value.as_array().ok_or_else(|| self.no_list())?;
        array
            .iter()
            .enumerate()
            .map(|(i, value)| Node::new(self.document, format!("{}[{i}]", self.path), value))
            .collect()
    }

    /// What to say of a value that should be a list. A section with single brackets is a table.
    fn no_list(&self) -> ScenarioError {
        let is_section = self.value.is_table() && !self.path.contains(['.', '[', ' ']);
        if is_section {
            let hint = format!("write [[{}]], in double brackets, above each", self.path);
            self.bad("one table where a list of them is needed", hint)
        } else {
            self.bad("not a list", "write a list in square brackets")
        }
    }

    /// A table that may have the keys of `valid` and no others.
    pub fn table(&self, valid: &[&str]) -> Result<TableNode<'a>, ScenarioError> {
        let table = self.any_table()?;
        table.check_keys(valid)?;
        Ok(table)
    }

    /// A table whose keys are names that the file's author chose.
    pub fn any_table(&self) -> Result<TableNode<'a>, ScenarioError> {
        let table = self
            .value
            .as_table()
            .ok_or_else(|| self.bad("not a table", "write a table: { key = value, ... }"))?;
        Ok(TableNode { document: self.document, path: self.path.clone(), table })
    }

    /// The value as it stands.
    pub fn value(&self) -> &'a Value {
        self.value
    }

    /// The file's name and parameters.
    pub fn document(&self) -> &'a Document {
        self.document
    }
}

impl<'a> TableNode<'a> {
    /// The whole file as a table.
    pub fn root(document: &'a Document, table: &'a Table) -> TableNode<'a> {
        TableNode { document, path: String::new(), table }
    }

    /// Refuses every key that is not in `valid`.
    pub fn check_keys(&self, valid: &[&str]) -> Result<(), ScenarioError> {
        match self.table.keys().find(|key| !valid.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => Err(ScenarioError::UnknownKey {
                file: self.document.file.clone(),
                key: join(&self.path, key),
                hint: choices("valid here", key, valid),
            }),
        }
    }

    /// The value of `key` if it is there.
    pub fn get(&self, key: &str) -> Result<Option<Node<'a>>, ScenarioError> {
        let value = self.table.get(key);
        value.map(|value| Node::new(self.document, join(&self.path, key), value)).transpose()
    }

    /// The value of `key`, which must be there; `hint` says what to write.
    pub fn need(&self, key: &str, hint: &str) -> Result<Node<'a>, ScenarioError> {
        self.get(key)?.ok_or_else(|| ScenarioError::MissingKey {
            file: self.document.file.clone(),
            key: join(&self.path, key),
            hint: hint.to_string(),
        })
    }

    /// Every key with its value, in the order of the keys.
    pub fn entries(&self) -> Result<Vec<(&'a str, Node<'a>)>, ScenarioError> {
        self.table
            .iter()
            .map(|(key, value)| {
                let path = join(&self.path, key);
                Ok((key.as_str(), Node::new(self.document, path, value)?))
            })
            .collect()
    }

    /// The path of the file.
    pub fn file(&self) -> &'a str {
        &self.document.file
    }

    /// Whether `key` is there.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }
}

/// Letters of a value that an error message shows.
const SHOWN_MAX: usize = 60;

/// A value as TOML, on one line and not too long.
fn one_line(value: &Value) -> String {
    let text = match value {
        Value::Table(table) if table.is_empty() => "an empty table".to_string(),
        Value::Table(table) => {
            let keys = table.keys().map(String::as_str).collect::<Vec<&str>>().join(", ");
            return format!("a table of {{{}}}", shortened(keys));
        }
        other => other.to_string().replace('\n', " "),
    };
    shortened(text)
}

fn shortened(text: String) -> String {
    if text.chars().count() <= SHOWN_MAX {
        text
    } else {
        text.chars().take(SHOWN_MAX).chain("...".chars()).collect()
    }
}
