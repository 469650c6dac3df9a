//! How long a response is fresh, and how old it was when it arrived (RFC 9111, 4.2).

use std::time::{Duration, SystemTime};

use http::header::EXPIRES;
use http::{HeaderMap, StatusCode};

use crate::headers::control::age_value;
use crate::rfc::dates;
use crate::rfc::targeted::Policy;

/// The longest lifetime: that of the largest number of seconds in `Cache-Control` (RFC 9111, 1.2.2).
const MAX_LIFETIME: Duration = Duration::from_secs(1 << 31);
/// The longest lifetime without explicit freshness. The RFC sets no limit: a file of ten years would be fresh for one.
const MAX_HEURISTIC_LIFETIME: Duration = Duration::from_secs(3600);

/// When a response arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) at: SystemTime,
    /// How long it took, from the start of the request.
    pub(crate) delay: Duration,
}

/// The lifetime that the origin has stated, in order of precedence: `s-maxage`, `max-age`, `Expires` (RFC 9111, 4.2.1).
pub(crate) fn explicit_lifetime(
    policy: &Policy,
    response: &HeaderMap,
    received: Received,
) -> Option<Duration> {
    let stated = policy.directives.s_maxage.or(policy.directives.max_age);
    let expires = || {
        let is_present = !policy.is_targeted && response.contains_key(EXPIRES);
        is_present.then(|| expires_lifetime(response, received))
    };
    stated.or_else(expires).map(|lifetime| lifetime.min(MAX_LIFETIME))
}

/// The time from `Date` to `Expires`. An invalid `Expires`, or several, are in the past (RFC 9111, 4.2.1 and 5.3).
fn expires_lifetime(response: &HeaderMap, received: Received) -> Duration {
    dates::single_date(response, &EXPIRES, received.at)
        .and_then(|expires| expires.duration_since(dates::date(response, received.at)).ok())
        .unwrap_or_default()
}

/// The lifetime by a tenth of the time since the last modification (RFC 9111, 4.2.2); `None` if that is not known.
pub(crate) fn heuristic_lifetime(response: &HeaderMap, received: Received) -> Option<Duration> {
    let modified = dates::last_modified(response, received.at)?;
    let unmodified_for = dates::date(response, received.at).duration_since(modified).ok()?;
    Some((unmodified_for / 10).min(MAX_HEURISTIC_LIFETIME))
}

