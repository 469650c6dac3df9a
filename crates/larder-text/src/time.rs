//! Times as texts.

use crate::decimal::Decimal;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

/// A time: a number, which may have a fraction, and `ns`, `us`, `ms`, `s`, `m` or `min`, `h` or `d`, in lower case. Zero needs
/// no unit. Part of a nanosecond does not count. `None` for other texts, and above 2^64 seconds.
///
/// ```
/// use larder_text::parse_time;
/// use std::time::Duration;
///
/// assert_eq!(parse_time("250ms"), Some(Duration::from_millis(250)));
/// assert_eq!(parse_time("1.5 min"), Some(Duration::from_secs(90)));
/// assert_eq!(parse_time("0"), Some(Duration::ZERO));
/// assert_eq!(parse_time("30"), None);
/// ```
pub const fn parse_time(text: &str) -> Option<Duration> {
    let Some(number) = Decimal::parse(text) else { return None };
    let unit = match number.unit.as_bytes() {
        b"ns" => 1,
        b"us" => 1_000,
        b"ms" => 1_000_000,
        b"s" => SECOND,
        b"m" | b"min" => 60 * SECOND,
        b"h" => 3_600 * SECOND,
        b"d" => 86_400 * SECOND,
        b"" if matches!(number.times(1), Some(0)) && !number.has_fraction() => 1,
        _ => return None,
    };
    let Some(nanos) = number.times(unit) else { return None };
    let seconds = nanos / SECOND as u128;
    if seconds > u64::MAX as u128 {
        return None;
    }
    Some(Duration::new(seconds as u64, (nanos % SECOND as u128) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_a_number_with_a_unit() {
        for (text, time) in [
            ("0", Duration::ZERO),
            ("0s", Duration::ZERO),
            ("1ns", Duration::from_nanos(1)),
            ("20us", Duration::from_micros(20)),
            ("250ms", Duration::from_millis(250)),
            ("30s", Duration::from_secs(30)),
            ("0.25 s", Duration::from_millis(250)),
            ("5m", Duration::from_secs(300)),
            ("1 min", Duration::from_secs(60)),
            ("1.5h", Duration::from_secs(5_400)),
            ("30d", Duration::from_secs(2_592_000)),
            ("1.0000000000000000000009s", Duration::from_secs(1)),
            ("18446744073709551615s", Duration::from_secs(u64::MAX)),
        ] {
            assert_eq!(parse_time(text), Some(time), "{text}");
        }
        for text in [
            "",
            "s",
            "30",
            "0.0",
            "-1s",
            "+1s",
            "1e3s",
            ".5s",
            "1.s",
            "1.2.3s",
            "1,5s",
            "1 S",
            "1M",
            "1 week",
            "1s ",
            " 1s",
            "18446744073709551616s",
            "18446744073709551615m",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }
}
