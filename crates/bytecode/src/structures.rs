//! The structures and values of a world, by name, and where fields of an object lie among them.
//!
//! An object is built against its own idea of a structure, which may lack fields and have others
//! elsewhere. Its relocations name what they mean; here the names become offsets. Source:
//! libbpf, relo_core.c.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::btf::{Btf, BtfError, Type, TypeId, essential_name};
use crate::notes::{FieldRelocation, Question};

/// Names that a message lists at most.
const NAMES_SHOWN_MAX: usize = 12;

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An integer or a value of an enumeration.
    Number {
        /// 1, 2, 4 or 8.
        bytes: u32,
        /// Whether it may be negative.
        signed: bool,
    },
    /// An address.
    Pointer,
    /// Another structure of the world.
    Structure(&'static str),
    /// Elements one after the other, each of some bytes.
    Array(Box<Shape>, u32),
}

/// A field of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in C.
    pub name: &'static str,
    /// Where it begins, in bytes.
    pub offset: u32,
    /// What it holds.
    pub shape: Shape,
}

/// A structure of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Structure {
    /// Its size in bytes.
    pub bytes: u32,
    /// Its fields.
    pub fields: Vec<Field>,
}

/// All structures and enumerations of a world.
#[derive(Clone, Debug, Default)]
pub struct Structures {
    structures: BTreeMap<&'static str, Structure>,
    values: BTreeMap<&'static str, BTreeMap<&'static str, i64>>,
    declared: Declared,
}

/// What programs find in a world that makes nothing of it.
#[derive(Clone, Debug, Default)]
struct Declared {
    /// Structures that lie in programs' own memory, with their fields.
    structures: BTreeMap<&'static str, BTreeSet<&'static str>>,
    values: BTreeMap<&'static str, BTreeMap<&'static str, i64>>,
    /// Structures of the world that are not there for programs.
    gone: BTreeSet<&'static str>,
}

/// A field that was found.
struct Found<'a> {
    offset: u32,
    shape: &'a Shape,
}

/// The answer to a relocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Number {
        value: u64,
        /// For a field that is not as wide in the world as in the object.
        widths: Option<Widths>,
    },
    /// The world has no such field: what is missing, and what there is instead.
    Missing { field: String, instead: String },
}

/// How wide a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Widths {
    /// Bytes in the object.
    pub(crate) object: u64,
    /// Bytes in the world.
    pub(crate) world: u64,
    /// Whether it has no sign in either, so that an access may be of another width.
    pub(crate) unsigned: bool,
}

impl Structures {
    /// Adds a structure.
    pub fn structure(&mut self, name: &'static str, bytes: usize, fields: Vec<Field>) {
        self.structures.insert(name, Structure { bytes: bytes as u32, fields });
    }

