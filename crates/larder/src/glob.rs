//! Globs with the syntax of Redis: `*`, `?`, `[abc]`, `[^a-c]`, and `\` before a literal character.

/// Whether the whole text matches. Cost: at most the product of both lengths.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // The positions to retry from if the pattern after the last star does not match here.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            retry = Some((at + 1, from));
            at += 1;
        } else if at == pattern.len() && from == text.len() {
            return true;
        } else if let Some(next) = text.get(from).and_then(|byte| one(pattern, at, *byte)) {
            (at, from) = (next, from + 1);
        } else {
            let Some((behind, start)) = retry.filter(|(_, start)| *start < text.len()) else { return false };
            retry = Some((behind, start + 1));
            (at, from) = (behind, start + 1);
        }
    }
}

/// A pattern that matches this text only.
pub(crate) fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

/// Matches one byte. Returns the next position in the pattern.
fn one(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    match *pattern.get(at)? {
        b'?' => Some(at + 1),
        b'\\' if at + 1 < pattern.len() => (pattern[at + 1] == byte).then_some(at + 2),
        b'[' => class(pattern, at + 1, byte),
        literal => (literal == byte).then_some(at + 1),
    }
}

fn class(pattern: &[u8], mut at: usize, byte: u8) -> Option<usize> {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    while at < pattern.len() && pattern[at] != b']' {
        if pattern[at] == b'\\' && at + 1 < pattern.len() {
            at += 1;
        }
        match (pattern.get(at + 1), pattern.get(at + 2)) {
            (Some(b'-'), Some(last)) if *last != b']' => {
                let (low, high) = (pattern[at].min(*last), pattern[at].max(*last));
                found |= (low..=high).contains(&byte);
                at += 3;
            }
            _ => {
                found |= pattern[at] == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some((at + 1).min(pattern.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_text_matches_itself_only() {
        let text = r"a*b?[c-d]\";
        assert!(matches(escaped(text).as_bytes(), text.as_bytes()));
        assert!(!matches(escaped("a*").as_bytes(), b"ab"));
    }

    #[test]
    fn glob_matches_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "anything", true),
            ("user:*", "user:7", true),
            ("user:*", "users", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            (r"a\*", "a*", true),
            (r"a\*", "ab", false),
            ("[", "[", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_match_in_bounded_time() {
        assert!(!matches("*a".repeat(50).as_bytes(), "a".repeat(40).as_bytes()));
    }
}
