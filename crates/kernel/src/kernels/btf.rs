//! What a kernel's own type information (BTF) says it can do.
//!
//! The BTF of a kernel names every function and structure that is built into it, so it answers
//! without booting whether sched_ext is there and can be used. Source of the format: the kernel's
//! Documentation/bpf/btf.rst.

use std::collections::BTreeSet;

/// Names of what is built into a kernel.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Btf {
    functions: BTreeSet<String>,
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
const KIND_STRUCT: u32 = 4;
const KIND_FUNC: u32 = 12;

impl Btf {
    /// Reads the bytes of a `.BTF` section. O(length).
    pub fn parse(bytes: &[u8]) -> Result<Btf, BtfError> {
        let header = Header::parse(bytes)?;
        let strings = section(bytes, header.strings)?;
        let mut types = section(bytes, header.types)?;
        let mut btf = Btf::default();
        let mut id = 1;
        while !types.is_empty() {
            let name_offset = u32_at(types, 0)? as usize;
            let info = u32_at(types, 4)?;
            let kind = info >> 24 & 0x1f;
            let length = TYPE_BYTES + more_bytes(kind, (info & 0xffff) as usize, id)?;
            let names = match kind {
                KIND_STRUCT => Some(&mut btf.structures),
                KIND_FUNC => Some(&mut btf.functions),
                _ => None,
            };
            if let Some(names) = names {
                names.insert(text_at(strings, name_offset)?);
            }
            types = types.get(length..).ok_or(BtfError::Malformed("a type is cut off"))?;
            id += 1;
        }
        Ok(btf)
    }

    /// Whether a function of this name is built in.
    pub fn has_function(&self, name: &str) -> bool {
        self.functions.contains(name)
    }

    /// Whether a structure of this name is built in.
    pub fn has_structure(&self, name: &str) -> bool {
        self.structures.contains(name)
    }
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
        1 | 14 | 17 => 4,                             // int, variable, declaration tag
        3 => 12,                                      // array
        KIND_STRUCT | 5 | 15 | 19 => 12 * nr_members, // and union, data section, enum64
        6 | 13 => 8 * nr_members,                     // enum, function prototype
        2 | 7..=11 | KIND_FUNC | 16 | 18 => 0,        // pointer, qualifiers, float, type tag
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

/// Makes BTF of functions and structures, for tests.
#[cfg(test)]
pub(super) fn synthetic(functions: &[&str], structures: &[&str]) -> Vec<u8> {
    let mut strings = vec![0];
    let mut types = Vec::new();
    let mut add = |name: &str, info: u32, more: usize| {
        types.extend((strings.len() as u32).to_le_bytes());
        strings.extend(name.as_bytes());
        strings.push(0);
        types.extend(info.to_le_bytes());
        types.extend(vec![0; 4 + more]);
    };
    for (kind, nr_members, more) in [(1, 0, 4), (6, 2, 16), (13, 3, 24), (2, 0, 0), (3, 0, 12)] {
        add("other", kind << 24 | nr_members, more);
    }
    structures.iter().for_each(|name| add(name, KIND_STRUCT << 24 | 2, 24));
    functions.iter().for_each(|name| add(name, KIND_FUNC << 24, 0));
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
