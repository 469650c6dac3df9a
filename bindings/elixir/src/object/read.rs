//! Making terms from MessagePack.

use crate::erl::{Builder, Env, Term, atom};
use larder_host::profile::{DecodeError, Visitor, decode};

/// The years that `DateTime` has.
const YEARS: std::ops::RangeInclusive<i64> = -9_999..=9_999;
const SECONDS_A_DAY: i64 = 86_400;

/// The term of some MessagePack; `None` if Elixir has none like it.
pub(super) fn message_pack<'e>(env: Env<'e>, bytes: &[u8]) -> Option<Term<'e>> {
    let mut reader = Reader(Builder::new(env));
    match decode(bytes, &mut reader) {
        Ok(()) => reader.0.finish(),
        Err(DecodeError::Visitor(NoTerm) | DecodeError::Refused(_)) => None,
    }
}

/// The value has no counterpart in Elixir.
struct NoTerm;

struct Reader<'e>(Builder<'e>);

impl<'e> Reader<'e> {
    fn add(&mut self, term: Term<'e>) -> Result<(), NoTerm> {
        self.0.add(term);
        Ok(())
    }
}

impl Visitor for Reader<'_> {
    type Error = NoTerm;

    fn nil(&mut self) -> Result<(), NoTerm> {
        self.add(self.0.env().nil())
    }

    fn boolean(&mut self, value: bool) -> Result<(), NoTerm> {
        self.add(self.0.env().boolean(value))
    }

    fn integer(&mut self, value: i64) -> Result<(), NoTerm> {
        self.add(self.0.env().integer(value))
    }

    fn unsigned(&mut self, value: u64) -> Result<(), NoTerm> {
        self.add(self.0.env().unsigned(value))
    }

    /// Erlang has no numbers that are not finite.
    fn float(&mut self, value: f64) -> Result<(), NoTerm> {
        let env = self.0.env();
        self.add(if value.is_nan() {
            env.atom(&atom::NAN)
        } else if value.is_infinite() {
            env.atom(if value > 0.0 { &atom::INFINITY } else { &atom::NEG_INFINITY })
        } else {
            env.float(value)
        })
    }

    fn text(&mut self, value: &str) -> Result<(), NoTerm> {
        self.bytes(value.as_bytes())
    }

    fn bytes(&mut self, value: &[u8]) -> Result<(), NoTerm> {
        self.add(self.0.env().binary(value))
    }

    /// A `DateTime` in UTC, which has microseconds: what is less is lost.
    fn timestamp(&mut self, seconds: i64, nanoseconds: u32) -> Result<(), NoTerm> {
        let (days, second) = (seconds.div_euclid(SECONDS_A_DAY), seconds.rem_euclid(SECONDS_A_DAY));
        let [year, month, day] = date_of(days).ok_or(NoTerm)?;
        let env = self.0.env();
        let microseconds = i64::from(nanoseconds / 1_000);
        let digits = if nanoseconds == 0 { 0 } else { 6 };
        let text = |text: &str| env.binary(text.as_bytes());
        self.add(env.record([
            (&atom::STRUCT, env.atom(&atom::DATE_TIME)),
            (&atom::CALENDAR, env.atom(&atom::ISO)),
            (&atom::YEAR, env.integer(year)),
            (&atom::MONTH, env.integer(month)),
            (&atom::DAY, env.integer(day)),
            (&atom::HOUR, env.integer(second / 3_600)),
            (&atom::MINUTE, env.integer(second / 60 % 60)),
            (&atom::SECOND, env.integer(second % 60)),
            (&atom::MICROSECOND, env.tuple([env.integer(microseconds), env.integer(digits)])),
            (&atom::STD_OFFSET, env.integer(0)),
            (&atom::UTC_OFFSET, env.integer(0)),
            (&atom::TIME_ZONE, text("Etc/UTC")),
            (&atom::ZONE_ABBR, text("UTC")),
        ]))
    }

    fn begin_list(&mut self, _: usize) -> Result<(), NoTerm> {
        self.0.begin_list();
        Ok(())
    }

    fn begin_map(&mut self, _: usize) -> Result<(), NoTerm> {
        self.0.begin_map();
        Ok(())
    }

    fn key(&mut self, key: &str) -> Result<(), NoTerm> {
        self.0.key(self.0.env().binary(key.as_bytes()));
        Ok(())
    }

    fn end(&mut self) -> Result<(), NoTerm> {
        self.0.end();
        Ok(())
    }
}

/// Year, month and day of the day with this number since 1970, in the proleptic Gregorian calendar. The year begins in March here,
/// so that the day that is not in all years is its last one.
fn date_of(days: i64) -> Option<[i64; 3]> {
    const DAYS_OF_400_YEARS: i64 = 146_097;
    /// From the first of March of the year 0 to 1970.
    const DAYS_BEFORE_1970: i64 = 719_468;
    let days = days.checked_add(DAYS_BEFORE_1970)?;
    let (era, day) = (days.div_euclid(DAYS_OF_400_YEARS), days.rem_euclid(DAYS_OF_400_YEARS));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    // Months of 30 and 31 days follow each other so that five of them have 153.
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, is_next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era.checked_mul(400)? + year + is_next_year;
    YEARS.contains(&year).then_some([year, month, day_of_month])
}

/// The number of a day since 1970: the inverse of [`date_of`].
pub(super) fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + year * 365 + year / 4 - year / 100 + day_of_year - 719_468
}
