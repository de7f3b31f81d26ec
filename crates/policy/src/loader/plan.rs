//! What a loader's file asks of one object on one machine.

use std::collections::BTreeMap;

use bytecode::{MapDefinition, Object, Type, TypeId, Variable, kind, map_kind_name};
use toml::{Table, Value};

use super::topology::{Scope, Topology};
pub use super::values::Piece;
use super::values::{Filling, Place, shown};
use super::{known_keys, members};
use crate::error::unknown_hint;
use crate::table::TYPES;

/// Bytes of all that a file says of variables, maps and calls, with what it takes beside values.
const SAID_BYTES_MAX: usize = 1 << 26;
/// Bytes that inner maps may hold. They are taken as they are used; `scx_pair` has 64 MiB of them.
const INNER_BYTES_MAX: u64 = 1 << 28;
/// Bytes of a section of variables that has grown. It is as much as an object may have of all.
const SECTION_BYTES_MAX: u64 = 1 << 26;
/// Kinds of maps that can be filled: those with numbers or keys, and those without keys.
const WITH_KEYS: [u32; 6] = [
    kind::HASH,
    kind::ARRAY,
    kind::PERCPU_HASH,
    kind::PERCPU_ARRAY,
    kind::LRU_HASH,
    kind::LRU_PERCPU_HASH,
];
const WITHOUT_KEYS: [u32; 2] = [kind::QUEUE, kind::STACK];

/// What is done to an object before it is attached, in the order of these fields.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The object, with other sizes of maps and sections, and other numbers in its operations.
    pub object: Object,
    /// What variables begin with.
    pub writes: Vec<Write>,
    /// What maps begin with.
    pub entries: Vec<Entry>,
    /// Maps that the object does not have, in maps of maps: the outer one, the key, and the inner
    /// one, as indices of this object's.
    pub inner: Vec<(usize, u32, usize)>,
    /// What is called.
    pub calls: Vec<Call>,
}

/// Bytes of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The variable's name.
    pub variable: String,
    /// Its section, as an index of the object's.
    pub section: usize,
    /// Where the bytes begin in that section.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// An entry of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The map, as an index of the object's.
    pub map: usize,
    /// Its key; empty for a map that has none.
    pub key: Vec<u8>,
    /// Its value, or one for each CPU.
    pub values: Vec<Vec<u8>>,
}

/// A program that is called once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The function, as an index of the object's.
    pub function: usize,
    /// What it is given.
    pub context: Vec<u8>,
    /// The CPU that it is called on, if that is said.
    pub cpu: Option<usize>,
    /// Whether it is called after the policy was attached, and not before.
    pub is_attached: bool,
    /// What is made for it first.
    pub made: Vec<Made>,
}

/// Memory in an arena that another program makes for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The call that makes it.
    pub by: Call,
    /// Where that leaves its address, for user space, in its context: 8 bytes.
    pub from: usize,
    /// Where the other call's context has the address.
    pub to: usize,
    /// What is written into the memory, and where.
    pub pieces: Vec<Piece>,
}

/// What pieces take.
fn bytes_of(pieces: &[Piece]) -> usize {
    pieces.iter().map(|(_, bytes)| size_of::<Piece>() + bytes.len()).sum()
}

/// What `table`, a file, asks of `object` on a machine.
pub(super) fn make(table: &Table, object: &Object, machine: &Topology) -> Result<Plan, String> {
    let filling = Filling { btf: &object.btf, machine };
    let plan = Plan { object: object.clone(), ..Plan::default() };
    let mut making = Making { filling, whole: machine.whole(), plan, left: SAID_BYTES_MAX };
    for (name, value) in members(table, "lengths")? {
        making.length(name, value)?;
    }
    for (path, value) in members(table, "variables")? {
        making.variable(path, value)?;
    }
    for (name, asked) in members(table, "maps")? {
        making.map(name, asked)?;
    }
    for (member, value) in members(table, "ops")? {
        making.operation(member, value)?;
    }
    for call in tables(table.get("call"), "call")? {
        making.call(call)?;
    }
    Ok(making.plan)
}

