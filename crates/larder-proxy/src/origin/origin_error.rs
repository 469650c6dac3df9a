//! Why there is no response of an origin, and what a client is told about it.

use http::StatusCode;
use std::error::Error;
use std::io;
use std::time::Duration;

/// Why an origin gave no response. No text of it names an address: clients read them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OriginError {
    /// The name of the origin has no address.
    #[error("cannot find the address of the origin: {0}")]
    Resolve(#[source] io::Error),
    /// The origin does not accept connections.
    #[error("cannot connect to the origin: {0}")]
    Connect(#[source] io::Error),
    /// There was no connection in time.
    #[error("cannot connect to the origin within {} ms", .0.as_millis())]
    ConnectTimeout(Duration),
    /// The TLS handshake failed.
    #[error("cannot connect to the origin: TLS failed: {0}")]
    Tls(#[source] io::Error),
    /// The origin has as many requests as it may get.
    #[error("the origin has {0} requests already")]
    Busy(usize),
    /// The response did not begin in time.
    #[error("the origin did not respond within {} ms", .0.as_millis())]
    ResponseTimeout(Duration),
    /// The connection ended before the response began.
    #[error("the origin closed the connection before its response")]
    Closed(#[source] hyper::Error),
    /// The response is not HTTP.
    #[error("the response of the origin is not valid: {0}")]
    Invalid(#[source] hyper::Error),
    /// The origin switched protocols unasked.
    #[error("the origin switched protocols unasked")]
    UnaskedUpgrade,
    /// The origin was asked to switch to WebSocket, and its answer is neither that nor a refusal.
    #[error("the origin has not switched to WebSocket")]
    FailedUpgrade,
    /// The gate was asked about the request, and had no answer.
    #[error("the gate has no answer: {0}")]
    Gate(String),
    /// The body of the request ended early.
    #[error("the body of the request ended early")]
    RequestBody(#[source] hyper::Error),
    /// The client sent its body too slowly.
    #[error("the client sent less than {min_bytes} bytes of its body within {} ms", .limit.as_millis())]
    RequestBodyTimeout {
        /// What it has to send in that time.
        min_bytes: u64,
        /// The time for the head of a response.
        limit: Duration,
    },
}

impl OriginError {
    /// The error of a connection on which a request was sent.
    pub(super) fn of_exchange(error: hyper::Error) -> OriginError {
        if error.is_user() || error.is_body_write_aborted() {
            OriginError::RequestBody(error)
        } else if error.is_parse() || is_http2_fault(&error) {
            OriginError::Invalid(error)
        } else {
            OriginError::Closed(error)
        }
    }

    /// Whether an origin with HTTP/2 has said that it did not process the request, or the request was not sent (RFC 9113,
    /// section 8.7).
    pub(super) fn is_unprocessed(&self) -> bool {
        let (OriginError::Closed(error) | OriginError::Invalid(error)) = self else { return false };
        let fault = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
        let is_refused = |fault: &h2::Error| match fault.reason() {
            Some(h2::Reason::REFUSED_STREAM) => true,
            // Streams that it goes on with have no such error.
            Some(h2::Reason::NO_ERROR) => fault.is_go_away(),
            _ => false,
        };
        error.is_canceled() || fault.is_some_and(is_refused)
    }

    /// Whether it is the fault of the origin, and not of the client or of our limits.
    pub(super) fn is_of_origin(&self) -> bool {
        !matches!(
            self,
            OriginError::Busy(_) | OriginError::RequestBody(_) | OriginError::RequestBodyTimeout { .. }
        )
    }

    /// The status of the response that the client gets.
    pub fn status(&self) -> StatusCode {
        match self {
            OriginError::ConnectTimeout(_) | OriginError::ResponseTimeout(_) => StatusCode::GATEWAY_TIMEOUT,
            OriginError::Busy(_) | OriginError::Gate(_) => StatusCode::SERVICE_UNAVAILABLE,
            OriginError::RequestBody(_) => StatusCode::BAD_REQUEST,
            OriginError::RequestBodyTimeout { .. } => StatusCode::REQUEST_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        }
    }

    /// The type of the error in `Proxy-Status` (RFC 9209, section 2.3).
    pub(crate) fn proxy_error(&self) -> &'static str {
        match self {
            OriginError::Resolve(_) => "dns_error",
            OriginError::Connect(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                "connection_refused"
            }
            OriginError::Connect(_) => "destination_ip_unroutable",
            OriginError::ConnectTimeout(_) => "connection_timeout",
            OriginError::Tls(error) if is_certificate_fault(error) => "tls_certificate_error",
            OriginError::Tls(_) => "tls_protocol_error",
            OriginError::Busy(_) => "connection_limit_reached",
            OriginError::ResponseTimeout(_) => "http_response_timeout",
            OriginError::Closed(_) => "connection_terminated",
            OriginError::Invalid(_) => "http_protocol_error",
            OriginError::UnaskedUpgrade | OriginError::FailedUpgrade => "http_upgrade_failed",
            OriginError::Gate(_) => "destination_unavailable",
            OriginError::RequestBody(_) | OriginError::RequestBodyTimeout { .. } => "http_request_error",
        }
    }
}

fn is_certificate_fault(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}

/// Whether the fault is in HTTP/2 itself and not in the connection below.
fn is_http2_fault(error: &hyper::Error) -> bool {
    let mut source = error.source();
    while let Some(inner) = source {
        if inner.is::<io::Error>() {
            return false;
        }
        source = inner.source();
    }
    error.source().is_some() && !error.is_canceled() && !error.is_closed() && !error.is_incomplete_message()
}
