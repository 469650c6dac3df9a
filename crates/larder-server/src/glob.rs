//! The patterns of `KEYS`, `SCAN` and `CONFIG GET`: `*`, `?`, `[a-z]`, `[^a]` and backslashes, on bytes.
//!
//! Without recursion: on a mismatch only the last `*` takes one byte more, so a hostile pattern costs at most the
//! product of the two lengths, never the exponential time of a naive matcher.

/// Whether all of `text` matches `pattern`.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (pattern, text);
    // Pattern behind the last star, and the text from which it is tried next.
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
        match (step(p, t), p.is_empty() && t.is_empty()) {
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

/// Matches one byte against one element of the pattern that is not a star, and returns what is left of both.
fn step<'p, 't>(pattern: &'p [u8], text: &'t [u8]) -> Option<(&'p [u8], &'t [u8])> {
    let (byte, text) = text.split_first()?;
    let (hit, pattern) = match pattern {
        [] => return None,
        [b'?', rest @ ..] => (true, rest),
        [b'[', rest @ ..] => class(rest, *byte),
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (literal == byte, rest),
    };
    hit.then_some((pattern, text))
}

/// Matches `byte` against a class whose `[` is already read; an unclosed class ends with the pattern, as in Redis.
fn class(mut pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    let negated = matches!(pattern, [b'^', ..]);
    if negated {
        pattern = &pattern[1..];
    }
    let mut hit = false;
    loop {
        pattern = match pattern {
            [] => break,
            [b']', rest @ ..] => {
                pattern = rest;
                break;
            }
            [b'\\', literal, rest @ ..] => {
                hit |= *literal == byte;
                rest
            }
            [from, b'-', to, rest @ ..] => {
                hit |= (*from.min(to)..=*from.max(to)).contains(&byte);
                rest
            }
            [literal, rest @ ..] => {
                hit |= *literal == byte;
                rest
            }
        }
    }
    (hit != negated, pattern)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_of_redis() {
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
    fn a_hostile_pattern_ends_soon() {
        let pattern = "a*".repeat(2_000) + "b";
        assert!(!matches(pattern.as_bytes(), &vec![b'a'; 4_000]));
    }
}
