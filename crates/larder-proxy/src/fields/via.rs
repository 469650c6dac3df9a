//! The field `Via`: each proxy adds itself (RFC 9110, section 7.6.3), and finds itself there if a request comes round.

use http::header::VIA;
use http::{HeaderMap, HeaderValue, Version};
use std::sync::Arc;

/// The most proxies on the way of a request, this one included. A loop of proxies that do not know themselves ends there.
const MAX_PROXIES: usize = 32;

/// The name of this proxy in the `Via` of requests: no other one has it. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Pseudonym {
    own: Arc<str>,
}

impl Pseudonym {
    /// A name that no other proxy has.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn random() -> Result<Pseudonym, getrandom::Error> {
        Ok(Pseudonym { own: format!("larder-{:016x}", getrandom::u64()?).into() })
    }

    /// Adds this proxy to a request.
    pub(crate) fn add_to_request(&self, headers: &mut HeaderMap, version: Version) {
        add(headers, version, &self.own);
    }

    /// Whether a request was forwarded by this proxy, or by too many.
    pub(crate) fn is_loop(&self, headers: &HeaderMap) -> bool {
        let entries =
            || headers.get_all(VIA).iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
        let is_own = |entry: &[u8]| {
            let mut words = entry.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
            words.nth(1).is_some_and(|name| name.eq_ignore_ascii_case(self.own.as_bytes()))
        };
        entries().any(is_own) || entries().count() >= MAX_PROXIES
    }
}

/// Adds the proxy to a response.
pub(crate) fn add_to_response(headers: &mut HeaderMap, version: Version) {
    add(headers, version, "larder");
}

fn add(headers: &mut HeaderMap, version: Version, name: &str) {
    let protocol = match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2.0",
        _ => "1.1",
    };
    let entry = HeaderValue::from_str(&format!("{protocol} {name}"));
    headers.append(VIA, entry.expect("the name is a token"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_request_is_recognised_among_others() {
        let own = Pseudonym::random().unwrap();
        let mut headers = HeaderMap::new();
        headers.append(VIA, HeaderValue::from_static("1.1 larder, 2.0 other (note)"));
        assert!(!own.is_loop(&headers));
        own.add_to_request(&mut headers, Version::HTTP_11);
        assert!(own.is_loop(&headers));
        assert!(!Pseudonym::random().unwrap().is_loop(&headers));
    }

    #[test]
    fn endless_way_is_a_loop() {
        let own = Pseudonym::random().unwrap();
        let mut headers = HeaderMap::new();
        for _ in 0..MAX_PROXIES - 1 {
            headers.append(VIA, HeaderValue::from_static("1.1 other"));
        }
        assert!(!own.is_loop(&headers));
        headers.append(VIA, HeaderValue::from_static("1.1 other"));
        assert!(own.is_loop(&headers));
    }
}
