//! A reply as a value, for clients, listeners and tests.

use bytes::Bytes;

use crate::{Encoder, Protocol};

/// One reply of a server. Both nulls of RESP2 are [`Frame::Null`]; a verbatim string's format is kept.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// A status such as `OK`.
    Simple(String),
    /// An error, its prefix included.
    Error(String),
    /// A whole number.
    Integer(i64),
    /// Bytes of known length.
    Bulk(Bytes),
    /// Nothing.
    Null,
    /// An ordered list.
    Array(Vec<Frame>),
    /// Pairs in the order they came.
    Map(Vec<(Frame, Frame)>),
    /// Elements in the order they came.
    Set(Vec<Frame>),
    /// A floating-point number.
    Double(f64),
    /// A truth value.
    Boolean(bool),
    /// A whole number of any size, as its digits.
    BigNumber(String),
    /// Text with a format of three letters.
    Verbatim([u8; 3], Bytes),
    /// An out-of-band message.
    Push(Vec<Frame>),
}

impl Frame {
    /// Appends the frame's bytes. What the protocol version lacks is written in its nearest form, so only RESP3 reads
    /// back as the same frame.
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
