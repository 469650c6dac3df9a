//! What the host encoded: MessagePack, or bytes of its own. A private value says in its first byte which of them follows.

use super::HostCodec;
use crate::profile::integer;
use crate::value::HostValue;

/// Most small values need no encoding of one language, and larder can add to numbers.
const IS_MESSAGE_PACK: u8 = 0;
const IS_PRIVATE: u8 = 1;

/// The longest integer in MessagePack, with its head.
const MAX_INTEGER_BYTES: usize = 9;

/// The bytes of nothing in MessagePack: `None`, `null` or `nil` in the host.
pub const NIL: &[u8] = &[0xc0];

/// What the host has encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'v> {
    /// Within the [interchange profile](crate::profile).
    MessagePack(&'v [u8]),
    /// In the encoding of one language, with the signature of one of the keys.
    Private(&'v [u8]),
}

impl HostCodec {
    /// The value of some MessagePack within the [interchange profile](crate::profile).
    pub fn message_pack_value<O>(&self, key: &[u8], bytes: Vec<u8>) -> HostValue<O> {
        if self.is_private() { self.marked(key, IS_MESSAGE_PACK, &bytes) } else { self.value(key, bytes) }
    }

    /// The value of some bytes in the encoding of one language.
    ///
    /// # Panics
    /// If this codec is not private.
    pub fn private_value<O>(&self, key: &[u8], bytes: &[u8]) -> HostValue<O> {
        assert!(self.is_private(), "every language reads the values of this codec");
        self.marked(key, IS_PRIVATE, bytes)
    }

    fn marked<O>(&self, key: &[u8], mark: u8, bytes: &[u8]) -> HostValue<O> {
        self.value(key, [&[mark], bytes].concat())
    }

    /// What the host has encoded. `None` if the value was signed for another key, or begins with no known byte.
    pub fn payload<'v, O>(&self, value: &'v HostValue<O>, key: &[u8]) -> Option<Payload<'v>> {
        let payload = value.payload(key)?;
        if !self.is_private() {
            return Some(Payload::MessagePack(payload));
        }
        match payload.split_first()? {
            (&IS_MESSAGE_PACK, rest) => Some(Payload::MessagePack(rest)),
            (&IS_PRIVATE, rest) => Some(Payload::Private(rest)),
            _ => None,
        }
    }

    /// The number, if a value is an integer of 64 bits.
    pub fn integer<O>(&self, value: &HostValue<O>, key: &[u8]) -> Option<i64> {
        match self.payload(value, key)? {
            Payload::MessagePack(bytes) => integer(bytes),
            Payload::Private(_) => None,
        }
    }

    /// The value of a number, written without the host.
    pub fn integer_value<O>(&self, key: &[u8], number: i64) -> HostValue<O> {
        // Larder refuses what is above the limit of the cache, which may be smaller.
        let mut encoder = self.encoder(MAX_INTEGER_BYTES);
        encoder.integer(number).expect("no integer is longer");
        self.message_pack_value(key, encoder.finish().expect("it is one value"))
    }

    /// Whether a value of a view that every language reads is nothing.
    pub(crate) fn is_nil<O>(value: &HostValue<O>) -> bool {
        value.payload(&[]) == Some(NIL)
    }

    /// Whether one language alone reads the values.
    pub fn is_private(&self) -> bool {
        self.signer.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PrivateFormat, SignedView, Signer};

    #[test]
    fn private_value_is_message_pack_or_of_the_host() {
        let signer = Signer::new([[7; 32]]).expect("it is long enough");
        let view = SignedView { namespace: "shop", view: "session", schema: "" };
        let codec = HostCodec::private(PrivateFormat::Marshal, &signer, view);

        let own: HostValue<()> = codec.private_value(b"key", b"\x04\x08i\x06");
        assert_eq!(codec.payload(&own, b"key"), Some(Payload::Private(b"\x04\x08i\x06")));
        assert_eq!((codec.payload(&own, b"another"), codec.integer(&own, b"key")), (None, None));
        let number: HostValue<()> = codec.integer_value(b"key", -17);
        assert_eq!(codec.integer(&number, b"key"), Some(-17));
        let unknown: HostValue<()> = codec.value(b"key", b"\x02rest".to_vec());
        assert_eq!(codec.payload(&unknown, b"key"), None);
    }
}
