//! The dates of HTTP (RFC 9110, 5.6.7) in their three forms, and the fields that have one.
//!
//! More is accepted than by `httpdate`: names in any case, a day of the week that is not that of the date, and years before
//! 1970, which frameworks send for "expired". The year of a two-digit form depends on the time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{DATE, LAST_MODIFIED};
use http::{HeaderMap, HeaderName};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Fifty years of 365.2425 days.
const FIFTY_YEARS: Duration = Duration::from_secs(50 * 31_556_952);

/// When a response was generated: its `Date`, or when it was received, if it has no valid one (RFC 9110, 6.6.1).
pub(crate) fn date(response: &HeaderMap, received: SystemTime) -> SystemTime {
    single_date(response, &DATE, received).unwrap_or(received)
}

/// When a representation was last modified, if its response says so.
pub(crate) fn last_modified(response: &HeaderMap, now: SystemTime) -> Option<SystemTime> {
    single_date(response, &LAST_MODIFIED, now)
}

/// The date of a field; `None` if it is absent, invalid, or has several lines.
pub(crate) fn single_date(headers: &HeaderMap, name: &HeaderName, now: SystemTime) -> Option<SystemTime> {
    let mut lines = headers.get_all(name).iter();
    let date = parse_date(lines.next()?.to_str().ok()?, now)?;
    lines.next().is_none().then_some(date)
}

/// Parses a date. One before 1970 is the start of 1970.
fn parse_date(text: &str, now: SystemTime) -> Option<SystemTime> {
    let (day_name, rest) = text.split_once([',', ' '])?;
    let is_short = DAYS.iter().any(|name| name[..3].eq_ignore_ascii_case(day_name));
    let is_long = DAYS.iter().any(|name| name.eq_ignore_ascii_case(day_name));
    let separator = text.as_bytes()[day_name.len()];
    match (separator, is_short, is_long) {
        (b',', true, _) => parse_fixed(rest.strip_prefix(' ')?),
        (b',', _, true) => parse_rfc850(rest.strip_prefix(' ')?, now),
        (b' ', true, _) => parse_asctime(rest),
        _ => None,
    }
}

/// The rest of `Sun, 06 Nov 1994 08:49:37 GMT`.
fn parse_fixed(text: &str) -> Option<SystemTime> {
    let [day, month, year, time, zone] = split(text, ' ')?;
    let date = (digits(year, 4)?, month_number(month)?, digits(day, 2)?);
    zone.eq_ignore_ascii_case("GMT").then(|| moment(date, time))?
}

/// The rest of `Sunday, 06-Nov-94 08:49:37 GMT`.
fn parse_rfc850(text: &str, now: SystemTime) -> Option<SystemTime> {
    let [date, time, zone] = split(text, ' ')?;
    let [day, month, year] = split(date, '-')?;
    let (day, month, year) = (digits(day, 2)?, month_number(month)?, digits(year, 2)?);
    if !zone.eq_ignore_ascii_case("GMT") {
        return None;
    }
    // A year that seems to be more than fifty years in the future is the last one in the past with these digits.
    let years = (1900 + year..10_000).step_by(100);
    let moments = years.filter_map(|year| moment((year, month, day), time));
    moments.take_while(|moment| *moment <= now + FIFTY_YEARS).last()
}

/// The rest of `Sun Nov  6 08:49:37 1994`.
fn parse_asctime(text: &str) -> Option<SystemTime> {
    let (month, rest) = text.split_once(' ')?;
    let (day, rest) = rest.split_at_checked(2)?;
    let day = day.strip_prefix(' ').map_or_else(|| digits(day, 2), |day| digits(day, 1))?;
    let [time, year] = split(rest.strip_prefix(' ')?, ' ')?;
    moment((digits(year, 4)?, month_number(month)?, day), time)
}

