//! A policy from an object that clang built for the kernel: the very bytes that a kernel loads.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytecode::{Btf, BtfError, Object, Qualifier, Type, TypeId, Variable};
use sha2::{Digest, Sha256};

use crate::object_file::{LoaderArray, MapDefinition, check_licence_text, integer};
use crate::source_text::SourceText;
use crate::tunable::Tunable;
use crate::{Code, Policy, PolicyError, sets};

const SUFFIX: &str = ".bpf.o";
const OPERATIONS: &str = "sched_ext_ops";

/// One copy of an object's variables, with tunables and arrays put in.
#[derive(Clone, Debug)]
pub struct ObjectCopy {
    /// The object itself.
    pub object: Arc<Object>,
    /// The first bytes of each section of variables, in the object's order.
    pub data: Vec<Vec<u8>>,
    /// The operations' table, as an index of the object's.
    pub operations: usize,
}

impl Policy {
    /// Reads the object at `path`, whose name ends in `.bpf.o`. Tunables have the comments of the
    /// source of that name beside it, if there is one.
    ///
    /// # Errors
    ///
    /// [`PolicyError`] if it cannot be read, is no such object, or holds no policy.
    pub fn read(path: &Path) -> Result<Policy, PolicyError> {
        if !path.exists() {
            return Err(PolicyError::SourceMissing { path: path.to_owned() });
        }
        let file_name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let Some(name) = file_name.strip_suffix(SUFFIX).filter(|name| !name.is_empty()) else {
            return Err(PolicyError::NotASource { path: path.to_owned() });
        };
        let io = |cause| PolicyError::Io { action: "read", path: path.to_owned(), cause };
        let bytes = fs::read(path).map_err(io)?;
        let text = fs::read(path.with_extension("c")).unwrap_or_default();
        Policy::of_object(name, path, &bytes, &String::from_utf8_lossy(&text))
    }

    /// The policy `name` in the bytes of an object at `path`, whose source is `text`.
    pub(crate) fn of_object(
        name: &str,
        path: &Path,
        bytes: &[u8],
        text: &str,
    ) -> Result<Policy, PolicyError> {
        let broken = |reason: String| PolicyError::NoObject { path: path.to_owned(), reason };
        let object = Object::read(bytes).map_err(|error| broken(error.to_string()))?;
        let operations = object.tables.iter().position(|table| table.of == OPERATIONS);
        let Some(operations) = operations else {
            return Err(PolicyError::NoOps { policy: name.to_owned() });
        };
        check_licence_text(name, &object.licence)?;
        let text = SourceText::new(text);
        let mut image = Vec::new();
        let (mut tunables, mut arrays) = (Vec::new(), Vec::new());
        for data in &object.data {
            let reader = Reader { btf: &object.btf, text: &text, begins: image.len() };
            image.extend_from_slice(&data.bytes);
            let mut variables: Vec<_> = data.variables.iter().collect();
            variables.sort_by_key(|(_, variable)| variable.offset);
            for (name, variable) in variables.into_iter().filter(|_| data.read_only) {
                let number = reader.tunable(name, variable, &image);
                tunables.extend(number.map_err(|error| broken(error.to_string()))?);
                let array = reader.array(name, variable);
                arrays.extend(array.map_err(|error| broken(error.to_string()))?);
            }
        }
        tunables.sort_by_key(|t| text.definition_line(&t.name).unwrap_or(usize::MAX));
        let digest = Sha256::digest(bytes);
        Ok(Policy {
            name: name.to_owned(),
            source: path.to_owned(),
            source_digest: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
            object_path: path.to_owned(),
            image: image.into(),
            warnings: String::new(),
            description: text.description(),
            sets: sets::read(path, name, &tunables)?,
            tunables,
            arrays,
            maps: object.maps.iter().map(definition).collect(),
            code: Code::Object { object: Arc::new(object), operations },
        })
    }
}

fn definition(map: &bytecode::MapDefinition) -> MapDefinition {
    MapDefinition {
        name: map.name.clone(),
        kind: map.kind,
        key_size: map.key_bytes,
        value_size: map.value_bytes,
        max_entries: map.entries_max,
        map_flags: map.flags,
        address: map.offset,
    }
}

/// The image cut into the object's sections of variables.
pub(crate) fn sections(object: &Object, image: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = image;
    let section = |data: &bytecode::Data| {
        let (bytes, after) = rest.split_at(data.bytes.len());
        rest = after;
        bytes.to_vec()
    };
    object.data.iter().map(section).collect()
}

/// What tells variables of a section apart.
struct Reader<'a> {
    btf: &'a Btf,
    text: &'a SourceText<'a>,
    /// Where the section begins in the image.
    begins: usize,
}

impl Reader<'_> {
    fn tunable(
        &self,
        name: &str,
        variable: &Variable,
        image: &[u8],
    ) -> Result<Option<Tunable>, BtfError> {
        if !variable.global || !self.is_const_volatile(variable.of)? {
            return Ok(None);
        }
        let (signed, boolean) = match self.btf.resolve(variable.of)?.1 {
            Type::Integer { signed, boolean, .. } => (*signed, *boolean),
            _ => return Ok(None),
        };
        let image_offset = self.begins + variable.offset as usize;
        let size = variable.bytes as usize;
        // No wider number can be set; and one of no bytes is none.
        if !(1..=8).contains(&size) {
            return Ok(None);
        }
        Ok(Some(Tunable {
            name: name.to_owned(),
            type_name: self.type_name(variable.of)?,
            size,
            signed,
            boolean,
            default: integer(&image[image_offset..image_offset + size], signed),
            doc: self.text.doc(name),
            image_offset,
        }))
    }

    fn array(&self, name: &str, variable: &Variable) -> Result<Option<LoaderArray>, BtfError> {
        let Type::Array { element, .. } = self.btf.resolve(variable.of)?.1 else {
            return Ok(None);
        };
        // The qualifiers of an array are those of its elements.
        if !variable.global || !self.is_const_volatile(*element)? {
            return Ok(None);
        }
        Ok(Some(LoaderArray {
            name: name.to_owned(),
            type_name: self.type_name(*element)?,
            size: variable.bytes,
            image_offset: self.begins + variable.offset as usize,
        }))
    }

    /// The types that an id goes through, outermost first, up to one that is not only a name.
    fn chain(&self, mut of: TypeId) -> Result<Vec<&Type>, BtfError> {
        let mut chain = Vec::new();
        let last = self.btf.resolve(of)?.0;
        loop {
            let one = self.btf.get(of)?;
            chain.push(one);
            match one {
                _ if of == last => return Ok(chain),
                Type::Qualified { of: next, .. } | Type::Typedef { of: next, .. } => of = *next,
                _ => return Ok(chain),
            }
        }
    }

    fn is_const_volatile(&self, of: TypeId) -> Result<bool, BtfError> {
        let chain = self.chain(of)?;
        let has = |wanted: &Qualifier| {
            chain.iter().any(|one| match one {
                Type::Qualified { qualifier, .. } => qualifier == wanted,
                _ => false,
            })
        };
        Ok(has(&Qualifier::Const) && has(&Qualifier::Volatile))
    }

    fn type_name(&self, of: TypeId) -> Result<String, BtfError> {
        let named = self.chain(of)?.into_iter().find_map(|one| match one {
            Type::Typedef { name, .. } | Type::Integer { name, .. } => Some(name.clone()),
            _ => None,
        });
        Ok(named.unwrap_or_default())
    }
}
