//! Durations as people write them: a number and its unit.

/// The longest duration a file may state: 1,000 hours.
pub const DURATION_NS_MAX: u64 = 3_600_000 * 1_000_000_000;

/// Units and their length in ns.
const UNITS: [(&str, u64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

/// What to write for a duration; ends every message about one.
pub(crate) const DURATION_HINT: &str =
    "write a number and its unit (ns, us, ms, s) in quotes, such as \"1.5ms\"";

/// Nanoseconds of a text such as `3ms`, `0.25us` or `10s`. Exact: no floating point.
///
/// # Errors
/// A sentence about what is wrong with the text.
pub(crate) fn parse_duration_ns(text: &str) -> Result<u64, String> {
    let unit_at = text.trim_end_matches(char::is_alphabetic).len();
    let (number, unit) = (text[..unit_at].trim_end(), &text[unit_at..]);
    if number.is_empty() {
        return Err("a duration needs a number".to_string());
    }
    if unit.is_empty() {
        return Err("a duration needs a unit".to_string());
    }
    let (_, unit_ns) = *UNITS
        .iter()
        .find(|(known, _)| *known == unit)
        .ok_or_else(|| format!("`{unit}` is no unit of time here"))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return Err(format!("`{number}` is not a decimal number of 0 or more"));
    }
    let too_long = || format!("longer than {} s", DURATION_NS_MAX / 1_000_000_000);
    let whole: u64 = whole.parse().map_err(|_| too_long())?;
    let whole_ns = whole.checked_mul(unit_ns).ok_or_else(too_long)?;
    let total_ns = whole_ns.checked_add(fraction_ns(fraction, unit_ns)?).ok_or_else(too_long)?;
    if total_ns > DURATION_NS_MAX { Err(too_long()) } else { Ok(total_ns) }
}

/// The digits behind the decimal point, in nanoseconds.
fn fraction_ns(digits: &str, unit_ns: u64) -> Result<u64, String> {
    let mut place_ns = unit_ns;
    let mut sum_ns = 0;
    for digit in digits.trim_end_matches('0').bytes() {
        if !place_ns.is_multiple_of(10) {
            return Err("finer than a nanosecond".to_string());
        }
        place_ns /= 10;
        sum_ns += u64::from(digit - b'0') * place_ns;
    }
    Ok(sum_ns)
}

/// A time in the largest unit of which it is a whole number.
pub(crate) fn duration(ns: u64) -> String {
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
    let (unit, unit_ns) = units
        .into_iter()
        .find(|(_, unit_ns)| ns > 0 && ns.is_multiple_of(*unit_ns))
        .unwrap_or(("ns", 1));
    format!("{}{unit}", ns / unit_ns)
}

#[cfg(test)]
mod tests {
    //! Goal: durations are read exactly, and only durations. Method: examples.
    use super::*;

    #[test]
    fn units_and_decimals_are_exact() {
        for (text, ns) in [
            ("0ns", 0),
            ("7ns", 7),
            ("1.5us", 1_500),
            ("3ms", 3_000_000),
            ("3 ms", 3_000_000),
            ("0.25s", 250_000_000),
            ("1.000000001s", 1_000_000_001),
            ("5.0ns", 5),
            ("3600000s", DURATION_NS_MAX),
        ] {
            assert_eq!(parse_duration_ns(text), Ok(ns), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_its_reason() {
        for (text, problem) in [
            ("3", "a duration needs a unit"),
            ("3.5", "a duration needs a unit"),
            ("", "a duration needs a number"),
            ("ms", "a duration needs a number"),
            ("soon", "a duration needs a number"),
            ("5 parsecs", "`parsecs` is no unit of time here"),
            ("5ss", "`ss` is no unit of time here"),
            ("5\u{b5}s", "`\u{b5}s` is no unit of time here"),
            ("5 + 1 ms", "`5 + 1` is not a decimal number of 0 or more"),
            ("-1ms", "`-1` is not a decimal number of 0 or more"),
            ("1.ms", "`1.` is not a decimal number of 0 or more"),
            ("1e3ms", "`1e3` is not a decimal number of 0 or more"),
            ("0.5ns", "finer than a nanosecond"),
            ("3600001s", "longer than 3600000 s"),
            ("99999999999999999999s", "longer than 3600000 s"),
        ] {
            assert_eq!(parse_duration_ns(text).expect_err(text), problem, "{text}");
        }
    }
}
