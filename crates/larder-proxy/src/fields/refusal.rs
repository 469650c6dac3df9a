//! A request that the proxy answers itself, because it must not reach the cache or an origin.

use http::StatusCode;

/// Why a request is refused: the status of the answer, and a reason for its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The status of the answer.
    pub(crate) status: StatusCode,
    /// The reason, for the text of the answer.
    pub(crate) reason: &'static str,
    /// The type of the error in `Proxy-Status` (RFC 9209, section 2.3).
    pub(crate) proxy_error: &'static str,
}

impl Refusal {
    /// A request that is not valid.
    pub(crate) const fn bad_request(reason: &'static str) -> Refusal {
        Refusal { status: StatusCode::BAD_REQUEST, reason, proxy_error: "http_request_error" }
    }
}
