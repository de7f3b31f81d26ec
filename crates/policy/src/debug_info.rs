//! The global variables of a C file and their types, from its DWARF.
//!
//! Only what a loader needs is kept: where a variable lies, whether it is an integer, an array
//! or a structure, and, for a structure, what its pointers point to (a map is described so).
//! Format: DWARF Debugging Information Format, versions 4 and 5.

use gimli::{
    AttributeValue, DW_AT_byte_size, DW_AT_count, DW_AT_encoding, DW_AT_external, DW_AT_location,
    DW_AT_name, DW_AT_specification, DW_AT_type, DW_AT_upper_bound, DwAt, EndianSlice, Operation,
    RunTimeEndian, UnitOffset, UnitRef,
};

type Reader<'a> = EndianSlice<'a, RunTimeEndian>;
type Entry<'a> = gimli::DebuggingInformationEntry<Reader<'a>>;

/// Longest chain of typedefs and qualifiers that is followed.
const TYPE_DEPTH_MAX: usize = 64;

/// A variable defined outside of functions.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    /// Where it lies before loading, in the object's own addresses.
    pub(crate) address: u64,
    /// Its size in bytes.
    pub(crate) size: u64,
    /// Its type as the source names it, without qualifiers: `u64`, `enum mode`.
    pub(crate) type_name: String,
    /// Not `static`.
    pub(crate) external: bool,
    /// Declared `const volatile`.
    pub(crate) const_volatile: bool,
    pub(crate) shape: Shape,
}

/// What kind of thing a variable holds.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Integer { signed: bool, boolean: bool },
    Array,
    Structure(Vec<Member>),
    Other,
}

/// A member of a structure that is a pointer, and what it points to.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// Elements, if it points to an array.
    pub(crate) elements: Option<u64>,
    /// Size in bytes of what it points to.
    pub(crate) size: u64,
}

/// All variables defined at file level, in the order of the DWARF.
///
/// `section` gives the bytes of a DWARF section by its name, empty if there is none.
pub(crate) fn variables<'a>(
    endian: RunTimeEndian,
    mut section: impl FnMut(&str) -> &'a [u8],
) -> Result<Vec<Variable>, gimli::Error> {
    let dwarf = gimli::Dwarf::load(|id| -> Result<_, gimli::Error> {
        Ok(EndianSlice::new(section(id.name()), endian))
    })?;
    let mut found = Vec::new();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        let unit = dwarf.unit(header)?;
        let types = Types { unit: unit.unit_ref(&dwarf) };
        let mut tree = unit.entries_tree(None)?;
        let mut entries = tree.root()?.children();
        while let Some(node) = entries.next()? {
            if node.entry().tag() == gimli::DW_TAG_variable {
                found.extend(types.variable(node.entry())?);
            }
        }
    }
    Ok(found)
}

/// Reads types of one compilation unit.
struct Types<'a> {
    unit: UnitRef<'a, Reader<'a>>,
}

/// A type after its qualifiers and typedefs.
struct Bare<'a> {
    entry: Entry<'a>,
    name: String,
    constant: bool,
    volatile: bool,
}

impl<'a> Types<'a> {
    /// The variable, or nothing for a mere declaration.
    fn variable(&self, entry: &Entry<'a>) -> Result<Option<Variable>, gimli::Error> {
        let Some(address) = self.address(entry)? else { return Ok(None) };
        // A definition that follows a declaration leaves name and type to the declaration.
        let declaration = match entry.attr_value(DW_AT_specification) {
            Some(AttributeValue::UnitRef(offset)) => self.unit.entry(offset)?,
            _ => entry.clone(),
        };
        let (Some(name), Some(offset)) = (self.name(&declaration)?, type_offset(&declaration))
        else {
            return Ok(None);
        };
        let bare = self.bare(offset)?;
        let is_array = bare.entry.tag() == gimli::DW_TAG_array_type;
        // Qualifiers of an array may stand at its elements.
        let element = match type_offset(&bare.entry) {
            Some(element) if is_array => Some(self.bare(element)?),
            _ => None,
        };
        let constant = bare.constant || element.as_ref().is_some_and(|e| e.constant);
        let volatile = bare.volatile || element.as_ref().is_some_and(|e| e.volatile);
        Ok(Some(Variable {
            name,
            address,
            size: self.size(&bare.entry)?,
            external: flag(entry, DW_AT_external) || flag(&declaration, DW_AT_external),
            const_volatile: constant && volatile,
            shape: self.shape(&bare.entry)?,
            type_name: element.map_or(bare.name, |element| element.name),
        }))
    }

    fn address(&self, entry: &Entry<'a>) -> Result<Option<u64>, gimli::Error> {
        let Some(AttributeValue::Exprloc(expression)) = entry.attr_value(DW_AT_location) else {
            return Ok(None);
        };
        match expression.operations(self.unit.encoding()).next()? {
            Some(Operation::Address { address }) => Ok(Some(address)),
            Some(Operation::AddressIndex { index }) => self.unit.address(index).map(Some),
            _ => Ok(None), // In no fixed place: optimised away, or one per thread.
        }
    }

