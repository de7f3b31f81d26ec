//! Types of an object, as its section `.BTF` describes them.
//!
//! Nothing of the section is trusted: numbers of types and places of names are checked when they
//! are followed. Source: the kernel's Documentation/bpf/btf.rst.

use std::cell::Cell;
use std::collections::BTreeSet;

use crate::reader::{Reader, Truncated};

const MAGIC: u16 = 0xeb9f;

/// Longest name, or line of a source.
const NAME_BYTES_MAX: usize = 4096;
/// Bytes of all names together, or of all lines: names may lie in each other, so that a short table
/// holds many long ones.
const NAMES_BYTES_MAX: usize = 1 << 26;
/// Longest chain of typedefs, qualifiers and tags that is followed.
const CHAIN_MAX: usize = 64;
/// Deepest nesting of arrays and structures whose size is asked for.
const NESTING_MAX: usize = 32;
/// Types that are looked at for what a value holds.
const SCALARS_MAX: usize = 4096;
/// Structures in a policy's own that the kernel writes.
pub(crate) const KERNELS_OWN: [&str; 9] = [
    "bpf_timer",
    "bpf_wq",
    "bpf_spin_lock",
    "bpf_res_spin_lock",
    "bpf_refcount",
    "bpf_list_head",
    "bpf_list_node",
    "bpf_rb_root",
    "bpf_rb_node",
];

/// Tags of pointers that the kernel writes. Source: Linux, kernel/bpf/btf.c, `btf_find_kptr`.
const KERNELS_POINTERS: [&str; 4] = ["kptr_untrusted", "kptr", "percpu_kptr", "uptr"];

/// The number of a type; 0 is `void`.
pub type TypeId = u32;

/// A type, as far as it concerns who runs a program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Type {
    Void,
    Integer {
        name: String,
        bytes: u32,
        signed: bool,
        boolean: bool,
    },
    Float {
        name: String,
        bytes: u32,
    },
    Pointer {
        to: TypeId,
    },
    Array {
        element: TypeId,
        count: u32,
    },
    /// A structure or a union.
    Structure {
        name: String,
        bytes: u32,
        union: bool,
        members: Vec<Member>,
    },
    Enumeration {
        name: String,
        bytes: u32,
        signed: bool,
        values: Vec<(String, i64)>,
    },
    /// A structure or union that is only declared.
    Declared {
        name: String,
    },
    Typedef {
        name: String,
        of: TypeId,
    },
    /// `const`, `volatile`, `restrict`, or a tag with its text.
    Qualified {
        of: TypeId,
        qualifier: Qualifier,
    },
    Function {
        name: String,
        prototype: TypeId,
        linkage: u32,
    },
    Prototype {
        answer: TypeId,
        arguments: Vec<(String, TypeId)>,
    },
    Variable {
        name: String,
        of: TypeId,
        linkage: u32,
    },
    Section {
        name: String,
        variables: Vec<SectionVariable>,
    },
    DeclarationTag {
        name: String,
        of: TypeId,
        component: Option<u32>,
    },
}

/// What a qualifier says of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Qualifier {
    Const,
    Volatile,
    Restrict,
    Tag(String),
}

/// A member of a structure or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Empty for an unnamed structure or union inside.
    pub name: String,
    /// Its type.
    pub of: TypeId,
    /// Where it begins, in bits.
    pub bit_offset: u32,
    /// How many bits it has if it is a bit field, else 0.
    pub bits: u32,
}

/// A variable in a section. Its place is known by the object's symbols only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionVariable {
    /// The number of a [`Type::Variable`] or, in `.ksyms`, of a [`Type::Function`].
    pub of: TypeId,
    /// Its size in bytes.
    pub bytes: u32,
}

/// Why a description of types cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum BtfError {
    #[error("its description of types ends too early")]
    Truncated,
    #[error("its description of types begins with {0:#06x}, not {MAGIC:#06x}")]
    Magic(u16),
    #[error("its description of types is of version {0}; version 1 is known")]
    Version(u8),
    #[error("type {id} is of kind {kind}, which is not known")]
    Kind { id: TypeId, kind: u32 },
    #[error("a name at {0} has no end within {NAME_BYTES_MAX} bytes")]
    Name(u32),
    #[error("its names, or its lines, have more than {NAMES_BYTES_MAX} bytes together")]
    Names,
    #[error("there is no type {0}")]
    NoType(TypeId),
    #[error("type {0} refers to itself without an end")]
    Endless(TypeId),
    #[error("type {0} has no size")]
    NoSize(TypeId),
    #[error("a relocation has the steps `{0}`, which are no numbers")]
    Access(String),
    #[error("a relocation is of kind {0}, which is not known")]
    Question(u32),
}

