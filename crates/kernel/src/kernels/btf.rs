//! What a kernel's own type information (BTF) says it can do.
//!
//! The BTF of a kernel names every function and structure that is built into it, so it answers
//! without booting whether sched_ext is there and can be used. Source of the format: the kernel's
//! Documentation/bpf/btf.rst.

use std::collections::{BTreeMap, BTreeSet};

/// What is built into a kernel, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Btf {
    /// Whether a function's last argument is the one that the verifier adds.
    functions: BTreeMap<String, bool>,
    structures: BTreeSet<String>,
}

/// Why bytes are not BTF.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BtfError {
    /// They do not begin as BTF does, or end too early.
    #[error("not BTF: {0}")]
    Malformed(&'static str),
    /// A kind of type that this reader does not know, so its length is unknown too.
    #[error("BTF type {id} has the unknown kind {kind}")]
    UnknownKind {
        /// Number of the type.
        id: usize,
        /// Its kind.
        kind: u32,
    },
}

const MAGIC: u16 = 0xeb9f;
const KIND_POINTER: u32 = 2;
const KIND_STRUCT: u32 = 4;
const KIND_CONST: u32 = 10;
const KIND_FUNC: u32 = 12;
const KIND_PROTOTYPE: u32 = 13;
/// What the verifier's own argument points to: the program that calls.
const VERIFIERS_ARGUMENT: &str = "bpf_prog_aux";

impl Btf {
    /// Reads the bytes of a `.BTF` section. O(length).
    pub fn parse(bytes: &[u8]) -> Result<Btf, BtfError> {
        let header = Header::parse(bytes)?;
        let strings = section(bytes, header.strings)?;
        let mut types = section(bytes, header.types)?;
        let mut all = Vec::new();
        while !types.is_empty() {
            let info = u32_at(types, 4)?;
            let kind = info >> 24 & 0x1f;
            let length = TYPE_BYTES + more_bytes(kind, (info & 0xffff) as usize, all.len() + 1)?;
            let bytes = types.get(..length).ok_or(BtfError::Malformed("a type is cut off"))?;
            all.push(Type { kind, bytes });
            types = &types[length..];
        }
        let mut btf = Btf::default();
        for one in &all {
            match one.kind {
                KIND_STRUCT => {
                    btf.structures.insert(one.name(strings)?);
                }
                KIND_FUNC => {
                    let takes_it = takes_verifiers_argument(one, &all, strings)?;
                    btf.functions.insert(one.name(strings)?, takes_it);
                }
                _ => {}
            }
        }
        Ok(btf)
    }

    /// Whether a function of this name is built in.
    pub fn has_function(&self, name: &str) -> bool {
        self.functions.contains_key(name)
    }

    /// Whether a program would have to pass the argument that the verifier adds by itself, as
    /// where the kernel's build has not hidden it. Of a function that is not there: false.
    pub fn shows_verifiers_argument(&self, name: &str) -> bool {
        self.functions.get(name) == Some(&true)
    }

    /// Whether a structure of this name is built in.
    pub fn has_structure(&self, name: &str) -> bool {
        self.structures.contains(name)
    }
}

/// A type's record.
struct Type<'a> {
    kind: u32,
    bytes: &'a [u8],
}

impl Type<'_> {
    fn name(&self, strings: &[u8]) -> Result<String, BtfError> {
        text_at(strings, u32_at(self.bytes, 0)? as usize)
    }

    /// Number of the type that this one is made of; 0 is void.
    fn made_of(&self) -> Result<usize, BtfError> {
        u32_at(self.bytes, 8).map(|id| id as usize)
    }
}

