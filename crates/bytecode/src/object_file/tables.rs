//! Tables of functions, such as a `struct sched_ext_ops`.

use std::collections::BTreeMap;

use object::{
    Object as _, ObjectSection, ObjectSymbol, Relocation, RelocationTarget, SymbolSection,
};

use super::{
    OPTIONAL, Object, R_BPF_64_ABS64, Reading, Section, Table, bytes_or_zeros, kind_of, name_of,
    required,
};
use crate::btf::{Btf, BtfError, Type, TypeId, essential_name};
use crate::error::ObjectError;

/// Members of tables, their names and bytes.
const TABLES_BYTES_MAX: usize = 1 << 20;

impl Reading<'_> {
    /// Finds the tables; those that a loader takes only if asked to are the last.
    pub(super) fn tables(&self, object: &mut Object) -> Result<(), ObjectError> {
        let mut images = BTreeMap::new();
        for section in self.file.sections() {
            let name = section.name()?;
            if has_tables(name) {
                let targets = self.targets(object, &section)?;
                images.insert(section.index().0, (name, bytes_or_zeros(&section)?, targets));
            }
        }
        let (mut left, mut optional) = (TABLES_BYTES_MAX, Vec::new());
        for symbol in self.file.symbols() {
            let SymbolSection::Section(index) = symbol.section() else { continue };
            let Some((section, image, targets)) = images.get(&index.0) else { continue };
            let (name, at) = (name_of(&symbol)?, symbol.address());
            if let Some(of) = self.type_of(section, name) {
                let table = table(&object.btf, name, of, at, image, targets, &mut left)?;
                let is_optional = section.starts_with(OPTIONAL);
                if is_optional { optional.push(table) } else { object.tables.push(table) }
            }
        }
        object.tables.extend(optional);
        Ok(())
    }

    /// The functions that a section of tables refers to, by their places in it.
    fn targets(
        &self,
        object: &Object,
        section: &Section<'_>,
    ) -> Result<BTreeMap<u64, usize>, ObjectError> {
        let target = |(at, relocation): (u64, Relocation)| {
            let function = match relocation.target() {
                RelocationTarget::Symbol(index) => {
                    self.function_of(object, &self.file.symbol_by_index(index)?)
                }
                _ => None,
            };
            match (kind_of(&relocation), function) {
                (R_BPF_64_ABS64, Some(function)) => Ok((at, function)),
                (kind, _) => {
                    let section = section.name()?.to_owned();
                    Err(ObjectError::Relocation { section, at, kind })
                }
            }
        };
        section.relocations().map(target).collect()
    }
}

/// Whether a section of this name holds tables of functions; a loader takes some only if asked to.
pub(super) fn has_tables(name: &str) -> bool {
    matches!(required(name), ".struct_ops" | ".struct_ops.link")
}

fn table(
    btf: &Btf,
    name: &str,
    of: TypeId,
    at: u64,
    image: &[u8],
    targets: &BTreeMap<u64, usize>,
    left: &mut usize,
) -> Result<Table, ObjectError> {
    let refused = || ObjectError::Variable { name: name.to_owned() };
    let Type::Structure { name: type_name, members, .. } = btf.resolve(of)?.1 else {
        return Err(refused());
    };
    let (mut functions, mut values) = (BTreeMap::new(), BTreeMap::new());
    for member in members {
        *left = left.checked_sub(1 + member.name.len()).ok_or_else(refused)?;
        let offset = at.checked_add(u64::from(member.bit_offset / 8)).ok_or_else(refused)?;
        if let Some(function) = targets.get(&offset) {
            functions.insert(member.name.clone(), *function);
        } else if !is_function_pointer(btf, member.of)? {
            let bytes = btf.bytes_of(member.of)?;
            let end = offset.checked_add(bytes).ok_or_else(refused)?;
            let bytes = image.get(offset as usize..end as usize).ok_or_else(refused)?;
            *left = left.checked_sub(bytes.len()).ok_or_else(refused)?;
            values.insert(member.name.clone(), bytes.to_vec());
        }
    }
    let of = essential_name(type_name).to_owned();
    Ok(Table { name: name.to_owned(), of, functions, values })
}

fn is_function_pointer(btf: &Btf, of: TypeId) -> Result<bool, BtfError> {
    let Type::Pointer { to } = btf.resolve(of)?.1 else { return Ok(false) };
    Ok(matches!(btf.resolve(*to)?.1, Type::Prototype { .. }))
}
