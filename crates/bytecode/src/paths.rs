//! Which value an expression means: `stats.wakeups`, `counts[3]`, `map[key].field`.

use crate::btf::{Btf, Member, Type, TypeId};
use crate::values::number;

/// Characters of an expression.
const EXPRESSION_MAX: usize = 256;

/// A step from a value to one inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To the member of this name.
    Member(String),
    /// To the element, or the value of the key, of this number.
    Element(i64),
}

/// Why an expression means no number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathError {
    /// It cannot be read.
    Unreadable,
    /// This value has no such member, but these.
    NoMember {
        /// What was looked at, as it was written.
        of: String,
        /// The name that is not there.
        name: String,
        /// Names that are.
        known: Vec<String>,
    },
    /// This array has fewer elements.
    NoElement {
        /// What was looked at, as it was written.
        of: String,
        /// How many it has.
        count: u32,
    },
    /// This is of a type that has no such parts, or, at the end, that is no number.
    Unfit {
        /// What was looked at, as it was written.
        of: String,
        /// Its type.
        is: String,
    },
}

/// A number inside a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Bytes from the value's begin.
    pub offset: u64,
    /// Its size, 1 to 8.
    pub bytes: u64,
    /// The first of its bits and how many there are, of a bit field.
    pub bits: Option<(u32, u32)>,
    /// Whether it can be negative.
    pub signed: bool,
    /// Its type's name.
    pub type_name: String,
}

impl Spot {
    /// The number, of these bytes of its own.
    pub fn number(&self, bytes: &[u8]) -> i128 {
        let Some((first, count)) = self.bits else { return number(bytes, self.signed) };
        let all = number(bytes, false) as u64 >> first;
        let unused = 64 - count.clamp(1, 64);
        if self.signed {
            (((all << unused) as i64) >> unused).into()
        } else {
            ((all << unused) >> unused).into()
        }
    }
}

/// The name that an expression begins with, and the steps from there.
///
/// # Errors
///
/// [`PathError::Unreadable`]
pub fn read_path(expression: &str) -> Result<(String, Vec<Step>), PathError> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name_at = |rest: &mut &str| {
        let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        *rest = after;
        let is_name = name.starts_with(|c: char| !c.is_ascii_digit());
        is_name.then(|| name.to_owned()).ok_or(PathError::Unreadable)
    };
    let mut rest = expression.trim();
    if rest.len() > EXPRESSION_MAX {
        return Err(PathError::Unreadable);
    }
    let (name, mut steps) = (name_at(&mut rest)?, Vec::new());
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            steps.push(Step::Member(name_at(&mut rest)?));
            continue;
        }
        let within = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (key, after) = within.ok_or(PathError::Unreadable)?;
        steps.push(Step::Element(key_of(key.trim()).ok_or(PathError::Unreadable)?));
        rest = after;
    }
    Ok((name, steps))
}

fn key_of(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(|key| key as i64),
        None => text.parse().ok().or_else(|| text.parse::<u64>().ok().map(|key| key as i64)),
    }
}

impl Btf {
    /// The number to which steps lead in a value of this type that is written so.
    ///
    /// # Errors
    ///
    /// At which step there is none.
    pub fn find_number(
        &self,
        of: TypeId,
        steps: &[Step],
        mut written: String,
    ) -> Result<Spot, PathError> {
        let (mut of, mut bit_offset, mut bits) = (of, 0_u64, 0);
        for step in steps {
            let (_, resolved) = self.resolve(of).map_err(|_| self.unfit(of, &written))?;
            match (step, resolved) {
                (Step::Member(name), Type::Structure { .. }) => {
                    let mut known = Vec::new();
                    let found = self.member(of, name, 0, &mut known);
                    let (at, member) = found.ok_or_else(|| PathError::NoMember {
                        of: written.clone(),
                        name: name.clone(),
                        known,
                    })?;
                    bit_offset += at;
                    (of, bits) = (member.of, member.bits);
                    written += &format!(".{name}");
                }
                (Step::Element(number), Type::Array { element, count }) => {
                    if !(0..i64::from(*count)).contains(number) {
                        return Err(PathError::NoElement { of: written, count: *count });
                    }
                    let bytes = self.bytes_of(*element).unwrap_or(0);
                    bit_offset += 8 * bytes * *number as u64;
                    (of, bits) = (*element, 0);
                    written += &format!("[{number}]");
                }
                _ => return Err(self.unfit(of, &written)),
            }
        }
        self.spot(of, bit_offset, bits).ok_or_else(|| self.unfit(of, &written))
    }

    fn unfit(&self, of: TypeId, written: &str) -> PathError {
        PathError::Unfit { of: written.to_owned(), is: self.declaration(of, "") }
    }

    /// A member, also one of a structure without a name inside, and where it begins in bits;
    /// `known` are the names that were looked at.
    fn member(
        &self,
        of: TypeId,
        name: &str,
        depth: usize,
        known: &mut Vec<String>,
    ) -> Option<(u64, &Member)> {
        let Ok((_, Type::Structure { members, .. })) = self.resolve(of) else { return None };
        for member in members {
            let at = u64::from(member.bit_offset);
            if member.name == name {
                return Some((at, member));
            }
            if !member.name.is_empty() {
                known.push(member.name.clone());
            } else if depth < 8
                && let Some((within, found)) = self.member(member.of, name, depth + 1, known)
            {
                return Some((at + within, found));
            }
        }
        None
    }

    fn spot(&self, of: TypeId, bit_offset: u64, bits: u32) -> Option<Spot> {
        let (bytes, signed) = match self.resolve(of).ok()?.1 {
            Type::Integer { bytes: bytes @ 1..=8, signed, .. }
            | Type::Enumeration { bytes: bytes @ 1..=8, signed, .. } => (*bytes, *signed),
            Type::Pointer { .. } => (8, false),
            _ => return None,
        };
        let type_name = self.declaration(of, "");
        if bits == 0 {
            let (offset, bytes) = (bit_offset / 8, bytes.into());
            return Some(Spot { offset, bytes, bits: None, signed, type_name });
        }
        let (offset, first) = (bit_offset / 8, (bit_offset % 8) as u32);
        let bytes = u64::from((first + bits).div_ceil(8));
        (bytes <= 8).then_some(Spot { offset, bytes, bits: Some((first, bits)), signed, type_name })
    }
}
