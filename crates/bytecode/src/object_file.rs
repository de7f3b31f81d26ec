//! What stands in an object, before it meets a world to run in.
//!
//! An object is read whole and trusted in nothing. Source: the kernel's documentation of libbpf
//! (sections), llvm's of its BPF relocations, and libbpf itself for how their numbers add up.

mod map_definition;
mod tables;

use std::collections::BTreeMap;
use std::sync::Arc;

use object::elf::EM_BPF;
use object::read::elf::{ElfFile64, ElfSection64, ElfSymbol64};
use object::{
    LittleEndian, Object as _, ObjectSection, ObjectSymbol, Relocation, RelocationFlags,
    RelocationTarget, SectionKind, SymbolKind, SymbolSection,
};

use crate::btf::{Btf, BtfError, Type, TypeId};
use crate::error::ObjectError;
use crate::instruction::SLOT_BYTES;
use crate::notes::Notes;
pub use map_definition::MapDefinition;
use tables::has_tables;

type File<'a> = ElfFile64<'a, LittleEndian>;
type Section<'a> = ElfSection64<'a, 'a, LittleEndian>;
type Symbol<'a> = ElfSymbol64<'a, 'a, LittleEndian>;

/// Sections and symbols that an object may have.
const ITEMS_MAX: usize = 100_000;
/// Bytes that an object may have, and of what. Variables that are 0 take no room in its file, nor
/// here before they are written.
const BYTES_MAX: [(u64, &str); 2] =
    [(1 << 26, "code and variables"), (1 << 30, "variables that are 0")];
/// Bytes of a symbol's name. Source: Linux, include/linux/kallsyms.h, `KSYM_NAME_LEN`.
const NAME_BYTES_MAX: usize = 512;

/// Kinds of relocations. Source: llvm, BinaryFormat/ELFRelocs/BPF.def.
const R_BPF_64_64: u32 = 1;
const R_BPF_64_ABS64: u32 = 2;
const R_BPF_64_32: u32 = 10;

const POINTER_BYTES: u64 = 8;
const MAPS_SECTION: &str = ".maps";
/// Variables in the arena. Source: libbpf, `ARENA_SEC`.
const ARENA_SECTION: &str = ".addr_space.1";
const LICENCE_SECTION: &str = "license";
/// What stands before the name of a section that a loader takes only if it is asked to.
const OPTIONAL: char = '?';

/// A built object.
#[derive(Clone, Debug, Default)]
pub struct Object {
    /// Its code, one entry a section.
    pub code: Arc<Vec<Code>>,
    /// Its functions, in the order of their sections and places.
    pub functions: Vec<Function>,
    /// Its maps, in the order of the section.
    pub maps: Vec<MapDefinition>,
    /// Its variables, one entry a section.
    pub data: Vec<Data>,
    /// What it expects of the world it runs in.
    pub externs: Vec<Extern>,
    /// Tables of functions that it offers, such as a `struct sched_ext_ops`.
    pub tables: Vec<Table>,
    /// The licence that it declares; empty if it declares none.
    pub licence: String,
    /// Its types.
    pub btf: Arc<Btf>,
}

/// A section of code.
#[derive(Clone, Debug)]
pub struct Code {
    /// The section's name.
    pub name: String,
    /// Its instructions as they are encoded.
    pub bytes: Vec<u8>,
    /// What instructions refer to, by slot.
    pub references: BTreeMap<u32, Reference>,
    /// Their lines, and those that name fields.
    pub notes: Notes,
}

impl Code {
    /// Whether its functions may stand in a table, as an operation does.
    pub fn has_operations(&self) -> bool {
        required(&self.name).starts_with("struct_ops")
    }

    /// Whether user space may call its functions, and they stand in no table.
    pub fn is_for_user_space(&self) -> bool {
        required(&self.name) == "syscall"
    }

    /// Whether they may sleep, besides.
    pub fn may_sleep(&self) -> bool {
        required(&self.name).starts_with("struct_ops.s") || self.is_for_user_space()
    }
}

/// A function: some slots of a section of code.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name in C.
    pub name: String,
    /// Its section, as an index of [`Object::code`].
    pub code: usize,
    /// Its first slot there.
    pub first: u32,
    /// How many slots it has.
    pub slots: u32,
}

