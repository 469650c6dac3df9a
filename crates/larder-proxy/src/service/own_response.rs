//! The responses to TRACE and OPTIONS whose last recipient is the proxy (RFC 9110, sections 7.6.2, 9.3.7 and 9.3.8).

use crate::fields::max_forwards::is_secret;
use crate::origin::request_body::RequestBody;
use crate::service::body::ProxyBody;
use crate::service::error_response::METHODS;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};

/// The response to a request of either method.
pub(super) fn of(request: &Request<RequestBody>) -> Response<ProxyBody> {
    if *request.method() == Method::TRACE {
        let mut response = Response::new(ProxyBody::text(head_of(request)));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("message/http"));
        return response;
    }
    let mut response = Response::new(ProxyBody::text(""));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(ALLOW, METHODS);
    response
}

/// The head as it was received, without credentials.
fn head_of(request: &Request<RequestBody>) -> Vec<u8> {
    let mut text = format!("{} {} HTTP/1.1\r\n", request.method(), request.uri()).into_bytes();
    for (name, value) in request.headers().iter().filter(|(name, _)| !is_secret(name)) {
        text.extend_from_slice(name.as_str().as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    text
}