/// The moment of a year, month and day, and a time `08:49:37` in GMT.
fn moment((year, month, day): (u64, u64, u64), time: &str) -> Option<SystemTime> {
    let [hour, minute, second] = split(time, ':')?;
    let (hour, minute, second) = (digits(hour, 2)?, digits(minute, 2)?, digits(second, 2)?);
    let is_leap_year = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days_in_month = match month {
        2 => 28 + u64::from(is_leap_year),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    // The second 60 is a leap second.
    if !(1..=days_in_month).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = (hour * 60 + minute) * 60 + second;
    Some(
        UNIX_EPOCH
            + Duration::from_secs(
                days_since_1970(year, month, day).map_or(0, |days| days * 86_400 + seconds),
            ),
    )
}

/// `None` for a day before 1970.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    // In years that start in March, a leap day is the last day, and the lengths of the months repeat every five months.
    let year = year + 400 - u64::from(month <= 2);
    let months = (month + 9) % 12;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * months + 2) / 5 + day - 1;
    // The same sum for the 1st of January 1970.
    days.checked_sub(2_369 * 365 + 2_369 / 4 - 2_369 / 100 + 2_369 / 400 + 306)
}

/// A number of exactly so many digits.
fn digits(text: &str, count: usize) -> Option<u64> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// From one, for January.
fn month_number(name: &str) -> Option<u64> {
    MONTHS.iter().zip(1..).find_map(|(month, number)| month.eq_ignore_ascii_case(name).then_some(number))
}