/// What an instruction refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A byte of [`Object::data`].
    Data {
        /// Which entry.
        section: usize,
        /// Which byte of it. One beyond its end is an address, too.
        offset: u64,
    },
    /// One of [`Object::maps`].
    Map(usize),
    /// A slot of [`Object::code`], where a function must begin.
    Code {
        /// Which section.
        code: usize,
        /// Bytes from its beginning; the instruction's own number is to be added.
        offset: u64,
    },
    /// One of [`Object::externs`].
    Extern(usize),
}

/// A section of variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// Its name: `.rodata`, `.data`, `.bss`, one of these with a suffix, or that of an arena's.
    pub name: String,
    /// How many bytes it has.
    pub len: usize,
    /// The first of them; all others are 0. There are all where the program may not write, else
    /// those of the file.
    pub bytes: Arc<[u8]>,
    /// Whether the program may not write it.
    pub read_only: bool,
    /// Its variables by name, `static` ones included.
    pub variables: BTreeMap<String, Variable>,
}

impl Data {
    /// Whether it lies in the arena.
    pub fn is_of_arena(&self) -> bool {
        self.name == ARENA_SECTION
    }
}

/// A variable at file level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Where it begins in its section.
    pub offset: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its type.
    pub of: TypeId,
    /// Not `static`.
    pub global: bool,
}

/// A function or variable of the world it runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extern {
    /// Its name as the object has it.
    pub name: String,
    /// Whether the object can do without it.
    pub weak: bool,
    /// Its type, 0 if the object does not say.
    pub of: TypeId,
    /// Whether it is of `.kconfig`.
    pub configuration: bool,
}

/// A structure of functions and numbers, by the names of its members.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its variable's name.
    pub name: String,
    /// Its type's name, without a flavour: `sched_ext_ops`.
    pub of: String,
    /// Functions by member, as indices of [`Object::functions`]. One that is not set is absent.
    pub functions: BTreeMap<String, usize>,
    /// Bytes of all other members.
    pub values: BTreeMap<String, Vec<u8>>,
}

impl Object {
    /// Reads an object.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] names what is wrong with the bytes.
    pub fn read(bytes: &[u8]) -> Result<Object, ObjectError> {
        let file = File::parse(bytes)?;
        let machine = file.elf_header().e_machine.get(LittleEndian);
        if machine != EM_BPF {
            return Err(ObjectError::Machine(machine.0));
        }
        if file.sections().count().max(file.symbols().count()) > ITEMS_MAX {
            return Err(ObjectError::Items(ITEMS_MAX));
        }
        let types = section_bytes(&file, ".BTF")?;
        let btf = Btf::read(types.ok_or(ObjectError::NoTypes)?)?;
        let mut reading = Reading {
            file: &file,
            notes: BTreeMap::new(),
            types: variable_types(&btf)?,
            places: BTreeMap::new(),
            externs: BTreeMap::new(),
        };
        if let Some(notes) = section_bytes(&file, ".BTF.ext")? {
            reading.notes = Notes::read(notes, &btf)?;
        }
        let mut object = Object { btf: btf.into(), ..Object::default() };
        if let Some(licence) = section_bytes(&file, LICENCE_SECTION)? {
            let text = licence.split(|&byte| byte == 0).next().unwrap_or_default();
            object.licence = String::from_utf8_lossy(text).into_owned();
        }
        reading.sections(&mut object)?;
        // Where sections have bytes in common, there may be more of everything than bytes.
        let taken = file.sections().filter_map(|section| section.file_range());
        if taken.fold(0, |sum: u64, (_, bytes)| sum.saturating_add(bytes)) > bytes.len() as u64 {
            return Err(ObjectError::Overlap);
        }
        reading.functions(&mut object)?;
        reading.externs(&mut object)?;
        reading.maps(&mut object)?;
        reading.variables(&mut object)?;
        reading.references(&mut object)?;
        reading.tables(&mut object)?;
        Ok(object)
    }

    /// Whether any of its code asks for a field that has this name.
    pub fn names_field(&self, name: &str) -> bool {
        let mut asked = self.code.iter().flat_map(|code| code.notes.fields.values());
        asked.any(|field| self.btf.field_name(field.root, &field.access) == Some(name))
    }

    /// The function that begins in this slot of a section of code.
    pub fn function_at(&self, code: usize, slot: u32) -> Option<usize> {
        self.functions.binary_search_by_key(&(code, slot), |one| (one.code, one.first)).ok()
    }
}

/// What a section has become.
#[derive(Clone, Copy, Debug)]
enum Place {
    Code(usize),
    Data(usize),
    Maps,
}

