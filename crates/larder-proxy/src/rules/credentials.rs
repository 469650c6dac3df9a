//! The credentials of a request that a rule names: what the gate sees of it.

use http::header::{COOKIE, HeaderName};
use http::{HeaderMap, HeaderValue};

/// The names of the credentials. They are all that the gate sees, so all that it may decide by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(super) cookies: Vec<String>,
    pub(super) headers: Vec<HeaderName>,
}

impl Credentials {
    /// Whether a request has one of them.
    pub(crate) fn are_in(&self, request: &HeaderMap) -> bool {
        self.headers.iter().any(|name| request.contains_key(name))
            || self.cookies_of(request).next().is_some()
    }

    /// Copies them from a request into another one, in the order of the request.
    pub(crate) fn copy(&self, request: &HeaderMap, into: &mut HeaderMap) {
        for name in &self.headers {
            for value in request.get_all(name) {
                into.append(name, value.clone());
            }
        }
        let cookies: Vec<&[u8]> = self.cookies_of(request).collect();
        if !cookies.is_empty() {
            let line =
                HeaderValue::from_bytes(&cookies.join(&b"; "[..])).expect("parts of a value are valid");
            into.insert(COOKIE, line);
        }
    }

    /// The cookies with the names, each with its value. Names are case-sensitive.
    fn cookies_of<'a>(&'a self, request: &'a HeaderMap) -> impl Iterator<Item = &'a [u8]> {
        let lines = request.get_all(COOKIE).iter().map(HeaderValue::as_bytes);
        let cookies = lines.flat_map(|line| line.split(|byte| *byte == b';')).map(<[u8]>::trim_ascii);
        cookies.filter(|cookie| {
            let name = cookie.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
            cookie.contains(&b'=') && self.cookies.iter().any(|own| own.as_bytes() == name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(
        cookies: &[&str],
        headers: &[&'static str],
        lines: &[(&'static str, &'static str)],
    ) -> Vec<String> {
        let credentials = Credentials {
            cookies: cookies.iter().map(|name| (*name).to_owned()).collect(),
            headers: headers.iter().map(|name| HeaderName::from_static(name)).collect(),
        };
        let mut request = HeaderMap::new();
        for (name, value) in lines {
            request.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let mut into = HeaderMap::new();
        credentials.copy(&request, &mut into);
        assert_eq!(credentials.are_in(&request), !into.is_empty());
        into.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
    }

    #[test]
    fn only_named_credentials_are_copied() {
        let lines = [
            ("cookie", "theme=dark; session=a=b;session=\"c\" ; Session=d; session"),
            ("authorization", "Bearer x"),
            ("x-key", "1"),
            ("x-key", "2"),
            ("accept", "*/*"),
        ];
        assert_eq!(copied(&["session"], &[], &lines), ["cookie: session=a=b; session=\"c\""]);
        assert_eq!(
            copied(&[], &["x-key", "authorization"], &lines),
            ["x-key: 1", "x-key: 2", "authorization: Bearer x"]
        );
        assert_eq!(copied(&["sess"], &["x-other"], &lines), [""; 0]);
        assert_eq!(
            copied(&["session"], &[], &[("cookie", "theme=dark"), ("cookie", "session=1")]),
            ["cookie: session=1"]
        );
    }
}
