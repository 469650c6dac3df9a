//! Globs that match as in Redis: `*`, `?`, `[abc]`, `[^a-c]`, and `\` before a literal character. What Redis removes by a
//! glob, memory must remove too.

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

/// Matches one byte against a class, which starts after its `[` and ends at the latest with the pattern. An escaped byte
/// starts no range, and a `]` that ends a range does not end the class, as in Redis.
fn class(pattern: &[u8], mut at: usize, byte: u8) -> Option<usize> {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    loop {
        let (low, high, length) = match pattern[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', literal, ..] => (literal, literal, 2),
            [from, b'-', to, ..] => (from.min(to), from.max(to), 3),
            [literal, ..] => (literal, literal, 1),
        };
        found |= (low..=high).contains(&byte);
        at += length;
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_testkit::RedisServer;
    use std::collections::BTreeSet;

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
            ("[^", "a", true),
            ("[a-]", "_", true),
            ("[a-]b", "_", true),
            (r"[\a-c]", "b", false),
            (r"[\a-c]", "-", true),
            (r"[\]a]", "]", true),
            (r"[\", r"\", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn random_patterns_match_the_same_keys_as_in_redis() {
        const ALPHABET: &[u8] = br"abc^[]\*?-_";
        let Some(server) = RedisServer::start() else { return };
        let characters = || ALPHABET.iter().map(|byte| char::from(*byte));
        let one = characters().map(|first| format!("k{first}"));
        let two = characters().flat_map(|first| characters().map(move |second| format!("k{first}{second}")));
        let keys: BTreeSet<String> = one.chain(two).chain(["k".to_owned()]).collect();
        let pairs: String = keys.iter().map(|key| format!(" {key} 1")).collect();
        server.command(&format!("MSET{pairs}"));
        // A linear congruential generator, whose high bits are good enough.
        let mut state = 7_u64;
        let mut below = |end: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % end
        };
        for _ in 0..2_000 {
            // Half of them start with a class, which has the most rules.
            let start = if below(2) == 0 { "k" } else { "k[" };
            let length = below(8);
            let rest: String = (0..length).map(|_| char::from(ALPHABET[below(ALPHABET.len())])).collect();
            let pattern = format!("{start}{rest}");
            let reply = server.command(&format!("KEYS {pattern}"));
            let in_redis: BTreeSet<&str> = reply.lines().filter(|line| line.starts_with('k')).collect();
            let here = keys.iter().map(|key| &key[..]);
            let here: BTreeSet<_> = here.filter(|key| matches(pattern.as_bytes(), key.as_bytes())).collect();
            assert_eq!(here, in_redis, "{pattern}");
        }
    }

    #[test]
    fn many_stars_match_in_bounded_time() {
        assert!(!matches("*a".repeat(50).as_bytes(), "a".repeat(40).as_bytes()));
    }
}
