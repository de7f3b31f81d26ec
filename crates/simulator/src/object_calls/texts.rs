//! Texts and bits: calls that look at memory byte by byte, wherever it is.

use super::{Calling, writable};
use crate::policy_state::Bits;
use bytecode::{Size, Stop, errno};
use std::cell::Cell;

/// The longest text. Source: Linux, include/uapi/linux/limits.h, `XATTR_SIZE_MAX`.
const TEXT_MAX: u64 = 65536;
/// Most words of an iterator over bits. Source: Linux, kernel/bpf/helpers.c.
const BIT_WORDS_MAX: u64 = 511;
/// Most iterators over bits at a time: more than a stack has room for.
const BIT_ITERATORS_MAX: usize = 256;

/// The byte at an address.
fn byte(run: &Calling<'_, '_>, at: u64) -> Result<u8, i32> {
    run.memory().load(at, Size::Byte).map(|byte| byte as u8).ok_or(-errno::EFAULT)
}

/// What a call answers, and what it costs.
fn answer(run: &mut Calling<'_, '_>, looked_at: u64, found: Result<i32, i32>) -> Result<u64, Stop> {
    run.count(looked_at)?;
    Ok(found.unwrap_or_else(|errno| errno) as u64)
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
    answer(run, looked_at.get(), found)
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
    answer(run, at, found)
}

/// `bpf_strnstr` and `bpf_strstr`: where a text begins in the first bytes of another.
pub(super) fn find_text(
    run: &mut Calling<'_, '_>,
    [text, part, ..]: [u64; 5],
    most: u64,
) -> Result<u64, Stop> {
    if text == 0 || part == 0 {
        return Ok(-errno::ERANGE as u64);
    }
    for at in 0..TEXT_MAX {
        let mut looked_at = 0;
        let found = begins(run, [text, part], (at, most), &mut looked_at).transpose();
        // Of all beginnings there may be 2^32.
        run.count(looked_at)?;
        if let Some(found) = found {
            return answer(run, 0, found);
        }
    }
    Ok(-errno::E2BIG as u64)
}

/// Whether a text begins at a place of another, of which no more than `most` is looked at: what
/// the search answers, `None` if it goes on.
fn begins(
    run: &Calling<'_, '_>,
    [text, part]: [u64; 2],
    (at, most): (u64, u64),
    looked_at: &mut u64,
) -> Result<Option<i32>, i32> {
    for within in 0..TEXT_MAX {
        *looked_at += 1;
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
}

/// An iterator over bits has a copy of its words. Source: Linux, kernel/bpf/helpers.c,
/// `bpf_iter_bits_new`.
pub(super) fn bits_begin(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [iterator, words, count, ..] = given;
    writable::<[u64; 2]>(run, iterator)?;
    let count = u64::from(count as u32);
    run.host.policy.given.bits.remove(&iterator);
    if words == 0 || count == 0 {
        return Ok(-errno::EINVAL as u64);
    }
    if count > BIT_WORDS_MAX {
        return Ok(-errno::E2BIG as u64);
    }
    run.count(count)?;
    let word = |at| run.memory().load(words.wrapping_add(8 * at), Size::Double);
    let Some(words) = (0..count).map(word).collect() else { return Ok(-errno::EFAULT as u64) };
    let begun_at = run.place();
    let open = &mut run.host.policy.given.bits;
    if open.len() == BIT_ITERATORS_MAX {
        return Ok(-errno::ENOMEM as u64);
    }
    open.insert(iterator, Bits::new(begun_at, words));
    Ok(0)
}

/// The address of the next bit's number, which is the iterator's.
pub(super) fn bits_next(run: &mut Calling<'_, '_>, [iterator, ..]: [u64; 5]) -> Result<u64, Stop> {
    let number = writable::<u64>(run, iterator)?;
    let bits = run.host.policy.given.bits.get_mut(&iterator);
    let Some(bit) = bits.and_then(Bits::next) else { return Ok(0) };
    // SAFETY: a word of the policy's own.
    unsafe { *number = bit };
    Ok(iterator)
}

pub(super) fn bits_end(run: &mut Calling<'_, '_>, [iterator, ..]: [u64; 5]) -> Result<u64, Stop> {
    run.host.policy.given.bits.remove(&iterator);
    Ok(0)
}
