//! What a loader's file says becomes the bytes that a type of C has of it.

use std::cell::RefCell;
use std::rc::Rc;

use bytecode::{Btf, Type, TypeId};
use toml::{Table, Value};

use super::expression::evaluate;
use super::known_keys;
use super::topology::{GROUPS, Scope, Topology};
use crate::error::unknown_hint;
use crate::sets::units_of;
use crate::spelling::nearest;
use crate::table::FLAGS;

/// Numbers and texts of one value, in all lists that are in it.
const PIECES_MAX: usize = 1 << 21;
/// How often a list may have one value.
const REPEATED_MAX: i64 = 1 << 16;
/// How deep unnamed structures may lie in each other.
const NESTING_MAX: usize = 16;
/// Some bytes, and where they begin in what is filled.
pub type Piece = (u64, Vec<u8>);
/// An element of a list, and what its words mean.
type Member = (Rc<Value>, Rc<Scope>);
/// Characters of a value that a message shows.
const SHOWN_MAX: usize = 100;

/// A place in a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub offset: u64,
    pub of: TypeId,
    /// How many bytes it has.
    pub bytes: u64,
}

/// Who fills values for a machine.
pub(super) struct Filling<'a> {
    pub btf: &'a Btf,
    pub machine: &'a Topology,
}

