//! What a handler says about caching its response: in its return value ([`Cached`]) or from code below it
//! ([`CacheCtx`]). Nothing is cached unless one of the two asks for it.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderName;
use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, ORIGIN, SET_COOKIE};
use http::{Extensions, HeaderMap, Response, StatusCode};

use crate::control::Directives;
use crate::status::Reason;
use crate::vary;

/// Tags of one response.
const MAX_TAGS: usize = 128;
/// TTL and grace above this are cut: a year, as HTTP caches do (RFC 9111, 1.2.2 asks for 68 years at most).
const MAX_TTL: Duration = Duration::from_secs(365 * 24 * 3600);

/// Wishes for one response, merged from all who spoke: lowest TTL and grace, all tags, and a veto that wins.
#[derive(Clone, Debug, Default)]
struct Wishes {
    ttl: Option<Duration>,
    swr: Option<Duration>,
    tags: Vec<Cow<'static, str>>,
    forbidden: Option<&'static str>,
    ignores_cookies: bool,
    errors: Vec<StatusCode>,
}

impl Wishes {
    fn lower_ttl(&mut self, ttl: Duration) {
        self.ttl = Some(self.ttl.map_or(ttl, |known| known.min(ttl)));
    }

    fn lower_swr(&mut self, swr: Duration) {
        self.swr = Some(self.swr.map_or(swr, |known| known.min(swr)));
    }

    fn merge(&mut self, other: Wishes) {
        if let Some(ttl) = other.ttl {
            self.lower_ttl(ttl);
        }
        if let Some(swr) = other.swr {
            self.lower_swr(swr);
        }
        self.tags.extend(other.tags);
        self.errors.extend(other.errors);
        self.forbidden = self.forbidden.or(other.forbidden);
        self.ignores_cookies |= other.ignores_cookies;
    }
}

/// A handler's wish that its response be cached, given with the response.
///
/// With the feature `axum` it is part of a return value, `(Cached::ttl(..), body)`; elsewhere put it into the
/// response's extensions.
///
/// ```
/// use larder_http::Cached;
/// use std::time::Duration;
///
/// let wish = Cached::ttl(Duration::from_secs(60)).swr(Duration::from_secs(30)).tag("products");
/// let mut response = http::Response::new("[]");
/// response.extensions_mut().insert(wish);
/// ```
#[derive(Clone, Debug)]
#[must_use = "a wish counts only with the response"]
pub struct Cached(Wishes);

impl Cached {
    /// Cache the response and serve it as fresh for `ttl`: a millisecond to a year, longer is cut. Zero means: do
    /// not store.
    pub fn ttl(ttl: Duration) -> Cached {
        Cached(Wishes { ttl: Some(ttl), ..Wishes::default() })
    }

    /// Grace: for this long after its TTL the response is served stale while one request refreshes it in the
    /// background (stale-while-revalidate, RFC 5861). Default: none.
    pub fn swr(mut self, grace: Duration) -> Cached {
        self.0.lower_swr(grace);
        self
    }

    /// Adds a tag, by which [`HttpCache::purge_tag`](crate::HttpCache::purge_tag) finds the response. At most 128
    /// for one response; one with more is not stored.
    pub fn tag(mut self, tag: impl Into<Cow<'static, str>>) -> Cached {
        self.0.tags.push(tag.into());
        self
    }

    /// Allows this response to be stored although its status is `status`, and not 200. It is replayed with that
    /// status. 400, 413, 414 and 431 are never stored: a client can provoke them for a path that others want.
    pub fn cached_errors(mut self, statuses: impl IntoIterator<Item = StatusCode>) -> Cached {
        self.0.errors.extend(statuses);
        self
    }

    /// Declares that the response is the same whatever cookies the request carries, so that it may be made for and
    /// served to requests with `Cookie`. Without this they bypass.
    pub fn ignore_cookies(mut self) -> Cached {
        self.0.ignores_cookies = true;
        self
    }
}

/// The same wishes for code below the handler: a handle in the *request's* extensions, which survives a response
/// that is rebuilt on its way out.
///
/// Clones share one state, and several calls merge: the lowest TTL and grace, the union of tags, and
/// [`CacheCtx::forbid`] wins over everything. On a request that bypasses the cache its calls do nothing.
#[derive(Clone, Debug, Default)]
pub struct CacheCtx(Arc<Mutex<Wishes>>);

impl CacheCtx {
    /// Cache the response for at most this long; see [`Cached::ttl`].
    pub fn ttl(&self, ttl: Duration) {
        self.wishes().lower_ttl(ttl);
    }

