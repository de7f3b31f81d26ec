//! Messages of a policy, in the kernel's own form: a format and 64-bit words.

use super::{Calling, at};
use crate::failure::FailureKind;
use bytecode::{Stop, Touch};

/// Most bytes of a message. Source: Linux, kernel/sched/ext.c (`SCX_EXIT_MSG_LEN`).
const MESSAGE_MAX: usize = 1024;

pub(super) fn error(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let message = message(run, given[0], given[1], given[2])?;
    run.host.fail(FailureKind::PolicyError, format!("scx_bpf_error ({message})"));
    Ok(0)
}

pub(super) fn exit(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let message = message(run, given[1], given[2], given[3])?;
    let code = given[0] as i64;
    let text = format!("policy asked to exit with code {code} ({message})");
    run.host.fail(FailureKind::PolicyExit, text);
    Ok(0)
}

pub(super) fn print(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let message = message(run, given[0], given[2], given[3])?;
    run.host.print(&message);
    Ok(message.len() as u64)
}

/// The bytes up to a zero, at most so many.
fn text(run: &mut Calling<'_, '_>, address: u64) -> Result<Vec<u8>, Stop> {
    let mut text = Vec::new();
    while text.len() < MESSAGE_MAX {
        let next = text.len() as u64;
        run.check(address, next, 1, Touch::Read)?;
        // SAFETY: a byte that is there.
        match unsafe { *at(run, address.wrapping_add(next), 1, 1, Touch::Read)? } {
            0 => break,
            byte => text.push(byte),
        }
    }
    Ok(text)
}

/// The text that a format makes of words.
fn message(run: &mut Calling<'_, '_>, format: u64, words: u64, bytes: u64) -> Result<String, Stop> {
    let format = text(run, format)?;
    let mut address = words;
    let end = words.saturating_add(u64::from(bytes as u32));
    let mut message = Vec::new();
    let mut rest = &format[..];
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            message.push(*first);
            continue;
        }
        let specification = Specification::of(rest);
        rest = &rest[specification.bytes..];
        if specification.conversion == b'%' {
            message.push(b'%');
            continue;
        }
        if address >= end {
            break;
        }
        run.check(words, address - words, 8, Touch::ReadAll)?;
        // SAFETY: a word that is there.
        let word = unsafe { at(run, address, 8, 1, Touch::Read)?.cast::<u64>().read_unaligned() };
        address += 8;
        let is_text = specification.conversion == b's';
        let shown = if is_text { text(run, word)? } else { specification.number(word).into() };
        specification.pad(shown, &mut message);
    }
    message.truncate(MESSAGE_MAX - 1);
    Ok(String::from_utf8_lossy(&message).into_owned())
}

/// A conversion of a format, without its `%`.
struct Specification {
    left: bool,
    zeros: bool,
    alternate: bool,
    width: usize,
    /// Whether it is of 64 bits.
    long: bool,
    conversion: u8,
    /// How long it is.
    bytes: usize,
}

impl Specification {
    fn of(text: &[u8]) -> Specification {
        let flags = text.iter().take_while(|byte| b"-0+ #".contains(byte)).count();
        let digits = text[flags..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let width = std::str::from_utf8(&text[flags..flags + digits]).unwrap_or_default();
        let longs = text[flags + digits..].iter().take_while(|&&byte| byte == b'l').count();
        let bytes = flags + digits + longs;
        let has = |flag| text[..flags].contains(&flag);
        Specification {
            left: has(b'-'),
            zeros: has(b'0') && !has(b'-'),
            alternate: has(b'#'),
            width: width.parse().unwrap_or(0).min(MESSAGE_MAX),
            long: longs > 0,
            conversion: text.get(bytes).copied().unwrap_or(b'%'),
            bytes: (bytes + 1).min(text.len()),
        }
    }

    fn number(&self, word: u64) -> String {
        let unsigned = if self.long { word } else { u64::from(word as u32) };
        let signed = if self.long { word as i64 } else { i64::from(word as i32) };
        match self.conversion {
            b'd' | b'i' => signed.to_string(),
            b'x' if self.alternate => format!("{unsigned:#x}"),
            b'x' => format!("{unsigned:x}"),
            b'X' => format!("{unsigned:X}"),
            b'c' => char::from(word as u8).to_string(),
            b'p' => format!("{word:#x}"),
            _ => unsigned.to_string(),
        }
    }

    fn pad(&self, shown: Vec<u8>, message: &mut Vec<u8>) {
        let missing = self.width.saturating_sub(shown.len());
        let is_negative = shown.first() == Some(&b'-');
        match (self.left, self.zeros) {
            (true, _) => {
                message.extend(shown);
                message.resize(message.len() + missing, b' ');
            }
            (false, true) => {
                let sign = usize::from(is_negative);
                message.extend_from_slice(&shown[..sign]);
                message.resize(message.len() + missing, b'0');
                message.extend_from_slice(&shown[sign..]);
            }
            (false, false) => {
                message.resize(message.len() + missing, b' ');
                message.extend(shown);
            }
        }
    }
}
