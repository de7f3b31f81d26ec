//! Messages of a program: a format and 64-bit words. Source: Linux, kernel/bpf/helpers.c,
//! `bpf_bprintf_prepare`, as far as it says what a format may hold.

use super::{Host, Run, Touch};
use crate::fault::{FaultKind, Stop};

/// Most bytes of a message, and of a text that is read.
const MESSAGE_MAX: usize = 1024;

/// Where the words of a message are.
#[derive(Clone, Copy, Debug)]
pub enum Words {
    /// At an address, so many bytes.
    At(u64, u64),
    /// Here.
    Given([u64; 3]),
}

/// Words that a message may have. Source: Linux, include/linux/bpf.h, `MAX_BPRINTF_VARARGS`.
const WORDS_MAX: u32 = 12;

impl Words {
    /// Whether a kernel takes as many.
    fn are_taken(self) -> bool {
        match self {
            Words::Given(_) => true,
            Words::At(_, bytes) => {
                (bytes as u32).is_multiple_of(8) && bytes as u32 <= 8 * WORDS_MAX
            }
        }
    }
}

impl<H: Host> Run<'_, H> {
    /// The text that the format at an address makes of words, at most 1,023 bytes; `None` where a
    /// kernel refuses the format. Its bytes count as instructions, and so do those that it reads.
    ///
    /// # Errors
    ///
    /// What of it cannot be read.
    pub fn message(&mut self, format: u64, words: Words) -> Result<Option<String>, Stop> {
        let format = self.text(format, MESSAGE_MAX)?;
        let is_shown = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
        if !format.iter().all(is_shown) || !words.are_taken() {
            return Ok(None);
        }
        let mut numbers = 0..;
        let mut message = Vec::new();
        let mut rest = &format[..];
        while let [first, after @ ..] = rest {
            rest = after;
            if *first != b'%' {
                message.push(*first);
                continue;
            }
            let Some(specification) = Specification::of(rest) else { return Ok(None) };
            rest = &rest[specification.bytes..];
            if specification.conversion == b'%' {
                message.push(b'%');
                continue;
            }
            let number = numbers.next().unwrap_or_default();
            let Some(word) = self.word(words, number)? else { return Ok(None) };
            match specification.conversion {
                b's' | b'k' => specification.pad(self.text_if_any(word)?, &mut message),
                b'4' => message.extend(self.internet_address::<4>(word, specification.short)?),
                b'6' => message.extend(self.internet_address::<16>(word, specification.short)?),
                _ => specification.pad(specification.number(word).into(), &mut message),
            }
        }
        self.count(message.len() as u64)?;
        message.truncate(MESSAGE_MAX - 1);
        Ok(Some(String::from_utf8_lossy(&message).into_owned()))
    }

    /// The text at an address; none where nothing can be read, as a kernel has it in messages
    /// (`bpf_trace_copy_string`). Strict runs let it be so of NULL alone.
    fn text_if_any(&mut self, address: u64) -> Result<Vec<u8>, Stop> {
        let is_strict = self.machine.shadow.is_some() && address != 0;
        let is_there = is_strict || self.memory().bytes(address, 1).is_some();
        if is_there { self.text(address, MESSAGE_MAX) } else { Ok(vec![]) }
    }

    /// The internet address at an address, without zeros in front where it is `short`; all zeros
    /// where nothing can be read, which strict runs let be so of NULL alone. A kernel gives it no
    /// width.
    fn internet_address<const BYTES: usize>(
        &mut self,
        address: u64,
        short: bool,
    ) -> Result<Vec<u8>, Stop> {
        let is_strict = self.machine.shadow.is_some() && address != 0;
        let is_there = self.memory().bytes(address, BYTES as u64).is_some();
        let mut bytes = [0; BYTES];
        if is_strict || is_there {
            bytes.copy_from_slice(self.read(address, 0, BYTES as u64, Touch::ReadAll)?);
        }
        let (parts, between): (Vec<String>, _) = match (BYTES, short) {
            (4, true) => (bytes.iter().map(u8::to_string).collect(), "."),
            (4, false) => (bytes.iter().map(|byte| format!("{byte:03}")).collect(), "."),
            _ => {
                let pairs = bytes.chunks(2).map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]));
                (pairs.collect(), if short { ":" } else { "" })
            }
        };
        Ok(parts.join(between).into())
    }

    /// The word with this number, 8 bytes each; `None` behind the last one.
    fn word(&mut self, words: Words, number: usize) -> Result<Option<u64>, Stop> {
        let (begin, bytes) = match words {
            Words::Given(words) => return Ok(words.get(number).copied()),
            Words::At(begin, bytes) => (begin, u64::from(bytes as u32)),
        };
        let at = 8 * number as u64;
        if at >= bytes {
            return Ok(None);
        }
        let mut word = [0; 8];
        word.copy_from_slice(self.read(begin, at, 8, Touch::ReadAll)?);
        Ok(Some(u64::from_le_bytes(word)))
    }

    /// The bytes at an address up to a zero, at most so many; each counts as an instruction.
    ///
    /// # Errors
    ///
    /// That they cannot be read.
    pub fn text(&mut self, address: u64, most: usize) -> Result<Vec<u8>, Stop> {
        let mut text = Vec::new();
        while text.len() < most {
            match self.read(address, text.len() as u64, 1, Touch::Read)? {
                [0] => break,
                byte => text.extend_from_slice(byte),
            }
        }
        self.count(text.len() as u64)?;
        Ok(text)
    }

    fn read(&mut self, begin: u64, at: u64, bytes: u64, touch: Touch) -> Result<&[u8], Stop> {
        self.check(begin, at, bytes, touch)?;
        let address = begin.wrapping_add(at);
        let outside = FaultKind::Memory { address, bytes, write: false };
        self.memory().bytes(address, bytes).ok_or_else(|| outside.into())
    }
}

