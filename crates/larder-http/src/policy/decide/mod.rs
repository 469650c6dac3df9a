//! The decision by the head of a response whether it may be stored. Whether the client that asked for it may fill it, which
//! the credentials of its request decide, is checked after that: by `Requester::check` in `gate`.

use std::time::Duration;

use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, AGE, ORIGIN, SET_COOKIE};
use http::{Extensions, HeaderMap, HeaderName, Response, StatusCode};

use crate::headers::control::{self, Directives};
use crate::headers::vary;
use crate::policy::cached::Cached;
use crate::policy::ctx::{CacheCtx, ForbiddenBecause};
use crate::policy::plan::Plan;
use crate::policy::scope::Scope;
use crate::policy::settings::{MAX_TAGS, Settings};
use crate::status::Reason;

/// Longer TTLs and grace periods are reduced to a year, as usual in HTTP caches (RFC 9111, 1.2.2 allows up to 68
/// years).
const MAX_TTL: Duration = Duration::from_secs(365 * 24 * 3600);

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