    /// Adds an enumeration.
    pub fn enumeration(&mut self, name: &'static str, values: &[(&'static str, i64)]) {
        self.values.insert(name, values.iter().copied().collect());
    }

    /// Lets programs find a field, of a structure that is not the world's: such a one lies in their
    /// own memory.
    pub fn declare_field(&mut self, of: &'static str, name: &'static str) {
        if !self.structures.contains_key(of) {
            self.declared.structures.entry(of).or_default().insert(name);
        }
    }

    /// Takes a field away, and the structure if that was the last one.
    pub fn remove_field(&mut self, of: &'static str, name: &str) {
        let Some(structure) = self.structures.get_mut(of) else { return };
        let before = structure.fields.len();
        structure.fields.retain(|field| field.name != name);
        if structure.fields.is_empty() && before > 0 {
            self.declared.gone.insert(of);
        }
    }

    /// Lets programs find a value of an enumeration; the world's own come first.
    pub fn declare_value(&mut self, of: &'static str, name: &'static str, value: i64) {
        self.declared.values.entry(of).or_default().insert(name, value);
    }

    /// Takes a value away.
    pub fn remove_value(&mut self, of: &str, name: &str) {
        if let Some(values) = self.values.get_mut(of) {
            values.remove(name);
        }
    }

    /// The structure of this name.
    pub fn get(&self, name: &str) -> Option<&Structure> {
        self.structures.get(name)
    }

    /// The name of the field of a structure that has its byte `at`, with those that it is in.
    pub fn field_at(&self, of: &str, at: u32) -> Option<String> {
        self.structures.get(of)?.fields.iter().find_map(|field| {
            let within = at.checked_sub(field.offset)?;
            match &field.shape {
                Shape::Structure(inner) => {
                    Some(format!("{}.{}", field.name, self.field_at(inner, within)?))
                }
                shape => (within < self.bytes(shape)).then(|| field.name.to_owned()),
            }
        })
    }

    /// The values of all enumerations, by their names.
    pub fn enumerators(&self) -> impl Iterator<Item = (&'static str, i64)> + '_ {
        self.values.values().flatten().map(|(name, value)| (*name, *value))
    }

    fn bytes(&self, shape: &Shape) -> u32 {
        match shape {
            Shape::Number { bytes, .. } => *bytes,
            Shape::Pointer => 8,
            Shape::Structure(name) => self.structures.get(name).map_or(0, |one| one.bytes),
            Shape::Array(element, count) => self.bytes(element) * count,
        }
    }

    pub(crate) fn answer(
        &self,
        btf: &Btf,
        relocation: &FieldRelocation,
    ) -> Result<Answer, BtfError> {
        let number = |value| Ok(Answer::Number { value, widths: None });
        match relocation.question {
            Question::LocalTypeId => number(relocation.root.into()),
            Question::TypeExists | Question::TypeMatches => {
                let name = name_of(btf, relocation.root)?;
                let is_known = self.type_of(btf, relocation.root)?.is_ok();
                let is_there = is_known || self.declared.has_type(&name);
                number((is_there && !self.declared.gone.contains(&name[..])).into())
            }
            Question::TypeBytes | Question::TargetTypeId => {
                match self.type_of(btf, relocation.root)? {
                    Ok((_, bytes)) if relocation.question == Question::TypeBytes => {
                        number(bytes.into())
                    }
                    Ok((index, _)) => number(index),
                    Err(field) => Ok(Answer::Missing { field, instead: String::new() }),
                }
            }
            Question::ValueExists | Question::Value => self.value(btf, relocation),
            _ => self.field(btf, relocation),
        }
    }

    /// Number and size of a type of the world; else its name.
    fn type_of(&self, btf: &Btf, id: TypeId) -> Result<Result<(u64, u32), String>, BtfError> {
        let name = name_of(btf, id)?;
        let found = self.structures.iter().zip(1..).find(|((one, _), _)| **one == name);
        if let Some(((_, structure), number)) = found {
            return Ok(Ok((number, structure.bytes)));
        }
        let number = self.values.keys().position(|one| *one == name);
        let first = self.structures.len() as u64 + 1;
        Ok(number.map(|number| (first + number as u64, 4)).ok_or(name))
    }

    fn value(&self, btf: &Btf, relocation: &FieldRelocation) -> Result<Answer, BtfError> {
        let (id, of) = btf.resolve(relocation.root)?;
        let index = relocation.access.first().copied().unwrap_or_default() as usize;
        let Type::Enumeration { name, values, .. } = of else {
            return Err(BtfError::NoType(id));
        };
        let (value, _) = values.get(index).ok_or(BtfError::NoType(id))?;
        let (name, value) = (essential_name(name), essential_name(value));
        let all = [&self.values, &self.declared.values];
        let found = all.iter().find_map(|all| all.get(name)?.get(value)).copied();
        Ok(match (relocation.question, found) {
            (Question::ValueExists, found) => {
                Answer::Number { value: found.is_some().into(), widths: None }
            }
            (_, Some(found)) => Answer::Number { value: found as u64, widths: None },
            (_, None) => {
                let known = self.values.get(name).map(|values| names(values.keys().copied()));
                let instead = known.map(|known| format!("; there are {known}"));
                let field = format!("value {value} of enum {name}");
                Answer::Missing { field, instead: instead.unwrap_or_default() }
            }
        })
    }

    fn field(&self, btf: &Btf, relocation: &FieldRelocation) -> Result<Answer, BtfError> {
        let path = Path::read(btf, relocation)?;
        let number = |value| Ok(Answer::Number { value, widths: None });
        if let Some(offset) = path.own_offset
            && !self.structures.contains_key(&path.root[..])
        {
            let is_declared = self.declared.has_field(&path);
            return number(path.own_answer(relocation.question, offset, is_declared));
        }
        let found = self.find(&path);
        let found = match (relocation.question, found) {
            (Question::FieldExists, found) => return number(found.is_ok().into()),
            (_, Err(instead)) => return Ok(Answer::Missing { field: path.text(), instead }),
            (_, Ok(found)) => found,
        };
        let bytes = self.bytes(found.shape);
        match relocation.question {
            Question::FieldBytes => number(bytes.into()),
            Question::FieldSigned => {
                number(matches!(found.shape, Shape::Number { signed: true, .. }).into())
            }
            Question::FieldLeftShift | Question::FieldRightShift => {
                number(64_u64.saturating_sub(u64::from(bytes) * 8))
            }
            _ => {
                let (world, has_sign) = match found.shape {
                    Shape::Number { bytes, signed } => (u64::from(*bytes), *signed),
                    Shape::Pointer => (8, false),
                    _ => (path.bytes, false),
                };
                let unsigned = !has_sign && !path.signed;
                let widths = Widths { object: path.bytes, world, unsigned };
                let widths = (path.bytes != world).then_some(widths);
                Ok(Answer::Number { value: found.offset.into(), widths })
            }
        }
    }

    /// Follows a path; where it ends too early, says what there is instead.
    fn find(&self, path: &Path) -> Result<Found<'_>, String> {
        let root = self.structures.get_key_value(&path.root[..]).ok_or("")?;
        let (mut of, mut offset) = (*root.0, 0);
        let mut shape: Option<&Shape> = None;
        for step in &path.steps {
            match (step, shape) {
                (Step::Field(name), None | Some(Shape::Structure(_))) => {
                    let inside = self.structures.get(of).ok_or("")?;
                    let field = inside.fields.iter().find(|one| one.name == name);
                    let field = field.ok_or_else(|| {
                        let known = names(inside.fields.iter().map(|one| one.name));
                        format!("; struct {of} has {known}")
                    })?;
                    offset += field.offset;
                    shape = Some(&field.shape);
                }
                (Step::Element(index), Some(Shape::Array(element, count))) if index < count => {
                    offset += index * self.bytes(element);
                    shape = Some(element);
                }
                _ => return Err(String::new()),
            }
            if let Some(Shape::Structure(name)) = shape {
                of = name;
            }
        }
        let shape = shape.ok_or("")?;
        if path.kind.fits(shape) { Ok(Found { offset, shape }) } else { Err(String::new()) }
    }
}