    /// A grace of at most this long; see [`Cached::swr`].
    pub fn swr(&self, grace: Duration) {
        self.wishes().lower_swr(grace);
    }

    /// Adds a tag; see [`Cached::tag`].
    pub fn tag(&self, tag: impl Into<Cow<'static, str>>) {
        self.wishes().tags.push(tag.into());
    }

    /// Allows another status than 200; see [`Cached::cached_errors`].
    pub fn cached_errors(&self, statuses: impl IntoIterator<Item = StatusCode>) {
        self.wishes().errors.extend(statuses);
    }

    /// Declares cookies meaningless for this response; see [`Cached::ignore_cookies`].
    pub fn ignore_cookies(&self) {
        self.wishes().ignores_cookies = true;
    }

    /// The response is not stored, whatever others ask for. `reason` is for logs: it comes with the response, as
    /// the extension [`ForbiddenBecause`], and is not shown to clients.
    pub fn forbid(&self, reason: &'static str) {
        self.wishes().forbidden.get_or_insert(reason);
    }

    fn wishes(&self) -> MutexGuard<'_, Wishes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first reason given to [`CacheCtx::forbid`], in the extensions of the response that was not stored for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForbiddenBecause(pub &'static str);

/// How a response is to be stored, once it is certain that it may be.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) ttl: Duration,
    pub(crate) grace: Duration,
    pub(crate) tags: Vec<Cow<'static, str>>,
    pub(crate) ignores_cookies: bool,
    pub(crate) vary: Box<[HeaderName]>,
}

/// Decides whether a response may be stored, from its head alone.
///
/// # Errors
/// The first reason against it; the handler's own wish comes first, then what no wish overrules.
pub(crate) fn plan<B>(
    response: &mut Response<B>,
    ctx: &CacheCtx,
    cached_errors: &[StatusCode],
    has_cookie: bool,
) -> Result<Plan, Reason> {
    let wishes = collect(response.extensions_mut(), ctx);
    if let Some(reason) = wishes.forbidden {
        response.extensions_mut().insert(ForbiddenBecause(reason));
        return Err(Reason::Forbidden);
    }
    let ttl = wishes.ttl.ok_or(Reason::NotOptedIn)?;
    if ttl.as_millis() == 0 {
        return Err(Reason::ZeroTtl);
    }
    let status = response.status();
    if status != StatusCode::OK
        && !(may_be_cached(status) && (wishes.errors.contains(&status) || cached_errors.contains(&status)))
    {
        return Err(Reason::Status);
    }
    if has_cookie && !wishes.ignores_cookies {
        return Err(Reason::Cookie);
    }
    if wishes.tags.len() > MAX_TAGS {
        return Err(Reason::TooManyTags);
    }
    let vary = storable(response.headers())?;
    Ok(Plan {
        ttl: ttl.min(MAX_TTL),
        grace: wishes.swr.unwrap_or_default().min(MAX_TTL),
        tags: wishes.tags,
        ignores_cookies: wishes.ignores_cookies,
        vary,
    })
}

fn collect(extensions: &mut Extensions, ctx: &CacheCtx) -> Wishes {
    let mut wishes = std::mem::take(&mut *ctx.wishes());
    if let Some(Cached(own)) = extensions.remove::<Cached>() {
        wishes.merge(own);
    }
    wishes
}

/// Statuses that `cached_errors` may allow: whole answers with a body of their own, not provoked by the request.
fn may_be_cached(status: StatusCode) -> bool {
    let code = status.as_u16();
    code >= 300 && !matches!(code, 304 | 400 | 413 | 414 | 431)
}

