//! Visits by day in the time zone of the reader, with its summer time.
//!
//! Visits are stored in quarter hours of UTC, and every zone's offset is a multiple of that, so a day of any zone is a
//! sum of them. Visits older than 90 days are stored by day of UTC, and stay on the date of that day.

use crate::store::{DayCount, MS_PER_QUARTER, QUARTERS_PER_DAY, Quarter, VisitHistory};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use std::collections::BTreeMap;

/// The zone of a name such as `Europe/Berlin`; `None` for a name that the database of time zones does not have.
pub(crate) fn zone(name: &str) -> Option<TimeZone> {
    // The compiled-in database: the same result on every machine.
    jiff::tz::db().get(name).ok()
}

/// The quarter hour in which the first of the `days` days that end with that of `now_ms` begins.
pub(crate) fn first_quarter(now_ms: i64, days: i32, zone: &TimeZone) -> Quarter {
    let start = date_of(now_ms, zone).saturating_sub((days - 1).days());
    let start = start.to_zoned(zone.clone()).map_or(0, |start| start.timestamp().as_millisecond());
    start.div_euclid(MS_PER_QUARTER)
}

/// The days of a zone that have visits, oldest first.
pub(crate) fn by_day(history: &VisitHistory, zone: &TimeZone) -> Vec<DayCount> {
    let mut days: BTreeMap<Date, u64> = BTreeMap::new();
    let in_zone =
        history.quarters.iter().map(|&(quarter, visits)| (date_of(quarter * MS_PER_QUARTER, zone), visits));
    let in_utc = history
        .days
        .iter()
        .map(|&(day, visits)| (date_of(day * QUARTERS_PER_DAY * MS_PER_QUARTER, &TimeZone::UTC), visits));
    for (date, visits) in in_zone.chain(in_utc) {
        *days.entry(date).or_default() += visits;
    }
    days.into_iter().map(|(date, visits)| DayCount { date: date.to_string(), visits }).collect()
}

fn date_of(ms: i64, zone: &TimeZone) -> Date {
    let time = Timestamp::from_millisecond(ms).unwrap_or_default();
    zone.to_datetime(time).date()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quarter(time: &str) -> Quarter {
        let time: Timestamp = time.parse().unwrap();
        time.as_millisecond() / MS_PER_QUARTER
    }

    fn days(zone_name: &str, visits: &[(&str, u64)]) -> Vec<(String, u64)> {
        let quarters = visits.iter().map(|&(time, count)| (quarter(time), count)).collect();
        let history = VisitHistory { quarters, days: Vec::new() };
        let days = by_day(&history, &zone(zone_name).unwrap());
        days.into_iter().map(|day| (day.date, day.visits)).collect()
    }

    #[test]
    fn day_of_kathmandu_begins_at_a_quarter_hour_of_utc() {
        // UTC+05:45.
        let visits = [("2026-11-20T18:00:00Z", 1), ("2026-11-20T18:15:00Z", 2), ("2026-11-21T18:00:00Z", 4)];
        assert_eq!(
            days("Asia/Kathmandu", &visits),
            [("2026-11-20".to_owned(), 1), ("2026-11-21".to_owned(), 6)]
        );
        assert_eq!(days("UTC", &visits), [("2026-11-20".to_owned(), 3), ("2026-11-21".to_owned(), 4)]);
    }

    #[test]
    fn day_on_which_summer_time_begins_in_berlin_has_23_hours() {
        let visits = [
            ("2027-03-27T22:45:00Z", 1), // 23:45 on the 27th, UTC+1
            ("2027-03-27T23:00:00Z", 2), // 00:00 on the 28th
            ("2027-03-28T21:45:00Z", 4), // 23:45 on the 28th, UTC+2
            ("2027-03-28T22:00:00Z", 8), // 00:00 on the 29th
        ];
        let expected = [("2027-03-27", 1), ("2027-03-28", 6), ("2027-03-29", 8)];
        assert_eq!(days("Europe/Berlin", &visits), expected.map(|(date, visits)| (date.to_owned(), visits)));
        let berlin = zone("Europe/Berlin").unwrap();
        let first = |now: &str, days| {
            let now: Timestamp = now.parse().unwrap();
            first_quarter(now.as_millisecond(), days, &berlin)
        };
        assert_eq!(first("2027-03-29T10:00:00Z", 1), quarter("2027-03-28T22:00:00Z"));
        assert_eq!(first("2027-03-29T10:00:00Z", 2), quarter("2027-03-27T23:00:00Z"));
    }

    #[test]
    fn folded_days_keep_their_date() {
        let day = quarter("2026-01-02T00:00:00Z") / QUARTERS_PER_DAY;
        let history =
            VisitHistory { quarters: vec![(quarter("2026-01-02T23:30:00Z"), 1)], days: vec![(day, 5)] };
        let dates: Vec<_> = by_day(&history, &zone("America/New_York").unwrap())
            .into_iter()
            .map(|day| (day.date, day.visits))
            .collect();
        assert_eq!(dates, [("2026-01-02".to_owned(), 6)]);
    }

    #[test]
    fn unknown_zone_is_none() {
        for name in ["", "Berlin", "Europe/../UTC", "europe/Nowhere", "+01:00"] {
            assert!(zone(name).is_none(), "{name}");
        }
    }
}
