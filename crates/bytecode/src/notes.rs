//! What an object says of its instructions: their lines, and which of them name fields.
//!
//! Source: the kernel's Documentation/bpf/btf.rst, section `.BTF.ext`; kinds of relocations:
//! include/uapi/linux/bpf.h, `enum bpf_core_relo_kind`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::btf::{Btf, BtfError, Names, TypeId};
use crate::reader::Reader;

const MAGIC: u16 = 0xeb9f;
/// Steps of a relocation. Source: libbpf, `BPF_CORE_SPEC_MAX_LEN`.
const STEPS_MAX: usize = 64;
const SLOT_BYTES: u32 = crate::instruction::SLOT_BYTES as u32;

/// Where in a source an instruction comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The file as the compiler was given it.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1; 0 if the compiler did not say.
    pub column: u32,
    /// The line's text; empty if the compiler did not keep it.
    pub text: Arc<str>,
}

/// What a relocation asks of a field, type or value that the world it runs in has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Question {
    FieldOffset,
    FieldBytes,
    FieldExists,
    FieldSigned,
    /// How far a bit field's 8 bytes are shifted left, and then right, to have its value.
    FieldLeftShift,
    FieldRightShift,
    /// The number of the object's own type.
    LocalTypeId,
    TargetTypeId,
    TypeExists,
    TypeBytes,
    ValueExists,
    Value,
    TypeMatches,
}

/// An instruction whose number depends on types of the world that it runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRelocation {
    /// The root type in the object.
    pub root: TypeId,
    /// Steps from the root: numbers of members and of array elements. For a value of an
    /// enumeration, its number among them.
    pub access: Vec<u32>,
    /// What is asked.
    pub question: Question,
}

/// What `.BTF.ext` says of the code of one section, by the slot of an instruction.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// Beginnings of lines: each holds until the next.
    pub lines: BTreeMap<u32, Line>,
    /// Beginnings of functions, with the number of their [`Function`](crate::btf::Type).
    pub functions: BTreeMap<u32, TypeId>,
    /// Instructions that name fields.
    pub fields: BTreeMap<u32, FieldRelocation>,
}

impl Notes {
    /// Reads a section `.BTF.ext`, and gives what it says by the name of the section of code.
    ///
    /// # Errors
    ///
    /// [`BtfError`] where the bytes do not follow the format.
    pub fn read(section: &[u8], btf: &Btf) -> Result<BTreeMap<String, Notes>, BtfError> {
        let mut header = Reader::new(section);
        match header.u16()? {
            MAGIC => {}
            magic => return Err(BtfError::Magic(magic)),
        }
        header.skip(2)?;
        let header_bytes = header.u32()?;
        let body = Reader::new(section).rest_at(header_bytes)?;
        let mut table = || Ok::<_, BtfError>((header.u32()?, header.u32()?));
        let (functions, lines) = (table()?, table()?);
        // Older headers end before the relocations.
        let fields = if header_bytes >= 32 { table()? } else { (0, 0) };

        let (names, mut notes) = (btf.names(), BTreeMap::<String, Notes>::new());
        each_record(
            body.part(functions.0, functions.1)?,
            &names,
            &mut notes,
            |of, slot, record| {
                of.functions.insert(slot, record.u32()?);
                Ok(())
            },
        )?;
        each_record(body.part(lines.0, lines.1)?, &names, &mut notes, |of, slot, record| {
            let (file, text, place) = (record.u32()?, record.u32()?, record.u32()?);
            let text = names.text(text)?.trim().into();
            let (line, column) = (place >> 10, place & 0x3ff);
            of.lines.insert(slot, Line { file: names.text(file)?.into(), line, column, text });
            Ok(())
        })?;
        each_record(body.part(fields.0, fields.1)?, &names, &mut notes, |of, slot, record| {
            let (root, access, kind) = (record.u32()?, record.u32()?, record.u32()?);
            let access = names.text(access)?;
            let steps = access.split(':').map(str::parse).collect::<Result<Vec<_>, _>>();
            let steps = steps.ok().filter(|steps| steps.len() <= STEPS_MAX);
            let access = steps.ok_or(BtfError::Access(access))?;
            let question = Question::of(kind).ok_or(BtfError::Question(kind))?;
            of.fields.insert(slot, FieldRelocation { root, access, question });
            Ok(())
        })?;
        Ok(notes)
    }
}

impl Question {
    fn of(kind: u32) -> Option<Question> {
        Some(match kind {
            0 => Question::FieldOffset,
            1 => Question::FieldBytes,
            2 => Question::FieldExists,
            3 => Question::FieldSigned,
            4 => Question::FieldLeftShift,
            5 => Question::FieldRightShift,
            6 => Question::LocalTypeId,
            7 => Question::TargetTypeId,
            8 => Question::TypeExists,
            9 => Question::TypeBytes,
            10 => Question::ValueExists,
            11 => Question::Value,
            12 => Question::TypeMatches,
            _ => return None,
        })
    }
}

/// Calls `take` with each record of a table, whose first number, the place of an instruction in
/// bytes, it gets as a slot.
fn each_record(
    mut table: Reader<'_>,
    names: &Names<'_>,
    notes: &mut BTreeMap<String, Notes>,
    mut take: impl FnMut(&mut Notes, u32, &mut Reader<'_>) -> Result<(), BtfError>,
) -> Result<(), BtfError> {
    if table.is_empty() {
        return Ok(());
    }
    let record_bytes = table.u32()?;
    while !table.is_empty() {
        let (name, count) = (names.text(table.u32()?)?, table.u32()?);
        let of = notes.entry(name).or_default();
        for _ in 0..count {
            let mut record = table.part(0, record_bytes)?;
            table.skip(record_bytes)?;
            let slot = record.u32()? / SLOT_BYTES;
            take(of, slot, &mut record)?;
        }
    }
    Ok(())
}
