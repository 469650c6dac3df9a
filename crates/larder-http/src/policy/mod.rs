//! The cache settings of one response: from the handler's return value ([`Cached`]) or from nested code ([`CacheCtx`]).
//! A response is cached only if one of the two opts in.

pub(crate) mod handler_fields;
pub(crate) mod handler_purges;
#[cfg(feature = "async-graphql")]
pub(crate) mod hints;
pub(crate) mod labels;
pub(crate) mod request_fields;
pub(crate) mod value_freshness;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[cfg(feature = "axum")]
use axum::extract::MatchedPath;
use http::HeaderName;
use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, AGE, ORIGIN, SET_COOKIE};
use http::{Extensions, HeaderMap, Response, StatusCode};

use crate::headers::control::{self, Directives};
use crate::policy::handler_purges::HandlerPurges;
use crate::policy::labels::Labels;
use crate::status::Reason;
use crate::store::HttpCache;
use crate::store::gate::Scope;
use crate::stored::vary;

/// Tags that one response may have.
const MAX_TAGS: usize = 128;
/// Longer TTLs and grace periods are reduced to a year, as usual in HTTP caches (RFC 9111, 1.2.2 allows up to 68
/// years).
const MAX_TTL: Duration = Duration::from_secs(365 * 24 * 3600);

/// The merged settings for one response: the lowest TTL and grace period, the narrowest scope, all tags, and `forbid`
/// wins.
#[derive(Clone, Debug, Default)]
struct Settings {
    ttl: Option<Duration>,
    /// The longest TTL, by what the response was made from. It is no opt-in.
    limit: Option<Duration>,
    /// How long the values are fresh that the handler has got from caches of `larder`.
    value_limit: Option<Duration>,
    /// It does not count.
    outlives_values: bool,
    swr: Option<Duration>,
    tags: Vec<Box<str>>,
    forbidden: Option<&'static str>,
    scope: Option<Scope>,
    errors: Vec<StatusCode>,
    labels: Labels,
    /// The fields that were read through [`RequestFields`](crate::RequestFields).
    fields_read: Vec<HeaderName>,
    #[cfg(feature = "axum")]
    route: Option<MatchedPath>,
}

impl Settings {
    fn lower_ttl(&mut self, ttl: Duration) {
        self.ttl = Some(self.ttl.map_or(ttl, |lowest| lowest.min(ttl)));
    }

    fn limit_ttl(&mut self, limit: Duration) {
        self.limit = lower(self.limit, limit);
    }

    /// Adds a tag once. One more than a response may have is enough.
    fn add_tag(&mut self, tag: &str) {
        if self.tags.len() <= MAX_TAGS && !self.tags.iter().any(|other| **other == *tag) {
            self.tags.push(tag.into());
        }
    }

    /// The response is made from a value of the other cache.
    #[cfg(feature = "shared")]
    fn add_value<V>(&mut self, value: &larder::Fetched<V>) {
        self.limit_ttl(value.remaining_ttl());
        value.tags().for_each(|tag| self.add_tag(tag));
    }

    fn lower_swr(&mut self, swr: Duration) {
        self.swr = Some(self.swr.map_or(swr, |lowest| lowest.min(swr)));
    }

    /// The longest TTL by what the response was made from. `None`: any.
    fn limit(&self) -> Option<Duration> {
        match self.value_limit {
            Some(limit) if !self.outlives_values => lower(self.limit, limit),
            _ => self.limit,
        }
    }

