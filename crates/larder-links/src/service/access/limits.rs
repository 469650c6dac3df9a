//! Rate limits: a token bucket per client and kind of request, in a table of bounded size.
//!
//! Each bucket is one instant, by the generic cell rate algorithm (ATM Forum, "Traffic Management 4.0", 1996, section
//! 4.4.2): the time at which the bucket is full again. A request adds one interval to it and is rejected if the
//! result is more than a full bucket ahead of now.

use crate::model::client::Client;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Buckets in the table. One costs about 48 bytes, so the table stays below 4 MiB.
const MAX_BUCKETS: usize = 32_768;

/// What is limited. Redirects are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// A request that changes links.
    Change,
    /// A request that lists or reads links.
    Listing,
    /// A token or session that is not known.
    WrongToken,
}

/// Requests per minute and client. The same number is the burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    pub(crate) changes: u32,
    pub(crate) listings: u32,
    pub(crate) wrong_tokens: u32,
}

impl Rates {
    fn per_minute(self, kind: Kind) -> u32 {
        match kind {
            Kind::Change => self.changes,
            Kind::Listing => self.listings,
            Kind::WrongToken => self.wrong_tokens,
        }
    }
}

/// The buckets of all clients.
pub(crate) struct Limits {
    rates: Rates,
    max_buckets: usize,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// By client and kind: when the bucket is full again. `None` is the bucket of all clients beyond the table's size.
    full_at: HashMap<(Option<Client>, Kind), Instant>,
    swept_at: Option<Instant>,
}

impl Table {
    /// Drops full buckets, at most once a second: a sweep of a full table takes about 0.1 ms.
    fn sweep(&mut self, now: Instant) {
        if self.swept_at.is_none_or(|at| now.duration_since(at) >= Duration::from_secs(1)) {
            self.swept_at = Some(now);
            self.full_at.retain(|_, &mut full| full > now);
        }
    }
}

impl Limits {
    pub(crate) fn new(rates: Rates) -> Limits {
        Limits { rates, max_buckets: MAX_BUCKETS, table: Mutex::default() }
    }

    /// Takes one request from the bucket; an error is the time until the next one.
    pub(crate) fn take(&self, client: Client, kind: Kind) -> Result<(), Duration> {
        self.take_at(client, kind, Instant::now())
    }

    fn take_at(&self, client: Client, kind: Kind, now: Instant) -> Result<(), Duration> {
        const MINUTE: Duration = Duration::from_secs(60);
        let interval = MINUTE / self.rates.per_minute(kind).max(1);
        let mut table = self.table.lock();
        let mut key = (Some(client), kind);
        if table.full_at.len() >= self.max_buckets && !table.full_at.contains_key(&key) {
            table.sweep(now);
            // An attacker with many addresses fills the table; new clients then share one bucket.
            if table.full_at.len() >= self.max_buckets {
                key.0 = None;
            }
        }
        let bucket = table.full_at.entry(key).or_insert(now);
        let next = (*bucket).max(now) + interval;
        match next.checked_duration_since(now + MINUTE) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                *bucket = next;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::client::client_of;
    use http::HeaderMap;
    use std::net::IpAddr;

    fn limits(max_buckets: usize) -> Limits {
        let rates = Rates { changes: 3, listings: 60, wrong_tokens: 1 };
        Limits { max_buckets, ..Limits::new(rates) }
    }

    fn client(last: u8) -> Client {
        client_of(IpAddr::from([192, 0, 2, last]), &HeaderMap::new(), &[])
    }

    #[test]
    fn bucket_empties_and_refills() {
        let (limits, now) = (limits(8), Instant::now());
        for _ in 0..3 {
            assert_eq!(limits.take_at(client(1), Kind::Change, now), Ok(()));
        }
        let wait = limits.take_at(client(1), Kind::Change, now).unwrap_err();
        assert_eq!(wait, Duration::from_secs(20));
        // A rejected request takes nothing from the bucket.
        assert_eq!(limits.take_at(client(1), Kind::Change, now + wait), Ok(()));
        assert!(limits.take_at(client(1), Kind::Change, now + wait).is_err());
        assert_eq!(limits.take_at(client(1), Kind::Change, now + Duration::from_secs(600)), Ok(()));
    }

    #[test]
    fn kinds_and_clients_have_their_own_buckets() {
        let (limits, now) = (limits(8), Instant::now());
        assert_eq!(limits.take_at(client(1), Kind::WrongToken, now), Ok(()));
        assert!(limits.take_at(client(1), Kind::WrongToken, now).is_err());
        assert_eq!(limits.take_at(client(1), Kind::Listing, now), Ok(()));
        assert_eq!(limits.take_at(client(2), Kind::WrongToken, now), Ok(()));
    }

    #[test]
    fn full_table_shares_one_bucket_and_forgets_idle_clients() {
        let (limits, now) = (limits(2), Instant::now());
        for n in [1, 2, 3] {
            assert_eq!(limits.take_at(client(n), Kind::WrongToken, now), Ok(()), "{n}");
        }
        for n in 4..=255 {
            assert!(limits.take_at(client(n), Kind::WrongToken, now).is_err(), "{n}");
        }
        assert!(limits.table.lock().full_at.len() <= 3);
        let later = now + Duration::from_secs(61);
        assert_eq!(limits.take_at(client(4), Kind::WrongToken, later), Ok(()));
        assert_eq!(limits.table.lock().full_at.len(), 1);
    }
}
