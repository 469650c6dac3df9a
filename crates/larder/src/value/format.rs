//! What every stored value has, and why one cannot be stored or read.

use twox_hash::XxHash3_64;

/// The reason why a codec cannot encode or decode.
pub type CodecError = Box<dyn std::error::Error + Send + Sync>;

/// The identity of a load: of its lease and of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id(pub(crate) [u8; 16]);

impl Id {
    /// An id that tells which value it takes the place of: its second half follows from its first one and from that value.
    pub(crate) fn in_place_of(self, replaced: Id) -> Id {
        let [mut nonce, mut link] = [[0; 8]; 2];
        nonce.copy_from_slice(&self.0[..8]);
        link.copy_from_slice(&XxHash3_64::oneshot(&[&nonce[..], &replaced.0].concat()).to_le_bytes());
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&nonce);
        bytes[8..].copy_from_slice(&link);
        Id(bytes)
    }

    /// Whether this one was made in place of the other. One of 2^64 that were not seems so.
    pub(crate) fn is_in_place_of(self, replaced: Id) -> bool {
        self == self.in_place_of(replaced)
    }

    /// For people and traces.
    pub(crate) fn to_hex(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The reason why bytes in Redis are not a value. The lookup is a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// Another program wrote the bytes.
    #[error("not written by larder")]
    Foreign,
    /// Another version of the library wrote them.
    #[error("envelope version {0} is unknown")]
    Version(u8),
    /// Neither a value nor a lease.
    #[error("kind {0} is unknown")]
    Kind(u8),
    /// The bytes are a lease: a load is running.
    #[error("a lease, not a value")]
    Lease,
    /// There are fewer or more bytes than the envelope says.
    #[error("the length does not match the envelope")]
    Length,
    /// The checksum is wrong.
    #[error("the bytes are damaged")]
    Damaged,
    /// This version does not know one of the flags.
    #[error("flags {0:#04x} are unknown")]
    Flags(u8),
    /// This build does not have the compression of the value. Enable its feature.
    #[error("compression {0} is not built in")]
    Compression(u8),
    /// The value is longer than [`Builder::max_value_bytes`](crate::Builder::max_value_bytes).
    #[error("the value has {bytes} bytes; at most {limit} are allowed")]
    TooLarge {
        /// Its length by the envelope.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The value type had another shape or another schema number when the value was written.
    #[error("the value type has another schema")]
    Schema,
    /// The codec of the view does not read the bytes of this codec.
    #[error("the view does not read codec {0}")]
    Codec(u8),
    /// The codec could not decode the payload.
    #[error("the payload cannot be decoded")]
    Decode,
}

/// The reason why a value cannot be stored. A load still returns it to its callers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The codec cannot encode the value.
    #[error("the value cannot be encoded: {0}")]
    Codec(#[source] CodecError),
    /// The encoded value is longer than [`Builder::max_value_bytes`](crate::Builder::max_value_bytes).
    #[error("the value has {bytes} bytes encoded; at most {limit} are allowed")]
    TooLarge {
        /// Its encoded length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The entry, or the invalidation, has more than 64 tags, the view's included.
    #[error("there are {0} tags; at most 64 are allowed, those of the view included")]
    Tags(usize),
    /// A tag is longer than 255 bytes.
    #[error("tag {0:?} has more than 255 bytes")]
    Tag(Box<str>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_tells_what_it_was_made_in_place_of() {
        let [replaced, other, id] = [1, 2, 3].map(|byte| Id([byte; 16]));
        let made = id.in_place_of(replaced);
        assert!(made.is_in_place_of(replaced) && !made.is_in_place_of(other) && !id.is_in_place_of(replaced));
        assert_ne!(made, Id([4; 16]).in_place_of(replaced), "as different as what they are made of");
    }
}
