//! Parses numbers as Redis does: strictly, so that formatting a parsed integer yields the same bytes.

/// Parses a decimal `i64` in canonical form: no sign except `-`, no leading zero, no space.
///
/// ```
/// use larder_resp::parse_integer;
/// assert_eq!(parse_integer(b"-42"), Some(-42));
/// assert_eq!(parse_integer(b"+42"), None);
/// assert_eq!(parse_integer(b"007"), None);
/// assert_eq!(parse_integer(b"9223372036854775808"), None);
/// ```
#[must_use]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [] => return None,
        [b'0', ..] => return (digits.len() == 1 && !negative).then_some(0),
        _ => {}
    }
    // Nineteen digits always fit u64, so the loop needs no overflow checks.
    if digits.len() > 19 {
        return None;
    }
    let mut value = 0u64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    if negative { 0i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}

/// Parses a floating-point number as Redis does: decimal or exponent form and `inf`, but no `nan` and no spaces.
///
/// ```
/// use larder_resp::parse_float;
/// assert_eq!(parse_float(b"3.0e3"), Some(3000.0));
/// assert_eq!(parse_float(b"-inf"), Some(f64::NEG_INFINITY));
/// assert_eq!(parse_float(b"nan"), None);
/// assert_eq!(parse_float(b" 1"), None);
/// ```
#[must_use]
pub fn parse_float(text: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!number.is_nan()).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i64_bounds_parse_and_beyond_is_none() {
        assert_eq!(parse_integer(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse_integer(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_integer(b"-9223372036854775809"), None);
        assert_eq!(parse_integer(b"18446744073709551616"), None);
        assert_eq!(parse_integer(b"99999999999999999999"), None);
    }

    #[test]
    fn non_canonical_integers_are_none() {
        for text in [&b""[..], b"-", b"-0", b"00", b"01", b"1 ", b" 1", b"1.0", b"0x1", b"\xff"] {
            assert_eq!(parse_integer(text), None, "{text:?}");
        }
        assert_eq!(parse_integer(b"0"), Some(0));
    }
}