struct Reading<'a> {
    file: &'a File<'a>,
    notes: BTreeMap<String, Notes>,
    types: VariableTypes,
    /// By the section's number.
    places: BTreeMap<usize, Place>,
    /// Which of the object's externs has this name: the first, if there are more.
    externs: BTreeMap<String, usize>,
}

impl<'a> Reading<'a> {
    fn sections(&mut self, object: &mut Object) -> Result<(), ObjectError> {
        let mut left = BYTES_MAX.map(|(most, _)| most);
        for section in self.file.sections() {
            let name = section.name()?;
            let has_variables = variables_are_read_only(name).is_some() || has_tables(name);
            if section.kind() == SectionKind::Text || has_variables {
                let is_zero =
                    variables_are_read_only(name) == Some(false) && section.file_range().is_none();
                let left = &mut left[usize::from(is_zero)];
                *left =
                    left.checked_sub(section.size()).ok_or_else(|| too_long(&section, is_zero))?;
            }
            if section.kind() == SectionKind::Text {
                if section.size() == 0 {
                    continue;
                }
                let bytes = section.data()?.to_vec();
                if !bytes.len().is_multiple_of(SLOT_BYTES) {
                    return Err(ObjectError::Slots { section: name.to_owned() });
                }
                let notes = self.notes.remove(name).unwrap_or_default();
                self.places.insert(section.index().0, Place::Code(object.code.len()));
                let references = BTreeMap::new();
                Arc::make_mut(&mut object.code).push(Code {
                    name: name.to_owned(),
                    bytes,
                    references,
                    notes,
                });
            } else if let Some(read_only) = variables_are_read_only(name) {
                self.places.insert(section.index().0, Place::Data(object.data.len()));
                let whole = || bytes_or_zeros(&section);
                let bytes = if read_only { whole()? } else { section.data()?.to_vec() };
                object.data.push(Data {
                    name: name.to_owned(),
                    len: section.size() as usize,
                    bytes: bytes.into(),
                    read_only,
                    variables: BTreeMap::new(),
                });
            } else if name == MAPS_SECTION {
                self.places.insert(section.index().0, Place::Maps);
            }
        }
        Ok(())
    }

    fn functions(&self, object: &mut Object) -> Result<(), ObjectError> {
        for symbol in self.file.symbols().filter(|one| one.kind() == SymbolKind::Text) {
            let name = name_of(&symbol)?.to_owned();
            if symbol.is_definition() && symbol.size() == 0 {
                return Err(ObjectError::Empty { name });
            }
            let Some(Place::Code(code)) = self.place(&symbol) else { continue };
            let (at, bytes) = (symbol.address(), symbol.size());
            let end =
                at.checked_add(bytes).filter(|&end| end <= object.code[code].bytes.len() as u64);
            let aligned = (at | bytes).is_multiple_of(SLOT_BYTES as u64);
            if end.is_none() || !aligned {
                return Err(ObjectError::Function { name });
            }
            let slots = |bytes: u64| (bytes / SLOT_BYTES as u64) as u32;
            let (first, slots) = (slots(at), slots(bytes));
            object.functions.push(Function { name, code, first, slots });
        }
        object.functions.sort_by_key(|one| (one.code, one.first));
        for pair in object.functions.windows(2) {
            if pair[0].code == pair[1].code && pair[0].first + pair[0].slots > pair[1].first {
                return Err(ObjectError::Function { name: pair[1].name.clone() });
            }
        }
        Ok(())
    }

    fn externs(&mut self, object: &mut Object) -> Result<(), ObjectError> {
        let mut types = BTreeMap::new();
        for (_, found) in object.btf.types() {
            let Type::Section { name, variables } = found else { continue };
            for variable in variables.iter().filter(|_| matches!(&name[..], ".ksyms" | ".kconfig"))
            {
                if let Type::Variable { name: extern_name, .. }
                | Type::Function { name: extern_name, .. } = object.btf.get(variable.of)?
                {
                    types.insert(extern_name.clone(), (variable.of, name == ".kconfig"));
                }
            }
        }
        for symbol in self.file.symbols().filter(|symbol| symbol.is_undefined()) {
            let name = name_of(&symbol)?.to_owned();
            if name.is_empty() {
                continue;
            }
            let (of, configuration) = types.get(&name).copied().unwrap_or_default();
            self.externs.entry(name.clone()).or_insert(object.externs.len());
            object.externs.push(Extern { name, weak: symbol.is_weak(), of, configuration });
        }
        Ok(())
    }

