//! `Max-Forwards` of TRACE and OPTIONS: how many more proxies may pass the request on (RFC 9110, section 7.6.2).

use http::header::{HeaderName, MAX_FORWARDS};
use http::{HeaderMap, HeaderValue, Method};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forwarding {
    /// It goes to the origin.
    Origin,
    /// The proxy is its last recipient and answers.
    Here,
}

/// Counts this proxy.
pub(crate) fn count(method: &Method, headers: &mut HeaderMap) -> Forwarding {
    if *method != Method::TRACE && *method != Method::OPTIONS {
        return Forwarding::Origin;
    }
    let left = headers.get(MAX_FORWARDS).and_then(|value| value.to_str().ok()?.trim().parse::<u64>().ok());
    match left {
        None => Forwarding::Origin,
        Some(0) => Forwarding::Here,
        Some(left) => {
            headers.insert(MAX_FORWARDS, HeaderValue::from(left - 1));
            Forwarding::Origin
        }
    }
}

/// Fields that the answer to a TRACE leaves out: a script could read its own credentials there (RFC 9110, section 9.3.8).
pub(crate) fn is_secret(name: &HeaderName) -> bool {
    ["authorization", "cookie", "proxy-authorization"].contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_recipient_answers_and_others_count_down() {
        let counted = |method: Method, value: &str| {
            let mut headers = HeaderMap::from_iter([(MAX_FORWARDS, value.parse().unwrap())]);
            let forwarding = count(&method, &mut headers);
            (forwarding, headers[MAX_FORWARDS].to_str().unwrap().to_owned())
        };
        assert_eq!(counted(Method::TRACE, "0"), (Forwarding::Here, "0".into()));
        assert_eq!(counted(Method::OPTIONS, "7"), (Forwarding::Origin, "6".into()));
        assert_eq!(counted(Method::OPTIONS, "x"), (Forwarding::Origin, "x".into()));
        assert_eq!(counted(Method::GET, "0"), (Forwarding::Origin, "0".into()));
    }
}
