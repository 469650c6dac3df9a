//! Times and timeouts of fetches and writes.

use crate::value::random::Random;
use larder_engine::MAX_TTL;
use std::time::Duration;

/// The priority while Redis is lost for longer than [`Builder::disconnected`](crate::Builder::disconnected). By then other
/// nodes may have invalidated entries of this node's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Prefer {
    /// Memory is not used: every fetch loads, and an error of the loader reaches the caller.
    #[default]
    Coherence,
    /// Values in memory count as stale: every fetch loads, and serves the value if the load fails or is slow, for as long
    /// as its TTL and grace period say. After a failed load it is served without another one for [`Policy::retry_after`].
    /// Entries that this node knows to be invalidated are never served.
    Availability,
}

/// When a fetch loads a value again that is still fresh: in the background, while callers go on to get the value. So nobody
/// waits when the time to live of a value that is often asked for ends.
///
/// The first caller that finds the value due begins the load with its loader. Of all nodes over one Redis one loads, and the
/// others take its value from there when theirs is due. If the load fails, the value stays as it was, and the next load begins
/// no sooner than after [`Policy::retry_after`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum RefreshAhead {
    /// Only when the value is not fresh any more.
    #[default]
    Never,
    /// After this part of the time to live, 0 to 1.
    After(f32),
    /// By a chance that grows toward the end of the time to live, and begins the sooner the longer the last load took: β of XFetch
    /// (Vattani, Chierichetti and Lowenstein, VLDB 2015). 1 is best in the model of the paper; more begins sooner. Values that
    /// were written, and not loaded, are not loaded ahead.
    ByCost(f32),
}

/// Times and timeouts. A time that a policy does not set comes from the next wider policy: of the call, then of the view,
/// then of the cache.
///
/// # Examples
/// ```
/// use larder::Policy;
/// use std::time::Duration;
///
/// const SLOW_ORIGIN: Policy = Policy::new().ttl(Duration::from_secs(60)).grace(Duration::from_secs(3_600));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[must_use = "a policy does nothing until it is given to a view or a call"]
pub struct Policy {
    pub(crate) ttl: Option<Duration>,
    pub(crate) negative_ttl: Option<Duration>,
    pub(crate) grace: Option<Duration>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) soft_timeout: Option<Duration>,
    pub(crate) hard_timeout: Option<Duration>,
    pub(crate) jitter: Option<f32>,
    pub(crate) refresh_ahead: Option<RefreshAhead>,
}

impl Policy {
    /// A policy that leaves everything open.
    pub const fn new() -> Self {
        Policy {
            ttl: None,
            negative_ttl: None,
            grace: None,
            retry_after: None,
            soft_timeout: None,
            hard_timeout: None,
            jitter: None,
            refresh_ahead: None,
        }
    }

    /// The time for which a stored value is fresh. A shorter time than 1 ms counts as 1 ms, a longer one than 8,900 years
    /// as 8,900 years. Only [`Builder::build`](crate::Builder::build) refuses such a time.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// The time for which a negative value, a remembered absence, is fresh. A value is negative if serde serializes it as
    /// none, as it does `None`, or if [`View::with_negative`](crate::View::with_negative) accepts it. In a view with a
    /// codec of its own only the latter counts. Default: `ttl`.
    pub const fn negative_ttl(mut self, ttl: Duration) -> Self {
        self.negative_ttl = Some(ttl);
        self
    }

    /// The grace period: how long a value is kept after it was fresh, to serve stale if the load fails or is slow.
    /// Fixed when the value is stored. A longer time than 4,450 years counts as 4,450 years, and the TTL and the grace
    /// period together as at most 8,900 years. Default: zero.
    pub const fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// After a failed load, how long the stale value is served before the next load, so that not every caller asks a
    /// broken origin. Default: 5 s.
    pub const fn retry_after(mut self, pause: Duration) -> Self {
        self.retry_after = Some(pause);
        self
    }

    /// The maximum time for which a caller waits for a load if there is a stale value. Then it gets the stale value, and
    /// the load continues. Default: no limit.
    pub const fn soft_timeout(mut self, timeout: Duration) -> Self {
        self.soft_timeout = Some(timeout);
        self
    }

    /// The maximum time of a loader. Then it is dropped, and its callers get a stale value within its grace period, or an
    /// error. Default: no limit.
    pub const fn hard_timeout(mut self, timeout: Duration) -> Self {
        self.hard_timeout = Some(timeout);
        self
    }

    /// The largest part, 0 to 1, by which a time to live is shortened at random, so that values that were stored
    /// together do not expire together. Default: 0.
    pub const fn jitter(mut self, part: f32) -> Self {
        self.jitter = Some(part);
        self
    }