    fn maps(&self, object: &mut Object) -> Result<(), ObjectError> {
        for symbol in self.file.symbols() {
            let Some(Place::Maps) = self.place(&symbol) else { continue };
            let name = name_of(&symbol)?;
            if let Some(of) = self.type_of(MAPS_SECTION, name) {
                object.maps.push(MapDefinition::read(&object.btf, name, symbol.address(), of)?);
            }
        }
        object.maps.sort_by_key(|map| map.offset);
        Ok(())
    }

    fn variables(&self, object: &mut Object) -> Result<(), ObjectError> {
        for symbol in self.file.symbols() {
            let Some(Place::Data(section)) = self.place(&symbol) else { continue };
            let (name, data) = (name_of(&symbol)?, &mut object.data[section]);
            let Some(of) = self.type_of(&data.name, name) else { continue };
            let (offset, bytes) = (symbol.address(), object.btf.bytes_of(of)?);
            if offset.checked_add(bytes).is_none_or(|end| end > data.len as u64) {
                return Err(ObjectError::Variable { name: name.to_owned() });
            }
            let global = symbol.is_global();
            data.variables.insert(name.to_owned(), Variable { offset, bytes, of, global });
        }
        Ok(())
    }

    fn references(&mut self, object: &mut Object) -> Result<(), ObjectError> {
        for section in self.file.sections() {
            if matches!(self.places.get(&section.index().0), Some(Place::Maps)) {
                self.inner_maps(object, &section)?;
            }
            // As in libbpf, pointers that variables begin with stay null.
            let Some(&Place::Code(code)) = self.places.get(&section.index().0) else { continue };
            for (at, relocation) in section.relocations() {
                let kind = kind_of(&relocation);
                let name = || section.name().unwrap_or_default().to_owned();
                let refused = || ObjectError::Relocation { section: name(), at, kind };
                let (R_BPF_64_64 | R_BPF_64_32, RelocationTarget::Symbol(index)) =
                    (kind, relocation.target())
                else {
                    return Err(refused());
                };
                let symbol = self.file.symbol_by_index(index)?;
                let slot = u32::try_from(at / SLOT_BYTES as u64).map_err(|_| refused())?;
                let bytes = object.code[code].bytes.get(slot as usize * SLOT_BYTES + 4..);
                let number = bytes.and_then(|bytes| bytes.first_chunk()).ok_or_else(refused)?;
                let number = i32::from_le_bytes(*number);
                let reference = self.reference(object, &symbol, number);
                let reference = reference.ok_or_else(|| ObjectError::Undefined {
                    section: name(),
                    at,
                    name: name_of(&symbol).unwrap_or_default().to_owned(),
                })?;
                Arc::make_mut(&mut object.code)[code].references.insert(slot, reference);
            }
        }
        Ok(())
    }

    /// The maps that maps of maps begin with.
    fn inner_maps(&self, object: &mut Object, section: &Section<'_>) -> Result<(), ObjectError> {
        for (at, relocation) in section.relocations() {
            let kind = kind_of(&relocation);
            let name = || section.name().unwrap_or_default().to_owned();
            let refused = || ObjectError::Relocation { section: name(), at, kind };
            let RelocationTarget::Symbol(index) = relocation.target() else {
                return Err(refused());
            };
            let symbol = self.file.symbol_by_index(index)?;
            if !matches!(self.place(&symbol), Some(Place::Maps)) {
                // Programs in maps: who makes the map refuses its kind.
                continue;
            }
            let offset = symbol.address();
            let inner = object.maps.binary_search_by_key(&offset, |map| map.offset);
            let outer = object.maps.partition_point(|map| map.offset <= at).checked_sub(1);
            let (inner, outer) = (inner.map_err(|_| refused())?, outer.ok_or_else(refused)?);
            let map = &mut object.maps[outer];
            let within = map.values_at.and_then(|values| (at - map.offset).checked_sub(values));
            let key = within.and_then(|bytes| u32::try_from(bytes / POINTER_BYTES).ok());
            map.inner.push((key.ok_or_else(refused)?, inner));
        }
        Ok(())
    }

