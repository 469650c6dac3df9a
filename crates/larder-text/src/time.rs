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
pub fn parse_time(text: &str) -> Option<Duration> {
    let number = Decimal::parse(text)?;
    let unit = match number.unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" | "min" => 60 * SECOND,
        "h" => 3_600 * SECOND,
        "d" => 86_400 * SECOND,
        "" if number.times(1) == Some(0) && !number.has_fraction() => 1,
        _ => return None,
    };
    let nanos = number.times(unit)?;
    let seconds = u64::try_from(nanos / u128::from(SECOND)).ok()?;
    Some(Duration::new(seconds, (nanos % u128::from(SECOND)) as u32))
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