/// The parts of a text that has exactly `N` of them.
fn split<const N: usize>(text: &str, separator: char) -> Option<[&str; N]> {
    let mut parts = text.split(separator);
    let mut array = [""; N];
    for part in &mut array {
        *part = parts.next()?;
    }
    parts.next().is_none().then_some(array)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    /// 2026-11-28.
    const NOW: Duration = Duration::from_secs(1_795_824_000);

    fn seconds(text: &str) -> Option<u64> {
        let date = parse_date(text, UNIX_EPOCH + NOW)?;
        Some(date.duration_since(UNIX_EPOCH).unwrap().as_secs())
    }

    #[test]
    fn date_has_three_forms() {
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(seconds(text), Some(784_111_777), "{text}");
            assert_eq!(seconds(&text.to_uppercase()), Some(784_111_777), "{text}");
            assert_eq!(seconds(&text.to_lowercase()), Some(784_111_777), "{text}");
        }
        assert_eq!(seconds("Mon Nov 16 08:49:37 1994"), Some(784_111_777 + 864_000));
    }

    #[test]
    fn date_of_other_form_is_invalid() {
        for text in [
            "",
            "0",
            "-1",
            "Thu, 18 Aug 2050 02:01:18 UTC",
            "Thu, 18 Aug 2050 02:01:18 AEST",
            "Thu, 18 Aug 2050 02:01:18 +0000",
            "Thu, 18 Aug 2050 02:01:18",
            "Thu, 18 Aug 50 02:01:18 GMT",
            "Thu 18 Aug 2050 02:01:18 GMT",
            "Thu, 18  Aug  2050 02:01:18 GMT",
            "Thu,18 Aug 2050 02:01:18 GMT",
            "Thu, 18-Aug-2050 02:01:18 GMT",
            "Thursday, 18-Aug-2050 02:01:18 GMT",
            "Thu, 18-Aug-50 02:01:18 GMT",
            "Thursday, 18 Aug 2050 02:01:18 GMT",
            "Thu, 18 Aug 2050 02.01.18 GMT",
            "Thu, 18 Aug 2050 2:01:18 GMT",
            "Thu, 8 Aug 2050 02:01:18 GMT",
            "Thu, 18 August 2050 02:01:18 GMT",
            "Thu, 18 Aug 2050 02:01:18 GMT ",
            "Thu, 32 Aug 2050 02:01:18 GMT",
            "Thu, 00 Aug 2050 02:01:18 GMT",
            "Thu, 29 Feb 2050 02:01:18 GMT",
            "Thu, 29 Feb 2100 02:01:18 GMT",
            "Thu, 18 Aug 2050 24:01:18 GMT",
            "Thu, 18 Aug 2050 02:60:18 GMT",
            "Thu, 18 Aug 2050 02:01:61 GMT",
            "Thu, +8 Aug 2050 02:01:18 GMT",
            "Xyz, 18 Aug 2050 02:01:18 GMT",
            "Thu Aug 8 02:01:18 2050",
            "Thu Aug 08 02:01:18 50",
            "Thu Aug  8 02:01:18 2050 GMT",
            "Thu Aug é8 02:01:18 2050",
        ] {
            assert_eq!(seconds(text), None, "{text:?}");
        }
    }

    #[test]
    fn two_digit_year_is_at_most_fifty_years_in_the_future() {
        let year = |text: &str| seconds(text).map(|seconds| 1970 + seconds / 31_556_952);
        assert_eq!(year("Thursday, 18-Aug-50 02:01:18 GMT"), Some(2050));
        assert_eq!(year("Thursday, 18-Aug-76 02:01:18 GMT"), Some(2076));
        assert_eq!(year("Thursday, 18-Dec-76 02:01:18 GMT"), Some(1976));
        assert_eq!(year("Thursday, 18-Aug-77 02:01:18 GMT"), Some(1977));
        assert_eq!(year("Thursday, 18-Aug-26 02:01:18 GMT"), Some(2026));
        assert_eq!(year("Tuesday, 29-Feb-00 02:01:18 GMT"), Some(2000));
        assert_eq!(year("Tuesday, 29-Feb-01 02:01:18 GMT"), None);
        let (now, next_century) = (UNIX_EPOCH + NOW, UNIX_EPOCH + NOW + FIFTY_YEARS + FIFTY_YEARS);
        let text = "Thursday, 18-Aug-50 02:01:18 GMT";
        let later = parse_date(text, next_century).unwrap().duration_since(parse_date(text, now).unwrap());
        assert_eq!(later.unwrap().as_secs() / 86_400, 36_524);
    }

    #[test]
    fn date_before_1970_is_its_start() {
        for text in
            ["Mon, 01 Jan 0001 00:00:00 GMT", "Wed, 31 Dec 1969 23:59:59 GMT", "Sat Jan  1 00:00:00 0000"]
        {
            assert_eq!(seconds(text), Some(0), "{text}");
        }
        assert_eq!(seconds("Thu, 01 Jan 1970 00:00:01 GMT"), Some(1));
        assert_eq!(seconds("Fri, 31 Dec 9999 23:59:59 GMT"), Some(253_402_300_799));
    }

    #[test]
    fn day_of_the_week_and_leap_second_are_not_checked() {
        assert_eq!(seconds("Mon, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:60 GMT"), Some(784_111_800));
    }

    #[test]
    fn date_of_a_response_without_valid_one_is_its_receipt() {
        let received = UNIX_EPOCH + NOW;
        let mut headers = HeaderMap::new();
        assert_eq!(date(&headers, received), received);
        headers.append(DATE, HeaderValue::from_static("foo"));
        assert_eq!(date(&headers, received), received);
        headers.insert(DATE, HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT"));
        assert_eq!(date(&headers, received), UNIX_EPOCH + Duration::from_secs(784_111_777));
        headers.append(DATE, HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT"));
        assert_eq!(date(&headers, received), received);
    }

    #[test]
    fn dates_are_those_of_httpdate() {
        bolero::check!().with_type::<u64>().with_iterations(crate::fuzz::ITERATIONS).for_each(|number| {
            // Up to the year 9999.
            let moment = UNIX_EPOCH + Duration::from_secs(number % 253_402_300_800);
            let text = httpdate::fmt_http_date(moment);
            assert_eq!(parse_date(&text, UNIX_EPOCH + NOW), Some(moment), "{text}");
        });
    }

    #[test]
    fn date_of_httpdate_is_the_same() {
        const TOKENS: &[&str] = &[
            "Sun, 06 Nov 1994 ",
            "Sunday, 06-Nov-94 ",
            "Sun Nov  6 ",
            "08:49:37",
            "23:59:59",
            " GMT",
            " 1994",
            " ",
            "1",
            ":",
            "Feb",
            "é",
        ];
        bolero::check!().with_type::<Vec<u8>>().with_iterations(crate::fuzz::ITERATIONS).for_each(
            |choices| {
                let text = crate::fuzz::text(TOKENS, &choices[..choices.len().min(5)]);
                // A field value has no spaces around it.
                let ours = parse_date(text.trim(), UNIX_EPOCH + NOW);
                if let Ok(theirs) = httpdate::parse_http_date(text.trim()) {
                    assert_eq!(ours, Some(theirs), "{text:?}");
                }
            },
        );
    }
}
