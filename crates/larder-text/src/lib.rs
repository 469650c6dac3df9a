//! What the texts of a configuration mean: sizes, times, switches, and the known name that a misspelt one was meant to be.
//!
//! Files, flags, environment variables and bindings all read them here, so that a text means the same everywhere.
//!
//! # Examples
//!
//! ```
//! use larder_text::{ByteSize, parse_switch, parse_time, similar};
//! use std::time::Duration;
//!
//! assert_eq!("64MiB".parse(), Ok(ByteSize(64 << 20)));
//! assert_eq!(parse_time("1.5h"), Some(Duration::from_secs(5_400)));
//! assert_eq!(parse_switch("true"), Some(true));
//! assert_eq!(similar("max-lagg", &["max_lag", "ttl"]), ["max_lag"]);
//! ```

mod decimal;
mod size;
mod time;

pub use size::{ByteSize, ByteSizeError};
pub use time::parse_time;

/// How similar two names must be, from 0 to 1: less than 0.75 are a letter and a name that has it.
const SIMILAR: f64 = 0.75;

/// The known names that are similar to a misspelt one, the most similar first. Case, and `-` for `_`, make no difference to the
/// known names, which are in lower case.
pub fn similar<'a>(name: &str, known: &[&'a str]) -> Vec<&'a str> {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let scored = known.iter().map(|known| (strsim::jaro(&name, known), *known));
    let mut similar: Vec<_> = scored.filter(|(score, _)| *score > SIMILAR).collect();
    similar.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    similar.into_iter().map(|(_, known)| known).collect()
}

/// Whether something is on: `true`, `yes`, `on` or `1`, or `false`, `no`, `off` or `0`, in any case. `None` for other texts.
pub fn parse_switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_come_in_order() {
        let known = ["ttl", "redis_key", "redis_user", "negative_ttl"];
        assert_eq!(similar("Redis-Usr", &known), ["redis_user", "redis_key"]);
        assert_eq!(similar("zzz", &known), [""; 0]);
        assert_eq!(similar("", &known), [""; 0]);
    }

    #[test]
    fn switch_is_a_word_or_a_digit() {
        for (text, switch) in
            [("True", Some(true)), ("off", Some(false)), ("0", Some(false)), ("", None), ("2", None)]
        {
            assert_eq!(parse_switch(text), switch, "{text}");
        }
    }
}
