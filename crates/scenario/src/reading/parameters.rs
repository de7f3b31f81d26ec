//! Parameters of a workload: what a user may change without editing its file.

use crate::model::error::{ScenarioError, choices};
use crate::reading::{Document, Node, TableNode};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use toml::Value;

/// A parameter as the workload's file declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// What users call it.
    pub name: String,
    /// Its value if nobody says otherwise, as text.
    pub default: String,
    /// What it means, with its unit.
    pub doc: String,
    /// Where the default comes from, or "assumed: why"; empty if the doc says it all.
    pub source: String,
}

/// A parameter with what its value must be.
pub(crate) struct Declared {
    pub parameter: Parameter,
    /// Its value if nobody says otherwise; another must be of the same kind.
    default: Value,
    /// What a whole number may be, if the file says so.
    range: Option<RangeInclusive<i64>>,
}

const PARAMETER_KEYS: [&str; 4] = ["default", "doc", "source", "range"];

/// The parameters that the file declares, in the order of their names.
pub(crate) fn declared(root: &TableNode) -> Result<Vec<Declared>, ScenarioError> {
    let Some(node) = root.get("parameters")? else { return Ok(Vec::new()) };
    let entries = node.any_table()?.entries()?;
    entries.into_iter().map(|(name, node)| declaration(name, &node)).collect()
}

fn declaration(name: &str, node: &Node) -> Result<Declared, ScenarioError> {
    let table = node.table(&PARAMETER_KEYS)?;
    let default = table.need("default", "give the value it has if nobody says otherwise")?;
    let doc = table.need("doc", "say what it means, with its unit")?.text()?;
    let source = table.get("source")?.map_or(Ok(""), |source| source.text())?;
    if !(default.value().is_integer() || default.value().is_bool() || default.value().is_str()) {
        return Err(default.bad(
            "a parameter is a whole number, a truth value or text",
            "write 10, true or \"1.5ms\"",
        ));
    }
    let parameter = Parameter {
        name: name.to_string(),
        default: shown(default.value()),
        doc: doc.to_string(),
        source: source.to_string(),
    };
    let range = table.get("range")?.map(|range| read_range(&range)).transpose()?;
    if let Some(range) = &range {
        default.integer(range.clone())?;
    }
    Ok(Declared { parameter, default: default.value().clone(), range })
}

/// `[least, most]`, both included.
fn read_range(node: &Node) -> Result<RangeInclusive<i64>, ScenarioError> {
    let hint = "write range = [least, most], such as [1, 1000]";
    let [least, most] = &node.elements()?[..] else {
        return Err(node.bad("not two ends", hint));
    };
    let [least, most] = [least, most].map(|end| end.integer(i64::MIN..=i64::MAX));
    let range = least?..=most?;
    if range.is_empty() {
        Err(node.bad("the least is more than the most", hint))
    } else {
        Ok(range)
    }
}

/// A parameter's value as users write it: text without its quotes.
pub(crate) fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// The value of every declared parameter: what the user gave, otherwise the default.
pub(crate) fn effective(
    file: &str,
    declared: &[Declared],
    given: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, Value>, ScenarioError> {
    let names: Vec<&str> = declared.iter().map(|one| one.parameter.name.as_str()).collect();
    if let Some((name, value)) = given.iter().find(|(name, _)| !names.contains(&name.as_str())) {
        return Err(ScenarioError::UnknownParameter {
            file: file.to_string(),
            name: name.clone(),
            value: value.clone(),
            hint: choices("its parameters", name, &names),
        });
    }
    let mut values = BTreeMap::new();
    for Declared { parameter: Parameter { name, .. }, default, .. } in declared {
        let given =
            given.get(name).map(|text| given_value(file, name, default, text)).transpose()?;
        values.insert(name.clone(), given.unwrap_or_else(|| default.clone()));
    }
    let document = Document { file: file.to_string(), parameters: values };
    for Declared { parameter, range, .. } in declared {
        if let (Some(range), Some(node)) = (range, document.parameter(&parameter.name)) {
            node.integer(range.clone())?;
        }
    }
    Ok(document.parameters)
}

/// What the user gave, read as the kind of value that the default is.
fn given_value(
    file: &str,
    name: &str,
    default: &Value,
    text: &str,
) -> Result<Value, ScenarioError> {
    let bad = |problem: &str, hint: &str| ScenarioError::BadValue {
        file: file.to_string(),
        key: format!("parameters.{name}"),
        value: format!("{text:?}"),
        problem: problem.to_string(),
        hint: format!("{hint}; the default is {}", shown(default)),
    };
    match default {
        Value::Integer(_) => text
            .parse()
            .map(Value::Integer)
            .map_err(|_| bad("not a whole number", "give digits only, such as 25")),
        Value::Boolean(_) => text
            .parse()
            .map(Value::Boolean)
            .map_err(|_| bad("not a truth value", "give true or false")),
        _ => Ok(Value::String(text.to_string())),
    }
}

/// Values of a built-in workload's parameters.
pub(crate) struct Settings<'a> {
    /// Name of the built-in, for messages.
    pub builtin: &'a str,
    /// The file and its effective parameters.
    pub document: &'a Document,
}

impl<'a> Settings<'a> {
    /// The parameter `name`, which the file of a built-in must declare.
    pub fn need(&self, name: &str) -> Result<Node<'a>, ScenarioError> {
        self.document.parameter(name).ok_or_else(|| ScenarioError::MissingKey {
            file: self.document.file.clone(),
            key: format!("parameters.{name}"),
            hint: format!(
                "the built-in {0} needs it: add [parameters.{name}] with default and doc; the \
                 shipped {0}.toml has all that it needs",
                self.builtin
            ),
        })
    }

    /// A whole number from `low` to `high`.
    pub fn number(&self, name: &str, low: u32, high: u32) -> Result<u32, ScenarioError> {
        self.need(name)?.unsigned_32(low, high)
    }

    /// A duration in nanoseconds.
    pub fn duration_ns(&self, name: &str) -> Result<u64, ScenarioError> {
        self.need(name)?.duration_ns()
    }

    /// A truth value.
    pub fn truth(&self, name: &str) -> Result<bool, ScenarioError> {
        self.need(name)?.boolean()
    }
}
