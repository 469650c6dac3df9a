//! The fields that a response varies by.

use http::header::{AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION, VARY};
use http::{HeaderMap, HeaderName};

use crate::headers::control::list_members;
use crate::status::Reason;

/// Fields that a response may vary by.
const MAX_FIELDS: usize = 16;

/// The fields that `Vary` names: sorted, each once; empty when the response does not vary.
///
/// # Errors
/// `VaryAny` or `VaryTooWide`: such a response is not stored.
pub(crate) fn parse_vary(response: &HeaderMap) -> Result<Box<[HeaderName]>, Reason> {
    let mut names = Vec::new();
    for line in response.get_all(VARY) {
        for member in list_members(line.as_bytes()) {
            if member == b"*" {
                return Err(Reason::VaryAny);
            }
            // No request can have a field with an invalid name, so the variants cannot be distinguished.
            let name = HeaderName::from_bytes(member).map_err(|_| Reason::VaryAny)?;
            names.push(name);
        }
    }
    names.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
    names.dedup();
    if names.len() > MAX_FIELDS { Err(Reason::VaryTooWide) } else { Ok(names.into()) }
}

/// # Errors
/// `VaryCredentials`: the response varies by who asks.
pub(crate) fn check_credentials(vary: &[HeaderName]) -> Result<(), Reason> {
    let is_credential = |name: &HeaderName| [COOKIE, AUTHORIZATION, PROXY_AUTHORIZATION].contains(name);
    if vary.iter().any(is_credential) { Err(Reason::VaryCredentials) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn vary_fields_are_sorted_and_unique() {
        let names = parse_vary(&map(&[("vary", "X-B, accept,"), ("vary", "x-b")])).unwrap();
        assert_eq!(&names[..], [HeaderName::from_static("accept"), HeaderName::from_static("x-b")]);
        assert!(parse_vary(&HeaderMap::new()).unwrap().is_empty());
    }

    #[test]
    fn unusable_vary_is_rejected() {
        assert_eq!(parse_vary(&map(&[("vary", "accept, *")])), Err(Reason::VaryAny));
        assert_eq!(parse_vary(&map(&[("vary", "a b")])), Err(Reason::VaryAny));
        for credentials in ["Accept, COOKIE", "authorization"] {
            let vary = parse_vary(&map(&[("vary", credentials)])).unwrap();
            assert_eq!(check_credentials(&vary), Err(Reason::VaryCredentials));
        }
        assert_eq!(
            parse_vary(&map(&[("vary", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q")])),
            Err(Reason::VaryTooWide)
        );
    }
}
