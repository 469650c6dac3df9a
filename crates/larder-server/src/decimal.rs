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

/// Parses decimal notation; `None` if it has an exponent or too many digits.
fn parse_exact(text: &[u8]) -> Option<i128> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let point = digits.iter().position(|byte| *byte == b'.').unwrap_or(digits.len());
    let fraction = digits.get(point + 1..).unwrap_or_default();
    if fraction.len() > SCALE {
        return None;
    }
    let mut units = 0i128;
    for byte in digits[..point].iter().chain(fraction) {
        let digit = byte.is_ascii_digit().then(|| i128::from(byte - b'0'))?;
        units = units.checked_mul(10)?.checked_add(digit)?;
    }
    let units = units.checked_mul(10i128.pow((SCALE - fraction.len()) as u32))?;
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
