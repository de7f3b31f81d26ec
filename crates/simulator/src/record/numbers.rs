//! Numbers in as few bytes as their size needs: seven bits a byte, the lowest first, and a bit
//! that says whether another byte follows (LEB128). Differences may be negative and wrap; the
//! sign is their lowest bit.

/// The most bytes that a number takes.
const NUMBER_BYTES_MAX: u32 = 10;

/// Appends a number.
pub fn put(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a number from the front.
pub fn take(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for at in 0..NUMBER_BYTES_MAX {
        let byte = take_byte(bytes);
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            break;
        }
    }
    number
}

/// Appends a number by how much it differs from the one `before`, which it then is.
pub fn put_after(before: &mut u64, number: u64, bytes: &mut Vec<u8>) {
    put(difference(before, number), bytes);
}

/// Takes a number that differs from the one `before`, which it then is.
pub fn take_after(before: &mut u64, bytes: &mut &[u8]) -> u64 {
    let difference = take(bytes);
    sum(before, difference)
}

/// The same as [`put_after`] beside a number below 16, which takes half a byte.
pub fn put_beside(small: u8, before: &mut u64, number: u64, bytes: &mut Vec<u8>) {
    assert!(small < 16, "{small} takes more than half a byte");
    let difference = difference(before, number);
    bytes.push(small | (difference as u8) << 4);
    put(difference >> 4, bytes);
}

/// Takes the number below 16, then the other one.
pub fn take_beside(before: &mut u64, bytes: &mut &[u8]) -> (u8, u64) {
    let first = take_byte(bytes);
    let difference = take(bytes) << 4 | u64::from(first >> 4);
    (first & 15, sum(before, difference))
}

fn take_byte(bytes: &mut &[u8]) -> u8 {
    let (&first, others) = bytes.split_first().expect("an entry has all of its bytes");
    *bytes = others;
    first
}

fn difference(before: &mut u64, number: u64) -> u64 {
    let signed = number.wrapping_sub(*before) as i64;
    *before = number;
    (signed << 1 ^ signed >> 63) as u64
}

fn sum(before: &mut u64, difference: u64) -> u64 {
    let signed = (difference >> 1) as i64 ^ -((difference & 1) as i64);
    *before = before.wrapping_add(signed as u64);
    *before
}

#[cfg(test)]
mod tests {
    //! Goal: what is put is taken, in as many bytes as it should need. Method: numbers at the
    //! edges, and any.

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_numbers_and_differences_take_few_bytes() {
        let length = |number| {
            let mut bytes = Vec::new();
            put(number, &mut bytes);
            bytes.len()
        };
        assert_eq!([0, 127, 128, 16_383, 16_384, u64::MAX].map(length), [1, 1, 2, 2, 3, 10]);
        let mut bytes = Vec::new();
        let mut before = 1 << 60;
        put_after(&mut before, (1 << 60) - 64, &mut bytes);
        put_beside(15, &mut before, (1 << 60) - 64 + 1023, &mut bytes);
        assert_eq!(bytes.len(), 1 + 2);
        assert_eq!(before, (1 << 60) - 64 + 1023);
    }

    proptest! {
        #[test]
        fn what_is_put_is_taken(
            numbers in prop::collection::vec((0_u8..16, prop_oneof![any::<u64>(), 0..9_u64]), 0..9)
        ) {
            let mut bytes = Vec::new();
            let mut before = 0;
            for &(small, number) in &numbers {
                put(number, &mut bytes);
                put_after(&mut before, number.rotate_left(7), &mut bytes);
                put_beside(small, &mut before, number, &mut bytes);
            }
            let (mut before, mut left) = (0, bytes.as_slice());
            for &(small, number) in &numbers {
                prop_assert_eq!(take(&mut left), number);
                prop_assert_eq!(take_after(&mut before, &mut left), number.rotate_left(7));
                prop_assert_eq!(take_beside(&mut before, &mut left), (small, number));
            }
            prop_assert!(left.is_empty());
        }
    }
}
