//! The decision to store, by the sections of RFC 9111, and what it refuses beyond them.

use super::*;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, EXPIRES, LAST_MODIFIED};
use std::time::UNIX_EPOCH;

use crate::rfc::targeted::CDN_CACHE_CONTROL;

type Fields = [(HeaderName, &'static str)];

/// In time since 1970: twenty-five hours after `MODIFIED`.
const NOW: Duration = Duration::from_secs(1_577_926_800);
const MODIFIED: (HeaderName, &str) = (LAST_MODIFIED, "Wed, 01 Jan 2020 00:00:00 GMT");
const TAG: (HeaderName, &str) = (ETAG, "\"a\"");
const COOKIE_SET: (HeaderName, &str) = (SET_COOKIE, "a=b");
const NOBODY: Asked = Asked { has_authorization: false, has_cookie: false, no_store: false };
const AUTHORIZED: Asked = Asked { has_authorization: true, ..NOBODY };

const fn control(line: &'static str) -> (HeaderName, &'static str) {
    (CACHE_CONTROL, line)
}

fn received() -> Received {
    Received { at: UNIX_EPOCH + NOW, delay: Duration::ZERO }
}

fn headers(fields: &Fields) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, line) in fields {
        headers.append(name, HeaderValue::from_static(line));
    }
    headers
}

fn terms_of(asked: Asked, status: u16, fields: &Fields) -> Result<Terms, Reason> {
    terms(Operator::default(), asked, StatusCode::from_u16(status).unwrap(), &headers(fields), received())
}

fn stored(fields: &Fields) -> Terms {
    terms_of(NOBODY, 200, fields).unwrap_or_else(|reason| panic!("{fields:?}: {reason}"))
}

#[track_caller]
fn assert_refused(asked: Asked, status: u16, fields: &Fields, reason: Reason) {
    assert_eq!(terms_of(asked, status, fields), Err(reason), "{status} {fields:?}");
}

#[test]
fn status_needs_explicit_freshness_unless_it_is_heuristically_cacheable() {
    for status in [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501] {
        assert!(terms_of(NOBODY, status, &[MODIFIED]).is_ok(), "{status}");
    }
    for status in [201, 202, 299, 302, 303, 307, 400, 403, 499, 500, 502, 503, 504, 599, 999] {
        assert_refused(NOBODY, status, &[MODIFIED, TAG], Reason::Status);
        assert!(terms_of(NOBODY, status, &[MODIFIED, control("public")]).unwrap().is_heuristic, "{status}");
        assert!(!terms_of(NOBODY, status, &[control("max-age=5")]).unwrap().is_heuristic, "{status}");
    }
}

#[test]
fn error_of_the_server_is_not_stored_for_its_validator() {
    for status in [500, 501, 503, 599] {
        assert_refused(NOBODY, status, &[TAG, control("public")], Reason::Status);
        assert!(terms_of(NOBODY, status, &[TAG, control("max-age=0")]).is_ok(), "{status}");
    }
}

#[test]
fn partial_and_conditional_answers_are_never_stored() {
    for status in [100, 103, 206, 304, 412, 416, 428, 429, 431, 511] {
        assert_refused(NOBODY, status, &[control("public, max-age=5, s-maxage=5")], Reason::Status);
    }
}

#[test]
fn no_store_of_either_side_forbids_storing() {
    assert_refused(NOBODY, 200, &[control("max-age=5, no-store")], Reason::NoStore);
    assert_refused(Asked { no_store: true, ..NOBODY }, 200, &[control("max-age=5")], Reason::RequestNoStore);
}

#[test]
fn must_understand_replaces_no_store_for_known_statuses() {
    let fields = [control("max-age=5, no-store, must-understand")];
    for status in [200, 302, 404, 503] {
        assert!(terms_of(NOBODY, status, &fields).is_ok(), "{status}");
    }
    for status in [299, 499, 599] {
        assert_refused(NOBODY, status, &fields, Reason::Status);
        assert_refused(NOBODY, status, &[control("max-age=5, must-understand")], Reason::Status);
    }
}

#[test]
fn private_forbids_storing_unless_it_names_fields() {
    assert_refused(NOBODY, 200, &[control("private, max-age=5")], Reason::Private);
    let terms = stored(&[control("private=\"x-a\", no-cache=\"x-b\", max-age=5")]);
    assert_eq!(terms.unstored_fields, ["x-a", "x-b"].map(HeaderName::from_static));
    assert!(!terms.must_validate);
}

#[test]
fn authorized_response_needs_permission() {
    for permitted in ["public, max-age=5", "s-maxage=5", "max-age=5, must-revalidate"] {
        let terms = terms_of(AUTHORIZED, 200, &[control(permitted)]).unwrap();
        assert!(terms.is_for_authorized, "{permitted}");
    }
    for forbidden in ["max-age=5", "max-age=5, proxy-revalidate", "max-age=5, private=\"x-a\""] {
        assert_refused(AUTHORIZED, 200, &[control(forbidden)], Reason::Authorization);
        assert!(!stored(&[control(forbidden)]).is_for_authorized, "{forbidden}");
    }
    assert_refused(
        AUTHORIZED,
        200,
        &[(CDN_CACHE_CONTROL, "max-age=5"), control("public")],
        Reason::Authorization,
    );
}