impl Declared {
    fn has_type(&self, name: &str) -> bool {
        self.structures.contains_key(name) || self.values.contains_key(name)
    }

    fn has_field(&self, path: &Path) -> bool {
        let fields = self.structures.get(&path.root[..]);
        matches!((fields, path.steps.first()), (Some(fields), Some(Step::Field(name)))
            if fields.contains(&name[..]))
    }
}

/// One step of a path.
enum Step {
    Field(String),
    Element(u32),
}

/// What stands at a path's end in the object.
enum Kind {
    Number,
    Pointer,
    Structure,
    Array,
}

impl Kind {
    fn fits(&self, shape: &Shape) -> bool {
        matches!(
            (self, shape),
            (Kind::Number, Shape::Number { .. })
                | (Kind::Pointer, Shape::Pointer)
                | (Kind::Structure, Shape::Structure(_))
                | (Kind::Array, Shape::Array(..))
        )
    }
}

/// A field by names, as the object means it.
struct Path {
    root: String,
    steps: Vec<Step>,
    kind: Kind,
    /// Bytes of the field in the object; 0 if it has no size there.
    bytes: u64,
    /// Whether it may be negative there.
    signed: bool,
    /// Where it begins there, in bytes; `None` for a bit field.
    own_offset: Option<u64>,
}

