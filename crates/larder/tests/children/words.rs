//! The words of the lines: a text is any UTF-8, and a word has neither spaces nor line ends.

use std::time::Duration;

/// Nothing is there.
pub(crate) const NOTHING: &str = "-";
/// What is there is null.
pub(crate) const NULL: &str = "n";
pub(crate) const YES: &str = "yes";

/// A text as a word.
pub(crate) fn word(text: &str) -> String {
    let mut word = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => word.push(byte.into()),
            _ => word.push_str(&format!("%{byte:02X}")),
        }
    }
    word
}

/// The text of a word.
///
/// # Panics
/// If it is not one.
pub(crate) fn text(word: &str) -> String {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((plain, encoded)) = rest.split_once('%') {
        bytes.extend_from_slice(plain.as_bytes());
        bytes.push(u8::from_str_radix(&encoded[..2], 16).expect("two hexadecimal digits"));
        rest = &encoded[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).expect("UTF-8")
}

/// An option whose value is a text.
pub(crate) fn option(name: &str, text: &str) -> String {
    format!("{name}={}", word(text))
}

/// An option whose value is a time.
pub(crate) fn time(name: &str, time: Duration) -> String {
    format!("{name}={}ms", time.as_millis())
}

#[test]
fn any_text_is_a_word() {
    for any in ["", " ", "a b", "a\r\nb", "\0", "größe", "鍵", "100%", "a=b", "%41", "t-._~"] {
        let encoded = word(any);
        assert!(!encoded.contains([' ', '\n', '=']), "{encoded}");
        assert_eq!(text(&encoded), any);
    }
}
