//! WebSocket over HTTP/2 (RFC 8441). The extended CONNECT of a client is, for an origin, the upgrade of HTTP/1.1 (RFC 6455, section
//! 4): that has a key, which its answer must match, so that it comes from a server of WebSocket and from no store.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_LENGTH, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};
use hyper::ext::Protocol;
use sha1::{Digest, Sha1};

/// The name of the protocol in `Upgrade` and in `:protocol`.
pub(crate) const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");

/// What is appended to a key before it is hashed (RFC 6455, section 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Fields of the answer that belong to the upgrade. A response to CONNECT has no length.
const OF_UPGRADE: [HeaderName; 3] = [UPGRADE, SEC_WEBSOCKET_ACCEPT, CONTENT_LENGTH];

/// Whether a request is a CONNECT for WebSocket. Only in HTTP/2 a CONNECT can name a protocol.
pub(crate) fn is_connect(head: &Parts) -> bool {
    let protocol = head.extensions.get::<Protocol>();
    head.method == Method::CONNECT
        && protocol
            .is_some_and(|protocol| protocol.as_str().as_bytes().eq_ignore_ascii_case(WEBSOCKET.as_bytes()))
}

/// The handshake of one upgrade.
#[derive(Debug)]
pub(crate) struct Handshake {
    /// What the answer must have in `Sec-WebSocket-Accept`.
    accept: String,
}

impl Handshake {
    /// Gives a request a key of its own: a client of HTTP/2 has none.
    pub(crate) fn begin(request: &mut HeaderMap) -> Handshake {
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).expect("the system has random bytes");
        let key = STANDARD.encode(nonce);
        let accept = accept_of(&key);
        request.insert(SEC_WEBSOCKET_KEY, HeaderValue::try_from(key).expect("base64 is ASCII"));
        Handshake { accept }
    }

    /// Whether an origin that has switched protocols speaks WebSocket from now on.
    pub(crate) fn is_accepted_by(&self, response: &HeaderMap) -> bool {
        let only = |name| {
            let mut lines = response.get_all(name).iter();
            lines.next().filter(|_| lines.next().is_none())
        };
        only(UPGRADE).is_some_and(|line| line.as_bytes().eq_ignore_ascii_case(WEBSOCKET.as_bytes()))
            && only(SEC_WEBSOCKET_ACCEPT).is_some_and(|line| line.as_bytes() == self.accept.as_bytes())
    }
}

/// Removes from the answer of an origin what a client of HTTP/2 does not get.
pub(crate) fn remove_upgrade(response: &mut HeaderMap) {
    OF_UPGRADE.iter().for_each(|name| drop(response.remove(name)));
}

fn accept_of(key: &str) -> String {
    STANDARD.encode(Sha1::digest([key, GUID].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_has_the_answer_of_the_rfc() {
        // RFC 6455, section 1.3.
        assert_eq!(accept_of("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn each_handshake_has_its_own_key_and_replaces_that_of_the_client() {
        let keys: Vec<HeaderValue> = (0..3)
            .map(|_| {
                let mut request = HeaderMap::from_iter([(SEC_WEBSOCKET_KEY, HeaderValue::from_static("x"))]);
                Handshake::begin(&mut request);
                assert_eq!(request.get_all(SEC_WEBSOCKET_KEY).iter().count(), 1);
                request[SEC_WEBSOCKET_KEY].clone()
            })
            .collect();
        assert!(keys.iter().all(|key| key.len() == 24));
        assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2], "{keys:?}");
    }

    #[test]
    fn answer_must_match_the_key_and_name_the_protocol() {
        let mut request = HeaderMap::new();
        let handshake = Handshake::begin(&mut request);
        let accept = &*accept_of(request[SEC_WEBSOCKET_KEY].to_str().unwrap());
        for (lines, expected) in [
            (&[("upgrade", "WebSocket"), ("sec-websocket-accept", accept)][..], true),
            (&[("sec-websocket-accept", accept)], false),
            (&[("upgrade", "websocket")], false),
            (&[("upgrade", "other"), ("sec-websocket-accept", accept)], false),
            (&[("upgrade", "websocket"), ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")], false),
            (
                &[
                    ("upgrade", "websocket"),
                    ("sec-websocket-accept", accept),
                    ("sec-websocket-accept", accept),
                ],
                false,
            ),
        ] {
            let mut response = HeaderMap::new();
            for (name, line) in lines {
                response.append(*name, HeaderValue::from_str(line).unwrap());
            }
            assert_eq!(handshake.is_accepted_by(&response), expected, "{lines:?}");
        }
    }
}