    fn shape(&self, entry: &Entry<'a>) -> Result<Shape, gimli::Error> {
        Ok(match entry.tag() {
            gimli::DW_TAG_array_type => Shape::Array,
            gimli::DW_TAG_structure_type => Shape::Structure(self.pointers(entry)?),
            gimli::DW_TAG_enumeration_type => match type_offset(entry) {
                Some(underlying) => self.shape(&self.bare(underlying)?.entry)?,
                None => Shape::Integer { signed: false, boolean: false },
            },
            gimli::DW_TAG_base_type => match entry.attr_value(DW_AT_encoding) {
                Some(AttributeValue::Encoding(encoding)) => base_shape(encoding),
                _ => Shape::Other,
            },
            _ => Shape::Other,
        })
    }

    fn pointers(&self, structure: &Entry<'a>) -> Result<Vec<Member>, gimli::Error> {
        let mut members = Vec::new();
        let mut tree = self.unit.entries_tree(Some(structure.offset()))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            let entry = child.entry();
            let (Some(name), Some(offset)) = (self.name(entry)?, type_offset(entry)) else {
                continue;
            };
            let bare = self.bare(offset)?.entry;
            let Some(target) = type_offset(&bare) else { continue };
            if bare.tag() == gimli::DW_TAG_pointer_type {
                let target = self.bare(target)?.entry;
                let is_array = target.tag() == gimli::DW_TAG_array_type;
                let elements = if is_array { Some(self.elements(&target)?) } else { None };
                members.push(Member { name, elements, size: self.size(&target)? });
            }
        }
        Ok(members)
    }

    /// Follows typedefs and qualifiers from the type at `offset`.
    fn bare(&self, mut offset: UnitOffset) -> Result<Bare<'a>, gimli::Error> {
        let mut typedef = None;
        let (mut constant, mut volatile) = (false, false);
        for _ in 0..TYPE_DEPTH_MAX {
            let entry = self.unit.entry(offset)?;
            match entry.tag() {
                gimli::DW_TAG_const_type => constant = true,
                gimli::DW_TAG_volatile_type => volatile = true,
                gimli::DW_TAG_typedef => typedef = typedef.or(self.name(&entry)?),
                tag => {
                    let plain = self.name(&entry)?.unwrap_or_default();
                    let name = typedef.unwrap_or(match tag {
                        gimli::DW_TAG_enumeration_type => format!("enum {plain}"),
                        gimli::DW_TAG_structure_type => format!("struct {plain}"),
                        _ => plain,
                    });
                    return Ok(Bare { entry, name, constant, volatile });
                }
            }
            let Some(next) = type_offset(&entry) else {
                // Only `void` is left out, as in `const void`.
                let name = typedef.unwrap_or_else(|| "void".to_owned());
                return Ok(Bare { entry, name, constant, volatile });
            };
            offset = next;
        }
        Err(gimli::Error::UnsupportedTypeOperation)
    }

    /// Size in bytes of the type that `entry` describes; 0 if it is incomplete.
    fn size(&self, entry: &Entry<'a>) -> Result<u64, gimli::Error> {
        if let Some(size) = number(entry, DW_AT_byte_size) {
            return Ok(size);
        }
        match (entry.tag(), type_offset(entry)) {
            (gimli::DW_TAG_pointer_type, _) => Ok(u64::from(self.unit.encoding().address_size)),
            (gimli::DW_TAG_array_type, Some(element)) => {
                let element = self.bare(element)?.entry;
                Ok(self.elements(entry)?.saturating_mul(self.size(&element)?))
            }
            _ => Ok(0),
        }
    }

    /// Elements of an array over all its dimensions; 0 if one is not said.
    fn elements(&self, array: &Entry<'a>) -> Result<u64, gimli::Error> {
        let mut product = 1_u64;
        let mut tree = self.unit.entries_tree(Some(array.offset()))?;
        let mut dimensions = tree.root()?.children();
        while let Some(dimension) = dimensions.next()? {
            let entry = dimension.entry();
            let count = number(entry, DW_AT_count);
            let bound = || number(entry, DW_AT_upper_bound).map(|last| last.wrapping_add(1));
            product = product.saturating_mul(count.or_else(bound).unwrap_or(0));
        }
        Ok(product)
    }

    fn name(&self, entry: &Entry<'a>) -> Result<Option<String>, gimli::Error> {
        let Some(value) = entry.attr_value(DW_AT_name) else { return Ok(None) };
        Ok(Some(self.unit.attr_string(value)?.to_string_lossy().into_owned()))
    }
}

fn base_shape(encoding: gimli::DwAte) -> Shape {
    match encoding {
        gimli::DW_ATE_boolean => Shape::Integer { signed: false, boolean: true },
        gimli::DW_ATE_signed | gimli::DW_ATE_signed_char => {
            Shape::Integer { signed: true, boolean: false }
        }
        gimli::DW_ATE_unsigned | gimli::DW_ATE_unsigned_char => {
            Shape::Integer { signed: false, boolean: false }
        }
        _ => Shape::Other,
    }
}

fn type_offset(entry: &Entry<'_>) -> Option<UnitOffset> {
    match entry.attr_value(DW_AT_type) {
        Some(AttributeValue::UnitRef(offset)) => Some(offset),
        _ => None,
    }
}

fn number(entry: &Entry<'_>, attribute: DwAt) -> Option<u64> {
    entry.attr_value(attribute)?.udata_value()
}

fn flag(entry: &Entry<'_>, attribute: DwAt) -> bool {
    matches!(entry.attr_value(attribute), Some(AttributeValue::Flag(true)))
}