/// The number that `value`, of the variable `name`, is on every machine, if it is one.
pub(super) fn constant(name: &str, value: &Value, object: &Object) -> Option<i128> {
    let filling = Filling { btf: &object.btf, machine: &Topology::default() };
    filling.number(name, value, &Scope::default()).ok()
}

struct Making<'a> {
    filling: Filling<'a>,
    whole: Scope,
    plan: Plan,
    /// Bytes that further entries and calls may have.
    left: usize,
}

impl Making<'_> {
    /// The section and the place of a variable.
    fn find(&self, name: &str) -> Result<(usize, Variable), String> {
        let sections = self.plan.object.data.iter().enumerate();
        let mut found = sections.filter_map(|(at, data)| Some((at, *data.variables.get(name)?)));
        found.next().ok_or_else(|| {
            let all = self.plan.object.data.iter().flat_map(|data| &data.variables);
            let named = all.filter(|(name, one)| one.global && !name.starts_with("__"));
            let known: Vec<String> = named.map(|(name, _)| name.clone()).collect();
            format!("there is no variable {name}{}", unknown_hint(name, &known))
        })
    }

    /// As libbpf has it, the last variable of a section may grow, if it is an array.
    fn length(&mut self, name: &str, value: &Value) -> Result<(), String> {
        let (section, variable) = self.find(name)?;
        let count = self.filling.number(name, value, &self.whole)?;
        let data = &mut self.plan.object.data[section];
        let is_last = data.variables.values().all(|other| other.offset <= variable.offset);
        let element = match self.filling.btf.resolve(variable.of) {
            Ok((_, Type::Array { element, .. })) if is_last => self.filling.btf.bytes_of(*element),
            _ => return Err(format!("{name} is not an array at the end of section {}", data.name)),
        };
        let element = element.map_err(|error| error.to_string())?;
        let bytes = u64::try_from(count).ok().filter(|&count| count > 0);
        let bytes = bytes.and_then(|count| count.checked_mul(element));
        let most = SECTION_BYTES_MAX.saturating_sub(variable.offset);
        let bytes = bytes.filter(|&bytes| bytes <= most);
        let bytes = bytes.ok_or_else(|| {
            format!(
                "{name} cannot have {count} elements of {element} bytes\n\
                 hint: a section has at most {SECTION_BYTES_MAX} bytes"
            )
        })?;
        let end = (variable.offset + bytes) as usize;
        data.len = end;
        let kept = data.bytes.iter().copied().chain(std::iter::repeat(0));
        let whole = if data.read_only { end } else { end.min(data.bytes.len()) };
        data.bytes = kept.take(whole).collect();
        data.variables.insert(name.to_owned(), Variable { bytes, ..variable });
        Ok(())
    }

    fn variable(&mut self, path: &str, value: &Value) -> Result<(), String> {
        let (name, rest) = path.split_at(path.find(['.', '[']).unwrap_or(path.len()));
        let (section, variable) = self.find(name)?;
        let place = Place { offset: variable.offset, of: variable.of, bytes: variable.bytes };
        let (called, place) = self.filling.find(name, place, rest)?;
        let mut pieces = Vec::new();
        self.filling.fill(&called, place, value, &self.whole, &mut pieces)?;
        check_within(&pieces, variable.offset + variable.bytes, name)?;
        self.take_room(&called, pieces.len() * (size_of::<Write>() + name.len()))?;
        self.take_room(&called, bytes_of(&pieces))?;
        self.plan.writes.extend(pieces.into_iter().map(|(offset, bytes)| Write {
            variable: name.to_owned(),
            section,
            offset,
            bytes,
        }));
        Ok(())
    }

    fn map(&mut self, name: &str, asked: &Value) -> Result<(), String> {
        let place = format!("[maps.{name}]");
        let maps = &mut self.plan.object.maps;
        let Some(number) = maps.iter().position(|map| map.name == name) else {
            let known: Vec<String> = maps.iter().map(|map| map.name.clone()).collect();
            return Err(format!("there is no map {name}{}", unknown_hint(name, &known)));
        };
        let asked = asked.as_table().ok_or_else(|| format!("write {place}"))?;
        known_keys(asked, &["max_entries", "entries", "inner_maps"], &place)?;
        if let Some(value) = asked.get("max_entries") {
            let most = self.filling.number("max_entries", value, &self.whole)?;
            maps[number].entries_max = u32::try_from(most).map_err(|_| {
                let value = shown(value);
                format!("{place}: max_entries = {value} is {most}, no size of a map")
            })?;
        }
        let map = maps[number].clone();
        if let Some(value) = asked.get("inner_maps") {
            self.inner_maps(&place, number, value)?;
        }
        for (entry, at) in tables(asked.get("entries"), "entries")?.into_iter().zip(0..) {
            self.entries(&format!("{place}: entries[{at}]"), number, &map, entry)?;
        }
        Ok(())
    }

    /// Maps of the kind that the object describes, for the first keys of a map of maps.
    fn inner_maps(&mut self, place: &str, number: usize, value: &Value) -> Result<(), String> {
        let wrong = |why: String| format!("{place}: inner_maps = {}: {why}", shown(value));
        let count = self.filling.number("inner_maps", value, &self.whole)?;
        let outer = &self.plan.object.maps[number];
        let (of, most, name) = (outer.inner_type, outer.entries_max, outer.name.clone());
        let count = u32::try_from(count).ok().filter(|&count| count <= most);
        let count = count.ok_or_else(|| wrong(format!("it has room for {most}")))?;
        if of == 0 {
            return Err(wrong("it is no map of maps that says of which kind they are".to_owned()));
        }
        if !outer.inner.is_empty() {
            return Err(wrong("the object itself says which maps it has".to_owned()));
        }
        let inner = MapDefinition::read(self.filling.btf, &name, 0, of);
        let inner = inner.map_err(|error| wrong(error.to_string()))?;
        // Of a ring buffer entries are bytes.
        let bytes = u64::from(inner.entries_max) * u64::from(inner.value_bytes.max(1));
        if bytes.saturating_mul(count.into()) > INNER_BYTES_MAX {
            let most = INNER_BYTES_MAX >> 20;
            return Err(wrong(format!("they hold more than {most} MiB\nhint: ask for fewer")));
        }
        for key in 0..count {
            let inner = MapDefinition { name: format!("{name}[{key}]"), ..inner.clone() };
            let own = size_of::<MapDefinition>() + inner.name.len();
            self.take_room(place, own)?;
            let maps = &mut self.plan.object.maps;
            let made = maps.len();
            maps[number].inner.push((key, made));
            maps.push(inner);
            self.plan.inner.push((number, key, made));
        }
        Ok(())
    }

    fn entries(
        &mut self,
        place: &str,
        number: usize,
        map: &MapDefinition,
        entry: &Table,
    ) -> Result<(), String> {
        let has_keys = WITH_KEYS.contains(&map.kind);
        if !has_keys && !WITHOUT_KEYS.contains(&map.kind) {
            let kind = map_kind_name(map.kind);
            return Err(format!("{place}: a map of type {kind} cannot be filled"));
        }
        known_keys(entry, &["each", "key", "value"], place)?;
        let said = |key| entry.get(key).ok_or_else(|| format!("{place} has no {key}"));
        for scope in self.filling.each(place, entry)? {
            let key = match has_keys {
                true => self.bytes("key", (map.key_type, map.key_bytes), said("key")?, &scope)?,
                false => Vec::new(),
            };
            let (of, value) = ((map.value_type, map.value_bytes), said("value")?);
            let of_cpus = value.as_table().filter(|table| table.contains_key("each"));
            let values = match of_cpus {
                Some(table) => {
                    known_keys(table, &["each", "value"], place)?;
                    let value =
                        table.get("value").ok_or_else(|| format!("{place} has no value"))?;
                    let each = self.filling.each(place, table)?;
                    let bytes = |scope: &Scope| self.bytes("value", of, value, scope);
                    each.iter().map(bytes).collect::<Result<_, _>>()?
                }
                None => vec![self.bytes("value", of, value, &scope)?],
            };
            if values.is_empty() {
                return Err(format!("{place}: the machine has none of what it is for each of"));
            }
            let bytes = values.iter().map(|value| value.len() + size_of::<Vec<u8>>());
            self.take_room(place, key.len() + size_of::<Entry>() + bytes.sum::<usize>())?;
            self.plan.entries.push(Entry { map: number, key, values });
        }
        Ok(())
    }

    /// Refuses more than anybody needs, whose memory may not be there.
    fn take_room(&mut self, place: &str, bytes: usize) -> Result<(), String> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            let most = SAID_BYTES_MAX >> 20;
            format!(
                "{place}: variables, entries and calls of the file take more than {most} MiB\n\
                 hint: what is the same for all needs no entry of its own"
            )
        })?;
        Ok(())
    }

    /// A value of a type, which is a plain number where its size alone is known.
    fn bytes(
        &self,
        name: &str,
        (of, bytes): (TypeId, u32),
        value: &Value,
        scope: &Scope,
    ) -> Result<Vec<u8>, String> {
        let mut whole = vec![0; bytes as usize];
        if of == 0 {
            let number = self.filling.number(name, value, scope)?.to_le_bytes();
            let end = whole.len().min(number.len());
            whole[..end].copy_from_slice(&number[..end]);
            return Ok(whole);
        }
        let (mut pieces, place) = (Vec::new(), Place { offset: 0, of, bytes: bytes.into() });
        self.filling.fill(name, place, value, scope, &mut pieces)?;
        check_within(&pieces, bytes.into(), name)?;
        put(&pieces, &mut whole);
        Ok(whole)
    }

    /// A number in the table of operations.
    fn operation(&mut self, member: &str, value: &Value) -> Result<(), String> {
        let number = self.filling.number(member, value, &self.whole)?;
        let is_one = |table: &&mut bytecode::Table| TYPES.contains(&&*table.of);
        let table = self.plan.object.tables.iter_mut().find(is_one);
        let values = table.map(|table| &mut table.values).ok_or("it has no operations")?;
        let known: Vec<String> = values.keys().cloned().collect();
        let bytes = values.get_mut(member).filter(|bytes| (1..=8).contains(&bytes.len()));
        let bytes = bytes.ok_or_else(|| {
            format!("the operations have no number {member}{}", unknown_hint(member, &known))
        })?;
        if number < 0 || number >> (8 * bytes.len()) != 0 {
            let value = shown(value);
            return Err(format!("{member} = {value} does not fit into {} bytes", bytes.len()));
        }
        let length = bytes.len();
        bytes.copy_from_slice(&number.to_le_bytes()[..length]);
        Ok(())
    }

    fn call(&mut self, asked: &Table) -> Result<(), String> {
        known_keys(asked, &["program", "each", "context", "cpu", "attached"], "[[call]]")?;
        let (name, function) = self.program(asked, "[[call]]")?;
        let of = self.context_of(name);
        let is_attached = match asked.get("attached") {
            None => false,
            Some(said) => {
                said.as_bool().ok_or(format!("attached = {said} is not true or false"))?
            }
        };
        let place = format!("the context of {name}");
        let mut value = asked.get("context").cloned().unwrap_or(Value::Table(Table::new()));
        let makers = self.split_makers(&mut value, of);
        for scope in self.filling.each("[[call]]", asked)? {
            let context = match of {
                Some((_, bytes)) if !asked.contains_key("context") => vec![0; bytes as usize],
                Some((of, bytes)) => self.bytes(&place, (of, bytes), &value, &scope)?,
                None if asked.contains_key("context") => {
                    return Err(format!("{place} has no type, so nothing can be set in it"));
                }
                None => Vec::new(),
            };
            let cpu = asked.get("cpu").map(|value| self.cpu(value, &scope)).transpose()?;
            let made =
                makers.iter().map(|(member, to, asked)| self.made(member, *to, asked, &scope));
            let made: Vec<_> = made.collect::<Result<_, _>>()?;
            let inside = made.iter().map(|one| one.by.context.len() + bytes_of(&one.pieces));
            let inside = context.len() + inside.sum::<usize>();
            self.take_room(&place, inside + size_of::<Call>() + made.len() * size_of::<Made>())?;
            self.plan.calls.push(Call { function, context, cpu, is_attached, made });
        }
        Ok(())
    }

    /// The program that a table names, and its function.
    fn program<'t>(&self, asked: &'t Table, place: &str) -> Result<(&'t str, usize), String> {
        let name = asked.get("program").and_then(Value::as_str);
        let name =
            name.ok_or_else(|| format!("{place} has no program\nhint: write program = \"...\""))?;
        let object = &self.plan.object;
        let is_called =
            |&(_, one): &(usize, &bytecode::Function)| object.code[one.code].is_for_user_space();
        let all = || object.functions.iter().enumerate().filter(is_called);
        let found = all().find(|(_, one)| one.name == name);
        found.map(|(function, _)| (name, function)).ok_or_else(|| {
            let known: Vec<String> = all().map(|(_, one)| one.name.clone()).collect();
            let hint = unknown_hint(name, &known);
            format!("there is no program {name} of section syscall{hint}")
        })
    }

    /// Takes those members out of a context that other programs make: where a number is to be, a
    /// table stands. Each with its name and its place.
    fn split_makers(
        &self,
        context: &mut Value,
        of: Option<(TypeId, u32)>,
    ) -> Vec<(String, usize, Table)> {
        let mut makers = Vec::new();
        let (Some(members), Some((of, bytes))) = (context.as_table_mut(), of) else {
            return makers;
        };
        let whole = Place { offset: 0, of, bytes: bytes.into() };
        members.retain(|member, value| {
            let place = value.as_table().and_then(|_| self.word(whole, member));
            makers.extend(
                place
                    .zip(value.as_table())
                    .map(|(at, table)| (member.to_owned(), at, table.clone())),
            );
            place.is_none()
        });
        makers
    }

    /// Where a member of 8 bytes that is a number lies.
    fn word(&self, whole: Place, member: &str) -> Option<usize> {
        let (_, place) = self.filling.find("", whole, member).ok()?;
        let resolved = self.filling.btf.resolve(place.of).ok()?.1;
        (matches!(resolved, Type::Integer { .. }) && place.bytes == 8)
            .then_some(place.offset as usize)
    }

    /// What another program makes for the member of a call's context.
    fn made(&self, member: &str, to: usize, asked: &Table, scope: &Scope) -> Result<Made, String> {
        known_keys(asked, &["program", "of", "value"], member)?;
        let (name, function) = self.program(asked, member)?;
        let context =
            self.context_of(name).map(|(of, bytes)| Place { offset: 0, of, bytes: bytes.into() });
        let from = context.and_then(|whole| self.word(whole, member));
        let (context, from) = context.zip(from).ok_or_else(|| {
            format!("the context of {name} has no number {member} of 8 bytes, where it leaves one")
        })?;
        let mut pieces = Vec::new();
        if let Some(value) = asked.get("value") {
            let of = self.structure(member, asked.get("of"))?;
            self.filling.fill(member, of, value, scope, &mut pieces)?;
            check_within(&pieces, of.bytes, member)?;
        }
        let context = vec![0; context.bytes as usize];
        Ok(Made { by: Call { function, context, ..Call::default() }, from, to, pieces })
    }

    /// The structure that is called so.
    fn structure(&self, member: &str, named: Option<&Value>) -> Result<Place, String> {
        let btf = self.filling.btf;
        let named = named.and_then(Value::as_str);
        let named = named.ok_or_else(|| format!("{member}: of names no structure"))?;
        let is_named =
            |found: &Type| matches!(found, Type::Structure { name, .. } if name == named);
        let found = btf.types().find(|(_, found)| is_named(found));
        let place =
            found.and_then(|(of, _)| Some(Place { offset: 0, of, bytes: btf.bytes_of(of).ok()? }));
        place.ok_or_else(|| format!("{member}: there is no structure {named}"))
    }

    fn cpu(&self, value: &Value, scope: &Scope) -> Result<usize, String> {
        let number = self.filling.number("cpu", value, scope)?;
        let nr_cpus = self.whole.cpus.len();
        let cpu = usize::try_from(number).ok().filter(|&cpu| cpu < nr_cpus);
        let wrong = || format!("cpu = {} is {number}, and there are {nr_cpus} CPUs", shown(value));
        cpu.ok_or_else(wrong)
    }

    /// The type, and its size, to which the first argument of a function points.
    fn context_of(&self, name: &str) -> Option<(TypeId, u32)> {
        let btf = self.filling.btf;
        let prototype = btf.types().find_map(|(_, found)| match found {
            Type::Function { name: found, prototype, .. } if found == name => Some(*prototype),
            _ => None,
        })?;
        let Type::Prototype { arguments, .. } = btf.get(prototype).ok()? else { return None };
        let Type::Pointer { to } = btf.resolve(arguments.first()?.1).ok()?.1 else { return None };
        Some((*to, u32::try_from(btf.bytes_of(*to).ok()?).ok()?))
    }
}

