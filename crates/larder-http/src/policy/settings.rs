//! The settings for one response, as its handler and nested code have given them so far.

use std::time::Duration;

#[cfg(feature = "axum")]
use axum::extract::MatchedPath;
use http::{HeaderName, StatusCode};

use crate::policy::labels::Labels;
use crate::policy::scope::Scope;

/// Tags that one response may have.
pub(super) const MAX_TAGS: usize = 128;

/// The merged settings for one response: the lowest TTL and grace period, the narrowest scope, all tags, and `forbid`
/// wins.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) ttl: Option<Duration>,
    /// The longest TTL, by what the response was made from. It is no opt-in.
    pub(super) limit: Option<Duration>,
    /// How long the values are fresh that the handler has got from caches of `larder`.
    pub(super) value_limit: Option<Duration>,
    /// It does not count.
    pub(super) outlives_values: bool,
    pub(super) swr: Option<Duration>,
    pub(super) tags: Vec<Box<str>>,
    pub(super) forbidden: Option<&'static str>,
    pub(super) scope: Option<Scope>,
    pub(super) errors: Vec<StatusCode>,
    pub(super) labels: Labels,
    /// The fields that were read through [`RequestFields`](crate::RequestFields).
    pub(super) fields_read: Vec<HeaderName>,
    #[cfg(feature = "axum")]
    pub(super) route: Option<MatchedPath>,
}

impl Settings {
    pub(super) fn lower_ttl(&mut self, ttl: Duration) {
        self.ttl = Some(self.ttl.map_or(ttl, |lowest| lowest.min(ttl)));
    }

    pub(super) fn limit_ttl(&mut self, limit: Duration) {
        self.limit = lower(self.limit, limit);
    }

    /// Adds a tag once. One more than a response may have is enough.
    pub(super) fn add_tag(&mut self, tag: &str) {
        if self.tags.len() <= MAX_TAGS && !self.tags.iter().any(|other| **other == *tag) {
            self.tags.push(tag.into());
        }
    }

    /// The response is made from a value of the other cache.
    #[cfg(feature = "shared")]
    pub(super) fn add_value<V>(&mut self, value: &larder::Fetched<V>) {
        self.limit_ttl(value.remaining_ttl());
        value.tags().for_each(|tag| self.add_tag(tag));
    }

    pub(super) fn lower_swr(&mut self, swr: Duration) {
        self.swr = Some(self.swr.map_or(swr, |lowest| lowest.min(swr)));
    }

    /// The longest TTL by what the response was made from. `None`: any.
    pub(super) fn limit(&self) -> Option<Duration> {
        match self.value_limit {
            Some(limit) if !self.outlives_values => lower(self.limit, limit),
            _ => self.limit,
        }
    }

    pub(super) fn merge(&mut self, other: Settings) {
        if let Some(ttl) = other.ttl {
            self.lower_ttl(ttl);
        }
        if let Some(limit) = other.limit {
            self.limit_ttl(limit);
        }
        if let Some(swr) = other.swr {
            self.lower_swr(swr);
        }
        other.tags.iter().for_each(|tag| self.add_tag(tag));
        self.errors.extend(other.errors);
        self.forbidden = self.forbidden.or(other.forbidden);
        self.scope = self.scope.max(other.scope);
        self.labels.merge(other.labels);
        self.fields_read.extend(other.fields_read);
        self.outlives_values |= other.outlives_values;
    }
}

fn lower(lowest: Option<Duration>, other: Duration) -> Option<Duration> {
    Some(lowest.map_or(other, |lowest| lowest.min(other)))
}
