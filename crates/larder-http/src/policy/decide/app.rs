//! The decision by what a handler says: it must opt in, and its header fields may forbid or shorten it.

use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, ORIGIN, SET_COOKIE};
use http::{HeaderMap, HeaderName, Response, StatusCode};

use super::MAX_TTL;
use crate::headers::control::{self, Directives};
use crate::headers::vary;
use crate::policy::plan::Plan;
use crate::policy::scope::Scope;
use crate::policy::settings::Settings;
use crate::status::Reason;

/// # Errors
/// The first reason against storing the response.
pub(super) fn plan<B>(
    response: &Response<B>,
    settings: Settings,
    cached_errors: &[StatusCode],
) -> Result<Plan, Reason> {
    let own_ttl = settings.ttl.ok_or(Reason::NotOptedIn)?;
    let own_ttl = settings.limit().map_or(own_ttl, |limit| own_ttl.min(limit));
    let directives = Directives::parse(response.headers());
    let age = control::age_value(response.headers());
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
    let vary = check_headers(response.headers(), directives, settings.scope)?;
    // A refresh in the background has no credentials, so that the gate would deny it.
    let has_no_grace = directives.must_revalidate || settings.scope >= Some(Scope::Gated);
    let grace = if has_no_grace { None } else { settings.swr };
    Ok(Plan {
        ttl: ttl.min(MAX_TTL),
        grace: grace.unwrap_or_default().min(MAX_TTL),
        later: None,
        age,
        outlives_values: settings.outlives_values,
        tags: settings.tags,
        scope: settings.scope,
        labels: settings.labels,
        #[cfg(feature = "axum")]
        route: settings.route,
        vary,
        fields_read: settings.fields_read,
        unstored_fields: Box::default(),
    })
}

/// Whether `cached_errors` may allow the status: a complete response that a client cannot provoke for any path.
fn is_cacheable_error(status: StatusCode) -> bool {
    let code = status.as_u16();
    code >= 300 && !matches!(code, 304 | 400 | 413 | 414 | 431)
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
    vary::check_credentials(&vary)?;
    let reflects_origin = headers.get_all(ACCESS_CONTROL_ALLOW_ORIGIN).iter().any(|value| value != "*");
    if reflects_origin && !vary.contains(&ORIGIN) {
        return Err(Reason::Cors);
    }
    Ok(vary)
}
