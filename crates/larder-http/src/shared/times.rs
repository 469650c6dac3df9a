//! The times of a shared entry as bytes, in front of the entry itself. The envelope of crate `larder` has its time to live; what a
//! response is good for after that only this crate knows.
//!
//! ```text
//! offset  bytes
//!      0      1  format, 2
//!      1      1  flags: 1 its origin decides, 2 its freshness is an estimate, 4 it is immutable, 8 its origin has made its ETag
//!      2      8  how long it may be served stale
//!     10      8  how long Redis keeps it after its time to live
//!     18     24  if its origin decides: how long it is kept for its validation, answers for an origin that replies with an error,
//!                and for one that cannot be reached; each from the end of its time to live
//! ```
//!
//! Integers are little-endian, times are in milliseconds. A record has the same bytes, all zero but the first. A new field needs
//! another format, which is a part of the keys in Redis, so that two versions can run side by side.

use std::time::Duration;

use crate::policy::plan::{LaterUse, Plan};

/// The format of the bytes that are shared.
pub(crate) const FORMAT: u8 = 2;
/// The bytes in front of an entry.
pub(crate) const LENGTH: usize = 42;

const IS_OF_ORIGIN: u8 = 1;
const IS_HEURISTIC: u8 = 2;
const IS_IMMUTABLE: u8 = 4;
const HAS_OWN_ETAG: u8 = 8;
const ALL_FLAGS: u8 = 15;
/// No time of a response is longer: a year.
const MAX_TIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// The times of a response when it was stored in Redis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SharedTimes {
    pub(crate) grace: Duration,
    /// How long Redis keeps it after its time to live.
    pub(crate) kept: Duration,
    /// `None` if its handler decides.
    pub(crate) later: Option<LaterUse>,
}

impl SharedTimes {
    pub(crate) fn of(plan: &Plan, kept: Duration) -> SharedTimes {
        SharedTimes { grace: plan.grace, kept, later: plan.later.as_deref().copied() }
    }

    pub(crate) fn to_bytes(self) -> [u8; LENGTH] {
        let later = self.later.unwrap_or_default();
        let flags = [
            (self.later.is_some(), IS_OF_ORIGIN),
            (later.is_heuristic, IS_HEURISTIC),
            (later.is_immutable, IS_IMMUTABLE),
            (later.has_own_etag, HAS_OWN_ETAG),
        ];
        let mut bytes = [0; LENGTH];
        bytes[0] = FORMAT;
        bytes[1] = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum();
        let times = [self.grace, self.kept, later.kept, later.on_error, later.if_unreachable];
        for (slot, time) in bytes[2..].chunks_exact_mut(8).zip(times) {
            slot.copy_from_slice(&(time.min(MAX_TIME).as_millis() as u64).to_le_bytes());
        }
        bytes
    }

    /// The times, and the bytes of the entry behind them. `None` if they are malformed.
    pub(crate) fn split(bytes: &[u8]) -> Option<(SharedTimes, &[u8])> {
        let ([format, flags, times @ ..], entry) = bytes.split_first_chunk::<LENGTH>()?;
        if *format != FORMAT || *flags & !ALL_FLAGS != 0 {
            return None;
        }
        let mut times = times.chunks_exact(8).map(|time| {
            let milliseconds = u64::from_le_bytes(time.try_into().expect("eight bytes"));
            Some(Duration::from_millis(milliseconds)).filter(|time| *time <= MAX_TIME)
        });
        let mut next = || times.next().flatten();
        let (grace, kept) = (next()?, next()?);
        let later = LaterUse {
            kept: next()?,
            on_error: next()?,
            if_unreachable: next()?,
            is_heuristic: flags & IS_HEURISTIC != 0,
            is_immutable: flags & IS_IMMUTABLE != 0,
            has_own_etag: flags & HAS_OWN_ETAG != 0,
        };
        let is_of_origin = flags & IS_OF_ORIGIN != 0;
        if !is_of_origin && later != LaterUse::default() {
            return None;
        }
        Some((SharedTimes { grace, kept, later: is_of_origin.then_some(later) }, entry))
    }

    /// What is left for a response with this time to live, which Redis keeps for `kept_for` from now.
    pub(crate) fn plan(self, ttl: Duration, kept_for: Duration) -> Plan {
        // A soft purge ends the time to live early, and Redis keeps what it has purged for as long after that.
        let stale_for = if ttl.is_zero() { self.kept.saturating_sub(kept_for) } else { Duration::ZERO };
        let plan = Plan { grace: self.grace, later: self.later.map(Box::new), ..Plan::default() };
        Plan { ttl, age: Duration::ZERO, ..plan.after(stale_for) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const LATER: LaterUse = LaterUse {
        kept: Duration::from_secs(90),
        on_error: Duration::from_secs(20),
        if_unreachable: Duration::from_secs(30),
        is_heuristic: true,
        is_immutable: false,
        has_own_etag: true,
    };
    const TIMES: SharedTimes =
        SharedTimes { grace: Duration::from_secs(5), kept: Duration::from_secs(60), later: Some(LATER) };

    #[test]
    fn times_are_read_as_they_were() {
        let immutable = LaterUse { is_heuristic: false, is_immutable: true, has_own_etag: false, ..LATER };
        for times in [
            TIMES,
            SharedTimes::default(),
            SharedTimes { later: Some(immutable), ..TIMES },
            SharedTimes { later: None, ..TIMES },
        ] {
            let bytes = [&times.to_bytes()[..], b"entry"].concat();
            assert_eq!(SharedTimes::split(&bytes), Some((times, &b"entry"[..])));
        }
    }

    #[test]
    fn malformed_times_are_none() {
        let bytes = TIMES.to_bytes();
        (0..LENGTH).for_each(|length| assert_eq!(SharedTimes::split(&bytes[..length]), None, "{length}"));
        for (at, byte) in [(0, 1), (1, 0x10), (1, 0), (9, 1), (41, 0xff)] {
            let mut changed = bytes;
            changed[at] = byte;
            assert_eq!(SharedTimes::split(&changed), None, "byte {at}");
        }
    }

    #[test]
    fn plan_has_what_is_left() {
        let fresh = TIMES.plan(3 * SECOND, 63 * SECOND);
        assert_eq!((fresh.ttl, fresh.grace, fresh.later.as_deref()), (3 * SECOND, 5 * SECOND, Some(&LATER)));
        let stale = TIMES.plan(Duration::ZERO, 58 * SECOND);
        assert_eq!((stale.ttl, stale.grace), (Duration::ZERO, 3 * SECOND));
        let later = stale.later.unwrap();
        let left = (later.kept, later.on_error, later.if_unreachable);
        assert_eq!(left, (88 * SECOND, 18 * SECOND, 28 * SECOND));
        assert_eq!(TIMES.plan(Duration::ZERO, 10 * SECOND).grace, Duration::ZERO);
    }
}