impl From<Truncated> for BtfError {
    fn from(_: Truncated) -> BtfError {
        BtfError::Truncated
    }
}

/// All types of an object.
#[derive(Clone, Debug, Default)]
pub struct Btf {
    types: Vec<Type>,
    names: Vec<u8>,
}

impl Btf {
    /// Reads a section `.BTF`.
    ///
    /// # Errors
    ///
    /// [`BtfError`] where the bytes do not follow the format.
    pub fn read(section: &[u8]) -> Result<Btf, BtfError> {
        let mut header = Reader::new(section);
        match header.u16()? {
            MAGIC => {}
            magic => return Err(BtfError::Magic(magic)),
        }
        match header.u8()? {
            1 => {}
            version => return Err(BtfError::Version(version)),
        }
        header.skip(1)?;
        let header_bytes = header.u32()?;
        let [types_at, types_bytes, names_at, names_bytes] =
            [header.u32()?, header.u32()?, header.u32()?, header.u32()?];
        let body = Reader::new(section).rest_at(header_bytes)?;
        let names = body.part(names_at, names_bytes)?.bytes();
        let mut types = vec![Type::Void];
        let (mut rest, known) = (body.part(types_at, types_bytes)?, Names::new(names));
        while !rest.is_empty() {
            types.push(known.read_type(types.len() as TypeId, &mut rest)?);
        }
        Ok(Btf { types, names: names.to_vec() })
    }

