//! What an object says of a map.

use crate::btf::{Btf, Type, TypeId};
use crate::error::ObjectError;

/// A variable in `.maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapDefinition {
    /// Its name in C.
    pub name: String,
    /// Where it lies in `.maps`.
    pub offset: u64,
    /// `enum bpf_map_type`, as a number.
    pub kind: u32,
    /// Bytes of a key; 0 if it does not say.
    pub key_bytes: u32,
    /// Bytes of a value; 0 if it does not say.
    pub value_bytes: u32,
    /// Most entries; 0 if it does not say.
    pub entries_max: u32,
    /// `BPF_F_…`; 0 if it does not say.
    pub flags: u32,
    /// The type of its keys; 0 if it does not say.
    pub key_type: TypeId,
    /// What else its kind wants to know: where user space has an arena; 0 if it does not say.
    pub extra: u64,
    /// The type of its values; 0 if it does not say.
    pub value_type: TypeId,
    /// Where the list of maps begins that a map of maps begins with, in bytes from its own begin.
    pub values_at: Option<u64>,
    /// What such a map is like, which is described as a map is; 0 if that is not said.
    pub inner_type: TypeId,
    /// That list: keys, and the numbers of maps.
    pub inner: Vec<(u32, usize)>,
}

impl MapDefinition {
    /// A map is described by pointers: to arrays, whose lengths are numbers, and to types.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Map`] names what it does not say so.
    pub fn read(
        btf: &Btf,
        name: &str,
        offset: u64,
        of: TypeId,
    ) -> Result<MapDefinition, ObjectError> {
        let Type::Structure { members, .. } = btf.resolve(of)?.1 else {
            return Err(ObjectError::Map { name: name.to_owned(), member: String::new() });
        };
        let mut map = MapDefinition {
            name: name.to_owned(),
            offset,
            kind: 0,
            key_bytes: 0,
            value_bytes: 0,
            entries_max: 0,
            flags: 0,
            key_type: 0,
            extra: 0,
            value_type: 0,
            values_at: None,
            inner_type: 0,
            inner: Vec::new(),
        };
        for member in members {
            let refused =
                || ObjectError::Map { name: name.to_owned(), member: member.name.clone() };
            // Where the map is to be found by others, which is nobody's concern here.
            if matches!(&member.name[..], "pinning" | "numa_node") {
                continue;
            }
            if member.name == "values" {
                map.values_at = Some(u64::from(member.bit_offset) / 8);
                if let Type::Array { element, .. } = btf.resolve(member.of)?.1
                    && let Type::Pointer { to } = btf.resolve(*element)?.1
                {
                    map.inner_type = *to;
                }
                continue;
            }
            let to = match btf.resolve(member.of)?.1 {
                Type::Pointer { to } => to,
                // Of more than 32 bits.
                Type::Enumeration { values, .. } if member.name == "map_extra" => {
                    map.extra = values.first().map_or(0, |&(_, value)| value as u64);
                    continue;
                }
                _ => return Err(refused()),
            };
            let number = || match btf.resolve(*to)?.1 {
                Type::Array { count, .. } => Ok(*count),
                _ => Err(refused()),
            };
            let size = || u32::try_from(btf.bytes_of(*to)?).map_err(|_| refused());
            match &member.name[..] {
                "type" => map.kind = number()?,
                "key" => (map.key_type, map.key_bytes) = (*to, size()?),
                "key_size" => map.key_bytes = number()?,
                "value" => (map.value_type, map.value_bytes) = (*to, size()?),
                "value_size" => map.value_bytes = number()?,
                "max_entries" => map.entries_max = number()?,
                "map_flags" => map.flags = number()?,
                "map_extra" => map.extra = number()?.into(),
                _ => return Err(refused()),
            }
        }
        Ok(map)
    }
}