fn storable(headers: &HeaderMap) -> Result<Box<[HeaderName]>, Reason> {
    if headers.contains_key(SET_COOKIE) {
        return Err(Reason::SetCookie);
    }
    let directives = Directives::of(headers);
    if directives.no_store {
        return Err(Reason::NoStore);
    }
    if directives.private {
        return Err(Reason::Private);
    }
    let vary = vary::fields(headers)?;
    let reflects_origin = headers.get_all(ACCESS_CONTROL_ALLOW_ORIGIN).iter().any(|value| value != "*");
    if reflects_origin && !vary.contains(&ORIGIN) {
        return Err(Reason::Cors);
    }
    Ok(vary)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn response(status: u16, fields: &[(&'static str, &'static str)]) -> Response<()> {
        let mut response = Response::builder().status(status);
        for (name, value) in fields {
            response = response.header(*name, *value);
        }
        response.body(()).unwrap()
    }

    fn opted_in(mut response: Response<()>) -> Result<Plan, Reason> {
        response.extensions_mut().insert(Cached::ttl(MINUTE));
        plan(&mut response, &CacheCtx::default(), &[], false)
    }

    #[test]
    fn nothing_is_stored_unasked() {
        let outcome = plan(&mut response(200, &[]), &CacheCtx::default(), &[], false);
        assert_eq!(outcome.unwrap_err(), Reason::NotOptedIn);
    }

    #[test]
    fn wishes_merge_to_the_narrowest() {
        let ctx = CacheCtx::default();
        ctx.ttl(Duration::from_secs(10));
        ctx.tag("deep");
        let mut response = response(200, &[]);
        response.extensions_mut().insert(Cached::ttl(MINUTE).swr(MINUTE).tag("top"));
        let plan = plan(&mut response, &ctx, &[], false).unwrap();
        assert_eq!((plan.ttl, plan.grace), (Duration::from_secs(10), MINUTE));
        assert_eq!(plan.tags, ["deep", "top"]);
    }

    #[test]
    fn a_veto_wins_whether_or_not_anybody_asked() {
        let ctx = CacheCtx::default();
        ctx.forbid("has a cart");
        let mut opted = response(200, &[]);
        opted.extensions_mut().insert(Cached::ttl(MINUTE));
        assert_eq!(plan(&mut opted, &ctx, &[], false).unwrap_err(), Reason::Forbidden);
        assert_eq!(opted.extensions().get(), Some(&ForbiddenBecause("has a cart")));
        ctx.forbid("still");
        assert_eq!(plan(&mut response(200, &[]), &ctx, &[], false).unwrap_err(), Reason::Forbidden);
    }

    #[test]
    fn headers_that_overrule_the_wish() {
        for (fields, reason) in [
            (&[("set-cookie", "a=b")][..], Reason::SetCookie),
            (&[("cache-control", "max-age=60, No-Store")], Reason::NoStore),
            (&[("cache-control", "PRIVATE")], Reason::Private),
            (&[("vary", "*")], Reason::VaryAny),
            (&[("vary", "cookie")], Reason::VaryCredentials),
            (&[("access-control-allow-origin", "https://a.example")], Reason::Cors),
        ] {
            assert_eq!(opted_in(response(200, fields)).unwrap_err(), reason, "{fields:?}");
        }
        assert!(opted_in(response(200, &[("access-control-allow-origin", "*")])).is_ok());
        let varies = [("access-control-allow-origin", "https://a.example"), ("vary", "Origin")];
        assert!(opted_in(response(200, &varies)).is_ok());
    }

    #[test]
    fn other_statuses_need_leave_and_some_never_get_it() {
        let leave: Vec<_> = (200..600).map(|code| StatusCode::from_u16(code).unwrap()).collect();
        for (code, stored) in [
            (200, true),
            (201, false),
            (204, false),
            (206, false),
            (301, true),
            (304, false),
            (400, false),
            (404, true),
            (410, true),
            (413, false),
            (414, false),
            (431, false),
            (500, true),
        ] {
            let mut with = response(code, &[]);
            with.extensions_mut().insert(Cached::ttl(MINUTE).cached_errors(leave.clone()));
            let with = plan(&mut with, &CacheCtx::default(), &[], false);
            assert_eq!(with.is_ok(), stored, "{code}");
            assert_eq!(opted_in(response(code, &[])).is_ok(), code == 200, "{code} without leave");
        }
    }

    #[test]
    fn times_are_cut_to_a_year_and_below_a_millisecond_there_is_nothing() {
        let mut long = response(200, &[]);
        long.extensions_mut().insert(Cached::ttl(Duration::MAX).swr(Duration::MAX));
        let plan_of = |mut response| plan(&mut response, &CacheCtx::default(), &[], false);
        let long = plan_of(long).unwrap();
        assert_eq!((long.ttl, long.grace), (MAX_TTL, MAX_TTL));
        let mut short = response(200, &[]);
        short.extensions_mut().insert(Cached::ttl(Duration::from_micros(999)));
        assert_eq!(plan_of(short).unwrap_err(), Reason::ZeroTtl);
    }

    #[test]
    fn more_tags_than_allowed_are_not_stored_rather_than_dropped() {
        let ctx = CacheCtx::default();
        ctx.ttl(MINUTE);
        (0..=MAX_TAGS).for_each(|n| ctx.tag(n.to_string()));
        assert_eq!(plan(&mut response(200, &[]), &ctx, &[], false).unwrap_err(), Reason::TooManyTags);
    }
}
