//! What matches, compared with Redis, and how many steps it takes.

use super::*;
use larder_testkit::RedisServer;
use std::collections::BTreeSet;

fn matches(pattern: &[u8], text: &[u8]) -> bool {
    Pattern::new(pattern).expect("cheap").matches(text)
}

/// A linear congruential generator, whose high bits are good enough.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn bytes(&mut self, alphabet: &[u8], max: usize) -> Vec<u8> {
        let length = self.below(max + 1);
        (0..length).map(|_| alphabet[self.below(alphabet.len())]).collect()
    }
}

#[test]
fn patterns_match_as_in_redis() {
    for (pattern, text, expected) in [
        ("*", "", false),
        ("", "", true),
        ("", "a", false),
        ("a", "", false),
        ("*", "anything", true),
        ("**", "abc", true),
        ("a*", "a", true),
        ("*a", "a", true),
        ("a*a", "a", false),
        ("user:*", "user:7", true),
        ("user:*", "users", false),
        ("a*b*c", "axxbyyc", true),
        ("a*b*c", "axxbyy", false),
        ("a**b", "a**c", false),
        ("*literal bytes*", "some literal bytes here", true),
        ("*literal bytes*", "some literal byte here", false),
        ("h?llo", "hello", true),
        ("h?llo", "hllo", false),
        ("h[ae]llo", "hallo", true),
        ("h[^e]llo", "hello", false),
        ("h[a-c]llo", "hbllo", true),
        ("h[c-a]llo", "hbllo", true),
        ("[]a", "a", false),
        ("[^]a", "xa", true),
        ("[abc", "b", true),
        (r"a\*", "a*", true),
        (r"a\*", "ab", false),
        (r"a\", r"a\", true),
        ("[", "[", false),
        ("[^", "a", true),
        ("[a-]", "_", true),
        ("[a-]b", "_", true),
        (r"[\a-c]", "b", false),
        (r"[\a-c]", "-", true),
        (r"[\]a]", "]", true),
        (r"[\", r"\", true),
    ] {
        assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
    }
}

#[test]
fn ranges_compare_signed_bytes() {
    for (byte, expected) in
        [(b'a', true), (b'b', false), (0xe9, true), (0xe8, false), (0xff, true), (0, true)]
    {
        assert_eq!(matches(b"[a-\xe9]", &[byte]), expected, "{byte}");
        assert_eq!(matches(b"[^a-\xe9]", &[byte]), !expected, "{byte}");
    }
}

#[test]
fn case_is_ignored_as_in_redis() {
    for (pattern, text, expected) in [
        ("MAX*", "maxmemory", true),
        ("max*", "MAXMEMORY", true),
        ("[M-N]ax", "max", true),
        (r"[\M]ax", "max", false),
        (r"\Max", "max", true),
        // From `Z` to `a` is a range, and from `z` to `a` is none.
        ("[Z-a]", "a", false),
        ("a[^B]", "ab", false),
    ] {
        let compiled = Pattern::ignoring_case(pattern.as_bytes()).expect("cheap");
        assert_eq!(compiled.matches(text.as_bytes()), expected, "{pattern} {text}");
    }
}

#[test]
fn escaped_text_matches_itself_only() {
    let text = r"a*b?[c-d]\";
    assert!(matches(escape(text).as_bytes(), text.as_bytes()));
    assert!(!matches(escape("a*").as_bytes(), b"ab"));
}

#[test]
fn portable_pattern_has_classes_of_ascii_only() {
    for pattern in ["[a-é]", "[^a-é]", "[é-z]", "[é]", r"[\é]", "[^é", "x*[ab-ü]"] {
        let refused = Pattern::portable(pattern.as_bytes()).map(drop);
        assert_eq!(refused, Err(PatternError::ClassBeyondAscii), "{pattern}");
        assert!(Pattern::new(pattern.as_bytes()).is_ok(), "{pattern}");
    }
    for pattern in ["é*", "[a-z]é?", r"\[é]", "é[^a]"] {
        assert!(Pattern::portable(pattern.as_bytes()).is_ok(), "{pattern}");
    }
}

#[test]
fn expensive_patterns_are_refused() {
    let too_long = "?".repeat(MAX_SEARCHED_ELEMENTS + 1);
    for (pattern, expected) in [
        ("a*".repeat(MAX_STARS), None),
        ("a*".repeat(MAX_STARS + 1), Some(PatternError::TooManyStars)),
        ("[a]".repeat(MAX_CLASSES), None),
        ("[a]".repeat(MAX_CLASSES + 1), Some(PatternError::TooManyClasses)),
        (format!("*{too_long}*"), Some(PatternError::TooLongBetweenStars)),
        (format!("*{}*", &too_long[1..]), None),
        (format!("{too_long}*{too_long}"), None),
        (format!("*{}*", "a".repeat(100_000)), None),
        ("*".repeat(100_000), None),
    ] {
        let start: String = pattern.chars().take(9).collect();
        assert_eq!(Pattern::new(pattern.as_bytes()).map(drop).err(), expected, "{start}");
    }
}

#[test]
fn every_search_finds_what_comparing_at_each_position_finds() {
    let mut random = Random(3);
    for round in 0..2_000 {
        // Few kinds of bytes, so that segments nearly match often.
        let text = random.bytes(b"aaaaaaab", 9_000);
        let length = 1 + random.below(if round % 2 == 0 { 9 } else { 140 });
        let start = random.below(text.len() + 1);
        let mut elements: Vec<u8> = text[start..].iter().copied().take(length).collect();
        elements.iter_mut().for_each(|byte| {
            *byte = if random.below(4) == 0 { b'?' } else { *byte };
        });
        if random.below(2) == 0 {
            elements.extend(random.bytes(b"ab?", 5));
        }
        let expected = text.windows(elements.len().max(1)).any(|window| {
            window.iter().zip(&elements).all(|(byte, element)| *element == b'?' || element == byte)
        });
        let pattern = [b"*", &elements[..], b"*"].concat();
        assert_eq!(
            matches(&pattern, &text),
            expected || elements.is_empty() && !text.is_empty(),
            "round {round}"
        );
    }
}

#[test]
fn steps_are_linear_in_the_text_whatever_the_pattern() {
    // Pairs that take a number of steps of the order of both lengths multiplied, if each position is compared.
    let (repeated, segment) = ("a".repeat(100_000), "a".repeat(100));
    let mixed = format!("?{segment}b");
    let longest = format!("?{}b", "a".repeat(MAX_SEARCHED_ELEMENTS - 2));
    let classes = format!("{}b", "[^b]".repeat(200));
    for pattern in [
        format!("*{}b", "a".repeat(50_000)),
        format!("*{}b*", "a".repeat(50_000)),
        format!("*b{}*", "a".repeat(50_000)),
        format!("*{segment}b*"),
        format!("*{mixed}*"),
        format!("*{longest}*"),
        format!("*{classes}*"),
        format!("*{longest}*{longest}*"),
        format!("*{}*{mixed}*", "?".repeat(MAX_SEARCHED_ELEMENTS)),
        "*a".repeat(900) + "b*",
        format!("*{}{mixed}*", "?a*".repeat(900)),
        "*a?a?a?b*".to_owned(),
        "*aaaab*".to_owned(),
    ] {
        let compiled = Pattern::new(pattern.as_bytes()).expect("cheap");
        let counted = |text: &str| {
            let mut steps = 0;
            assert!(!compiled.matches_counted(text.as_bytes(), &mut steps));
            steps
        };
        let start: String = pattern.chars().take(9).collect();
        let (steps, doubled) = (counted(&repeated), counted(&repeated.repeat(2)));
        assert!(steps <= 16 * repeated.len() as u64, "{start}: {steps} steps");
        assert!(doubled <= 2 * steps + 1_000, "{start}: {steps} steps, {doubled} for twice the text");
    }
}

#[test]
fn many_segments_that_nearly_match_take_a_bounded_number_of_steps() {
    // Each segment is searched with bits, and found behind a text in which it nearly matches at each position.
    let one = format!("{}?b", "a".repeat(200));
    let text = format!("{}b", "a".repeat(600)).repeat(900);
    let compiled = Pattern::new(format!("*{}*c", [one.as_str(); 900].join("*")).as_bytes()).expect("cheap");
    let mut steps = 0;
    assert!(!compiled.matches_counted((text.clone() + "d").as_bytes(), &mut steps));
    assert!(compiled.matches_counted((text.clone() + "c").as_bytes(), &mut steps));
    assert!(steps < 2 * 16 * text.len() as u64, "{steps} steps for two texts of {} bytes", text.len());
}

/// The keys that match in Redis. They come in hexadecimal, because they may have any byte.
fn keys_in_redis(server: &RedisServer, pattern: &[u8]) -> BTreeSet<Vec<u8>> {
    const SCRIPT: &str = "local keys = redis.call('KEYS', ARGV[1]) \
        for i, key in ipairs(keys) do keys[i] = key:gsub('.', function(c) return ('%02x'):format(c:byte()) end) end \
        return table.concat(keys, ' ')";
    let reply = server.command(&format!("EVAL \"{SCRIPT}\" 0 {}", quoted(pattern)));
    reply.lines().nth(1).unwrap_or_default().split_whitespace().map(unhex).collect()
}

/// A word of an inline command.
fn quoted(bytes: &[u8]) -> String {
    let escaped: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    format!("\"{escaped}\"")
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect(text), 16).expect(text)).collect()
}

