//! Pages of the kernel's ring buffer: events with the time since the one before.
//!
//! An event begins with 32 bits: 5 of type or length, 27 of time. Source: Linux
//! include/linux/ring_buffer.h, `enum ring_buffer_type`, and `events/header_event` of tracefs.

use super::format::{Field, PageLayout};

/// The types; what is below is a length in words.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

const TYPE_BITS: u32 = 5;
const TIME_BITS: u32 = 27;
/// An absolute time has 59 bits; the others are those of the time before.
const STAMP_BITS: u32 = 59;

/// The lower bits of `commit` are the bytes in use; those above tell of lost events, which the
/// buffer's `stats` count too.
const COMMIT_MASK: u64 = (1 << 20) - 1;

/// Calls `see` with the time and the bytes of each event of a page.
///
/// # Errors
/// A sentence about what is wrong with the page.
pub fn read_page(
    page: &[u8],
    layout: &PageLayout,
    mut see: impl FnMut(u64, &[u8]),
) -> Result<(), String> {
    let field = |field: &Field| {
        field.unsigned(page).ok_or_else(|| format!("a page of only {} bytes", page.len()))
    };
    let mut at_ns = field(&layout.timestamp)?;
    let used = (field(&layout.commit)? & COMMIT_MASK) as usize;
    let data = page.get(layout.data_offset..layout.data_offset + used).ok_or_else(|| {
        format!("{used} bytes in use in a page of {} from {}", page.len(), layout.data_offset)
    })?;
    let word = |offset: usize| {
        let found = Field { offset, size: 4 }.unsigned(data).map(|word| word as u32);
        found.ok_or_else(|| format!("an event at {offset} beyond the {used} bytes in use"))
    };
    let mut offset = 0;
    while offset < used {
        let head = word(offset)?;
        let (kind, passed_ns) = (head & ((1 << TYPE_BITS) - 1), u64::from(head >> TYPE_BITS));
        let long_ns = |upper: u32| (u64::from(upper) << TIME_BITS) + passed_ns;
        let (begin, end) = match kind {
            PADDING if passed_ns == 0 => return Ok(()),
            PADDING => {
                offset += 4 + word(offset + 4)? as usize;
                continue;
            }
            TIME_EXTEND => {
                at_ns += long_ns(word(offset + 4)?);
                offset += 8;
                continue;
            }
            TIME_STAMP => {
                at_ns = absolute_ns(at_ns, long_ns(word(offset + 4)?));
                offset += 8;
                continue;
            }
            0 => (offset + 8, offset + 4 + word(offset + 4)? as usize),
            words => (offset + 4, offset + 4 + 4 * words as usize),
        };
        at_ns += passed_ns;
        let event = data.get(begin..end).ok_or_else(|| {
            format!("an event from {begin} to {end} beyond the {used} bytes in use")
        })?;
        see(at_ns, event);
        offset = end;
    }
    Ok(())
}

fn absolute_ns(before_ns: u64, stamp_ns: u64) -> u64 {
    let at_ns = before_ns >> STAMP_BITS << STAMP_BITS | stamp_ns;
    if at_ns < before_ns { at_ns + (1 << STAMP_BITS) } else { at_ns }
}

#[cfg(test)]
mod tests {
    //! Goal: every kind of entry is passed over rightly and times add up; damage is an error, not
    //! a panic. Method: pages written by hand, and every truncation of one.
    use super::*;

    const LAYOUT: PageLayout = PageLayout {
        timestamp: Field { offset: 0, size: 8 },
        commit: Field { offset: 8, size: 8 },
        data_offset: 16,
        size: 4096,
    };

    fn page(start_ns: u64, words: &[u32]) -> Vec<u8> {
        let mut bytes = start_ns.to_ne_bytes().to_vec();
        bytes.extend((4 * words.len() as u64).to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    fn head(kind: u32, passed_ns: u32) -> u32 {
        passed_ns << TYPE_BITS | kind
    }

    fn seen(bytes: &[u8]) -> Result<Vec<(u64, usize)>, String> {
        let mut seen = Vec::new();
        read_page(bytes, &LAYOUT, |at_ns, data| seen.push((at_ns, data.len())))?;
        Ok(seen)
    }

    #[test]
    fn times_add_up_over_every_kind_of_entry() {
        let words = [
            [head(1, 5), 7].as_slice(),           // A word of data, 5 ns later.
            &[head(TIME_EXTEND, 1), 1],           // 2^27 + 1 ns pass.
            &[head(2, 0), 7, 7],                  // Two words at once.
            &[head(PADDING, 9), 8, 0],            // Discarded: 4 + 8 bytes, no time.
            &[head(0, 3), 4 + 8, 7, 7],           // A length of its own: 8 bytes of data.
            &[head(TIME_STAMP, 2), 100],          // The time is 100 * 2^27 + 2.
            &[head(1, 1), 7],                     // One ns after that.
            &[head(PADDING, 0), 0xdead_beef, 99], // Nothing more on this page.
        ]
        .concat();
        let long_ns = 1 << TIME_BITS;
        let expected =
            [(1_005, 4), (1_006 + long_ns, 8), (1_009 + long_ns, 8), (100 * long_ns + 3, 4)];
        assert_eq!(seen(&page(1_000, &words)).unwrap(), expected);
    }

    #[test]
    fn a_stamp_keeps_the_upper_bits_and_never_goes_back() {
        let upper = 3 << STAMP_BITS;
        assert_eq!(absolute_ns(upper + 10, 20), upper + 20);
        assert_eq!(absolute_ns(upper + 10, 5), upper + (1 << STAMP_BITS) + 5);
    }

    #[test]
    fn flags_of_lost_events_are_no_bytes() {
        let mut bytes = page(0, &[head(1, 5), 7]);
        bytes[11] |= 0xc0;
        assert_eq!(seen(&bytes).unwrap(), [(5, 4)]);
    }

    #[test]
    fn a_damaged_page_is_an_error() {
        let whole = page(0, &[head(2, 5), 7, 7, head(0, 1), 12, 7, 7]);
        assert!(seen(&whole).is_ok());
        for length in 0..whole.len() {
            assert!(seen(&whole[..length]).is_err(), "{length}");
        }
        let beyond = page(0, &[head(28, 5), 7]);
        assert!(seen(&beyond).is_err());
    }
}
