//! The form of a path in which rules compare it.
//!
//! A service may take `/a%63count`, `//account` and `/x/../account` for `/account`. If a rule did not, a client could choose
//! whether it applies.

use std::borrow::Cow;

/// The path with its escapes decoded, without empty segments, and without `.` and `..` (RFC 3986, sections 5.2.4 and 6.2.2). Only
/// an unusual path is copied.
pub(super) fn canonical(path: &str) -> Cow<'_, [u8]> {
    let bytes = path.as_bytes();
    let is_unusual = |pair: &[u8]| pair[0] == b'/' && matches!(pair[1], b'/' | b'.');
    if !bytes.contains(&b'%') && !bytes.windows(2).any(is_unusual) {
        return Cow::Borrowed(bytes);
    }
    let decoded = decode(bytes);
    let mut segments: Vec<&[u8]> = Vec::new();
    for segment in decoded.split(|byte| *byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => _ = segments.pop(),
            _ => segments.push(segment),
        }
    }
    let last = decoded.rsplit(|byte| *byte == b'/').next();
    let mut canonical = vec![b'/'];
    canonical.extend_from_slice(&segments.join(&b'/'));
    if !segments.is_empty() && last.is_some_and(|last| matches!(last, b"" | b"." | b"..")) {
        canonical.push(b'/');
    }
    Cow::Owned(canonical)
}

/// Decodes the escapes once. What only looks like one stays as it is.
fn decode(bytes: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [byte, after @ ..] = rest {
        let escaped = match after {
            [high, low, ..] if *byte == b'%' => digit(*high).zip(digit(*low)),
            _ => None,
        };
        decoded.push(escaped.map_or(*byte, |(high, low)| (high << 4 | low) as u8));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_one_resource_have_one_form() {
        for (path, expected) in [
            ("/account", "/account"),
            ("/", "/"),
            ("*", "*"),
            ("/a%63count", "/account"),
            ("//account", "/account"),
            ("/./account", "/account"),
            ("/x/../account", "/account"),
            ("/x/%2e%2E/account", "/account"),
            ("/x%2Faccount", "/x/account"),
            ("/../../account/", "/account/"),
            ("/account/.", "/account/"),
            ("/account/x/..", "/account/"),
            ("/account//", "/account/"),
            ("/..", "/"),
            ("/%", "/%"),
            ("/%4", "/%4"),
            ("/%2561", "/%61"),
            ("/a..b/.c", "/a..b/.c"),
            ("/caf%C3%A9", "/café"),
        ] {
            assert_eq!(canonical(path), expected.as_bytes(), "{path}");
        }
    }

    #[test]
    fn usual_path_is_not_copied() {
        assert!(matches!(canonical("/shop/a.b/c"), Cow::Borrowed(_)));
    }
}