impl Plan {
    /// Writes what variables begin with into the first bytes of each section, but for those of
    /// `but`, which somebody else sets; gives back what belongs behind them. Sections may be large,
    /// and little in them not 0.
    pub(crate) fn write(
        &self,
        sections: &mut [Vec<u8>],
        but: &BTreeMap<String, i64>,
    ) -> Vec<Write> {
        let mut behind = Vec::new();
        for write in self.writes.iter().filter(|write| !but.contains_key(&write.variable)) {
            let (section, offset) = (&mut sections[write.section], write.offset as usize);
            match section.get_mut(offset..offset + write.bytes.len()) {
                Some(place) => place.copy_from_slice(&write.bytes),
                None => behind.push(write.clone()),
            }
        }
        behind
    }
}

/// The types of an object may say more of a place than it has bytes.
fn check_within(pieces: &[Piece], end: u64, name: &str) -> Result<(), String> {
    let is_within = |(offset, bytes): &Piece| {
        offset.checked_add(bytes.len() as u64).is_some_and(|piece_end| piece_end <= end)
    };
    if pieces.iter().all(is_within) {
        return Ok(());
    }
    Err(format!("{name} has fewer bytes than its type"))
}

fn put(pieces: &[Piece], whole: &mut [u8]) {
    for (offset, bytes) in pieces {
        let offset = *offset as usize;
        whole[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
}

/// The tables of a list, or the one that stands there; none if there is nothing.
fn tables<'a>(found: Option<&'a Value>, key: &str) -> Result<Vec<&'a Table>, String> {
    let wrong = |other: &Value| format!("{key} has {other}, which is no table");
    match found {
        None => Ok(Vec::new()),
        Some(Value::Array(all)) => {
            all.iter().map(|one| one.as_table().ok_or_else(|| wrong(one))).collect()
        }
        Some(one) => one.as_table().map(|one| vec![one]).ok_or_else(|| wrong(one)),
    }
}
