//! The settings of one response that nested code makes, and the end of its handler.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[cfg(feature = "axum")]
use axum::extract::MatchedPath;
use http::{HeaderName, StatusCode};

use crate::policy::handler_purges::HandlerPurges;
use crate::policy::scope::Scope;
use crate::policy::settings::Settings;

/// The same settings for nested code: a handle in the *request's* extensions. Its settings apply even if a middleware
/// builds a new response.
///
/// Clones share one state. Several calls merge: the lowest TTL and grace period, the narrowest scope, the union of tags,
/// and [`CacheCtx::forbid`] wins. If the request bypasses the cache, the settings have no effect; purges always have.
#[derive(Clone, Debug, Default)]
pub struct CacheCtx(Arc<CtxState>);

#[derive(Debug, Default)]
struct CtxState {
    settings: Mutex<Settings>,
    /// `None` without a layer.
    purges: Option<HandlerPurges>,
}

impl CacheCtx {
    /// Caches the response for at most this time; see [`Cached::ttl`](crate::Cached::ttl).
    pub fn ttl(&self, ttl: Duration) {
        self.settings().lower_ttl(ttl);
    }

    /// Limits the grace period to this time; see [`Cached::swr`](crate::Cached::swr).
    pub fn swr(&self, grace: Duration) {
        self.settings().lower_swr(grace);
    }

    /// Limits the TTL by the freshness of a value in the response. It does not opt in; see
    /// [`Cached::limit_ttl`](crate::Cached::limit_ttl).
    pub fn limit_ttl(&self, fresh_for: Duration) {
        self.settings().limit_ttl(fresh_for);
    }

    /// Lets the response be fresh for longer than its values; see
    /// [`Cached::may_outlive_values`](crate::Cached::may_outlive_values).
    pub fn may_outlive_values(&self) {
        self.settings().outlives_values = true;
    }

    /// Notes how much longer the values are fresh that the handler has got.
    pub(crate) fn note_values(&self, fresh_for: Option<Duration>) {
        self.settings().value_limit = fresh_for;
    }

    /// Declares that the response is made from a value of a [`larder::Cache`]. It does not opt in; see
    /// [`Cached::uses`](crate::Cached::uses).
    #[cfg(feature = "shared")]
    pub fn uses<V>(&self, value: &larder::Fetched<V>) {
        self.settings().add_value(value);
    }

    /// Adds a tag; see [`Cached::tag`](crate::Cached::tag).
    pub fn tag(&self, tag: impl AsRef<str>) {
        self.settings().add_tag(tag.as_ref());
    }

    /// Whether the response has no tags yet.
    pub(crate) fn has_no_tags(&self) -> bool {
        self.settings().tags.is_empty()
    }

    /// Allows statuses other than 200; see [`Cached::cached_errors`](crate::Cached::cached_errors).
    pub fn cached_errors(&self, statuses: impl IntoIterator<Item = StatusCode>) {
        self.settings().errors.extend(statuses);
    }

    /// Sets a label; see [`Cached::label`](crate::Cached::label).
    pub fn label(&self, name: &'static str, value: impl AsRef<str>) {
        self.settings().labels.set(name, value.as_ref());
    }

    /// Notes that the response depends on a field of the request.
    pub(crate) fn note_read(&self, field: &HeaderName) {
        let mut settings = self.settings();
        if !settings.fields_read.contains(field) {
            settings.fields_read.push(field.clone());
        }
    }

    /// Declares who may get the response, or narrows it; see [`Cached::scope`](crate::Cached::scope).
    pub fn scope(&self, scope: Scope) {
        let mut settings = self.settings();
        settings.scope = settings.scope.max(Some(scope));
    }

    /// Forbids storing the response, regardless of other settings. `reason` is for logs: it is added to the response as
    /// the extension [`ForbiddenBecause`] and is not sent to clients.
    pub fn forbid(&self, reason: &'static str) {
        self.settings().forbidden.get_or_insert(reason);
    }

    /// Purges a tag in the cache that forwarded this request, as [`HttpCache::purge_tag`](crate::HttpCache::purge_tag)
    /// does: at once, and again when the handler ends, with a response or an error, or because its client has
    /// disconnected. A handler may thus call it before its transaction commits: no response that was made from the
    /// state before the commit outlives the handler. Without a layer it has no effect.
    pub fn purge_tag(&self, tag: impl AsRef<str>) {
        if let Some(purges) = &self.0.purges {
            purges.purge_tag(tag.as_ref());
        }
    }

    /// Notes the route that the request has taken.
    #[cfg(feature = "axum")]
    pub(crate) fn set_route(&self, route: MatchedPath) {
        self.settings().route = Some(route);
    }

    /// The handle for a handler behind a cache. The handler ends when the guard is dropped.
    pub(crate) fn of_handler(purges: HandlerPurges) -> (CacheCtx, HandlerGuard) {
        let ctx = CacheCtx(Arc::new(CtxState { settings: Mutex::default(), purges: Some(purges) }));
        (ctx.clone(), HandlerGuard(ctx))
    }

    pub(super) fn settings(&self) -> MutexGuard<'_, Settings> {
        self.0.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Repeats the purges of a handler when it is dropped: after the response of the handler, or with its future.
#[derive(Debug)]
pub(crate) struct HandlerGuard(CacheCtx);

impl HandlerGuard {
    pub(crate) fn ctx(&self) -> &CacheCtx {
        &self.0
    }
}

impl Drop for HandlerGuard {
    fn drop(&mut self) {
        if let Some(purges) = &self.0.0.purges {
            purges.end();
        }
    }
}

/// The reason of the first call of [`CacheCtx::forbid`], in the extensions of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForbiddenBecause(pub &'static str);