/// A conversion of a format, without its `%`.
struct Specification {
    left: bool,
    zeros: bool,
    alternate: bool,
    width: usize,
    /// Whether it is of 64 bits.
    long: bool,
    /// Its letter: `p` for a pointer with all digits, of those that show more of one `S` for a
    /// symbol, `k` for a text, and `4` and `6` for an internet address.
    conversion: u8,
    /// Of an address, whether it is the form that people write: `%pI4` and not `%pi4`.
    short: bool,
    /// How long it is.
    bytes: usize,
}

impl Specification {
    /// What stands behind a `%`; `None` where it is none that a kernel takes.
    fn of(text: &[u8]) -> Option<Specification> {
        let flags = text.iter().take_while(|byte| b"-0+ #".contains(byte)).count();
        let digits = text[flags..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let width = std::str::from_utf8(&text[flags..flags + digits]).unwrap_or_default();
        let longs = text[flags + digits..].iter().take_while(|&&byte| byte == b'l').count();
        let bytes = flags + digits + longs;
        let has = |flag| text[..flags].contains(&flag);
        let conversion = *text.get(bytes).filter(|one| b"%cdiuxXps".contains(one))?;
        let (conversion, more) = match (conversion, &text[bytes + 1..]) {
            (b'p', [b'k' | b'u', b's', ..]) => (b'k', 2),
            (b'p', [b'K' | b'x', ..]) => (b'p', 1),
            (b'p', [b's' | b'S' | b'B', ..]) => (b'S', 1),
            // It has no more letters: a kernel shows none that stand behind it (`bstr_printf`).
            (b'p', [b'i' | b'I', kind @ (b'4' | b'6'), rest @ ..]) => {
                (*kind, 2 + rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count())
            }
            (b'p', [other, ..]) if other.is_ascii_alphanumeric() => return None,
            _ => (conversion, 0),
        };
        Some(Specification {
            left: has(b'-'),
            zeros: has(b'0') && !has(b'-'),
            alternate: has(b'#'),
            width: width.parse().unwrap_or(0).min(MESSAGE_MAX),
            long: longs > 0,
            conversion,
            short: text.get(bytes + 1) == Some(&b'I'),
            bytes: bytes + 1 + more,
        })
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
            b'p' => format!("{word:016x}"),
            // As where a kernel knows no name for an address.
            b'S' => format!("{word:#x}"),
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