    /// Its names, of which no more than [`NAMES_BYTES_MAX`] bytes are taken.
    pub(crate) fn names(&self) -> Names<'_> {
        Names::new(&self.names)
    }

    /// The type of this number.
    ///
    /// # Errors
    ///
    /// [`BtfError::NoType`] if there is none.
    pub fn get(&self, id: TypeId) -> Result<&Type, BtfError> {
        self.types.get(id as usize).ok_or(BtfError::NoType(id))
    }

    /// Every type with its number, in order.
    pub fn types(&self) -> impl Iterator<Item = (TypeId, &Type)> {
        (0..).zip(&self.types)
    }

    /// The type behind typedefs, qualifiers and tags, and its number.
    ///
    /// # Errors
    ///
    /// [`BtfError`] if a number is wrong or the chain has no end.
    pub fn resolve(&self, id: TypeId) -> Result<(TypeId, &Type), BtfError> {
        let mut at = id;
        for _ in 0..CHAIN_MAX {
            match self.get(at)? {
                Type::Typedef { of, .. } | Type::Qualified { of, .. } => at = *of,
                Type::Variable { of, .. } => at = *of,
                other => return Ok((at, other)),
            }
        }
        Err(BtfError::Endless(id))
    }

    /// The name of the field at the end of a path: of a relocation's steps, the first of which
    /// takes one of an array of structures.
    pub(crate) fn field_name(&self, root: TypeId, path: &[u32]) -> Option<&str> {
        let (mut at, mut last) = (root, None);
        for &step in path.get(1..)? {
            at = match self.resolve(at).ok()?.1 {
                Type::Structure { members, .. } => {
                    let member = members.get(step as usize)?;
                    last = Some(&*member.name);
                    member.of
                }
                Type::Array { element, .. } => *element,
                _ => return None,
            };
        }
        last
    }

    /// Offset and size in bytes of each number and pointer in a value of this type: what is between
    /// them is padding. Without what is in unions and bit fields, and what only the kernel writes;
    /// of a very large type not all of them.
    pub fn scalars(&self, of: TypeId) -> Vec<(u64, u64)> {
        let own = self.leaves(of).into_iter().filter(|(_, of)| !self.is_kernels(*of));
        own.filter_map(|(at, of)| Some((at, self.bytes_of(of).ok()?))).collect()
    }

    /// Where a value of this type has pointers of the kernel's, see [`Btf::is_kernels`].
    pub fn kernels_pointers(&self, of: TypeId) -> Vec<u64> {
        let kernels = self.leaves(of).into_iter().filter(|(_, of)| self.is_kernels(*of));
        kernels.map(|(at, _)| at).collect()
    }

    /// Whether a value of this type has a `bpf_spin_lock`.
    pub fn has_lock(&self, of: TypeId) -> bool {
        let (mut found, mut next) = (BTreeSet::from([of]), vec![of]);
        while let Some(of) = next.pop() {
            if let Ok((_, Type::Structure { name, members, .. })) = self.resolve(of) {
                if name == "bpf_spin_lock" {
                    return true;
                }
                let new = members.iter().map(|member| member.of).filter(|one| found.insert(*one));
                next.extend(new);
            }
        }
        false
    }

    /// Numbers and pointers in a value of this type, where they are and of which type.
    fn leaves(&self, of: TypeId) -> Vec<(u64, TypeId)> {
        let (mut found, mut left) = (Vec::new(), SCALARS_MAX);
        self.add_leaves(of, 0, NESTING_MAX, &mut left, &mut found);
        found
    }

    fn add_leaves(
        &self,
        of: TypeId,
        at: u64,
        deeper: usize,
        left: &mut usize,
        found: &mut Vec<(u64, TypeId)>,
    ) {
        let Ok((_, resolved)) = self.resolve(of) else { return };
        if deeper == 0 || *left == 0 {
            return;
        }
        *left -= 1;
        match resolved {
            Type::Structure { union: false, name, members, .. }
                if !KERNELS_OWN.contains(&name.as_str()) =>
            {
                for member in members.iter().filter(|member| member.bits == 0) {
                    let at = at.saturating_add(u64::from(member.bit_offset / 8));
                    self.add_leaves(member.of, at, deeper - 1, left, found);
                }
            }
            Type::Array { element, count } => {
                let bytes = self.bytes_of(*element).unwrap_or(0);
                for number in (0..u64::from(*count)).take(SCALARS_MAX) {
                    let at = at.saturating_add(number.saturating_mul(bytes));
                    self.add_leaves(*element, at, deeper - 1, left, found);
                }
            }
            Type::Integer { .. }
            | Type::Float { .. }
            | Type::Pointer { .. }
            | Type::Enumeration { .. } => found.push((at, of)),
            _ => {}
        }
    }

    /// Whether this is a pointer of the kernel's that a program keeps (`__kptr` and alike). An
    /// update of the value around one does not take it.
    pub fn is_kernels(&self, of: TypeId) -> bool {
        let Ok((_, Type::Pointer { to })) = self.resolve(of) else { return false };
        let tag = match self.get(*to) {
            Ok(Type::Qualified { qualifier: Qualifier::Tag(tag), .. }) => tag,
            _ => return false,
        };
        KERNELS_POINTERS.contains(&tag.as_str())
    }

    /// The size of a value of this type in bytes.
    ///
    /// # Errors
    ///
    /// [`BtfError`] if it has none, or its description has no end.
    pub fn bytes_of(&self, id: TypeId) -> Result<u64, BtfError> {
        let (mut at, mut elements) = (id, 1_u64);
        for _ in 0..NESTING_MAX {
            match self.resolve(at)?.1 {
                Type::Integer { bytes, .. }
                | Type::Float { bytes, .. }
                | Type::Structure { bytes, .. }
                | Type::Enumeration { bytes, .. } => {
                    return elements.checked_mul((*bytes).into()).ok_or(BtfError::NoSize(id));
                }
                Type::Pointer { .. } => {
                    return elements.checked_mul(8).ok_or(BtfError::NoSize(id));
                }
                Type::Array { element, count } => {
                    elements = elements.checked_mul((*count).into()).ok_or(BtfError::NoSize(id))?;
                    at = *element;
                }
                _ => return Err(BtfError::NoSize(id)),
            }
        }
        Err(BtfError::Endless(id))
    }
}

/// The table of names, as it is read.
pub(crate) struct Names<'a> {
    bytes: &'a [u8],
    /// How many bytes of names may still be taken.
    left: Cell<usize>,
}

