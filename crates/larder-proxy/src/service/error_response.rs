//! The responses to requests that got none from an origin: a status, the reason as a text, and `Proxy-Status` (RFC 9209) and
//! `Cache-Status` (RFC 9211) for programs.
//!
//! They are made outside of the cache. It sees the error itself, and may serve stale instead.

use crate::fields::refusal::Refusal;
use crate::origin::origin_error::OriginError;
use crate::service::body::ProxyBody;
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{HeaderValue, Method, Response, StatusCode, Version};

const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// The methods that the proxy forwards. Others that it does not know are forwarded too.
pub(super) const METHODS: HeaderValue =
    HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE");

/// The response to a request that never reached the cache. It ends a connection of HTTP/1.1: what follows may be a part of the
/// request in the eyes of another server.
pub(super) fn of_refusal(refusal: Refusal, version: Version) -> Response<ProxyBody> {
    let Refusal { status, reason, proxy_error } = refusal;
    let mut response = response(status, reason, proxy_error);
    if version < Version::HTTP_2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, METHODS);
    }
    response
}

/// The response to a request that no origin has answered.
pub(super) fn of_origin(method: &Method, error: &OriginError) -> Response<ProxyBody> {
    let mut response = response(error.status(), &error.to_string(), error.proxy_error());
    let is_read = *method == Method::GET || *method == Method::HEAD;
    let forwarded = if is_read { "larder; fwd=miss; detail=" } else { "larder; fwd=method; detail=" };
    let status = HeaderValue::from_str(&format!("{forwarded}{}", error.proxy_error()));
    response.headers_mut().insert(CACHE_STATUS, status.expect("both parts are tokens"));
    if matches!(error, OriginError::Busy(_)) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

fn response(status: StatusCode, reason: &str, proxy_error: &str) -> Response<ProxyBody> {
    let mut response = Response::new(ProxyBody::text(format!("{status}: {reason}\n")));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let proxy_status = HeaderValue::from_str(&format!("larder; error={proxy_error}"));
    headers.insert(PROXY_STATUS, proxy_status.expect("both parts are tokens"));
    response
}
