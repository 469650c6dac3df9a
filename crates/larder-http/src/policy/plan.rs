//! How a response is stored.

use std::time::Duration;

#[cfg(feature = "axum")]
use axum::extract::MatchedPath;
use http::HeaderName;

use crate::policy::labels::Labels;
use crate::policy::scope::Scope;

/// How much longer than its responses a resource is known.
pub(crate) const KNOWN_AFTER_END: Duration = Duration::from_secs(600);

/// How to store a response that may be stored. By default it is not of use to anybody.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) ttl: Duration,
    pub(crate) grace: Duration,
    /// What the response is good for after that; `None` if it leaves the store then.
    pub(crate) later: Option<Box<LaterUse>>,
    /// The age that the response already has, from its `Age`.
    pub(crate) age: Duration,
    /// How fresh the values are that the handler gets does not matter.
    pub(crate) outlives_values: bool,
    pub(crate) tags: Vec<Box<str>>,
    pub(crate) scope: Option<Scope>,
    pub(crate) labels: Labels,
    /// The route of the handler.
    #[cfg(feature = "axum")]
    pub(crate) route: Option<MatchedPath>,
    pub(crate) vary: Box<[HeaderName]>,
    pub(crate) fields_read: Vec<HeaderName>,
    /// Fields that only the client of the fill gets.
    pub(crate) unstored_fields: Box<[HeaderName]>,
}

/// What a stale response is good for once its grace period has ended: to be validated, and to be served if the origin
/// fails. All times count from the end of its TTL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaterUse {
    /// How long it stays in the store.
    pub(crate) kept: Duration,
    /// How long it answers for an origin that replies with an error.
    pub(crate) on_error: Duration,
    /// How long it answers for an origin that cannot be reached.
    pub(crate) if_unreachable: Duration,
    /// How long it is fresh is an estimate: the origin has not said it.
    pub(crate) is_heuristic: bool,
    /// It does not change while it is fresh (RFC 8246).
    pub(crate) is_immutable: bool,
    /// Whether the origin has given it an `ETag`, by which it can validate it.
    pub(crate) has_own_etag: bool,
}

impl LaterUse {
    /// The same, so much later after the end of the TTL.
    fn shorten(&mut self, stale_for: Duration) {
        for time in [&mut self.kept, &mut self.on_error, &mut self.if_unreachable] {
            *time = time.saturating_sub(stale_for);
        }
    }
}

impl Plan {
    /// How long the response stays in the store.
    pub(crate) fn stored_for(&self) -> Duration {
        self.ttl + self.grace.max(self.kept())
    }

    /// Whether nobody could use the response once it is stored.
    pub(crate) fn is_useless(&self) -> bool {
        self.ttl.is_zero() && self.kept().is_zero()
    }

    fn kept(&self) -> Duration {
        self.later.as_ref().map_or(Duration::ZERO, |later| later.kept)
    }

    /// The first field that the response depends on and that `Vary` does not name, of those that are not `allowed`.
    pub(crate) fn unkeyed_field(&self, allowed: impl Fn(&HeaderName) -> bool) -> Option<&HeaderName> {
        self.fields_read.iter().find(|field| !self.vary.contains(field) && !allowed(field))
    }

    /// The same for a response that is made from values which are fresh for this long.
    pub(crate) fn limited_by_values(self, fresh_for: Option<Duration>) -> Plan {
        match fresh_for.filter(|_| !self.outlives_values) {
            None => self,
            Some(Duration::ZERO) => Plan { ttl: Duration::ZERO, grace: Duration::ZERO, later: None, ..self },
            Some(fresh_for) => Plan { ttl: self.ttl.min(fresh_for), ..self },
        }
    }

    /// The same, so much later.
    pub(crate) fn after(mut self, elapsed: Duration) -> Plan {
        let stale_for = elapsed.saturating_sub(self.ttl);
        if let Some(later) = &mut self.later {
            later.shorten(stale_for);
        }
        Plan {
            ttl: self.ttl.saturating_sub(elapsed),
            grace: self.grace.saturating_sub(stale_for),
            age: self.age + elapsed,
            ..self
        }
    }

    /// Whether the response may not be served any more, so much later.
    pub(crate) fn is_over_after(&self, elapsed: Duration) -> bool {
        self.ttl + self.grace <= elapsed
    }

    /// How long the record of a resource is kept. That of one with a scope stays longer than its responses: once it is gone,
    /// requests with credentials do not follow each other.
    pub(crate) fn record_ttl(&self) -> Duration {
        let after = if self.scope.is_some() { KNOWN_AFTER_END } else { Duration::ZERO };
        self.stored_for() + after
    }

    /// Whether the gate is asked before each replay.
    pub(crate) fn is_guarded(&self) -> bool {
        self.scope >= Some(Scope::Gated)
    }
}