/// Whether a response with this status may be stored without explicit freshness (RFC 9110, 15.1). A partial response is never
/// stored.
pub(crate) fn is_heuristically_cacheable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// The age that a response already had when it arrived (RFC 9111, 4.2.3).
pub(crate) fn initial_age(response: &HeaderMap, received: Received) -> Duration {
    let date = dates::date(response, received.at);
    let apparent_age = received.at.duration_since(date).unwrap_or_default();
    apparent_age.max(age_value(response) + received.delay)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{AGE, CACHE_CONTROL, DATE, LAST_MODIFIED};
    use http::{HeaderName, HeaderValue};
    use std::time::UNIX_EPOCH;

    use crate::rfc::targeted::CDN_CACHE_CONTROL;

    /// In seconds since 1970.
    const NOW: i64 = 1_795_824_000;

    fn received() -> Received {
        Received { at: UNIX_EPOCH + Duration::from_secs(NOW.unsigned_abs()), delay: Duration::ZERO }
    }

    /// A date so many seconds from now.
    fn date(seconds: i64) -> String {
        httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs((NOW + seconds).unsigned_abs()))
    }

    fn headers(fields: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, line) in fields {
            headers.append(name, HeaderValue::from_str(line).unwrap());
        }
        headers
    }

    fn explicit(fields: &[(HeaderName, &str)]) -> Option<u64> {
        let response = headers(fields);
        explicit_lifetime(&Policy::of(&response, None), &response, received())
            .map(|lifetime| lifetime.as_secs())
    }

    fn heuristic(fields: &[(HeaderName, &str)]) -> Option<u64> {
        heuristic_lifetime(&headers(fields), received()).map(|lifetime| lifetime.as_secs())
    }

    fn age(fields: &[(HeaderName, &str)]) -> u64 {
        initial_age(&headers(fields), received()).as_secs()
    }

    #[test]
    fn explicit_lifetime_is_the_first_of_three() {
        let (now, later) = (&*date(0), &*date(30));
        let fields =
            [(DATE, now), (EXPIRES, later), (CACHE_CONTROL, "max-age=20"), (CACHE_CONTROL, "s-maxage=10")];
        assert_eq!(explicit(&fields[..1]), None);
        assert_eq!(explicit(&fields[..2]), Some(30));
        assert_eq!(explicit(&fields[..3]), Some(20));
        assert_eq!(explicit(&fields), Some(10));
        assert_eq!(explicit(&[(EXPIRES, later), (CDN_CACHE_CONTROL, "max-age=5")]), Some(5));
        assert_eq!(explicit(&[(EXPIRES, later), (CDN_CACHE_CONTROL, "public")]), None);
        assert_eq!(explicit(&[(EXPIRES, "Fri, 31 Dec 9999 23:59:59 GMT")]), Some(1 << 31));
    }

    #[test]
    fn expires_counts_from_date_or_receipt() {
        assert_eq!(explicit(&[(DATE, &date(-100)), (EXPIRES, &date(-70))]), Some(30));
        assert_eq!(explicit(&[(DATE, &date(400)), (EXPIRES, &date(300))]), Some(0));
        assert_eq!(explicit(&[(EXPIRES, &date(10))]), Some(10));
        assert_eq!(explicit(&[(DATE, "foo"), (EXPIRES, &date(10))]), Some(10));
        assert_eq!(explicit(&[(EXPIRES, &date(-10))]), Some(0));
    }

    #[test]
    fn invalid_or_repeated_expires_is_in_the_past() {
        for invalid in ["0", "", "-1", "tomorrow", "Thu, 18 Aug 2050 02:01:18 UTC"] {
            assert_eq!(explicit(&[(EXPIRES, invalid)]), Some(0), "{invalid:?}");
        }
        assert_eq!(explicit(&[(EXPIRES, &date(10)), (EXPIRES, &date(10))]), Some(0));
    }

    #[test]
    fn heuristic_lifetime_is_a_tenth_and_at_most_an_hour() {
        assert_eq!(heuristic(&[(DATE, &date(0)), (LAST_MODIFIED, &date(-1000))]), Some(100));
        assert_eq!(heuristic(&[(DATE, &date(-500)), (LAST_MODIFIED, &date(-1000))]), Some(50));
        assert_eq!(heuristic(&[(LAST_MODIFIED, &date(-86_400))]), Some(3600));
        assert_eq!(heuristic(&[(LAST_MODIFIED, &date(1))]), None);
        assert_eq!(heuristic(&[(LAST_MODIFIED, "yesterday")]), None);
        assert_eq!(heuristic(&[(DATE, &date(0))]), None);
    }

    #[test]
    fn age_is_the_larger_of_two() {
        assert_eq!(age(&[]), 0);
        assert_eq!(age(&[(DATE, &date(-10))]), 10);
        assert_eq!(age(&[(DATE, &date(10))]), 0);
        assert_eq!(age(&[(DATE, &date(-10)), (AGE, "25")]), 25);
        assert_eq!(age(&[(DATE, &date(-10)), (AGE, "5")]), 10);
        let delayed = Received { delay: Duration::from_secs(3), ..received() };
        let response = headers(&[(DATE, &date(-10)), (AGE, "8")]);
        assert_eq!(initial_age(&response, delayed), Duration::from_secs(11));
    }

    #[test]
    fn age_field_is_its_first_member_if_that_is_a_number() {
        for (lines, expected) in [
            (&["abc"][..], 0),
            (&["-7200"], 0),
            (&["7200.0"], 0),
            (&["2147483649"], 1 << 31),
            (&["7200, 0"], 7200),
            (&["0, 7200"], 0),
            (&["7200", "0"], 7200),
            (&["0", "7200"], 0),
            (&[", 7200"], 0),
        ] {
            let fields: Vec<_> = lines.iter().map(|line| (AGE, *line)).collect();
            assert_eq!(age(&fields), expected, "{lines:?}");
        }
    }
}
