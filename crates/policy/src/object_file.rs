//! What a built policy offers, read from its object without running it.

use std::path::Path;
use std::sync::Arc;

use gimli::RunTimeEndian;
use object::{Object, ObjectSection, ObjectSegment};

use crate::PolicyError;
use crate::debug_info::{self, Member, Shape, Variable};
use crate::source_text::SourceText;
use crate::tunable::Tunable;

/// The symbol that `SCX_OPS_DEFINE` leaves behind, a `struct scx_policy_description`.
pub(crate) const DESCRIPTION_SYMBOL: &str = "schedlab_policy";

const MAPS_SECTION: &str = ".maps";
const LICENCE_SECTION: &str = "license";

/// Licences under which a kernel offers a program the calls that are for the GPL only, as those
/// of sched_ext are (Linux, include/linux/license.h).
const GPL_COMPATIBLE: [&str; 6] =
    ["GPL", "GPL v2", "GPL and additional rights", "Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL"];

/// A `const volatile` array that whoever loads the policy fills, such as the topology's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoaderArray {
    /// The variable's name in C.
    pub name: String,
    /// The type of its elements as the source names it.
    pub type_name: String,
    /// Its size in bytes.
    pub size: u64,
    pub(crate) image_offset: usize,
}

/// A variable in `.maps`: what kind of map the policy wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapDefinition {
    /// The variable's name in C.
    pub name: String,
    /// `enum bpf_map_type`, as a number.
    pub kind: u32,
    /// Bytes of a key; 0 if the policy does not say.
    pub key_size: u32,
    /// Bytes of a value; 0 if the policy does not say.
    pub value_size: u32,
    /// Most entries; 0 if the policy does not say, as for task storage.
    pub max_entries: u32,
    /// `BPF_F_...`; 0 if the policy does not say.
    pub map_flags: u32,
    pub(crate) address: u64,
}

/// Any variable at file level, `static` ones included.
#[derive(Clone, Debug)]
pub(crate) struct Global {
    pub(crate) name: String,
    pub(crate) address: u64,
    pub(crate) size: u64,
}

/// All that an object tells about its policy.
pub(crate) struct Contents {
    pub(crate) tunables: Vec<Tunable>,
    pub(crate) arrays: Vec<LoaderArray>,
    pub(crate) maps: Vec<MapDefinition>,
    pub(crate) globals: Arc<[Global]>,
}

/// Reads what the object in `image`, kept at `path`, offers; `text` is the policy's source.
pub(crate) fn read(
    policy: &str,
    path: &Path,
    image: &[u8],
    text: &SourceText<'_>,
) -> Result<Contents, PolicyError> {
    let broken = |reason: String| PolicyError::Object { path: path.to_owned(), reason };
    let file = object::File::parse(image).map_err(|error| broken(error.to_string()))?;
    let variables = variables(&file).map_err(|error| broken(error.to_string()))?;
    if !variables.iter().any(|v| v.external && v.name == DESCRIPTION_SYMBOL) {
        return Err(PolicyError::NoOps { policy: policy.to_owned() });
    }
    check_licence(policy, &file)?;
    let reader = Image { file: &file, image, text };
    let mut contents = Contents {
        tunables: Vec::new(),
        arrays: Vec::new(),
        maps: Vec::new(),
        globals: variables.iter().map(global).collect(),
    };
    for variable in &variables {
        if reader.is_map(variable) {
            contents.maps.push(map_definition(policy, variable)?);
        } else if variable.external && variable.const_volatile {
            match variable.shape {
                Shape::Integer { signed, boolean } => {
                    let tunable = reader.tunable(variable, signed, boolean);
                    contents.tunables.push(tunable.map_err(broken)?);
                }
                Shape::Array => contents.arrays.push(reader.array(variable).map_err(broken)?),
                Shape::Structure(_) | Shape::Other => {}
            }
        }
    }
    // Those of headers come after the policy's own.
    contents.tunables.sort_by_key(|t| text.definition_line(&t.name).unwrap_or(usize::MAX));
    Ok(contents)
}

/// A kernel refuses what this refuses, but only after somebody has tried it there.
fn check_licence(policy: &str, file: &object::File<'_>) -> Result<(), PolicyError> {
    let bytes = file
        .section_by_name(LICENCE_SECTION)
        .and_then(|section| section.data().ok())
        .unwrap_or_default();
    let found = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    check_licence_text(policy, &String::from_utf8_lossy(found))
}

/// As [`check_licence`], for the text itself.
pub(crate) fn check_licence_text(policy: &str, found: &str) -> Result<(), PolicyError> {
    if GPL_COMPATIBLE.contains(&found) {
        return Ok(());
    }
    Err(PolicyError::Licence { policy: policy.to_owned(), found: found.to_owned() })
}

