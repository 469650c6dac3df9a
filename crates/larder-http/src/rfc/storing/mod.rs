//! The decision of a shared cache whether it may store a response, and on which terms (RFC 9111, section 3).

use std::time::Duration;

use http::header::{AUTHORIZATION, COOKIE, ETAG, PROXY_AUTHORIZATION, SET_COOKIE};
use http::{HeaderMap, HeaderName, StatusCode};

use crate::rfc::dates;
use crate::rfc::directives::RequestDirectives;
use crate::rfc::freshness::{self, Received};
use crate::rfc::targeted::Policy;
use crate::status::Reason;

/// What the request of a response says about storing it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    has_authorization: bool,
    has_cookie: bool,
    no_store: bool,
}

impl Asked {
    /// By the fields of the request.
    pub(crate) fn of(request: &HeaderMap) -> Asked {
        Asked {
            has_authorization: request.contains_key(AUTHORIZATION)
                || request.contains_key(PROXY_AUTHORIZATION),
            has_cookie: request.contains_key(COOKIE),
            no_store: RequestDirectives::parse(request).no_store,
        }
    }
}

/// What the operator of the cache adds to the fields of the origin.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Operator<'a> {
    /// The name of a targeted field that only this cache obeys, before all others (RFC 9213).
    pub(crate) own_field: Option<&'a HeaderName>,
    /// How long a response is fresh from its receipt, whatever its origin states.
    pub(crate) ttl: Option<Duration>,
    /// Whether each response is for one client only, which may then have what its origin calls `private`.
    pub(crate) permits_private: bool,
    /// Whether it is known who may have the responses to requests with `Authorization`.
    pub(crate) permits_authorized: bool,
}

/// The terms on which a response is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// How long it is fresh, counted from when its age was zero.
    pub(crate) lifetime: Duration,
    /// Whether the lifetime is an estimate.
    pub(crate) is_heuristic: bool,
    /// The age that it had when it was received.
    pub(crate) age: Duration,
    /// Each use needs a validation first, also while it is fresh (RFC 9111, 5.2.2.4).
    pub(crate) must_validate: bool,
    /// How long after its lifetime it may be served while it is validated; `None` if the origin does not say, zero if it
    /// forbids that.
    pub(crate) stale_while_revalidate: Option<Duration>,
    /// How long after its lifetime it may be served if the origin replies with an error; as above.
    pub(crate) stale_if_error: Option<Duration>,
    /// Whether it may be served stale otherwise: if the origin cannot be reached, or if the client allows that
    /// (RFC 9111, 4.2.4).
    pub(crate) may_be_stale: bool,
    /// It does not change while it is fresh: a reload need not validate it (RFC 8246).
    pub(crate) is_immutable: bool,
    /// Whether the origin can validate it.
    pub(crate) has_validator: bool,
    /// Whether it is for requests with `Authorization` too (RFC 9111, 3.5).
    pub(crate) is_for_authorized: bool,
    /// The fields that only the client gets whose request made the response.
    pub(crate) unstored_fields: Vec<HeaderName>,
}

/// The terms of a complete response to a GET, by its own fields and what the operator adds. A TTL of the operator counts as
/// explicit freshness, and permits nothing that the origin forbids. What `Vary` means is decided elsewhere.
///
/// # Errors
/// The first reason against storing it: `RequestNoStore`, `Status`, `NoStore`, `Private`, `Authorization`, `Cookie` or
/// `SetCookie`. Then the reasons why nobody could ever be served: `NoCache` and `ZeroTtl` without a validator, and
/// `NoFreshness` without explicit freshness either.
pub(crate) fn terms(
    operator: Operator<'_>,
    asked: Asked,
    status: StatusCode,
    response: &HeaderMap,
    received: Received,
) -> Result<Terms, Reason> {
    let policy = Policy::of(response, operator.own_field);
    check_permission(operator, &policy, asked, status)?;
    let age = freshness::initial_age(response, received);
    let explicit = match operator.ttl {
        Some(ttl) => Some(age.saturating_add(ttl)),
        None => freshness::explicit_lifetime(&policy, response, received),
    };
    let lifetime = match explicit {
        Some(lifetime) => lifetime,
        None => implicit_lifetime(&policy, asked, status, response, received)?,
    };
    let directives = policy.directives;
    let is_for_authorized = directives.permit_authorized();
    let mut unstored_fields = directives.restricted_fields;
    if response.contains_key(SET_COOKIE) && !unstored_fields.contains(&SET_COOKIE) {
        // Nothing in the RFC keeps a cookie of one client from others: the origin must say that it has thought of them.
        let is_for_all = directives.public || directives.s_maxage.is_some() || policy.is_targeted;
        if !is_for_all || explicit.is_none() {
            return Err(Reason::SetCookie);
        }
        unstored_fields.push(SET_COOKIE);
    }
    // RFC 5861 grants staleness by name, beside an `s-maxage` too, which alone forbids it (RFC 9111, 5.2.2.10).
    let forbids_stale = directives.no_cache || directives.must_revalidate || directives.proxy_revalidate;
    let granted = |duration: Option<Duration>| if forbids_stale { Some(Duration::ZERO) } else { duration };
    let terms = Terms {
        lifetime,
        is_heuristic: explicit.is_none(),
        age,
        must_validate: directives.no_cache,
        stale_while_revalidate: granted(directives.stale_while_revalidate),
        stale_if_error: granted(directives.stale_if_error),
        may_be_stale: !forbids_stale && directives.s_maxage.is_none(),
        is_immutable: directives.immutable,
        has_validator: has_validator(response, received),
        is_for_authorized,
        unstored_fields,
    };
    if terms.has_validator || terms.is_served_unvalidated() {
        Ok(terms)
    } else if terms.must_validate {
        Err(Reason::NoCache)
    } else if terms.is_heuristic {
        Err(Reason::NoFreshness)
    } else {
        Err(Reason::ZeroTtl)
    }
}