    fn merge(&mut self, other: Settings) {
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

/// A handler's settings for caching its response, returned with the response.
///
/// With the feature `axum`, return it as a response part: `(Cached::ttl(..), body)`. Otherwise insert it into the
/// response's extensions.
///
/// ```
/// use larder_http::Cached;
/// use std::time::Duration;
///
/// let settings = Cached::ttl(Duration::from_secs(60)).swr(Duration::from_secs(30)).tag("products");
/// let mut response = http::Response::new("[]");
/// response.extensions_mut().insert(settings);
/// ```
#[derive(Clone, Debug)]
#[must_use = "settings have no effect unless they are returned with the response"]
pub struct Cached(Settings);

impl Cached {
    /// Caches the response and serves it as fresh for `ttl`, from a millisecond to a year; longer values are reduced
    /// to a year. Zero means: do not store. An `s-maxage` of the response limits it; a `max-age` is for browsers, and
    /// does not.
    pub fn ttl(ttl: Duration) -> Cached {
        Cached(Settings { ttl: Some(ttl), ..Settings::default() })
    }

    /// The grace period: for this long after its TTL the response is served stale while it is refreshed in the
    /// background (stale-while-revalidate, RFC 5861). A response with `must-revalidate`, `proxy-revalidate` or
    /// `s-maxage` has none, and neither has one whose scope is gated or private. Default: none.
    pub fn swr(mut self, grace: Duration) -> Cached {
        self.0.lower_swr(grace);
        self
    }

    /// Limits the TTL to what is left of the freshness of something that the response is made from. Of several limits the
    /// lowest counts; zero means: it is stale, do not store. The grace period is not limited.
    ///
    /// ```
    /// use larder_http::Cached;
    /// use std::time::Duration;
    ///
    /// let fresh_for = Duration::from_secs(7); // what is left of a value from another cache
    /// let cached = Cached::ttl(Duration::from_secs(60)).limit_ttl(fresh_for);
    /// ```
    pub fn limit_ttl(mut self, fresh_for: Duration) -> Cached {
        self.0.limit_ttl(fresh_for);
        self
    }

    /// Lets the response be fresh for longer than the values that its handler gets from caches of `larder`, or although they are
    /// stale. Without this, no response is: see [`Builder::responses_may_outlive_values`](crate::Builder::responses_may_outlive_values).
    /// [`Cached::limit_ttl`] and `Cached::uses` limit the response all the same.
    pub fn may_outlive_values(mut self) -> Cached {
        self.0.outlives_values = true;
        self
    }

    /// Declares that the response is made from a value of a [`larder::Cache`]: it has the tags of the value, by which both are
    /// invalidated together in a cache that shares its responses. It is also fresh no longer than the value, and not stored if
    /// the value is stale: that is so without this for the values that the handler gets itself, but not for those that a task
    /// gets for it. To have the tags only, add [them](Cached::tag).
    ///
    /// ```
    /// use larder::{Cache, View};
    /// use larder_http::Cached;
    /// use std::time::Duration;
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let values = Cache::builder("shop").ttl(Duration::from_secs(10)).build()?;
    /// let prices: View<str, u32> = values.view("price");
    /// let price = prices.fetch("jam").load(|_| async { Ok(299) }).await?;
    /// let cached = Cached::ttl(Duration::from_secs(60)).uses(&price);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "shared")]
    pub fn uses<V>(mut self, value: &larder::Fetched<V>) -> Cached {
        self.0.add_value(value);
        self
    }

    /// Adds a tag, by which [`HttpCache::purge_tag`](crate::HttpCache::purge_tag) purges the response. A response
    /// with more than 128 tags is not stored.
    pub fn tag(mut self, tag: impl AsRef<str>) -> Cached {
        self.0.add_tag(tag.as_ref());
        self
    }

    /// Allows this response to be stored with one of these statuses, in addition to 200. It is replayed with its
    /// status. Those below 300 and 304 are never stored, nor are 400, 413, 414 and 431, which a client can provoke for any
    /// path.
    pub fn cached_errors(mut self, statuses: impl IntoIterator<Item = StatusCode>) -> Cached {
        self.0.errors.extend(statuses);
        self
    }

    /// Sets a label, which a layer outside of the cache reads from [`Labels`], also on a hit. `value` must not identify a
    /// user: a shared response has it for everyone. It replaces a value from nested code.
    pub fn label(mut self, name: &'static str, value: impl AsRef<str>) -> Cached {
        self.0.labels.set(name, value.as_ref());
        self
    }

    /// Declares who may get the response. Without a scope it is for requests without credentials; the others bypass.
    /// Of several scopes the narrowest counts.
    pub fn scope(mut self, scope: Scope) -> Cached {
        self.0.scope = self.0.scope.max(Some(scope));
        self
    }
}

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
    /// Caches the response for at most this time; see [`Cached::ttl`].
    pub fn ttl(&self, ttl: Duration) {
        self.settings().lower_ttl(ttl);
    }

    /// Limits the grace period to this time; see [`Cached::swr`].
    pub fn swr(&self, grace: Duration) {
        self.settings().lower_swr(grace);
    }

    /// Limits the TTL by the freshness of something that the response is made from, and is no opt-in; see
    /// [`Cached::limit_ttl`].
    pub fn limit_ttl(&self, fresh_for: Duration) {
        self.settings().limit_ttl(fresh_for);
    }

    /// Lets the response be fresh for longer than its values; see [`Cached::may_outlive_values`].
    pub fn may_outlive_values(&self) {
        self.settings().outlives_values = true;
    }

    /// Notes how much longer the values are fresh that the handler has got.
    pub(crate) fn note_values(&self, fresh_for: Option<Duration>) {
        self.settings().value_limit = fresh_for;
    }

    /// Declares that the response is made from a value of a [`larder::Cache`], and is no opt-in; see [`Cached::uses`].
    #[cfg(feature = "shared")]
    pub fn uses<V>(&self, value: &larder::Fetched<V>) {
        self.settings().add_value(value);
    }

    /// Adds a tag; see [`Cached::tag`].
    pub fn tag(&self, tag: impl AsRef<str>) {
        self.settings().add_tag(tag.as_ref());
    }

    /// Allows statuses other than 200; see [`Cached::cached_errors`].
    pub fn cached_errors(&self, statuses: impl IntoIterator<Item = StatusCode>) {
        self.settings().errors.extend(statuses);
    }

    /// Sets a label; see [`Cached::label`].
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

    /// Declares who may get the response, or narrows it; see [`Cached::scope`].
    pub fn scope(&self, scope: Scope) {
        let mut settings = self.settings();
        settings.scope = settings.scope.max(Some(scope));
    }

    /// Forbids storing the response, regardless of other settings. `reason` is for logs: it is added to the response as
    /// the extension [`ForbiddenBecause`] and is not sent to clients.
    pub fn forbid(&self, reason: &'static str) {
        self.settings().forbidden.get_or_insert(reason);
    }

    /// Purges a tag in the cache that forwarded this request, as [`HttpCache::purge_tag`] does: at once, and again when
    /// the handler ends, with a response or an error, or because its client has disconnected. A handler may thus call it
    /// before its transaction commits: no response that was made from the state before the commit outlives the handler.
    /// Without a layer it has no effect.
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
    pub(crate) fn of_handler(cache: &HttpCache) -> (CacheCtx, HandlerGuard) {
        let purges = Some(HandlerPurges::new(cache.clone()));
        let ctx = CacheCtx(Arc::new(CtxState { settings: Mutex::default(), purges }));
        (ctx.clone(), HandlerGuard(ctx))
    }

    fn settings(&self) -> MutexGuard<'_, Settings> {
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

/// How to store a response that may be stored.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) ttl: Duration,
    pub(crate) grace: Duration,
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
}

impl Plan {
    /// The first field that the response depends on and that `Vary` does not name, of those that are not `allowed`.
    pub(crate) fn unkeyed_field(&self, allowed: impl Fn(&HeaderName) -> bool) -> Option<&HeaderName> {
        self.fields_read.iter().find(|field| !self.vary.contains(field) && !allowed(field))
    }