impl Path {
    fn read(btf: &Btf, relocation: &FieldRelocation) -> Result<Path, BtfError> {
        let refused = || BtfError::NoType(relocation.root);
        let root = name_of(btf, relocation.root)?;
        let (first, rest) = relocation.access.split_first().ok_or_else(refused)?;
        // A first step other than 0 takes another element of an array of structures.
        if *first != 0 {
            return Err(refused());
        }
        let (mut at, mut steps) = (relocation.root, Vec::new());
        let (mut own_offset, mut is_bit_field) = (0, false);
        for &index in rest {
            match btf.resolve(at)?.1 {
                Type::Structure { members, .. } => {
                    let member = members.get(index as usize).ok_or_else(refused)?;
                    if !member.name.is_empty() {
                        steps.push(Step::Field(member.name.clone()));
                    }
                    own_offset += u64::from(member.bit_offset / 8);
                    is_bit_field = member.bits != 0;
                    at = member.of;
                }
                Type::Array { element, .. } => {
                    own_offset += u64::from(index) * btf.bytes_of(*element)?;
                    steps.push(Step::Element(index));
                    at = *element;
                }
                _ => return Err(refused()),
            }
        }
        let kind = match btf.resolve(at)?.1 {
            Type::Integer { .. } | Type::Enumeration { .. } => Kind::Number,
            Type::Pointer { .. } => Kind::Pointer,
            Type::Structure { .. } => Kind::Structure,
            Type::Array { .. } => Kind::Array,
            _ => return Err(refused()),
        };
        let signed = matches!(
            btf.resolve(at)?.1,
            Type::Integer { signed: true, .. } | Type::Enumeration { signed: true, .. }
        );
        let bytes = btf.bytes_of(at).unwrap_or(0);
        let own_offset = (!is_bit_field).then_some(own_offset);
        Ok(Path { root, steps, kind, bytes, signed, own_offset })
    }

    /// The answer where the world has no such structure: nothing of the world leads to one, so it
    /// lies in the program's own memory, and is what the object takes it for.
    fn own_answer(&self, question: Question, offset: u64, exists: bool) -> u64 {
        match question {
            Question::FieldExists => exists.into(),
            Question::FieldBytes => self.bytes,
            Question::FieldSigned => self.signed.into(),
            Question::FieldLeftShift | Question::FieldRightShift => {
                64_u64.saturating_sub(self.bytes * 8)
            }
            _ => offset,
        }
    }

    fn text(&self) -> String {
        let mut text = self.root.clone();
        for step in &self.steps {
            match step {
                Step::Field(name) => write!(text, ".{name}"),
                Step::Element(index) => write!(text, "[{index}]"),
            }
            .unwrap_or_default();
        }
        text
    }
}

fn name_of(btf: &Btf, id: TypeId) -> Result<String, BtfError> {
    // The name of a typedef is that of its type, unless the type has none.
    let named = match (btf.resolve(id)?.1, btf.get(id)?) {
        (Type::Structure { name, .. } | Type::Enumeration { name, .. }, _) if !name.is_empty() => {
            name
        }
        (Type::Declared { name }, _) | (_, Type::Typedef { name, .. }) => name,
        (Type::Integer { name, .. }, _) => name,
        _ => return Err(BtfError::NoType(id)),
    };
    Ok(essential_name(named).to_owned())
}

fn names(of: impl Iterator<Item = &'static str>) -> String {
    let mut all: Vec<_> = of.collect();
    let more = all.len().saturating_sub(NAMES_SHOWN_MAX);
    all.truncate(NAMES_SHOWN_MAX);
    let listed = all.join(", ");
    if more > 0 { format!("{listed} and {more} more") } else { listed }
}