#[test]
fn cookie_is_never_stored_and_its_response_only_if_it_is_public() {
    for permitted in [control("public, max-age=5"), control("s-maxage=5"), (CDN_CACHE_CONTROL, "max-age=5")] {
        assert_eq!(stored(&[COOKIE_SET, permitted]).unstored_fields, [SET_COOKIE]);
    }
    for forbidden in [control("max-age=5"), control("public"), (EXPIRES, "Fri, 31 Dec 9999 23:59:59 GMT")] {
        assert_refused(NOBODY, 200, &[COOKIE_SET, MODIFIED, forbidden], Reason::SetCookie);
    }
    assert_refused(NOBODY, 200, &[COOKIE_SET, MODIFIED, (CDN_CACHE_CONTROL, "public")], Reason::SetCookie);
    let named = stored(&[COOKIE_SET, control("max-age=5, no-cache=\"set-cookie\"")]);
    assert_eq!(named.unstored_fields, [SET_COOKIE]);
}

#[test]
fn response_to_a_cookie_needs_explicit_freshness_or_validation() {
    let asked = Asked { has_cookie: true, ..NOBODY };
    assert_refused(asked, 200, &[MODIFIED], Reason::Cookie);
    assert_refused(asked, 200, &[MODIFIED, control("public")], Reason::Cookie);
    assert!(terms_of(asked, 200, &[control("max-age=5")]).is_ok());
    assert!(terms_of(asked, 200, &[TAG, control("no-cache")]).is_ok());
}

#[test]
fn response_that_nobody_could_be_served_needs_a_validator() {
    for (fields, reason) in [
        (&[control("no-cache, max-age=5")][..], Reason::NoCache),
        (&[control("max-age=0")], Reason::ZeroTtl),
        (&[control("max-age=5"), (http::header::AGE, "5")], Reason::ZeroTtl),
        (&[(EXPIRES, "0")], Reason::ZeroTtl),
        (&[control("max-age=0, stale-while-revalidate=5, must-revalidate")], Reason::ZeroTtl),
        (&[], Reason::NoFreshness),
        (&[control("public")], Reason::NoFreshness),
    ] {
        assert_refused(NOBODY, 200, fields, reason);
        for validator in [TAG, MODIFIED] {
            let fields = [fields, &[validator]].concat();
            assert!(stored(&fields).has_validator, "{fields:?}");
        }
        assert_refused(NOBODY, 200, &[fields, &[(ETAG, ""), (LAST_MODIFIED, "never")]].concat(), reason);
    }
    assert!(!stored(&[control("max-age=0, stale-while-revalidate=5")]).has_validator);
}

#[test]
fn staleness_is_granted_by_name_or_forbidden() {
    let secs = |seconds| Some(Duration::from_secs(seconds));
    let of = |line| {
        let terms = stored(&[TAG, control(line)]);
        (terms.stale_while_revalidate, terms.stale_if_error, terms.may_be_stale)
    };
    assert_eq!(of("max-age=5"), (None, None, true));
    assert_eq!(of("max-age=5, stale-while-revalidate=6, stale-if-error=7"), (secs(6), secs(7), true));
    assert_eq!(of("s-maxage=5, stale-while-revalidate=6"), (secs(6), None, false));
    for forbidden in ["must-revalidate", "proxy-revalidate", "no-cache"] {
        let line: &str = Box::leak(format!("max-age=5, stale-if-error=7, {forbidden}").into_boxed_str());
        assert_eq!(of(line), (secs(0), secs(0), false), "{forbidden}");
    }
}

#[test]
fn terms_have_lifetime_and_age() {
    let terms = stored(&[control("max-age=50, immutable"), (http::header::AGE, "20")]);
    assert_eq!((terms.lifetime.as_secs(), terms.age.as_secs(), terms.is_heuristic), (50, 20, false));
    assert!(terms.is_immutable && !terms.must_validate);
    let terms = stored(&[MODIFIED]);
    assert_eq!((terms.lifetime.as_secs(), terms.age.as_secs(), terms.is_heuristic), (3600, 0, true));
    assert!(stored(&[TAG, control("no-cache, max-age=5")]).must_validate);
}

#[test]
fn operator_adds_a_field_and_a_ttl() {
    let own = HeaderName::from_static("x-cache-control");
    let with = |operator, fields: &Fields| {
        terms(operator, NOBODY, StatusCode::FORBIDDEN, &headers(fields), received())
            .map(|terms| terms.lifetime.as_secs())
    };
    let by_field = Operator { own_field: Some(&own), ttl: None, ..Operator::default() };
    assert_eq!(with(by_field, &[(own.clone(), "max-age=7"), (CDN_CACHE_CONTROL, "no-store")]), Ok(7));
    let by_ttl = Operator { ttl: Some(Duration::from_secs(30)), ..Operator::default() };
    assert_eq!(with(by_ttl, &[(http::header::AGE, "100")]), Ok(130));
    let longest = Operator { ttl: Some(Duration::MAX), ..Operator::default() };
    assert_eq!(with(longest, &[(http::header::AGE, "100")]), Ok(u64::MAX));
    assert_eq!(with(by_ttl, &[control("no-store")]), Err(Reason::NoStore));
    assert_eq!(with(by_ttl, &[COOKIE_SET]), Err(Reason::SetCookie));
    assert_eq!(with(by_ttl, &[control("no-cache")]), Err(Reason::NoCache));
}

#[test]
fn credentials_and_directives_of_a_request_count() {
    for (name, asked) in [
        (AUTHORIZATION, AUTHORIZED),
        (PROXY_AUTHORIZATION, AUTHORIZED),
        (COOKIE, Asked { has_cookie: true, ..NOBODY }),
        (http::header::ACCEPT, NOBODY),
    ] {
        assert_eq!(Asked::of(&headers(&[(name, "x")])), asked);
    }
    assert_eq!(Asked::of(&headers(&[control("no-store")])), Asked { no_store: true, ..NOBODY });
}