fn variables(file: &object::File<'_>) -> Result<Vec<Variable>, gimli::Error> {
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    debug_info::variables(endian, |name| {
        file.section_by_name(name).and_then(|section| section.data().ok()).unwrap_or_default()
    })
}

fn global(variable: &Variable) -> Global {
    Global { name: variable.name.clone(), address: variable.address, size: variable.size }
}

/// An object and the source it was built from.
struct Image<'a> {
    file: &'a object::File<'a>,
    image: &'a [u8],
    text: &'a SourceText<'a>,
}

impl Image<'_> {
    fn is_map(&self, variable: &Variable) -> bool {
        self.file.section_by_name(MAPS_SECTION).is_some_and(|section| {
            (section.address()..section.address() + section.size()).contains(&variable.address)
        })
    }

    fn tunable(&self, variable: &Variable, signed: bool, boolean: bool) -> Result<Tunable, String> {
        let size = variable.size as usize;
        if !(1..=8).contains(&size) {
            return Err(format!("{} has {size} bytes; a tunable has 1 to 8", variable.name));
        }
        let image_offset = self.offset(variable)?;
        let bytes = &self.image[image_offset..image_offset + size];
        Ok(Tunable {
            name: variable.name.clone(),
            type_name: variable.type_name.clone(),
            size,
            signed,
            boolean,
            default: integer(bytes, signed),
            doc: self.text.doc(&variable.name),
            image_offset,
        })
    }

    fn array(&self, variable: &Variable) -> Result<LoaderArray, String> {
        Ok(LoaderArray {
            name: variable.name.clone(),
            type_name: variable.type_name.clone(),
            size: variable.size,
            image_offset: self.offset(variable)?,
        })
    }

    /// Where the variable's bytes stand in the file.
    fn offset(&self, variable: &Variable) -> Result<usize, String> {
        for segment in self.file.segments() {
            let (start, bytes) = segment.file_range();
            let Some(within) = variable.address.checked_sub(segment.address()) else { continue };
            let end = start.saturating_add(bytes).min(self.image.len() as u64);
            let offset = start.saturating_add(within);
            if within < bytes && offset.saturating_add(variable.size) <= end {
                return Ok(offset as usize);
            }
        }
        Err(format!("{} has no bytes of its own in the file", variable.name))
    }
}

/// The integer that `bytes`, at most 8 of them, hold on this machine.
pub(crate) fn integer(bytes: &[u8], signed: bool) -> i128 {
    let significant = |value: i128, byte: &u8| value << 8 | i128::from(*byte);
    let value = if cfg!(target_endian = "little") {
        bytes.iter().rev().fold(0, significant)
    } else {
        bytes.iter().fold(0, significant)
    };
    let half = 1_i128 << (8 * bytes.len() - 1);
    if signed && value >= half { value - 2 * half } else { value }
}

fn map_definition(policy: &str, variable: &Variable) -> Result<MapDefinition, PolicyError> {
    let wrong = |reason: &str| PolicyError::Map {
        policy: policy.to_owned(),
        map: variable.name.clone(),
        reason: reason.to_owned(),
    };
    let Shape::Structure(members) = &variable.shape else {
        return Err(wrong("is not a structure"));
    };
    if !variable.external {
        return Err(wrong("is static; a kernel's loader only sees maps that are not"));
    }
    let find = |name: &str| members.iter().find(|member| member.name == name);
    let count = |member: Option<&Member>| {
        let value = member.and_then(|member| member.elements).unwrap_or(0);
        u32::try_from(value).map_err(|_| wrong(&format!("has {value} where 32 bits must do")))
    };
    let size = |number: &str, kind: &str| match (find(number), find(kind)) {
        (None, Some(Member { size: 0, .. })) => {
            Err(wrong(&format!("has a {kind} of a type without size; define the type first")))
        }
        (None, Some(Member { size, .. })) => {
            u32::try_from(*size).map_err(|_| wrong(&format!("has a {kind} of {size} bytes")))
        }
        (number, _) => count(number),
    };
    let kind = count(find("type"))?;
    if kind == 0 {
        return Err(wrong("does not say what it is; begin it with __uint(type, BPF_MAP_TYPE_...)"));
    }
    Ok(MapDefinition {
        name: variable.name.clone(),
        kind,
        key_size: size("key_size", "key")?,
        value_size: size("value_size", "value")?,
        max_entries: count(find("max_entries"))?,
        map_flags: count(find("map_flags"))?,
        address: variable.address,
    })
}
