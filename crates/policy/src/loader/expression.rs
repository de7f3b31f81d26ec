//! Whole numbers that are computed of words, as in `(cpu + nr_cpus / 2) % nr_cpus`. What compares
//! is 1 or 0.

/// Operators, those that bind least first; those of a row are taken from left to right. One that
/// begins another of its row or an earlier one stands behind it.
const OPERATORS: [&[&str]; 6] =
    [&["|"], &["==", "!="], &["<=", ">=", "<", ">"], &["<<", ">>"], &["+", "-"], &["*", "/", "%"]];
/// How deep parentheses may be.
const DEPTH_MAX: usize = 32;

/// The number that `text` is, where `known` has the values of words.
pub(super) fn evaluate(text: &str, known: &dyn Fn(&str) -> Option<i128>) -> Result<i128, String> {
    let mut reading = Reading { rest: text, known, depth: 0 };
    let value = reading.operation(0)?;
    match reading.rest.trim() {
        "" => Ok(value),
        rest => Err(format!("{rest:?} follows what is a number already")),
    }
}

struct Reading<'a> {
    rest: &'a str,
    known: &'a dyn Fn(&str) -> Option<i128>,
    depth: usize,
}

impl<'a> Reading<'a> {
    fn operation(&mut self, row: usize) -> Result<i128, String> {
        let Some(operators) = OPERATORS.get(row) else { return self.operand() };
        let mut value = self.operation(row + 1)?;
        while let Some(operator) = operators.iter().find(|one| self.takes(one)) {
            let right = self.operation(row + 1)?;
            let shift = || u32::try_from(right).ok().filter(|&bits| bits < 64);
            let result = match *operator {
                "|" => Some(value | right),
                "==" => Some((value == right).into()),
                "!=" => Some((value != right).into()),
                "<=" => Some((value <= right).into()),
                ">=" => Some((value >= right).into()),
                "<" => Some((value < right).into()),
                ">" => Some((value > right).into()),
                "<<" => shift().and_then(|bits| value.checked_mul(1 << bits)),
                ">>" => shift().map(|bits| value >> bits),
                "+" => value.checked_add(right),
                "-" => value.checked_sub(right),
                "*" => value.checked_mul(right),
                "/" => value.checked_div_euclid(right),
                _ => value.checked_rem_euclid(right),
            };
            value = result.ok_or_else(|| format!("{value} {operator} {right} is no number"))?;
        }
        Ok(value)
    }

    fn operand(&mut self) -> Result<i128, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} parentheses or signs are in each other"));
        }
        let value = if self.takes("(") {
            let inner = self.operation(0)?;
            if self.takes(")") { Ok(inner) } else { Err("a parenthesis is not closed".to_owned()) }
        } else if self.takes("-") {
            self.operand().map(|value| -value)
        } else {
            self.word()
        };
        self.depth -= 1;
        value
    }

    fn word(&mut self) -> Result<i128, String> {
        let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let text = self.rest.trim_start();
        let end = text.find(|c| !is_of_word(c)).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            let digits = word.replace('_', "");
            let number = match digits.strip_prefix("0x") {
                Some(hexadecimal) => i128::from_str_radix(hexadecimal, 16).ok(),
                None => digits.parse().ok(),
            };
            return number.ok_or_else(|| format!("{word} is no whole number"));
        }
        if word.is_empty() {
            return Err(format!("a number is missing before {rest:?}"));
        }
        (self.known)(word).ok_or_else(|| format!("{word} is not known there"))
    }

    /// Takes what comes next, if it is `wanted`.
    fn takes(&mut self, wanted: &str) -> bool {
        let found = self.rest.trim_start().strip_prefix(wanted);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: numbers are computed as in C. Method: by hand.
    #[test]
    fn a_number_is_computed_as_in_c() {
        let known = |word: &str| (word == "cpu").then_some(5);
        let cases = [
            ("7", Ok(7)),
            ("0x1_0", Ok(16)),
            ("1 + 2 * 3", Ok(7)),
            ("(1 + 2) * 3", Ok(9)),
            ("10 - 3 - 2", Ok(5)),
            ("(cpu + 4) % 8 / 2", Ok(0)),
            ("1 << cpu | -0 | 2", Ok(34)),
            ("-cpu", Ok(-5)),
            ("cpu > 4 == 1", Ok(1)),
            ("1 << 2 <= cpu", Ok(1)),
            ("(cpu >= 6) + (cpu != 5) + (cpu < 5)", Ok(0)),
        ];
        for (text, value) in cases {
            assert_eq!(evaluate(text, &known), value, "{text}");
        }
        for text in ["", "1 +", "(1", "cpus", "1 2", "1 / 0", "1 << 64", "9z", &"(".repeat(99)] {
            assert!(evaluate(text, &known).is_err(), "{text}");
        }
    }
}
