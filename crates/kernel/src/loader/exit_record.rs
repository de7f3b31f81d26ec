//! The record of its end that a policy keeps in a variable of its own.
//!
//! Recognised by its members, so that the records of schedlab's policies and those of the kernel's
//! example schedulers (`struct user_exit_info`) are both read.

use libbpf_rs::{MapCore, MapFlags, Object};

use super::holds_section;
use super::variables::{Member, Shape, Variable};
use crate::records::Exit;

/// Where an object keeps its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExitRecord {
    section: String,
    /// Bytes of kind, code, reason, message, and of the dump if it keeps one.
    kind: Range,
    code: Range,
    reason: Range,
    message: Range,
    dump: Option<Range>,
}

type Range = std::ops::Range<usize>;

impl ExitRecord {
    /// The object's record, if it has one.
    pub fn find(variables: &[Variable]) -> Option<Self> {
        variables.iter().find_map(Self::of_variable)
    }

    fn of_variable(variable: &Variable) -> Option<Self> {
        let Shape::Structure(members) = &variable.shape else { return None };
        let range = |name: &str| member_range(members, name, variable);
        Some(ExitRecord {
            section: variable.section.clone(),
            kind: range("kind")?,
            code: range("exit_code")?,
            reason: range("reason")?,
            message: range("msg")?,
            dump: range("dump"),
        })
    }

    /// What the record says, or `None` while the policy has not ended.
    pub fn read(&self, object: &Object) -> Option<Exit> {
        let map = object.maps().find(|map| holds_section(map.name(), &self.section))?;
        let data = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        let kind = i32::from_le_bytes(data.get(self.kind.clone())?.get(..4)?.try_into().ok()?);
        if kind == 0 {
            return None;
        }
        let code = data.get(self.code.clone())?.get(..8)?.try_into().ok()?;
        let text = |range: &Range| data.get(range.clone()).map(text_of).unwrap_or_default();
        Some(Exit {
            kind,
            code: i64::from_le_bytes(code),
            reason: text(&self.reason),
            message: text(&self.message),
            dump: self.dump.as_ref().map(text).unwrap_or_default(),
            ..Exit::default()
        })
    }
}

/// The bytes from a member to the next one, within the variable's section.
fn member_range(members: &[Member], name: &str, variable: &Variable) -> Option<Range> {
    let start = members.iter().find(|m| m.name == name)?.offset;
    let later = members.iter().map(|m| m.offset).filter(|&offset| offset > start);
    let end = later.min().unwrap_or(variable.size);
    Some(variable.offset + start..variable.offset + end)
}

fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn structure(names: &[(&str, usize)]) -> Variable {
        let member = |&(name, offset): &(&str, usize)| Member { name: name.into(), offset };
        Variable {
            name: "uei".into(),
            section: ".data".into(),
            offset: 64,
            size: 100,
            shape: Shape::Structure(names.iter().map(member).collect()),
        }
    }

    #[test]
    fn a_record_is_known_by_its_members() {
        let kernels_own = [("kind", 0), ("exit_code", 8), ("reason", 16), ("msg", 32)];
        let found = ExitRecord::find(&[structure(&[("kind", 0)]), structure(&kernels_own)]);
        let found = found.unwrap();
        assert_eq!((found.reason, found.message, found.dump), (80..96, 96..164, None));
        assert_eq!(ExitRecord::find(&[structure(&kernels_own[..3])]), None);
    }
}
