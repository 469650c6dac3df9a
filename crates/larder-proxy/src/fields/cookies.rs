//! `Cookie` in one line. A client of HTTP/2 may send each cookie in a line of its own, which servers of HTTP/1.1 do not expect
//! (RFC 9113, section 8.2.3).

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};

/// Joins all lines.
pub(crate) fn join(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let lines: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    let joined = HeaderValue::from_bytes(&lines.join(&b"; "[..])).expect("valid values make a valid line");
    headers.insert(COOKIE, joined);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_one() {
        let mut headers = HeaderMap::new();
        for line in ["a=1", "b=2; c=3"] {
            headers.append(COOKIE, HeaderValue::from_static(line));
        }
        join(&mut headers);
        assert_eq!(headers.get_all(COOKIE).iter().collect::<Vec<_>>(), ["a=1; b=2; c=3"]);
    }
}