impl<'a> Names<'a> {
    fn new(bytes: &'a [u8]) -> Names<'a> {
        Names { bytes, left: Cell::new(NAMES_BYTES_MAX) }
    }

    /// The next type, which has this number.
    fn read_type(&self, id: TypeId, from: &mut Reader<'_>) -> Result<Type, BtfError> {
        let (name_at, info, size_or_type) = (from.u32()?, from.u32()?, from.u32()?);
        let name = self.text(name_at)?;
        let (kind, flag, count) = (info >> 24 & 0x1f, info >> 31 == 1, info & 0xffff);
        let (bytes, of) = (size_or_type, size_or_type);
        let qualified = |qualifier| Ok(Type::Qualified { of, qualifier });
        match kind {
            1 => {
                let encoding = from.u32()? >> 24;
                let (signed, boolean) = (encoding & 1 != 0, encoding & 4 != 0);
                Ok(Type::Integer { name, bytes, signed, boolean })
            }
            2 => Ok(Type::Pointer { to: of }),
            3 => {
                let (element, _index, count) = (from.u32()?, from.u32()?, from.u32()?);
                Ok(Type::Array { element, count })
            }
            4 | 5 => {
                let members = self.members(from, count, flag)?;
                Ok(Type::Structure { name, bytes, union: kind == 5, members })
            }
            6 | 19 => {
                let values = self.enumeration(from, count, flag, kind == 19)?;
                Ok(Type::Enumeration { name, bytes, signed: flag, values })
            }
            7 => Ok(Type::Declared { name }),
            8 => Ok(Type::Typedef { name, of }),
            9 => qualified(Qualifier::Volatile),
            10 => qualified(Qualifier::Const),
            11 => qualified(Qualifier::Restrict),
            12 => Ok(Type::Function { name, prototype: of, linkage: count }),
            13 => {
                let arguments = (0..count).map(|_| Ok((self.text(from.u32()?)?, from.u32()?)));
                let arguments = arguments.collect::<Result<_, BtfError>>()?;
                Ok(Type::Prototype { answer: of, arguments })
            }
            14 => Ok(Type::Variable { name, of, linkage: from.u32()? }),
            15 => {
                let variables = (0..count).map(|_| {
                    let (of, _offset, bytes) = (from.u32()?, from.u32()?, from.u32()?);
                    Ok(SectionVariable { of, bytes })
                });
                let variables = variables.collect::<Result<_, BtfError>>()?;
                Ok(Type::Section { name, variables })
            }
            16 => Ok(Type::Float { name, bytes }),
            17 => {
                let component = u32::try_from(from.u32()? as i32).ok();
                Ok(Type::DeclarationTag { name, of, component })
            }
            18 => qualified(Qualifier::Tag(name)),
            kind => Err(BtfError::Kind { id, kind }),
        }
    }

    fn members(
        &self,
        from: &mut Reader<'_>,
        count: u32,
        bit_fields: bool,
    ) -> Result<Vec<Member>, BtfError> {
        let member = |_| {
            let (name, of, place) = (self.text(from.u32()?)?, from.u32()?, from.u32()?);
            let (bit_offset, bits) =
                if bit_fields { (place & 0xff_ffff, place >> 24) } else { (place, 0) };
            Ok(Member { name, of, bit_offset, bits })
        };
        (0..count).map(member).collect()
    }

    fn enumeration(
        &self,
        from: &mut Reader<'_>,
        count: u32,
        signed: bool,
        wide: bool,
    ) -> Result<Vec<(String, i64)>, BtfError> {
        let value = |_| {
            let (name, low) = (self.text(from.u32()?)?, from.u32()?);
            let value = match (wide, signed) {
                (true, _) => (u64::from(low) | u64::from(from.u32()?) << 32) as i64,
                (false, true) => i64::from(low as i32),
                (false, false) => i64::from(low),
            };
            Ok((name, value))
        };
        (0..count).map(value).collect()
    }

    /// The text at `at`.
    pub(crate) fn text(&self, at: u32) -> Result<String, BtfError> {
        let text = self.bytes.get(at as usize..).ok_or(BtfError::Name(at))?;
        let end = text.iter().take(NAME_BYTES_MAX).position(|&byte| byte == 0);
        let end = end.ok_or(BtfError::Name(at))?;
        self.left.set(self.left.get().checked_sub(end).ok_or(BtfError::Names)?);
        // What a terminal would obey is not shown to it.
        let shown = |c: char| if c.is_control() { ' ' } else { c };
        Ok(String::from_utf8_lossy(&text[..end]).chars().map(shown).collect())
    }
}

/// A name without the suffix by which several descriptions of one type are told apart
/// (`task_struct___old`). Source: libbpf, `bpf_core_essential_name_len`.
pub fn essential_name(name: &str) -> &str {
    let divides = |part: &[u8]| part[0] != b'_' && &part[1..4] == b"___" && part[4] != b'_';
    match name.as_bytes().windows(5).rposition(divides) {
        Some(at) => &name[..=at],
        None => name,
    }
}