/// Whether a function's last argument is a pointer to [`VERIFIERS_ARGUMENT`].
fn takes_verifiers_argument(
    function: &Type<'_>,
    all: &[Type<'_>],
    strings: &[u8],
) -> Result<bool, BtfError> {
    // Types are numbered from 1.
    let of = |id: usize, kind: u32| all.get(id.wrapping_sub(1)).filter(|one| one.kind == kind);
    let Some(prototype) = of(function.made_of()?, KIND_PROTOTYPE) else { return Ok(false) };
    if prototype.bytes.len() == TYPE_BYTES {
        return Ok(false);
    }
    let last = u32_at(prototype.bytes, prototype.bytes.len() - 4)? as usize;
    let Some(pointer) = of(last, KIND_POINTER) else { return Ok(false) };
    let mut target = pointer.made_of()?;
    if let Some(constant) = of(target, KIND_CONST) {
        target = constant.made_of()?;
    }
    let Some(structure) = of(target, KIND_STRUCT) else { return Ok(false) };
    Ok(structure.name(strings)? == VERIFIERS_ARGUMENT)
}

/// Where types and strings lie: first byte and length of each.
struct Header {
    types: (usize, usize),
    strings: (usize, usize),
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Header, BtfError> {
        let magic = bytes.get(..2).ok_or(BtfError::Malformed("it is empty"))?;
        if magic != MAGIC.to_le_bytes() {
            return Err(BtfError::Malformed("its first bytes are not those of BTF"));
        }
        let field = |at| u32_at(bytes, at).map(|value| value as usize);
        let length = field(4)?;
        Ok(Header {
            types: (length + field(8)?, field(12)?),
            strings: (length + field(16)?, field(20)?),
        })
    }
}

const TYPE_BYTES: usize = 12;

/// Bytes that follow the three words which every type begins with.
fn more_bytes(kind: u32, nr_members: usize, id: usize) -> Result<usize, BtfError> {
    Ok(match kind {
        1 | 14 | 17 => 4,                                 // int, variable, declaration tag
        3 => 12,                                          // array
        KIND_STRUCT | 5 | 15 | 19 => 12 * nr_members,     // and union, data section, enum64
        6 | KIND_PROTOTYPE => 8 * nr_members,             // enum, function prototype
        KIND_POINTER | 7..=11 | KIND_FUNC | 16 | 18 => 0, // pointer, qualifiers, float, type tag
        _ => return Err(BtfError::UnknownKind { id, kind }),
    })
}

fn section(bytes: &[u8], (start, length): (usize, usize)) -> Result<&[u8], BtfError> {
    bytes.get(start..start + length).ok_or(BtfError::Malformed("a section is cut off"))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, BtfError> {
    let word = bytes.get(at..at + 4).ok_or(BtfError::Malformed("it is cut off"))?;
    Ok(u32::from_le_bytes(word.try_into().expect("four bytes were taken")))
}

fn text_at(strings: &[u8], at: usize) -> Result<String, BtfError> {
    let rest = strings.get(at..).ok_or(BtfError::Malformed("a name lies outside"))?;
    let length = rest.iter().position(|&byte| byte == 0);
    let length = length.ok_or(BtfError::Malformed("a name has no end"))?;
    Ok(String::from_utf8_lossy(&rest[..length]).into_owned())
}

/// Makes BTF of functions and structures, for tests. A function called `f!` is `f` and takes the
/// verifier's argument.
#[cfg(test)]
pub(super) fn synthetic(functions: &[&str], structures: &[&str]) -> Vec<u8> {
    let mut strings = vec![0];
    let mut types = Vec::new();
    let mut add = |name: &str, info: u32, made_of: u32, more: &[u32]| {
        types.extend((strings.len() as u32).to_le_bytes());
        strings.extend(name.as_bytes());
        strings.push(0);
        let words = [info, made_of];
        types.extend(words.iter().chain(more).flat_map(|word| word.to_le_bytes()));
    };
    // Types 1 to 4: the structure, const of it, a pointer to that, and `f(int, pointer)`.
    add(VERIFIERS_ARGUMENT, KIND_STRUCT << 24, 0, &[]);
    add("", KIND_CONST << 24, 1, &[]);
    add("", KIND_POINTER << 24, 2, &[]);
    add("", KIND_PROTOTYPE << 24 | 2, 0, &[0, 5, 0, 3]);
    for (kind, nr_members, more) in [(1, 0, 1), (6, 2, 4), (13, 3, 6), (2, 0, 0), (3, 0, 3)] {
        add("other", kind << 24 | nr_members, 0, &vec![0; more]);
    }
    structures.iter().for_each(|name| add(name, KIND_STRUCT << 24 | 2, 0, &[0; 6]));
    for name in functions {
        let (name, prototype) = name.strip_suffix('!').map_or((*name, 0), |name| (name, 4));
        add(name, KIND_FUNC << 24, prototype, &[]);
    }
    let mut bytes = Vec::from(MAGIC.to_le_bytes());
    bytes.extend([1, 0]);
    for word in [24, 0, types.len(), types.len(), strings.len()] {
        bytes.extend((word as u32).to_le_bytes());
    }
    bytes.extend(types);
    bytes.extend(strings);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_and_structures_are_told_apart() {
        let btf = Btf::parse(&synthetic(&["f", "g"], &["s"])).unwrap();
        assert!(btf.has_function("f") && btf.has_function("g") && btf.has_structure("s"));
        assert!(!btf.has_function("s") && !btf.has_structure("f") && !btf.has_function("other"));
    }

    #[test]
    fn the_argument_that_the_verifier_adds_is_seen_where_it_shows() {
        let btf = Btf::parse(&synthetic(&["f", "g!"], &[])).unwrap();
        assert!(btf.has_function("g") && btf.shows_verifiers_argument("g"));
        assert!(!btf.shows_verifiers_argument("f") && !btf.shows_verifiers_argument("none"));
    }

    #[test]
    fn whatever_is_cut_off_is_refused() {
        let whole = synthetic(&["f"], &["s"]);
        for length in 0..whole.len() {
            assert!(Btf::parse(&whole[..length]).is_err(), "{length} of {} bytes", whole.len());
        }
        assert!(Btf::parse(&whole).is_ok());
    }

    #[test]
    fn a_kind_of_the_future_is_refused_with_its_number() {
        let mut bytes = synthetic(&[], &[]);
        bytes[24 + 7] = 31;
        assert_eq!(Btf::parse(&bytes), Err(BtfError::UnknownKind { id: 1, kind: 31 }));
    }
}
