//! Field values that end in a number of seconds. Those of the first hour are made once, so that a hit neither formats nor
//! allocates them.

use std::sync::OnceLock;

use http::HeaderValue;

const MINUTES: usize = 60;

/// The values of one field: a text, followed by a number of seconds.
pub(crate) struct SecondsValues {
    prefix: &'static str,
    /// The values of each minute of the first hour, made when one of them is needed.
    minutes: [OnceLock<Box<[HeaderValue; 60]>>; MINUTES],
}

impl SecondsValues {
    /// `prefix` is visible ASCII.
    pub(crate) const fn new(prefix: &'static str) -> SecondsValues {
        SecondsValues { prefix, minutes: [const { OnceLock::new() }; MINUTES] }
    }

    pub(crate) fn value(&'static self, seconds: u64) -> HeaderValue {
        let (minute, second) = (seconds / 60, seconds % 60);
        match self.minutes.get(minute.try_into().unwrap_or(MINUTES)) {
            Some(values) => values.get_or_init(|| self.make_minute(minute))[second as usize].clone(),
            None => self.text(seconds).try_into().expect("the prefix is visible ASCII"),
        }
    }

    /// The texts are never freed: unlike others, the copies of a static value do not share a count of references.
    #[cold]
    fn make_minute(&self, minute: u64) -> Box<[HeaderValue; 60]> {
        let value = |second| HeaderValue::from_static(self.text(60 * minute + second as u64).leak());
        Box::new(std::array::from_fn(value))
    }

    fn text(&self, seconds: u64) -> String {
        format!("{}{seconds}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_the_prefix_and_the_number() {
        static NUMBERS: SecondsValues = SecondsValues::new("");
        static HITS: SecondsValues = SecondsValues::new("larder; hit; ttl=");
        for (prefix, values) in [("", &NUMBERS), ("larder; hit; ttl=", &HITS)] {
            for seconds in (0..=3_661).chain([u64::MAX, 0, 59, 60, 3_599]) {
                assert_eq!(values.value(seconds), format!("{prefix}{seconds}"));
            }
        }
    }
}
