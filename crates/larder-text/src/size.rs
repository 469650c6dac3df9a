//! Numbers of bytes as texts.

use crate::decimal::Decimal;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::fmt;
use std::str::FromStr;

/// A number of bytes, written as a number or with a unit: as in Redis `k`, `m`, `g` are powers of 1,000 and `kb`, `mb`, `gb`
/// powers of 1,024, and so are `KiB`, `MiB`, `GiB`. Before a unit the number may have a fraction, of which whole bytes count.
///
/// ```
/// use larder_text::ByteSize;
/// assert_eq!("64mb".parse(), Ok(ByteSize(64 << 20)));
/// assert_eq!("1g".parse(), Ok(ByteSize(1_000_000_000)));
/// assert_eq!("1.5 GiB".parse(), Ok(ByteSize(3 << 29)));
/// assert!("64 apples".parse::<ByteSize>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// The text is not a [`ByteSize`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ByteSizeError {
    /// It is not a number with a unit.
    #[error(
        "'{0}' is not a size: write bytes, or a number such as 1.5 with k, kb, KiB, m, mb, MiB, g, gb or GiB"
    )]
    Syntax(String),
    /// It exceeds 2^64 − 1 bytes.
    #[error("'{0}' is too large: at most {max} bytes are possible", max = u64::MAX)]
    TooLarge(String),
}

impl FromStr for ByteSize {
    type Err = ByteSizeError;

    fn from_str(text: &str) -> Result<Self, ByteSizeError> {
        let syntax = || ByteSizeError::Syntax(text.to_owned());
        let number = Decimal::parse(text).ok_or_else(syntax)?;
        let factor: u64 = match number.unit.to_ascii_lowercase().as_str() {
            "" | "b" if number.has_fraction() => return Err(syntax()),
            "" | "b" => 1,
            "k" => 1_000,
            "kb" | "kib" => 1 << 10,
            "m" => 1_000_000,
            "mb" | "mib" => 1 << 20,
            "g" => 1_000_000_000,
            "gb" | "gib" => 1 << 30,
            _ => return Err(syntax()),
        };
        let bytes = number.times(factor).and_then(|bytes| u64::try_from(bytes).ok());
        bytes.map(ByteSize).ok_or_else(|| ByteSizeError::TooLarge(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrText;
        impl Visitor<'_> for NumberOrText {
            type Value = ByteSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes or a text such as \"512mb\"")
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<ByteSize, E> {
                Ok(ByteSize(bytes))
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<ByteSize, E> {
                // The text of a negative number is not a size either, and the error says what is.
                u64::try_from(bytes).map(ByteSize).or_else(|_| self.visit_str(&bytes.to_string()))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteSize, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(NumberOrText)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_is_a_number_with_or_without_a_unit() {
        for (text, bytes) in [
            ("0", 0),
            ("7b", 7),
            ("1k", 1_000),
            ("1kb", 1 << 10),
            ("1KiB", 1 << 10),
            ("512MiB", 512 << 20),
            ("512 mb", 512 << 20),
            ("2gib", 2 << 30),
            ("1.5gb", 3 << 29),
            ("0.25m", 250_000),
            ("1.00000000000000000000001k", 1_000),
            ("0.0001kb", 0),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in
            ["", "mb", "-1", "1.5", "1.5b", ".5gb", "1.gb", "1.2.3gb", "1,5gb", "1e3", "1tb", "0x10", "+1"]
        {
            assert_eq!(text.parse::<ByteSize>(), Err(ByteSizeError::Syntax(text.to_owned())), "{text}");
        }
        for text in ["18446744073709551616", "99999999999gb", "17179869184.5gib"] {
            assert_eq!(text.parse::<ByteSize>(), Err(ByteSizeError::TooLarge(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn size_in_a_file_is_a_number_or_a_text() {
        let read = |text: &str| serde_json::from_str::<ByteSize>(text).map_err(|error| error.to_string());
        assert_eq!(read("1000"), Ok(ByteSize(1_000)));
        assert_eq!(read(r#""64mb""#), Ok(ByteSize(64 << 20)));
        assert!(read("-1").unwrap_err().contains("'-1' is not a size"));
        assert!(read("true").unwrap_err().contains("a number of bytes or a text such as"));
    }
}
