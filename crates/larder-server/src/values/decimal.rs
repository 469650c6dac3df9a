//! Numbers for `INCRBYFLOAT`: exact decimals in a limited range, so that 0.1 + 0.2 is 0.3, as it is in Redis with its
//! 80-bit floats; floating-point numbers outside of it.

use std::fmt;

use larder_resp::parse_float;

/// Digits after the decimal point, the same number as in Redis.
const SCALE: usize = 17;
/// Units of the last digit in 1.
const UNITS_PER_ONE: i128 = 10i128.pow(SCALE as u32);
/// The largest exact number; the sum of two cannot overflow.
const MAX_EXACT: i128 = i128::MAX / 4;

/// A number, exact where possible.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Decimal {
    /// In units of 10^-17.
    Exact(i128),
    Float(f64),
}

impl Decimal {
    pub(crate) const ZERO: Decimal = Decimal::Exact(0);

    pub(crate) fn parse(text: &[u8]) -> Option<Decimal> {
        let float = parse_float(text)?;
        Some(parse_exact(text).map_or(Decimal::Float(float), Decimal::Exact))
    }

    pub(crate) fn is_finite(self) -> bool {
        self.to_f64().is_finite()
    }

    /// The sum; `None` if it is not finite.
    pub(crate) fn add(self, other: Decimal) -> Option<Decimal> {
        match (self, other) {
            (Decimal::Exact(a), Decimal::Exact(b)) => {
                let sum = a + b;
                Some(if sum.abs() <= MAX_EXACT {
                    Decimal::Exact(sum)
                } else {
                    Decimal::Float(sum as f64 / UNITS_PER_ONE as f64)
                })
            }
            (a, b) => Some(a.to_f64() + b.to_f64()).filter(|sum| sum.is_finite()).map(Decimal::Float),
        }
    }

    fn to_f64(self) -> f64 {
        match self {
            Decimal::Exact(units) => units as f64 / UNITS_PER_ONE as f64,
            Decimal::Float(number) => number,
        }
    }
}

/// Parses what is a valid number, rounded to `SCALE` digits after the point; `None` if it is too large, or not finite.
fn parse_exact(text: &[u8]) -> Option<i128> {
    let (negative, text) = match text {
        [b'-', text @ ..] => (true, text),
        [b'+', text @ ..] => (false, text),
        text => (false, text),
    };
    let end = text.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let (mantissa, exponent) = match end {
        Some(end) => (&text[..end], str::from_utf8(&text[end + 1..]).ok()?.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let whole = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
    let mut digits = mantissa.iter().filter(|byte| **byte != b'.').peekable();
    // Leading zeros cost no multiplication, however large the exponent is.
    let zeros = std::iter::from_fn(|| digits.next_if(|digit| **digit == b'0')).count();
    if digits.peek().is_none() {
        return Some(0);
    }
    let value = |digit: Option<&u8>| match digit {
        None => Some(0),
        Some(digit) => digit.is_ascii_digit().then(|| i128::from(digit - b'0')),
    };
    let mut units = 0i128;
    let kept = whole as i64 - zeros as i64 + i64::from(exponent) + SCALE as i64;
    for _ in 0..kept {
        units = units.checked_mul(10)?.checked_add(value(digits.next())?)?;
    }
    if kept >= 0 {
        units += i128::from(value(digits.next())? >= 5);
    }
    (units <= MAX_EXACT).then_some(if negative { -units } else { units })
}

impl fmt::Display for Decimal {
    /// Without exponent and without trailing zeros.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = match self {
            Decimal::Float(number) => return write!(f, "{number}"),
            Decimal::Exact(units) => units,
        };
        let (whole, fraction) = (units.abs() / UNITS_PER_ONE, units.abs() % UNITS_PER_ONE);
        let sign = if *units < 0 { "-" } else { "" };
        if fraction == 0 {
            return write!(f, "{sign}{whole}");
        }
        let digits = format!("{fraction:017}");
        write!(f, "{sign}{whole}.{}", digits.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::Decimal;

    fn sum(a: &str, b: &str) -> Option<String> {
        let [a, b] = [a, b].map(|text| Decimal::parse(text.as_bytes()).unwrap());
        a.add(b).map(|sum| sum.to_string())
    }

    #[test]
    fn sums_of_decimals_are_exact() {
        for (a, b, expected) in [
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("5", "-5", "0"),
            ("-0.5", "0.25", "-0.25"),
            ("5.0e3", "2.0e2", "5200"),
            ("3", "1.000000000005", "4.000000000005"),
            (".5", "+1.", "1.5"),
            ("0.1", "2e-1", "0.3"),
            ("100000000000000000", "1E+0", "100000000000000001"),
            ("9007199254740993", "0e0", "9007199254740993"),
            ("-12.5e-2", "0.0e999", "-0.125"),
            ("0.123456789012345678", "0", "0.12345678901234568"),
            ("1e-17", "1e-18", "0.00000000000000001"),
            ("000.5e1", "9e-400", "5"),
            ("1e22", "1", "10000000000000000000000"),
        ] {
            assert_eq!(sum(a, b).as_deref(), Some(expected), "{a} + {b}");
        }
    }

    #[test]
    fn infinite_sum_is_none_and_invalid_text_is_none() {
        assert_eq!(sum("inf", "1"), None);
        assert_eq!(sum("1.7e308", "1.7e308"), None);
        for text in ["", "abc", "1 ", " 1", "nan", "1e", "--1", "."] {
            assert_eq!(Decimal::parse(text.as_bytes()), None, "{text}");
        }
    }
}
