//! The variables of a BPF object, read from its type information (BTF).

use libbpf_rs::btf::types::{Array, Composite, DataSec, Enum, Enum64, Int, IntEncoding};
use libbpf_rs::btf::types::{MemberAttr, Var};
use libbpf_rs::btf::{BtfType, HasSize};
use libbpf_rs::{Btf, ReferencesType};

use super::LoadError;

/// One variable at file level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variable {
    /// Its name in C.
    pub name: String,
    /// The section it is in: `.rodata` for constants.
    pub section: String,
    /// Bytes from the section's start.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
    /// What it is made of.
    pub shape: Shape,
}

impl Variable {
    /// Whether a loader may set it: a constant that the policy reads when it runs.
    pub fn is_constant(&self) -> bool {
        self.section == ".rodata" || self.section.starts_with(".rodata.")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Integer { signed: bool, boolean: bool },
    Structure(Vec<Member>),
    Array { element_size: usize },
    Other,
}

/// One member of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub name: String,
    pub offset: usize,
}

/// All variables of the object, in the order of their sections.
pub(super) fn of_object(image: &[u8]) -> Result<Vec<Variable>, LoadError> {
    let btf = Btf::from_raw("policy", image)
        .map_err(|e| LoadError::NotAnObject { reason: e.to_string() })?
        .ok_or_else(|| LoadError::NotAnObject { reason: "it has no type information".into() })?;
    let mut found = Vec::new();
    for section in btf.type_by_kind::<DataSec<'_>>() {
        let Some(section_name) = name_of(&section) else { continue };
        for placed in section.iter() {
            let Some(var) = btf.type_by_id::<Var<'_>>(placed.ty) else { continue };
            let Some(name) = name_of(&var) else { continue };
            found.push(Variable {
                name,
                section: section_name.clone(),
                offset: placed.offset as usize,
                size: placed.size,
                shape: shape(var.referenced_type().skip_mods_and_typedefs()),
            });
        }
    }
    Ok(found)
}

fn name_of(ty: &BtfType<'_>) -> Option<String> {
    ty.name().map(|name| name.to_string_lossy().into_owned())
}

fn shape(ty: BtfType<'_>) -> Shape {
    if let Ok(int) = Int::try_from(ty) {
        let signed = matches!(int.encoding, IntEncoding::Signed);
        let boolean = matches!(int.encoding, IntEncoding::Bool);
        return Shape::Integer { signed, boolean };
    }
    if let Ok(one) = Enum::try_from(ty) {
        return Shape::Integer { signed: one.is_signed(), boolean: false };
    }
    if let Ok(one) = Enum64::try_from(ty) {
        return Shape::Integer { signed: one.is_signed(), boolean: false };
    }
    if let Ok(array) = Array::try_from(ty) {
        let element = array.contained_type().skip_mods_and_typedefs();
        return Int::try_from(element)
            .map_or(Shape::Other, |int| Shape::Array { element_size: int.size() });
    }
    Composite::try_from(ty).map_or(Shape::Other, |composite| Shape::Structure(members(&composite)))
}

fn members(composite: &Composite<'_>) -> Vec<Member> {
    let member = |m: libbpf_rs::btf::types::CompositeMember<'_>| {
        let MemberAttr::Normal { offset } = m.attr else { return None };
        Some(Member { name: m.name?.to_string_lossy().into_owned(), offset: offset as usize / 8 })
    };
    composite.iter().filter_map(member).collect()
}
