//! Detects HTTP, so that a page in a browser cannot send commands to the server.

use larder_resp::Args;

/// Whether an inline command is a line of an HTTP request: a request line, or the `Host` header of every request.
pub(crate) fn is_http(args: Args<'_>) -> bool {
    let name = &args[0];
    let is_request_line =
        || args.len() == 3 && args[2].len() >= 5 && args[2][..5].eq_ignore_ascii_case(b"HTTP/");
    name.eq_ignore_ascii_case(b"host:") || name.eq_ignore_ascii_case(b"post") || is_request_line()
}