    /// The same for a response that is made from values which are fresh for this long.
    pub(crate) fn limited_by_values(self, fresh_for: Option<Duration>) -> Plan {
        match fresh_for.filter(|_| !self.outlives_values) {
            None => self,
            Some(Duration::ZERO) => Plan { ttl: Duration::ZERO, grace: Duration::ZERO, ..self },
            Some(fresh_for) => Plan { ttl: self.ttl.min(fresh_for), ..self },
        }
    }

    /// The same, so much later.
    pub(crate) fn after(self, elapsed: Duration) -> Plan {
        let stale_for = elapsed.saturating_sub(self.ttl);
        Plan {
            ttl: self.ttl.saturating_sub(elapsed),
            grace: self.grace.saturating_sub(stale_for),
            age: self.age + elapsed,
            ..self
        }
    }

    /// Whether the response may not be served any more, so much later.
    #[cfg(feature = "shared")]
    pub(crate) fn is_over_after(&self, elapsed: Duration) -> bool {
        self.ttl + self.grace <= elapsed
    }

    /// Whether the gate is asked before each replay.
    pub(crate) fn is_guarded(&self) -> bool {
        self.scope >= Some(Scope::Gated)
    }
}

/// Decides by the head of a response whether it may be stored. Adds its labels to its extensions.
///
/// # Errors
/// The first reason against storing it. The settings are checked first, then the headers.
pub(crate) fn plan<B>(
    response: &mut Response<B>,
    ctx: &CacheCtx,
    cached_errors: &[StatusCode],
) -> Result<Plan, Reason> {
    let settings = merged_settings(response.extensions_mut(), ctx);
    settings.labels.add_to(response.extensions_mut());
    if let Some(reason) = settings.forbidden {
        response.extensions_mut().insert(ForbiddenBecause(reason));
        return Err(Reason::Forbidden);
    }
    let own_ttl = settings.ttl.ok_or(Reason::NotOptedIn)?;
    let own_ttl = settings.limit().map_or(own_ttl, |limit| own_ttl.min(limit));
    let directives = Directives::parse(response.headers());
    let age = initial_age(response.headers());
    let ttl = directives.s_maxage.map_or(own_ttl, |shared| own_ttl.min(shared.saturating_sub(age)));
    if ttl.as_millis() == 0 {
        return Err(Reason::ZeroTtl);
    }
    let status = response.status();
    if status != StatusCode::OK
        && !(is_cacheable_error(status)
            && (settings.errors.contains(&status) || cached_errors.contains(&status)))
    {
        return Err(Reason::Status);
    }
    if settings.tags.len() > MAX_TAGS {
        return Err(Reason::TooManyTags);
    }
    let vary = check_headers(response.headers(), directives, settings.scope)?;
    // A refresh in the background has no credentials, so that the gate would deny it.
    let has_no_grace = directives.must_revalidate || settings.scope >= Some(Scope::Gated);
    let grace = if has_no_grace { None } else { settings.swr };
    Ok(Plan {
        ttl: ttl.min(MAX_TTL),
        grace: grace.unwrap_or_default().min(MAX_TTL),
        age,
        outlives_values: settings.outlives_values,
        tags: settings.tags,
        scope: settings.scope,
        labels: settings.labels,
        #[cfg(feature = "axum")]
        route: settings.route,
        vary,
        fields_read: settings.fields_read,
    })
}

/// Adds the labels of a response whose settings are not used.
pub(crate) fn add_labels<B>(response: &mut Response<B>, ctx: &CacheCtx) {
    let extensions = response.extensions_mut();
    let mut labels = ctx.settings().labels.clone();
    if let Some(Cached(own)) = extensions.get::<Cached>() {
        labels.merge(own.labels.clone());
    }
    labels.add_to(extensions);
}

fn merged_settings(extensions: &mut Extensions, ctx: &CacheCtx) -> Settings {
    let mut settings = std::mem::take(&mut *ctx.settings());
    if let Some(Cached(own)) = extensions.remove::<Cached>() {
        settings.merge(own);
    }
    settings
}

/// Whether `cached_errors` may allow the status: a complete response that a client cannot provoke for any path.
fn is_cacheable_error(status: StatusCode) -> bool {
    let code = status.as_u16();
    code >= 300 && !matches!(code, 304 | 400 | 413 | 414 | 431)
}

/// The `Age` of the response: the origin may be behind another cache. Of a list it is the first member (RFC 9111, 5.1).
fn initial_age(headers: &HeaderMap) -> Duration {
    let age = headers.get(AGE).and_then(|line| control::split_list(line.as_bytes()).next());
    age.map(control::delta_seconds).unwrap_or_default()
}

fn check_headers(
    headers: &HeaderMap,
    directives: Directives,
    scope: Option<Scope>,
) -> Result<Box<[HeaderName]>, Reason> {
    if headers.contains_key(SET_COOKIE) {
        return Err(Reason::SetCookie);
    }
    if directives.no_store {
        return Err(Reason::NoStore);
    }
    if directives.private && scope != Some(Scope::Private) {
        return Err(Reason::Private);
    }
    if directives.no_cache {
        return Err(Reason::NoCache);
    }
    let vary = vary::parse_vary(headers)?;
    let reflects_origin = headers.get_all(ACCESS_CONTROL_ALLOW_ORIGIN).iter().any(|value| value != "*");
    if reflects_origin && !vary.contains(&ORIGIN) {
        return Err(Reason::Cors);
    }
    Ok(vary)
}

#[cfg(test)]
mod tests;
