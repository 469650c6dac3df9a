//! The framing of a request body: how long it is. A request whose length two servers could read in two ways is refused
//! (RFC 9112, sections 6 and 11.2).
//!
//! hyper refuses `Content-Length` values that differ or are no number, and codings that do not end in `chunked`. It takes
//! `chunked` over a length, and closes the connection after such a request. What is left is here.

use crate::fields::refusal::Refusal;
use http::header::TRANSFER_ENCODING;
use http::{HeaderMap, StatusCode, Version};

/// Checks the framing of a request, and removes what frames the body on this connection only.
///
/// # Errors
/// A coding beside `chunked`, or one in HTTP/2.
pub(crate) fn check(headers: &mut HeaderMap, version: Version) -> Result<(), Refusal> {
    let mut lines = headers.get_all(TRANSFER_ENCODING).iter();
    let Some(coding) = lines.next() else { return Ok(()) };
    // RFC 9113, section 8.2.2.
    if version >= Version::HTTP_2 {
        return Err(Refusal::bad_request("Transfer-Encoding is not allowed in HTTP/2"));
    }
    if lines.next().is_some() || !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
        return Err(Refusal {
            status: StatusCode::NOT_IMPLEMENTED,
            reason: "the transfer coding is not supported",
            proxy_error: "http_request_error",
        });
    }
    headers.remove(TRANSFER_ENCODING);
    Ok(())
}
