//! The interchange profile: the values that every language reads as it wrote them, in MessagePack.
//!
//! | value | in MessagePack |
//! |---|---|
//! | nothing, booleans | nil, bool |
//! | integers | from −2^63 to 2^64 − 1, in the shortest form |
//! | floating-point numbers | written with 64 bits, read with 32 too |
//! | text, bytes | str with UTF-8, bin |
//! | lists, maps | array, and map whose keys are text |
//! | points in time | the timestamp extension, −1, with nanoseconds |
//!
//! A binding walks its own objects and calls an [`Encoder`]; [`decode`] calls a [`Visitor`] of the binding. Everything else is
//! refused where it is written, and the refusal names the place in the value: `$.items[3].price`. A key that occurs twice in a
//! map is not noticed; languages let the last one win.
//!
//! A view may write its values to Redis as JSON instead ([`HostCodec::json`](crate::HostCodec::json)), which has fewer of them.

mod decoder;
mod encoder;
mod json;
mod place;

pub(crate) use decoder::check;
pub use decoder::{DecodeError, Visitor, decode, integer};
pub use encoder::Encoder;
pub(crate) use json::{from_json, to_json};
pub use place::Refused;

/// How many lists and maps may be around a value.
pub const MAX_DEPTH: usize = 128;
/// The same for JSON, whose parser allows one less.
const MAX_JSON_DEPTH: usize = 127;

/// The number of the timestamp extension.
const TIMESTAMP: i8 = -1;
const NANOSECONDS_A_SECOND: u32 = 1_000_000_000;
/// A timestamp of 64 bits has 34 for the seconds, below those for the nanoseconds.
const SECONDS_BITS: u32 = 34;

/// The reason why a value or bytes are outside of the profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The host has a value that no other language reads as it is; its binding says which.
    #[error("{0}")]
    Unsupported(String),
    /// A list or map would be too deep.
    #[error("more than {MAX_DEPTH} lists and maps are around it")]
    Depth,
    /// The encoded value would be too long.
    #[error("the value would have more than {limit} bytes")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// More bytes or elements are announced than there are bytes.
    #[error("{announced} bytes or elements are announced, and {left} bytes are left")]
    Length {
        /// What is announced, with what the lists and maps around it still need.
        announced: usize,
        /// The bytes that follow.
        left: usize,
    },
    /// The bytes end within the value.
    #[error("the bytes end within the value")]
    Incomplete,
    /// There are bytes after the value.
    #[error("{0} bytes follow the value")]
    Trailing(usize),
    /// The text is not UTF-8.
    #[error("the text is not UTF-8")]
    Utf8,
    /// The key of a map is not text.
    #[error("the key of a map is not text")]
    Key,
    /// An extension other than the timestamp.
    #[error("extension {0} is not the timestamp, -1")]
    Extension(i8),
    /// A timestamp of another length, or with a billion nanoseconds or more.
    #[error("the timestamp is not valid")]
    Timestamp,
    /// The byte 0xc1, which MessagePack does not use.
    #[error("the byte 0xc1 begins no value")]
    Unused,
    /// A list or map has another number of elements than its begin announced: it was changed meanwhile.
    #[error("{announced} elements were announced, and {written} written")]
    Count {
        /// The announced number.
        announced: usize,
        /// The number of elements so far.
        written: usize,
    },
    /// The calls of the encoder do not make one value.
    #[error("the encoder was called out of order: {0}")]
    Order(&'static str),
}

#[cfg(test)]
mod tests;
