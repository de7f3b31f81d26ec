//! Variables and maps as text.

use super::number::untyped;
use bytecode::{Btf, MapDefinition, Object, Type, map_kind_name};
use std::borrow::Cow;

/// Tasks, queues or entries of one list that are shown.
pub const LISTED_MAX: usize = 64;

/// What leads to a value in a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label<'a> {
    /// The number of an array's element: all of them have a value.
    Number(u32),
    /// The bytes of a key.
    Bytes(Cow<'a, [u8]>),
    /// The task or group that the value is stored for.
    Owner(String),
    /// Nothing but an order.
    Next,
}

/// A value in a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// What leads to it.
    pub label: Label<'a>,
    /// Whose it is, where each CPU has its own.
    pub cpu: Option<usize>,
    /// Its bytes; none where they cannot be read.
    pub value: Option<Cow<'a, [u8]>>,
}

/// Who has the bytes of a policy that runs. Sections and maps go by their numbers in its object.
pub trait Values {
    /// So many bytes of a section's, from one of them on.
    fn variable(&self, section: usize, offset: u64, bytes: u64) -> Option<Cow<'_, [u8]>>;
    /// How many entries a map has, if that is known.
    fn nr_entries(&self, map: usize) -> Option<u64>;
    /// The entries of a map in an order of its own, those of a key by their CPUs.
    fn entries(&self, map: usize) -> Box<dyn Iterator<Item = Entry<'_>> + '_>;
    /// What is at an address that the policy keeps.
    fn name_of(&self, address: u64) -> Option<String>;
}

/// The lines of a heading.
pub fn heading(heading: &str) -> [String; 3] {
    [String::new(), heading.to_owned(), "-".repeat(heading.len())]
}

/// How many of a list are left out, if any.
pub fn more(count: usize) -> Option<String> {
    let left = count.checked_sub(LISTED_MAX).filter(|&left| left > 0)?;
    Some(format!("  ... {left} more"))
}

/// What a policy calls the number of a queue: an enumerator of its own that says so.
pub fn dsq_name(object: &Object, id: u64) -> Option<String> {
    let enumerators = object.btf.types().filter_map(|(_, of)| match of {
        Type::Enumeration { values, .. } => Some(values),
        _ => None,
    });
    let is_name = |name: &str| name.contains("DSQ") && !name.starts_with("SCX_");
    let named = enumerators.flatten().find(|(name, value)| is_name(name) && *value as u64 == id);
    named.map(|(name, _)| name.clone())
}

/// Its variables and maps.
pub fn state_lines(object: &Object, values: &dyn Values) -> Vec<String> {
    let mut lines = heading("Variables").to_vec();
    let state = State { object, values };
    lines.extend(state.variables());
    if object.maps.is_empty() {
        return lines;
    }
    lines.extend(heading("Maps"));
    for number in 0..object.maps.len() {
        lines.extend([String::new(), state.map_head(number)]);
        lines.extend(state.entries(number));
    }
    lines
}

struct State<'a> {
    object: &'a Object,
    values: &'a dyn Values,
}

impl State<'_> {
    fn variables(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (number, section) in self.object.data.iter().enumerate() {
            // Texts of messages, and what the kernel's configuration says, are no state.
            if section.name.starts_with(".rodata.") || section.name == ".kconfig" {
                continue;
            }
            for (name, variable) in &section.variables {
                let is_hidden = name.split('.').any(|part| part.starts_with("__"));
                if is_hidden || name == "_license" || variable.of == 0 {
                    continue;
                }
                let declaration = self.object.btf.declaration(variable.of, name);
                let bytes = self.values.variable(number, variable.offset, variable.bytes);
                lines.push(self.value_line(&declaration, variable.of, bytes.as_deref()));
            }
        }
        lines
    }

    /// `label = value`, in lines.
    fn value_line(&self, label: &str, of: u32, bytes: Option<&[u8]>) -> String {
        let label = format!("{label} = ");
        let Some(bytes) = bytes else { return label + "?" };
        let indent = label.len() - label.trim_start().len();
        let place = (label.len(), indent / 4);
        let name_of = |address| self.values.name_of(address);
        label.clone() + &self.object.btf.value_text(of, bytes, place, &name_of)
    }

    fn map_head(&self, number: usize) -> String {
        let map = &self.object.maps[number];
        let types = [map.key_type, map.value_type].map(|of| match of {
            0 => "?".to_owned(),
            of => self.object.btf.declaration(of, ""),
        });
        let types = match (map.key_type, map.value_type) {
            (0, 0) => String::new(),
            (0, _) => format!(", {}", types[1]),
            _ => format!(", {}", types.join(" -> ")),
        };
        let nr = self.values.nr_entries(number);
        let nr = nr.map(|nr| format!(", {nr} of {}", map.entries_max)).unwrap_or_default();
        format!("{}: {}{nr}{types}", map.name, map_kind_name(map.kind))
    }

    /// Its entries; those whose value is 0 are left out where all keys have one.
    fn entries(&self, number: usize) -> Vec<String> {
        let map = &self.object.maps[number];
        let inner = map.inner.iter().take(LISTED_MAX);
        let name = |inner: usize| &self.object.maps[inner].name;
        let mut lines: Vec<String> =
            inner.map(|&(key, inner)| format!("    [{key}] = {}", name(inner))).collect();
        let mut count = 0;
        for entry in self.values.entries(number) {
            let is_zero =
                entry.value.as_ref().is_some_and(|value| value.iter().all(|&byte| byte == 0));
            if is_zero && matches!(entry.label, Label::Number(_)) {
                continue;
            }
            count += 1;
            if count <= LISTED_MAX {
                let label = label_text(&self.object.btf, map, &entry);
                lines.push(match (untyped(map), &entry.value) {
                    (Some(spot), Some(value)) => format!("{label} = {}", spot.number(value)),
                    _ => self.value_line(&label, map.value_type, entry.value.as_deref()),
                });
            }
        }
        lines.extend(more(count));
        lines
    }
}

fn label_text(btf: &Btf, map: &MapDefinition, entry: &Entry<'_>) -> String {
    let key = match &entry.label {
        Label::Number(number) => format!("[{number}]"),
        Label::Bytes(bytes) => {
            format!("[{}]", btf.value_text(map.key_type, bytes, (0, 0), &|_| None))
        }
        Label::Owner(name) => format!("[{name}]"),
        Label::Next => "-".to_owned(),
    };
    let cpu = entry.cpu.map(|cpu| format!(" CPU {cpu}")).unwrap_or_default();
    format!("    {key}{cpu}")
}