    /// What an instruction with this number refers to by a symbol.
    fn reference(
        &mut self,
        object: &mut Object,
        symbol: &Symbol<'a>,
        number: i32,
    ) -> Option<Reference> {
        if symbol.is_undefined() {
            let name = name_of(symbol).ok()?;
            return self.externs.get(name).copied().map(Reference::Extern);
        }
        let offset = symbol.address();
        let within = || offset.checked_add_signed(number.into());
        let Some(place) = self.place(symbol) else {
            let SymbolSection::Section(index) = symbol.section() else { return None };
            let section = self.file.section_by_index(index).ok()?;
            return Some(self.elsewhere(object, name_of(symbol).ok()?, section.name().ok()?));
        };
        match place {
            Place::Code(code) => Some(Reference::Code { code, offset }),
            Place::Data(section) => {
                let offset = within()?;
                let bytes = object.data[section].len as u64;
                (offset <= bytes).then_some(Reference::Data { section, offset })
            }
            Place::Maps => {
                let offset = within()?;
                let found = object.maps.binary_search_by_key(&offset, |map| map.offset);
                found.ok().map(Reference::Map)
            }
        }
    }

    /// What lies in a section that means nothing here, is of another world, and
    /// is refused where a way leads to it.
    fn elsewhere(&mut self, object: &mut Object, symbol: &str, section: &str) -> Reference {
        let name = format!("{symbol} in section {section}").trim_start().to_owned();
        Reference::Extern(*self.externs.entry(name).or_insert_with_key(|name| {
            let name = name.clone();
            object.externs.push(Extern { name, weak: false, of: 0, configuration: false });
            object.externs.len() - 1
        }))
    }

    fn function_of(&self, object: &Object, symbol: &Symbol<'a>) -> Option<usize> {
        let Some(Place::Code(code)) = self.place(symbol) else { return None };
        object.function_at(code, u32::try_from(symbol.address() / SLOT_BYTES as u64).ok()?)
    }

    fn type_of(&self, section: &str, name: &str) -> Option<TypeId> {
        self.types.get(&(section.to_owned(), name.to_owned())).copied()
    }

    fn place(&self, symbol: &Symbol<'a>) -> Option<Place> {
        match symbol.section() {
            SymbolSection::Section(index) => self.places.get(&index.0).copied(),
            _ => None,
        }
    }
}

/// What a section is called without [`OPTIONAL`].
fn required(name: &str) -> &str {
    name.trim_start_matches(OPTIONAL)
}

fn name_of<'a>(symbol: &Symbol<'a>) -> Result<&'a str, ObjectError> {
    let name = symbol.name()?;
    if name.len() > NAME_BYTES_MAX { Err(ObjectError::Name(NAME_BYTES_MAX)) } else { Ok(name) }
}

fn kind_of(relocation: &Relocation) -> u32 {
    match relocation.flags() {
        RelocationFlags::Elf { r_type, .. } => r_type.0,
        _ => 0,
    }
}

/// Whether a section of this name holds variables, and whether a program may not write them.
fn variables_are_read_only(name: &str) -> Option<bool> {
    let is = |base: &str| {
        name.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let is_written = is(".data") || is(".bss") || name == ARENA_SECTION;
    if is(".rodata") { Some(true) } else { is_written.then_some(false) }
}

fn bytes_or_zeros(section: &Section<'_>) -> Result<Vec<u8>, ObjectError> {
    let bytes = section.data()?;
    if !bytes.is_empty() || section.size() == 0 {
        return Ok(bytes.to_vec());
    }
    Ok(vec![0; section.size() as usize])
}

fn too_long(section: &Section<'_>, is_zero: bool) -> ObjectError {
    let name = section.name().unwrap_or_default().to_owned();
    let (most, what) = BYTES_MAX[usize::from(is_zero)];
    ObjectError::Bytes { what, section: name, bytes: section.size(), most }
}

fn section_bytes<'a>(file: &File<'a>, name: &str) -> Result<Option<&'a [u8]>, ObjectError> {
    Ok(file.section_by_name(name).map(|section| section.data()).transpose()?)
}

/// The types of variables, by their section and name.
type VariableTypes = BTreeMap<(String, String), TypeId>;

fn variable_types(btf: &Btf) -> Result<VariableTypes, BtfError> {
    let mut types = VariableTypes::new();
    for (_, found) in btf.types() {
        let Type::Section { name: section, variables } = found else { continue };
        for variable in variables {
            if let Type::Variable { name, of, .. } = btf.get(variable.of)? {
                types.insert((section.clone(), name.clone()), *of);
            }
        }
    }
    Ok(types)
}
