//! The patterns of `KEYS`, `SCAN` and `CONFIG GET`: `*`, `?`, `[a-z]`, `[^a]` and backslashes, on bytes.
//!
//! The matcher does not recurse. On a mismatch it extends only the match of the last `*` by one byte. The time is at
//! most proportional to the product of the two lengths, and never exponential.

/// Whether all of `text` matches `pattern`.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (pattern, text);
    // The pattern after the last star, and the text at which its next attempt starts.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = p {
            retry = Some((rest, t));
            p = rest;
            if rest.is_empty() {
                return true;
            }
            continue;
        }
        match (match_one(p, t), p.is_empty() && t.is_empty()) {
            (_, true) => return true,
            (Some((next_p, next_t)), _) => (p, t) = (next_p, next_t),
            (None, _) => match retry {
                Some((after_star, [_, later @ ..])) => {
                    (p, t) = (after_star, later);
                    retry = Some((p, t));
                }
                _ => return false,
            },
        }
    }
}

/// Matches one byte against one element of the pattern other than a star. Returns the rest of both.
fn match_one<'p, 't>(pattern: &'p [u8], text: &'t [u8]) -> Option<(&'p [u8], &'t [u8])> {
    let (byte, text) = text.split_first()?;
    let (matched, pattern) = match pattern {
        [] => return None,
        [b'?', rest @ ..] => (true, rest),
        [b'[', rest @ ..] => match_class(rest, *byte),
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (literal == byte, rest),
    };
    matched.then_some((pattern, text))
}

/// Matches `byte` against a class, without its `[`. An unclosed class ends with the pattern, as in Redis.
fn match_class(mut pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    let negated = matches!(pattern, [b'^', ..]);
    if negated {
        pattern = &pattern[1..];
    }
    let mut matched = false;
    loop {
        pattern = match pattern {
            [] => break,
            [b']', rest @ ..] => {
                pattern = rest;
                break;
            }
            [b'\\', literal, rest @ ..] => {
                matched |= *literal == byte;
                rest
            }
            [from, b'-', to, rest @ ..] => {
                matched |= (*from.min(to)..=*from.max(to)).contains(&byte);
                rest
            }
            [literal, rest @ ..] => {
                matched |= *literal == byte;
                rest
            }
        }
    }
    (matched != negated, pattern)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn redis_patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a", "", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxbxx", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hbllo", true),
            ("[]a", "a", false),
            ("[^]a", "xa", true),
            ("[abc", "b", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("[\\]]", "]", true),
            ("a\\", "a\\", true),
            ("**", "abc", true),
            ("a**b", "a**c", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn pattern_of_many_stars_terminates() {
        let pattern = "a*".repeat(2_000) + "b";
        assert!(!matches(pattern.as_bytes(), &vec![b'a'; 4_000]));
    }
}
