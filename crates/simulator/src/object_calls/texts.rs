//! Texts and bits: calls that look at memory byte by byte, wherever it is.

use super::{Calling, writable};
use bytecode::{Size, Stop, errno};
use std::cell::Cell;

/// The longest text. Source: Linux, include/uapi/linux/limits.h, `XATTR_SIZE_MAX`.
const TEXT_MAX: u64 = 65536;
/// Most words of an iterator over bits. Source: Linux, kernel/bpf/helpers.c.
const BIT_WORDS_MAX: u64 = 511;

/// The byte at an address.
fn byte(run: &Calling<'_, '_>, at: u64) -> Result<u8, i32> {
    run.memory().load(at, Size::Byte).map(|byte| byte as u8).ok_or(-errno::EFAULT)
}

/// What a call answers, and what it costs.
fn answer(run: &mut Calling<'_, '_>, looked_at: u64, found: Result<i32, i32>) -> u64 {
    run.count(looked_at);
    found.unwrap_or_else(|errno| errno) as u64
}

fn lower(byte: u8, ignores_case: bool) -> u8 {
    if ignores_case { byte.to_ascii_lowercase() } else { byte }
}

/// `bpf_strcmp` and those that ignore the case, or look no further than so far.
pub(super) fn compare(
    run: &mut Calling<'_, '_>,
    [one, other, ..]: [u64; 5],
    ignores_case: bool,
    most: u64,
) -> Result<u64, Stop> {
    let looked_at = Cell::new(0);
    let difference = |at: u64| -> Result<Option<i32>, i32> {
        looked_at.set(at);
        let (a, b) = (byte(run, one.wrapping_add(at))?, byte(run, other.wrapping_add(at))?);
        let (a, b) = (lower(a, ignores_case) as i8, lower(b, ignores_case) as i8);
        Ok(match a.cmp(&b) as i32 {
            0 if a == 0 => Some(0),
            0 => None,
            sign => Some(sign),
        })
    };
    let found = if one == 0 || other == 0 {
        Err(-errno::ERANGE)
    } else {
        (0..most.min(TEXT_MAX))
            .find_map(|at| difference(at).transpose())
            .unwrap_or(Ok(end(most, 0)))
    };
    Ok(answer(run, looked_at.get(), found))
}

/// What a call answers that came to its end, which is 64 KiB if it has no other.
fn end(most: u64, otherwise: i32) -> i32 {
    if most < TEXT_MAX { otherwise } else { -errno::E2BIG }
}

/// `bpf_strnchr` and `bpf_strchr`; `bpf_strnlen` and `bpf_strlen` where no letter is looked for.
pub(super) fn find(
    run: &mut Calling<'_, '_>,
    text: u64,
    letter: Option<u8>,
    most: u64,
) -> Result<u64, Stop> {
    let mut at = 0;
    let found = loop {
        if text == 0 {
            break Err(-errno::ERANGE);
        }
        if at == most.min(TEXT_MAX) {
            break Ok(end(most, letter.map_or(at as i32, |_| -errno::ENOENT)));
        }
        match byte(run, text.wrapping_add(at)) {
            Err(errno) => break Err(errno),
            Ok(one) if letter == Some(one) => break Ok(at as i32),
            Ok(0) => break letter.map_or(Ok(at as i32), |_| Err(-errno::ENOENT)),
            Ok(_) => at += 1,
        }
    };
    Ok(answer(run, at, found))
}

/// `bpf_strnstr` and `bpf_strstr`: where a text begins in the first bytes of another.
pub(super) fn find_text(
    run: &mut Calling<'_, '_>,
    [text, part, ..]: [u64; 5],
    most: u64,
) -> Result<u64, Stop> {
    let looked_at = Cell::new(0);
    let begins = |at: u64| -> Result<Option<i32>, i32> {
        for within in 0..TEXT_MAX {
            looked_at.set(looked_at.get() + 1);
            let wanted = byte(run, part.wrapping_add(within))?;
            if wanted == 0 {
                return Ok(Some(at as i32));
            }
            if at + within >= most {
                return Ok(Some(-errno::ENOENT));
            }
            match byte(run, text.wrapping_add(at + within))? {
                0 => return Ok(Some(-errno::ENOENT)),
                one if one != wanted => return Ok(None),
                _ => {}
            }
        }
        Ok(Some(-errno::E2BIG))
    };
    let found = if text == 0 || part == 0 {
        Err(-errno::ERANGE)
    } else {
        let ways = (0..TEXT_MAX).find_map(|at| begins(at).transpose());
        ways.unwrap_or(Err(-errno::E2BIG))
    };
    Ok(answer(run, looked_at.get(), found))
}

/// An iterator over bits: in half a word each, the present one, -1 at first, and how many there
/// are; then the address of the words, or the only one. Source: Linux, kernel/bpf/helpers.c,
/// `bpf_iter_bits_new`, which copies all words.
pub(super) fn bits_begin(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [iterator, words, count, ..] = given;
    let state = writable::<[u64; 2]>(run, iterator)?;
    let count = u64::from(count as u32);
    let (first, error) = if words == 0 || count == 0 {
        (None, errno::EINVAL)
    } else if count > BIT_WORDS_MAX {
        (None, errno::E2BIG)
    } else if count == 1 {
        (run.memory().load(words, Size::Double), errno::EFAULT)
    } else {
        (run.memory().bytes(words, 8 * count).map(|_| words), errno::EFAULT)
    };
    let none = u64::from(u32::MAX);
    // SAFETY: words of the policy's own.
    unsafe { *state = first.map_or([none, 0], |first| [none | (64 * count) << 32, first]) };
    Ok(if first.is_some() { 0 } else { -error as u64 })
}

/// The address of the next bit's number, which is the iterator's.
pub(super) fn bits_next(run: &mut Calling<'_, '_>, [iterator, ..]: [u64; 5]) -> Result<u64, Stop> {
    let state = writable::<[u64; 2]>(run, iterator)?;
    // SAFETY: words of the policy's own, to which nobody else holds a reference.
    let [place, words] = unsafe { &mut *state };
    let (last, count) = (*place as u32, *place >> 32);
    let is_set = |&bit: &u64| {
        let word = match count {
            64 => Some(*words),
            _ => run.memory().load(*words + bit / 64 * 8, Size::Double),
        };
        word.is_some_and(|word| word >> (bit % 64) & 1 == 1)
    };
    let found = (u64::from(last.wrapping_add(1))..count).find(is_set);
    *place = found.unwrap_or(count) | count << 32;
    Ok(if found.is_some() { iterator } else { 0 })
}