#[test]
fn random_patterns_match_the_same_keys_as_in_redis() {
    const ALPHABET: &[u8] = b"abc^[]\\*?-_\x00\x7f\x80\xa9\xc3\xff";
    let Some(server) = RedisServer::start() else { return };
    let mut random = Random(7);
    let mut keys: BTreeSet<Vec<u8>> = ALPHABET.iter().map(|byte| vec![*byte]).collect();
    keys.extend((0..400).map(|_| random.bytes(ALPHABET, 4)));
    keys.extend((0..100).map(|_| random.bytes(b"ab", 24)));
    // An empty name has no digits to come back as.
    keys.remove(&b""[..]);
    keys.iter().for_each(|key| _ = server.command(&format!("SET {} 1", quoted(key))));
    for round in 0..4_000 {
        let pattern = match round % 4 {
            // Classes have the most rules.
            0 => [b"[", &random.bytes(ALPHABET, 7)[..]].concat(),
            1 => [b"*[", &random.bytes(ALPHABET, 7)[..], b"]*"].concat(),
            2 => random.bytes(b"aab**?", 12),
            _ => random.bytes(ALPHABET, 8),
        };
        // KEYS compares no key with a single star.
        if pattern == b"*" {
            continue;
        }
        let compiled = Pattern::new(&pattern).expect("cheap");
        let here: BTreeSet<Vec<u8>> = keys.iter().filter(|key| compiled.matches(key)).cloned().collect();
        assert_eq!(here, keys_in_redis(&server, &pattern), "{}", pattern.escape_ascii());
    }
}
