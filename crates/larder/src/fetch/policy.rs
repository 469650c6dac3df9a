//! How long, how stale, how patient: the values by which a fetch or a write is done.

use crate::random::Random;
use larder_engine::MAX_TTL;
use std::time::Duration;

/// Times and timeouts. What a policy leaves open is decided by the next wider one: the call's own, the view's, the
/// cache's.
///
/// # Examples
/// ```
/// use larder::Policy;
/// use std::time::Duration;
///
/// const PATIENT: Policy = Policy::new().ttl(Duration::from_secs(60)).grace(Duration::from_secs(3_600));
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
        }
    }

    /// How long a value is fresh after it was stored. From 1 ms; longer than 8,900 years is 8,900 years.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// The same for values that say that there is nothing. Default: as `ttl`.
    pub const fn negative_ttl(mut self, ttl: Duration) -> Self {
        self.negative_ttl = Some(ttl);
        self
    }

    /// How long a value is kept after it was fresh, to stand in while its loader fails or is slow. Decided when the value
    /// is stored. Default: not at all.
    pub const fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// After a loader failed and an old value stood in, how long that is taken for fresh, so that a broken origin is not
    /// asked by every caller. Default: 5 s.
    pub const fn retry_after(mut self, pause: Duration) -> Self {
        self.retry_after = Some(pause);
        self
    }

    /// How long a caller waits for a loader if there is an old value to give instead; the load goes on. Default: for ever.
    pub const fn soft_timeout(mut self, timeout: Duration) -> Self {
        self.soft_timeout = Some(timeout);
        self
    }

    /// How long a loader may run. Then it is dropped, and its callers get an old value in grace, or an error.
    /// Default: for ever.
    pub const fn hard_timeout(mut self, timeout: Duration) -> Self {
        self.hard_timeout = Some(timeout);
        self
    }

    /// By which part of it a time to live may be shorter, at random, so that what was stored together does not expire
    /// together: 0 to 1. Never longer. Default: 0.
    pub const fn jitter(mut self, part: f32) -> Self {
        self.jitter = Some(part);
        self
    }

    /// This policy, and where it leaves something open, the wider one.
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
        }
    }

    /// How long a value is fresh and how long it is kept, with its jitter drawn.
    pub(crate) fn lifetime(&self, negative: bool, random: &Random) -> Lifetime {
        let ttl = if negative { self.negative_ttl.or(self.ttl) } else { self.ttl };
        let ttl = ttl.unwrap_or(MAX_TTL).clamp(Duration::from_millis(1), MAX_TTL);
        let jitter = self.jitter.unwrap_or(0.0).clamp(0.0, 1.0);
        let shorter = if jitter > 0.0 { ttl.mul_f32(jitter * random.fraction()) } else { Duration::ZERO };
        let fresh = ttl.saturating_sub(shorter).max(Duration::from_millis(1));
        Lifetime { fresh, grace: self.grace.unwrap_or_default().min(MAX_TTL) }
    }

    pub(crate) fn throttle(&self) -> Duration {
        self.retry_after.unwrap_or(DEFAULT_RETRY_AFTER)
    }
}

const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(5);

/// How long a value is fresh, and how long it is kept after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lifetime {
    pub(crate) fresh: Duration,
    pub(crate) grace: Duration,
}

impl Lifetime {
    pub(crate) fn kept(self) -> Duration {
        self.fresh.saturating_add(self.grace).min(MAX_TTL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_narrower_policy_decides() {
        let call = Policy::new().ttl(SECOND);
        let view = Policy::new().ttl(2 * SECOND).grace(3 * SECOND);
        assert_eq!(call.or(view), Policy::new().ttl(SECOND).grace(3 * SECOND));
    }

    #[test]
    fn jitter_only_shortens() {
        let policy = Policy::new().ttl(10 * SECOND).jitter(0.5).grace(SECOND);
        let lives: Vec<Duration> = (0..200).map(|_| policy.lifetime(false, &Random::Os).fresh).collect();
        assert!(lives.iter().all(|life| (5 * SECOND..=10 * SECOND).contains(life)));
        assert!(lives.iter().min() < lives.iter().max());
        assert_eq!(policy.lifetime(false, &Random::Os).grace, SECOND, "the grace is as it was asked for");
    }
}
