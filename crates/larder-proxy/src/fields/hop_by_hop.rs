//! Fields that belong to one connection, which the proxy does not pass on (RFC 9110, section 7.6.1).

use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const PROXY_AUTHENTICATION_INFO: HeaderName = HeaderName::from_static("proxy-authentication-info");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

const ALWAYS: [HeaderName; 9] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    PROXY_AUTHENTICATION_INFO,
    TE,
    UPGRADE,
    HTTP2_SETTINGS,
];

/// What `Connection` cannot remove: without them the message is another one.
const NEVER: [HeaderName; 3] = [HOST, CONTENT_LENGTH, TRANSFER_ENCODING];

/// Removes the fields of one connection from a request. Whether the client accepts trailers is kept, because the proxy passes
/// trailers on.
pub(crate) fn remove_from_request(headers: &mut HeaderMap) {
    let accepts_trailers = accepts_trailers(headers);
    remove(headers);
    if accepts_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// Removes the fields of one connection from a response.
pub(crate) fn remove_from_response(headers: &mut HeaderMap) {
    headers.remove(TRANSFER_ENCODING);
    remove(headers);
}

fn remove(headers: &mut HeaderMap) {
    for name in named(headers) {
        if !NEVER.contains(&name) {
            headers.remove(name);
        }
    }
    for name in ALWAYS {
        headers.remove(name);
    }
}

/// The fields that `Connection` names.
fn named(headers: &HeaderMap) -> Vec<HeaderName> {
    members(headers, &CONNECTION).filter_map(|member| HeaderName::from_bytes(member).ok()).collect()
}

/// The members of a list, which may have several lines.
fn members<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    let lines = headers.get_all(name).iter();
    lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

fn accepts_trailers(headers: &HeaderMap) -> bool {
    members(headers, &TE).any(|member| member.eq_ignore_ascii_case(b"trailers"))
}

/// The protocol to which a request asks to switch; `None` if it asks for none, or for `h2c`: a tunnel of HTTP/2 would carry
/// requests that nobody checks.
pub(crate) fn upgrade_of(headers: &HeaderMap) -> Option<HeaderValue> {
    let is_asked = members(headers, &CONNECTION).any(|member| member.eq_ignore_ascii_case(b"upgrade"));
    let mut protocols = headers.get_all(UPGRADE).iter();
    let (Some(protocol), None, true) = (protocols.next(), protocols.next(), is_asked) else { return None };
    let is_http = |name: &[u8]| name.len() >= 2 && name[..2].eq_ignore_ascii_case(b"h2");
    let is_allowed = !members(headers, &UPGRADE).any(|name| is_http(name) || name.is_empty());
    is_allowed.then(|| protocol.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let lines = lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        let mut headers = HeaderMap::new();
        lines.for_each(|(name, value): (_, HeaderValue)| _ = headers.append(name, value));
        headers
    }

    fn left(lines: &[(&'static str, &str)]) -> Vec<String> {
        let mut headers = headers(lines);
        remove_from_request(&mut headers);
        let mut left: Vec<String> = headers.keys().map(|name| name.to_string()).collect();
        left.sort();
        left
    }

    #[test]
    fn fields_of_the_connection_and_those_it_names_are_removed() {
        assert_eq!(
            left(&[
                ("connection", "close, X-One"),
                ("connection", "x-two,host, content-length"),
                ("x-one", "1"),
                ("x-two", "2"),
                ("x-three", "3"),
                ("host", "h"),
                ("content-length", "0"),
                ("keep-alive", "timeout=5"),
                ("proxy-authorization", "Basic x"),
                ("proxy-connection", "close"),
                ("upgrade", "h2c"),
                ("http2-settings", "x"),
                ("trailer", "x-sum"),
            ]),
            ["content-length", "host", "trailer", "x-three"]
        );
    }

    #[test]
    fn te_keeps_trailers_alone() {
        let mut fields = headers(&[("te", "gzip;q=0.5, Trailers"), ("connection", "te")]);
        remove_from_request(&mut fields);
        assert_eq!(fields[TE], "trailers");
        assert_eq!(left(&[("te", "gzip"), ("connection", "te")]), [""; 0]);
    }

    #[test]
    fn upgrade_needs_both_fields_and_is_never_http() {
        let upgrade = |protocol: &str, connection: &str| {
            upgrade_of(&headers(&[("upgrade", protocol), ("connection", connection)]))
        };
        assert_eq!(upgrade("websocket", "keep-alive, Upgrade").unwrap(), "websocket");
        for (protocol, connection) in [
            ("websocket", "keep-alive"),
            ("h2c", "upgrade"),
            ("H2C", "upgrade, http2-settings"),
            ("websocket, h2c", "upgrade"),
            ("", "upgrade"),
        ] {
            assert_eq!(upgrade(protocol, connection), None, "{protocol} {connection}");
        }
    }
}