impl Terms {
    /// Whether anybody could be served by the stored response without a validation, if the origin works.
    fn is_served_unvalidated(&self) -> bool {
        let grace = self.stale_while_revalidate.unwrap_or_default();
        !self.must_validate && self.age < self.lifetime.saturating_add(grace)
    }
}

/// Whether the origin permits this cache to store the response (RFC 9111, 3 and 3.5).
fn check_permission(
    operator: Operator<'_>,
    policy: &Policy,
    asked: Asked,
    status: StatusCode,
) -> Result<(), Reason> {
    let directives = &policy.directives;
    if asked.no_store {
        return Err(Reason::RequestNoStore);
    }
    if is_never_stored(status) || (directives.must_understand && !is_understood(status)) {
        return Err(Reason::Status);
    }
    // RFC 9111, 5.2.2.3: `no-store` is for the caches that do not know `must-understand`.
    if directives.no_store && !directives.must_understand {
        return Err(Reason::NoStore);
    }
    if directives.private && !operator.permits_private {
        return Err(Reason::Private);
    }
    if asked.has_authorization && !operator.permits_authorized && !directives.permit_authorized() {
        return Err(Reason::Authorization);
    }
    Ok(())
}

/// The lifetime of a response without explicit freshness; zero if there is no estimate.
///
/// # Errors
/// `Status` if it may not be stored without (RFC 9111, 3), and `Cookie`: a response that says nothing of caching and that
/// was made for a cookie may well be for its user only.
fn implicit_lifetime(
    policy: &Policy,
    asked: Asked,
    status: StatusCode,
    response: &HeaderMap,
    received: Received,
) -> Result<Duration, Reason> {
    if !policy.directives.public && !freshness::is_heuristically_cacheable(status) {
        return Err(Reason::Status);
    }
    if asked.has_cookie && !policy.directives.no_cache {
        return Err(Reason::Cookie);
    }
    let lifetime = freshness::heuristic_lifetime(response, received).unwrap_or_default();
    // An error of the server is not kept for its validator alone.
    if status.is_server_error() && lifetime.is_zero() { Err(Reason::Status) } else { Ok(lifetime) }
}

/// Whether no directive permits to store a response with this status in a cache of complete responses.
fn is_never_stored(status: StatusCode) -> bool {
    match status.as_u16() {
        // Not final, partial, and the answers to conditions and ranges, which are not in the key.
        100..=199 | 206 | 304 | 412 | 416 => true,
        // RFC 6585, sections 3 to 6.
        428 | 429 | 431 | 511 => true,
        _ => false,
    }
}

/// Whether this cache knows what the status means for caching: those of RFC 9110, section 15, and RFC 7725.
fn is_understood(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200..=205 | 300..=303 | 305 | 307 | 308 | 400..=411 | 413..=415 | 417 | 421 | 422 | 426 | 451 | 500..=505
    )
}

/// Whether the origin can tell by a field of the response if it has changed.
fn has_validator(response: &HeaderMap, received: Received) -> bool {
    response.get(ETAG).is_some_and(|etag| !etag.is_empty())
        || dates::last_modified(response, received.at).is_some()
}

#[cfg(test)]
mod tests;
