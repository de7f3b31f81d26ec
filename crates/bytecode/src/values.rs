//! Values as C writes them, by the types that an object describes.
//!
//! Large ones are shortened: of arrays what is not 0, up to a limit; what is equal stands once.

use crate::btf::{Btf, KERNELS_OWN, Member, Type, TypeId};

/// Columns of a line, if a value can be divided.
const COLUMNS: usize = 96;
/// Elements of an array that are shown, and values of a whole variable.
const ELEMENTS_MAX: usize = 16;
const VALUES_MAX: usize = 512;
const INDENT: &str = "    ";
/// Deepest nesting of what is shown.
const DEPTH_MAX: usize = 16;

/// What a reader calls the object at an address, if anything.
pub type NameOf<'a> = &'a dyn Fn(u64) -> Option<String>;

/// A value as text, which may be divided where it has several parts.
enum Shown {
    One(String),
    Several(Vec<(String, Shown)>),
}

impl Shown {
    fn inline(&self) -> String {
        match self {
            Shown::One(text) => text.clone(),
            Shown::Several(parts) => {
                let part = |(label, shown): &(String, Shown)| label.clone() + &shown.inline();
                format!("{{{}}}", parts.iter().map(part).collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// Appends it behind what stands in the last line already.
    fn write(&self, before: usize, indent: usize, out: &mut String) {
        let (inline, Shown::Several(parts)) = (self.inline(), self) else {
            return out.push_str(&self.inline());
        };
        if before + inline.len() < COLUMNS {
            return out.push_str(&inline);
        }
        out.push_str("{\n");
        for (label, shown) in parts {
            let line = INDENT.repeat(indent + 1) + label;
            out.push_str(&line);
            shown.write(line.len(), indent + 1, out);
            out.push_str(",\n");
        }
        out.push_str(&(INDENT.repeat(indent) + "}"));
    }
}

/// A value that is being shown.
struct Showing<'a> {
    btf: &'a Btf,
    name_of: NameOf<'a>,
    left: usize,
}

impl Btf {
    /// The declaration of a variable of this name and type: `u32 counts[4]`.
    pub fn declaration(&self, of: TypeId, name: &str) -> String {
        self.declared(of, name.to_owned(), DEPTH_MAX)
    }

    fn declared(&self, of: TypeId, name: String, deeper: usize) -> String {
        let named = |word: &str| match name.is_empty() {
            true => word.to_owned(),
            false => format!("{word} {name}"),
        };
        let tagged = |kind: &str, tag: &str| match tag.is_empty() {
            true => named(kind),
            false => named(&format!("{kind} {tag}")),
        };
        let (Ok(one), true) = (self.get(of), deeper > 0) else { return named("?") };
        let within = |of, name| self.declared(of, name, deeper - 1);
        match one {
            Type::Void => named("void"),
            Type::Integer { name, .. } | Type::Float { name, .. } => named(name),
            Type::Typedef { name, .. } => named(name),
            Type::Structure { name, union: true, .. } => tagged("union", name),
            Type::Structure { name, .. } | Type::Declared { name } => tagged("struct", name),
            Type::Enumeration { name, .. } => tagged("enum", name),
            Type::Pointer { to } => match self.get(*to) {
                Ok(Type::Array { .. } | Type::Prototype { .. }) => {
                    within(*to, format!("(*{name})"))
                }
                _ => within(*to, format!("*{name}")),
            },
            Type::Array { element, count } => within(*element, format!("{name}[{count}]")),
            // What may be written says nothing of what is there.
            Type::Qualified { of, .. } | Type::Variable { of, .. } => within(*of, name),
            Type::Prototype { answer, .. } => within(*answer, format!("{name}()")),
            _ => named("?"),
        }
    }

    /// A value of this type, of which these are the bytes, in lines; the first one begins behind
    /// `before` columns, and others are indented by so many steps.
    pub fn value_text(
        &self,
        of: TypeId,
        bytes: &[u8],
        (before, indent): (usize, usize),
        name_of: NameOf<'_>,
    ) -> String {
        let mut showing = Showing { btf: self, name_of, left: VALUES_MAX };
        let mut text = String::new();
        showing.value(of, bytes, DEPTH_MAX).write(before, indent, &mut text);
        text
    }
}

/// The lower bits of a number of these bytes, with its sign.
pub(crate) fn number(bytes: &[u8], signed: bool) -> i128 {
    let mut word = [0; 8];
    let count = bytes.len().min(8);
    word[..count].copy_from_slice(&bytes[..count]);
    let (value, unused) = (u64::from_le_bytes(word), 64 - 8 * count as u32);
    match (signed, unused) {
        (false, _) | (_, 64) => value.into(),
        (true, unused) => (((value << unused) as i64) >> unused).into(),
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

impl Showing<'_> {
    fn value(&mut self, of: TypeId, bytes: &[u8], deeper: usize) -> Shown {
        self.left = self.left.saturating_sub(1);
        let Ok((_, resolved)) = self.btf.resolve(of) else { return raw(bytes) };
        if deeper == 0 || self.left == 0 {
            return Shown::One("...".to_owned());
        }
        match resolved {
            Type::Integer { boolean: true, .. } => {
                Shown::One(if is_zero(bytes) { "false" } else { "true" }.to_owned())
            }
            Type::Integer { bytes: ..=8, signed, .. } => {
                Shown::One(number(bytes, *signed).to_string())
            }
            Type::Enumeration { signed, values, .. } => {
                let value = number(bytes, *signed);
                let named = values.iter().find(|(_, one)| i128::from(*one) == value);
                Shown::One(named.map_or(value.to_string(), |(name, _)| name.clone()))
            }
            Type::Pointer { .. } => Shown::One(self.pointer(number(bytes, false) as u64)),
            Type::Structure { name, .. } if KERNELS_OWN.contains(&name.as_str()) => {
                Shown::One("{...}".to_owned())
            }
            Type::Structure { members, .. } => self.structure(members, bytes, deeper),
            Type::Array { element, .. } => self.array(*element, bytes, deeper),
            _ => raw(bytes),
        }
    }

    fn pointer(&self, address: u64) -> String {
        match (address, (self.name_of)(address)) {
            (0, _) => "NULL".to_owned(),
            (_, Some(name)) => format!("{address:#x} <{name}>"),
            (_, None) => format!("{address:#x}"),
        }
    }

    fn structure(&mut self, members: &[Member], bytes: &[u8], deeper: usize) -> Shown {
        if is_zero(bytes) {
            return Shown::One("{0}".to_owned());
        }
        let mut parts = Vec::new();
        for member in members {
            let at = (member.bit_offset / 8) as usize;
            let label = match member.name.is_empty() {
                true => String::new(),
                false => format!(".{} = ", member.name),
            };
            let shown = if member.bits > 0 {
                Shown::One(bits_of(bytes, member).to_string())
            } else {
                let size = self.btf.bytes_of(member.of).unwrap_or(0) as usize;
                let Some(own) = bytes.get(at..at.saturating_add(size)) else { continue };
                self.value(member.of, own, deeper - 1)
            };
            parts.push((label, shown));
        }
        Shown::Several(parts)
    }

    fn array(&mut self, element: TypeId, bytes: &[u8], deeper: usize) -> Shown {
        let size = self.btf.bytes_of(element).unwrap_or(0).max(1) as usize;
        let of = self.btf.resolve(element).ok().map(|(_, of)| of);
        if let (Some(Type::Integer { name, bytes: 1, .. }), Some(text)) = (of, text_of(bytes))
            && name == "char"
        {
            return Shown::One(text);
        }
        if is_zero(bytes) {
            return Shown::One("{0}".to_owned());
        }
        let is_plain = !matches!(of, Some(Type::Structure { .. } | Type::Array { .. }));
        if is_plain && bytes.len().div_ceil(size) <= ELEMENTS_MAX {
            let each = |one| (String::new(), self.value(element, one, deeper - 1));
            return Shown::Several(bytes.chunks(size).map(each).collect());
        }
        self.runs(element, bytes, size, deeper)
    }

    /// What is not 0, equal neighbours together.
    fn runs(&mut self, element: TypeId, bytes: &[u8], size: usize, deeper: usize) -> Shown {
        let (mut parts, mut first, mut nr_left) = (Vec::new(), 0, 0);
        let mut elements = bytes.chunks(size).peekable();
        while let Some(one) = elements.next() {
            let mut nr = 1;
            while elements.next_if(|next| *next == one).is_some() {
                nr += 1;
            }
            let last = first + nr - 1;
            let at = std::mem::replace(&mut first, last + 1);
            if is_zero(one) {
                continue;
            }
            if parts.len() == ELEMENTS_MAX || self.left == 0 {
                nr_left += nr;
                continue;
            }
            let label = match nr {
                1 => format!("[{at}] = "),
                _ => format!("[{at} ... {last}] = "),
            };
            parts.push((label, self.value(element, one, deeper - 1)));
        }
        if nr_left > 0 {
            parts.push((String::new(), Shown::One(format!("... {nr_left} more that are not 0"))));
        }
        Shown::Several(parts)
    }
}

fn raw(bytes: &[u8]) -> Shown {
    let digits: String = bytes.iter().rev().take(16).map(|byte| format!("{byte:02x}")).collect();
    Shown::One(format!("0x{digits}"))
}

fn bits_of(bytes: &[u8], member: &Member) -> u128 {
    let (first, shift) = ((member.bit_offset / 8) as usize, member.bit_offset % 8);
    let own = bytes.get(first..).unwrap_or_default();
    let word = own.iter().take(9).rev().fold(0_u128, |word, &byte| word << 8 | u128::from(byte));
    word >> shift & ((1 << member.bits.min(64)) - 1)
}

/// Characters up to a zero as a text, if all of them can be shown.
fn text_of(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    let is_shown = |byte: &u8| byte.is_ascii_graphic() || b" \t\n".contains(byte);
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    bytes[..end].iter().all(is_shown).then(|| format!("{text:?}"))
}
