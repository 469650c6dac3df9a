//! The target of a request: one scheme, one host, one path. All servers on the way must see the same one.

use crate::fields::refusal::Refusal;
use http::header::HOST;
use http::uri::{Authority, Parts, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Uri, Version};

/// Makes the target absolute, and `Host` equal to it. `fallback` is the host of a request of HTTP/1.0 that names none.
///
/// # Errors
/// The request names no host, an invalid one, or two.
pub(crate) fn make_absolute(
    uri: &mut Uri,
    headers: &mut HeaderMap,
    version: Version,
    scheme: Scheme,
    fallback: &Authority,
) -> Result<(), Refusal> {
    let authority = authority_of(uri, headers, version)?.unwrap_or_else(|| fallback.clone());
    let authority = in_one_form(authority, &scheme);
    if headers.get(HOST).is_none_or(|host| host != authority.as_str()) {
        let host = HeaderValue::from_str(authority.as_str());
        headers.insert(HOST, host.map_err(|_| Refusal::bad_request("the host is not valid"))?);
    }
    // `OPTIONS *` is about the server as a whole: it has no absolute form.
    if uri.path() == "*" {
        *uri = Uri::from_static("*");
        return Ok(());
    }
    let mut parts = Parts::default();
    parts.scheme = Some(scheme);
    parts.authority = Some(authority);
    parts.path_and_query = Some(match uri.path_and_query() {
        Some(path) if path.as_str().starts_with('/') => path.clone(),
        // RFC 9112, section 3.2.1: an empty path is sent as `/`, which this type has as its text.
        Some(path) if path.as_str().starts_with('?') => path.to_string().parse().unwrap_or(root()),
        Some(_) => return Err(Refusal::bad_request("the target is not valid")),
        None => root(),
    });
    *uri = Uri::from_parts(parts).map_err(|_| Refusal::bad_request("the target is not valid"))?;
    Ok(())
}

/// A host in the form in which the cache compares it: in lower case, and without the port that its scheme has anyway (RFC 9110, section
/// 4.2.3). An origin that takes another spelling for another host would choose the response of all.
fn in_one_form(authority: Authority, scheme: &Scheme) -> Authority {
    let text = authority.as_str();
    let default_port = if *scheme == Scheme::HTTPS { ":443" } else { ":80" };
    let host = text.strip_suffix(default_port).or(text.strip_suffix(':')).unwrap_or(text);
    if host.len() == text.len() && !text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return authority;
    }
    host.to_ascii_lowercase().parse().unwrap_or(authority)
}

fn root() -> PathAndQuery {
    PathAndQuery::from_static("/")
}

/// The host of the request; `None` if it names none and need not (RFC 9112, section 3.2).
fn authority_of(uri: &Uri, headers: &HeaderMap, version: Version) -> Result<Option<Authority>, Refusal> {
    let mut lines = headers.get_all(HOST).iter();
    let (host, second) = (lines.next(), lines.next());
    if second.is_some() {
        return Err(Refusal::bad_request("Host occurs more than once"));
    }
    let host = host.map(parse).transpose()?;
    match (uri.authority(), host) {
        (Some(target), _) if target.as_str().contains('@') => {
            Err(Refusal::bad_request("the target has a user name"))
        }
        (Some(target), Some(host)) if !host.as_str().eq_ignore_ascii_case(target.as_str()) => {
            Err(Refusal::bad_request("Host differs from the target"))
        }
        // A request of HTTP/2 has no Host if it has an authority (RFC 9113, section 8.3.1).
        (Some(target), host) if host.is_some() || version >= Version::HTTP_2 => Ok(Some(target.clone())),
        (_, Some(host)) => Ok(Some(host)),
        (_, None) if version == Version::HTTP_10 => Ok(uri.authority().cloned()),
        (_, None) => Err(Refusal::bad_request("Host is missing")),
    }
}

fn parse(value: &HeaderValue) -> Result<Authority, Refusal> {
    let authority = Authority::try_from(value.as_bytes()).ok();
    // A port that is no number up to 65535, and a list of hosts, would be read in two ways.
    let is_valid = |own: &Authority| {
        !own.as_str().contains(['@', ','])
            && !own.host().is_empty()
            && (own.port().is_some() || own.as_str() == own.host())
    };
    authority.filter(is_valid).ok_or(Refusal::bad_request("Host is not valid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn absolute(target: &str, hosts: &[&str], version: Version) -> Result<String, &'static str> {
        let mut uri = target.parse().unwrap();
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, host.parse().unwrap());
        }
        let fallback = Authority::from_static("origin:1");
        make_absolute(&mut uri, &mut headers, version, Scheme::HTTP, &fallback)
            .map_err(|refusal| refusal.reason)?;
        assert_eq!(headers.get_all(HOST).iter().count(), 1);
        Ok(format!("{uri} {}", headers[HOST].to_str().unwrap()))
    }

    #[test]
    fn one_host_becomes_the_authority() {
        for (target, hosts, version, expected) in [
            ("/a?b", &["h:1"][..], Version::HTTP_11, "http://h:1/a?b h:1"),
            ("http://H:80/a", &["h:80"], Version::HTTP_11, "http://h/a h"),
            ("http://h?q", &["h"], Version::HTTP_11, "http://h/?q h"),
            ("https://h/a", &[], Version::HTTP_2, "http://h/a h"),
            ("/a", &[], Version::HTTP_10, "http://origin:1/a origin:1"),
            ("//x/a", &["h"], Version::HTTP_11, "http://h//x/a h"),
            ("*", &["h"], Version::HTTP_11, "* h"),
            ("/", &["[::1]:80"], Version::HTTP_11, "http://[::1]/ [::1]"),
            ("/", &["h:443"], Version::HTTP_11, "http://h:443/ h:443"),
        ] {
            assert_eq!(absolute(target, hosts, version).as_deref(), Ok(expected), "{target}");
        }
    }

    #[test]
    fn no_host_two_hosts_and_invalid_hosts_are_refused() {
        for (target, hosts, version) in [
            ("/", &[][..], Version::HTTP_11),
            ("http://h/", &[], Version::HTTP_11),
            ("/", &["a", "b"], Version::HTTP_11),
            ("/", &["a", "a"], Version::HTTP_10),
            ("http://a/", &["b"], Version::HTTP_11),
            ("http://a:80/", &["a"], Version::HTTP_11),
            ("http://u@a/", &["a"], Version::HTTP_11),
            ("https://a/", &["b"], Version::HTTP_2),
            ("/", &[""], Version::HTTP_11),
            ("/", &["u@a"], Version::HTTP_11),
            ("/", &["a:99999"], Version::HTTP_11),
            ("/", &["a b"], Version::HTTP_11),
            ("/", &["a/b"], Version::HTTP_11),
            ("/", &["a,b"], Version::HTTP_11),
        ] {
            assert!(absolute(target, hosts, version).is_err(), "{target} {hosts:?} {version:?}");
        }
    }
}