impl Filling<'_> {
    /// Adds what `value`, called `name`, is at a place.
    pub fn fill(
        &self,
        name: &str,
        place: Place,
        value: &Value,
        scope: &Scope,
        into: &mut Vec<Piece>,
    ) -> Result<(), String> {
        let wrong = |why: String| format!("{name} = {} {why}", shown(value));
        let resolved = self.btf.resolve(place.of).map_err(|error| wrong(error.to_string()))?.1;
        match (resolved, value) {
            (Type::Structure { .. }, Value::Table(members)) => {
                members.iter().try_for_each(|(path, value)| {
                    let (inner, place) = self.find(name, place, path)?;
                    self.fill(&inner, place, value, scope, into)
                })
            }
            (Type::Array { element, .. }, value) => {
                let bytes =
                    self.btf.bytes_of(*element).map_err(|error| wrong(error.to_string()))?;
                let element = Place { offset: place.offset, of: *element, bytes };
                self.fill_array(name, element, place.bytes, value, scope, into)
            }
            (Type::Integer { .. } | Type::Enumeration { .. }, _) => {
                let number = self.number(name, value, scope)?;
                let bytes = self.bytes_of_number(place, number).map_err(wrong)?;
                into.push((place.offset, bytes));
                Ok(())
            }
            _ => Err(wrong("is nothing that its type in C can hold".to_owned())),
        }
    }

    fn fill_array(
        &self,
        name: &str,
        element: Place,
        all_bytes: u64,
        value: &Value,
        scope: &Scope,
        into: &mut Vec<Piece>,
    ) -> Result<(), String> {
        let wrong = |why: String| format!("{name} = {} {why}", shown(value));
        if let (Value::String(text), true) = (value, self.is_character(element.of)) {
            if text.len() as u64 >= all_bytes {
                return Err(wrong(format!("has more than {} bytes", all_bytes.saturating_sub(1))));
            }
            into.push((element.offset, [text.as_bytes(), &[0]].concat()));
            return Ok(());
        }
        let members = self.members(name, value, element.bytes, scope)?;
        let most = all_bytes.checked_div(element.bytes).unwrap_or(0);
        if members.len() as u64 > most {
            let why = "say below [lengths] how many it has, if it may grow";
            let nr = members.len();
            return Err(wrong(format!("are {nr} elements, and it has {most}\nhint: {why}")));
        }
        let mut offset = element.offset;
        for (number, (value, scope)) in members.into_iter().enumerate() {
            let name = format!("{name}[{number}]");
            self.fill(&name, Place { offset, ..element }, &value, &scope, into)?;
            offset += element.bytes;
            if into.len() > PIECES_MAX {
                let whole = name.split('[').next().unwrap_or_default();
                return Err(format!(
                    "{whole}, up to {name}, has more than {PIECES_MAX} numbers and texts\n\
                     hint: a policy fills larger tables itself, in init or in a program that \
                     [[call]] calls"
                ));
            }
        }
        Ok(())
    }

    /// What the elements of a list are, each with what its words mean.
    fn members(
        &self,
        name: &str,
        value: &Value,
        bytes: u64,
        scope: &Scope,
    ) -> Result<Vec<Member>, String> {
        let scope = Rc::new(scope.clone());
        let plain = |value| (Rc::new(value), scope.clone());
        let numbers = |numbers: Vec<i128>| {
            numbers.into_iter().map(|one| plain(Value::String(one.to_string()))).collect()
        };
        let for_each = |value: Value, each: Vec<Scope>| {
            let value = Rc::new(value);
            each.into_iter().map(|scope| (value.clone(), Rc::new(scope))).collect()
        };
        match value {
            Value::Array(values) => Ok(values.iter().cloned().map(plain).collect()),
            Value::Table(table) => {
                known_keys(table, &["each", "value"], name)?;
                let value = table.get("value").ok_or_else(|| format!("{name} has no value"))?;
                match table.get("each") {
                    Some(Value::Integer(times)) if (0..=REPEATED_MAX).contains(times) => {
                        Ok(vec![plain(value.clone()); *times as usize])
                    }
                    Some(Value::Integer(times)) => Err(format!(
                        "{name}: each = {times} is no number from 0 to {REPEATED_MAX}, how often \
                         a list may have one value"
                    )),
                    _ => Ok(for_each(value.clone(), self.each(name, table)?)),
                }
            }
            Value::String(word) => match &word[..] {
                "mask" => Ok(numbers(mask(&scope.cpus, bytes))),
                _ => {
                    if let Some(list) = self.machine.list(word, &scope.cpus) {
                        return Ok(numbers(list));
                    }
                    let each = word.rsplit_once("_of_").and_then(|(value, group)| {
                        Some((Value::String(value.to_owned()), self.machine.each(group)?))
                    });
                    let (value, each) = each.ok_or_else(|| no_list(name, word))?;
                    Ok(for_each(value, each))
                }
            },
            other => {
                let other = shown(other);
                Err(format!("{name} = {other} is no list\nhint: write [...], or a word for one"))
            }
        }
    }

    /// What holds for each of the group that a table names by `each`; once if it names none.
    pub fn each(&self, place: &str, table: &Table) -> Result<Vec<Scope>, String> {
        let Some(each) = table.get("each") else { return Ok(vec![self.machine.whole()]) };
        each.as_str().and_then(|group| self.machine.each(group)).ok_or_else(|| {
            let each = shown(each);
            format!("{place}: each = {each} is no group\nhint: it is one of {}", GROUPS.join(", "))
        })
    }

    /// The number that a value is.
    pub fn number(&self, name: &str, value: &Value, scope: &Scope) -> Result<i128, String> {
        match value {
            Value::Integer(number) => Ok((*number).into()),
            Value::Boolean(is_true) => Ok((*is_true).into()),
            Value::String(text) => match units_of(text, name) {
                Some(units) => Ok(units.into()),
                None => {
                    let value = shown(value);
                    self.evaluate(text, scope).map_err(|why| format!("{name} = {value}: {why}"))
                }
            },
            _ => Err(format!("{name} = {} is no number", shown(value))),
        }
    }

    /// The number that a text computes, or why it computes none.
    fn evaluate(&self, text: &str, scope: &Scope) -> Result<i128, String> {
        let unknown = RefCell::new(None);
        let word = |word: &str| {
            let found = self.word(word, scope);
            unknown.replace(found.is_none().then(|| word.to_owned()));
            found
        };
        let value = evaluate(text, &word);
        let hint = unknown.take().map(|word| self.hint_on(&word, scope)).unwrap_or_default();
        value.map_err(|why| format!("{why}{hint}"))
    }

    /// What to write for a word that is not known.
    fn hint_on(&self, word: &str, scope: &Scope) -> String {
        let of_cpus = self.machine.each("cpu").and_then(|cpus| cpus.into_iter().next());
        if of_cpus.is_some_and(|cpu| cpu.names.contains_key(word)) {
            let groups = GROUPS.join(", ");
            return format!("\nhint: it is known in what is made for each of {groups}");
        }
        let words = scope.names.keys().copied();
        let enumerators = self.btf.types().flat_map(|(_, found)| match found {
            Type::Enumeration { values, .. } => &values[..],
            _ => &[],
        });
        let flags = FLAGS.iter().map(|(name, _)| *name);
        let known = words.chain(flags).chain(enumerators.map(|(name, _)| name.as_str()));
        match nearest(word, known) {
            Some(near) => format!("; did you mean {near}?"),
            None => "\nhint: words are those of the machine, as nr_cpus, the object's \
                     enumerators, and flags as SCX_OPS_ENQ_LAST"
                .to_owned(),
        }
    }

    /// What a word means: of the machine, or as one of the object's enumerators.
    fn word(&self, word: &str, scope: &Scope) -> Option<i128> {
        let enumerator = |found: &Type| match found {
            Type::Enumeration { values, .. } => {
                values.iter().find(|(name, _)| name == word).map(|(_, value)| i128::from(*value))
            }
            _ => None,
        };
        let flag = || FLAGS.iter().find(|(name, _)| *name == word).map(|&(_, flag)| flag.into());
        let known = scope.names.get(word).copied().or_else(flag);
        known.or_else(|| self.btf.types().find_map(|(_, found)| enumerator(found)))
    }

    /// A number as its type has it, or the rest of a sentence on why it has it not.
    fn bytes_of_number(&self, place: Place, number: i128) -> Result<Vec<u8>, String> {
        let resolved = self.btf.resolve(place.of).map_err(|error| error.to_string())?.1;
        if !(1..=8).contains(&place.bytes) {
            return Err(format!("has {} bytes; numbers of 1 to 8 are set", place.bytes));
        }
        let bits = 8 * place.bytes as u32;
        let (least, most) = match resolved {
            Type::Integer { boolean: true, .. } => (0, 1),
            Type::Integer { signed: true, .. } | Type::Enumeration { signed: true, .. } => {
                (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
            }
            _ => (0, (1_i128 << bits) - 1),
        };
        if !(least..=most).contains(&number) {
            return Err(format!("is {number}, outside what its type can hold ({least} to {most})"));
        }
        Ok(number.to_le_bytes()[..place.bytes as usize].to_vec())
    }

    fn is_character(&self, of: TypeId) -> bool {
        matches!(self.btf.resolve(of), Ok((_, Type::Integer { name, .. })) if name == "char")
    }

    /// What `path` leads to from a place, as `.member`, `[3]` and `[3:]`, the rest of an array, do,
    /// and what it is called then.
    pub fn find(&self, name: &str, from: Place, path: &str) -> Result<(String, Place), String> {
        let (mut place, mut called) = (from, name.to_owned());
        for step in path.replace('[', ".[").split('.').filter(|step| !step.is_empty()) {
            place = match step.strip_prefix('[').and_then(|step| step.strip_suffix(']')) {
                Some(index) => self.element(&called, place, index)?,
                None => self.member(&called, place, step)?,
            };
            let dot = if step.starts_with('[') || called.is_empty() { "" } else { "." };
            called = format!("{called}{dot}{step}");
        }
        Ok((called, place))
    }

    fn element(&self, name: &str, place: Place, index: &str) -> Result<Place, String> {
        let Ok((_, Type::Array { element, .. })) = self.btf.resolve(place.of) else {
            return Err(format!("{name} is no array, so there is no {name}[{index}]"));
        };
        let bytes = self.btf.bytes_of(*element).map_err(|error| error.to_string())?;
        let count = place.bytes.checked_div(bytes).unwrap_or(0);
        if let Some(begin) = index.strip_suffix(':').and_then(|begin| begin.parse::<u64>().ok())
            && begin <= count
        {
            let (offset, bytes) = (place.offset + begin * bytes, (count - begin) * bytes);
            return Ok(Place { offset, of: place.of, bytes });
        }
        let index = index.parse().ok().filter(|&index: &u64| index < count);
        let index = index.ok_or_else(|| format!("{name} has {count} elements, from 0 on"))?;
        Ok(Place { offset: place.offset + index * bytes, of: *element, bytes })
    }

    fn member(&self, name: &str, place: Place, wanted: &str) -> Result<Place, String> {
        let mut known = Vec::new();
        if let Some(found) = self.member_in(place, wanted, &mut known, NESTING_MAX) {
            return found;
        }
        if known.is_empty() {
            return Err(format!("{name} is no structure, so there is no {name}.{wanted}"));
        }
        Err(format!("{name} has no member {wanted}{}", unknown_hint(wanted, &known)))
    }

    fn member_in(
        &self,
        place: Place,
        wanted: &str,
        known: &mut Vec<String>,
        deeper: usize,
    ) -> Option<Result<Place, String>> {
        let Ok((_, Type::Structure { members, .. })) = self.btf.resolve(place.of) else {
            return None;
        };
        members.iter().filter(|_| deeper > 0).find_map(|member| {
            let offset = place.offset + u64::from(member.bit_offset / 8);
            let bytes = self.btf.bytes_of(member.of).unwrap_or(0);
            let inner = Place { offset, of: member.of, bytes };
            if member.name.is_empty() {
                return self.member_in(inner, wanted, known, deeper - 1);
            }
            known.push(member.name.clone());
            (member.name == wanted).then(|| match member.bits {
                0 => Ok(inner),
                _ => Err(format!("{wanted} is a bit field, which cannot be set")),
            })
        })
    }
}

/// A value as a message has it, which a file may have filled by itself.
pub(super) fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Some CPUs as bits of words of so many bytes.
fn mask(cpus: &[usize], bytes: u64) -> Vec<i128> {
    let bits = 8 * bytes.clamp(1, 8) as usize;
    let mut words = vec![0; cpus.iter().max().map_or(0, |most| most / bits + 1)];
    for cpu in cpus {
        words[cpu / bits] |= 1_i128 << (cpu % bits);
    }
    words
}

fn no_list(name: &str, word: &str) -> String {
    let groups = GROUPS.join(", ");
    format!(
        "{name} = {word:?} is no list\n\
         hint: lists are cpus, cpus_by_capacity, cpus_by_core, cpus_by_thread, other_cpus, llcs, \
         other_llcs, near_llcs, far_llcs, other_nodes, mask, and as in llc_of_cpu a word of each \
         of {groups}"
    )
}
