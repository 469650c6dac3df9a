//! Points in time as text: RFC 3339 in requests and exports, milliseconds since 1970 everywhere else.

use jiff::Timestamp;

/// The last millisecond of the year 9998, so that every time zone has four digits in its year.
const LAST: i64 = 253_370_764_799_999;

/// Whether a time is one of the years 1970 to 9998.
pub(crate) fn is_in_range(ms: i64) -> bool {
    (0..=LAST).contains(&ms)
}

/// The milliseconds of a time such as `2027-01-31T12:00:00+01:00`.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let time: Timestamp = text.trim().parse().ok()?;
    Some(time.as_millisecond()).filter(|&ms| is_in_range(ms))
}

/// A time in UTC, such as `2027-01-31T12:00:00Z`.
pub(crate) fn format(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map(|time| time.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_parsed_with_its_offset_and_formatted_in_utc() {
        assert_eq!(parse("1970-01-01T01:00:00.5+01:00"), Some(500));
        assert_eq!(format(500), "1970-01-01T00:00:00.5Z");
        assert_eq!(parse(&format(LAST)), Some(LAST));
        for wrong in ["", "2027-01-31", "2027-02-30T00:00:00Z", "1969-12-31T23:59:59Z", "tomorrow"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
