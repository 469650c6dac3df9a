//! A reply as a value, for clients, listeners and tests.

use bytes::Bytes;

use crate::{Encoder, Protocol};

/// One reply of a server. Both null types of RESP2 are [`Frame::Null`].
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// A status such as `OK`.
    Simple(String),
    /// An error, including its prefix.
    Error(String),
    /// A signed 64-bit integer.
    Integer(i64),
    /// A byte string.
    Bulk(Bytes),
    /// No value.
    Null,
    /// An ordered list.
    Array(Vec<Frame>),
    /// Key-value pairs in the order of arrival.
    Map(Vec<(Frame, Frame)>),
    /// Elements in the order of arrival.
    Set(Vec<Frame>),
    /// A floating-point number.
    Double(f64),
    /// A boolean.
    Boolean(bool),
    /// An integer of any size, as decimal digits.
    BigNumber(String),
    /// Text, with its format of three letters such as `txt`.
    Verbatim([u8; 3], Bytes),
    /// An out-of-band message.
    Push(Vec<Frame>),
}

impl Frame {
    /// Appends the encoded frame to `out`. Types that RESP2 lacks are encoded as the nearest RESP2 type, so only RESP3
    /// parses back to the same frame.
    pub fn encode(&self, out: &mut Vec<u8>, protocol: Protocol) {
        let mut encoder = Encoder::new(out, protocol);
        match self {
            Frame::Simple(text) => encoder.simple(text),
            Frame::Error(text) => encoder.error(text),
            Frame::Integer(number) => encoder.integer(*number),
            Frame::Bulk(bytes) => encoder.bulk(bytes),
            Frame::Null => encoder.null(),
            Frame::Double(number) => encoder.double(*number),
            Frame::Boolean(value) => encoder.boolean(*value),
            Frame::BigNumber(digits) => encoder.big_number(digits),
            Frame::Verbatim(format, text) => encoder.verbatim(format, text),
            Frame::Array(items) => {
                encoder.array(items.len());
                encode_all(items, out, protocol);
            }
            Frame::Set(items) => {
                encoder.set(items.len());
                encode_all(items, out, protocol);
            }
            Frame::Push(items) => {
                encoder.push(items.len());
                encode_all(items, out, protocol);
            }
            Frame::Map(pairs) => {
                encoder.map(pairs.len());
                for (key, value) in pairs {
                    key.encode(out, protocol);
                    value.encode(out, protocol);
                }
            }
        }
    }

    /// The content of a bulk, verbatim or simple string.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Frame::Bulk(bytes) | Frame::Verbatim(_, bytes) => Some(bytes),
            Frame::Simple(text) => Some(text.as_bytes()),
            _ => None,
        }
    }
}

fn encode_all(items: &[Frame], out: &mut Vec<u8>, protocol: Protocol) {
    for item in items {
        item.encode(out, protocol);
    }
}