    /// When a fetch with a loader, of [one](crate::Fetch::load) or of [many keys](crate::FetchMulti::load), loads a value again that
    /// is still fresh. Fixed when the value is stored in memory: by the policy of the call that loads it, else by that of the view.
    /// Calls that load themselves under a [lease](crate::Fetch::lease) begin no load ahead. Default: never.
    pub const fn refresh_ahead(mut self, when: RefreshAhead) -> Self {
        self.refresh_ahead = Some(when);
        self
    }

    /// This policy, with the times of `wider` where this one sets none.
    pub const fn or(self, wider: Policy) -> Self {
        const fn time(narrow: Option<Duration>, wide: Option<Duration>) -> Option<Duration> {
            if narrow.is_some() { narrow } else { wide }
        }
        Policy {
            ttl: time(self.ttl, wider.ttl),
            negative_ttl: time(self.negative_ttl, wider.negative_ttl),
            grace: time(self.grace, wider.grace),
            retry_after: time(self.retry_after, wider.retry_after),
            soft_timeout: time(self.soft_timeout, wider.soft_timeout),
            hard_timeout: time(self.hard_timeout, wider.hard_timeout),
            jitter: if self.jitter.is_some() { self.jitter } else { wider.jitter },
            refresh_ahead: if self.refresh_ahead.is_some() {
                self.refresh_ahead
            } else {
                wider.refresh_ahead
            },
        }
    }

    /// How long a value is fresh and how long it is kept, with random jitter.
    pub(crate) fn lifetime(&self, negative: bool, random: &Random) -> Lifetime {
        let ttl = if negative { self.negative_ttl.or(self.ttl) } else { self.ttl };
        let ttl = ttl.unwrap_or(MAX_TTL).clamp(Duration::from_millis(1), MAX_TTL);
        let jitter = self.jitter.unwrap_or(0.0).clamp(0.0, 1.0);
        let shorter = if jitter > 0.0 { ttl.mul_f32(jitter * random.fraction()) } else { Duration::ZERO };
        let fresh = ttl.saturating_sub(shorter).max(Duration::from_millis(1));
        let grace = self.grace.unwrap_or_default().min(MAX_GRACE);
        Lifetime { fresh: fresh.min(MAX_TTL - grace), grace }
    }

    pub(crate) fn retry_after_or_default(&self) -> Duration {
        self.retry_after.unwrap_or(DEFAULT_RETRY_AFTER)
    }
}

/// The longest grace period. Half of the longest time leaves enough for the time to live: a value is kept for both.
pub(crate) const MAX_GRACE: Duration = Duration::from_millis(MAX_TTL.as_millis() as u64 / 2);

const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(5);

/// How long a value is fresh, and how long it is kept after that: both together at most [`MAX_TTL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lifetime {
    pub(crate) fresh: Duration,
    pub(crate) grace: Duration,
}

impl Lifetime {
    pub(crate) fn kept_for(self) -> Duration {
        self.fresh + self.grace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn narrower_policy_decides() {
        let call = Policy::new().ttl(SECOND);
        let view = Policy::new().ttl(2 * SECOND).grace(3 * SECOND);
        assert_eq!(call.or(view), Policy::new().ttl(SECOND).grace(3 * SECOND));
    }

    #[test]
    fn longest_times_leave_room_for_each_other() {
        for (ttl, grace, fresh) in [
            (60 * SECOND, Duration::MAX, 60 * SECOND),
            (Duration::MAX, 60 * SECOND, MAX_TTL - 60 * SECOND),
            (Duration::MAX, Duration::MAX, MAX_TTL / 2),
        ] {
            let lifetime = Policy::new().ttl(ttl).grace(grace).lifetime(false, &Random::Os);
            assert_eq!(lifetime, Lifetime { fresh, grace: grace.min(MAX_TTL / 2) });
            assert!(lifetime.kept_for() <= MAX_TTL);
        }
    }

    #[test]
    fn jitter_shortens_ttl_only() {
        let policy = Policy::new().ttl(10 * SECOND).jitter(0.5).grace(SECOND);
        let lives: Vec<Duration> = (0..200).map(|_| policy.lifetime(false, &Random::Os).fresh).collect();
        assert!(lives.iter().all(|life| (5 * SECOND..=10 * SECOND).contains(life)));
        assert!(lives.iter().min() < lives.iter().max());
        assert_eq!(policy.lifetime(false, &Random::Os).grace, SECOND, "the grace period has no jitter");
    }
}
