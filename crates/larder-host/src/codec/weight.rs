//! The weight of a value in memory, with the object that may be beside its bytes.

use crate::value::HostValue;

/// What hits do with the bytes of a view, which decides what an entry weighs.
#[derive(Clone, Copy, Debug)]
pub enum Objects {
    /// Each hit decodes the bytes, so that its caller may change what it gets. An entry weighs its bytes.
    Copied,
    /// Hits share one object ([`HostValue::keep`](crate::HostValue::keep)). An entry weighs its bytes, and `factor` times its
    /// bytes for the object. It does so from the start, since it is weighed when it is stored, and the object is made at its
    /// first hit.
    Kept {
        /// How much larger than its bytes an object is.
        factor: u32,
    },
    /// The same for objects whose size is no multiple of their bytes: an entry weighs its bytes, and what this says of what the
    /// host has encoded, which begins with a byte of its own in a private value.
    Weighed(fn(&[u8]) -> u64),
}

impl Objects {
    /// Shared objects with a factor of 4: those of Python took from 2.4 to 8.2 times their MessagePack.
    pub fn kept() -> Self {
        Objects::Kept { factor: 4 }
    }

    /// The weight of an entry in bytes.
    pub(crate) fn weight<O>(self, value: &HostValue<O>) -> u64 {
        let bytes = value.stored().len() as u64;
        match self {
            Objects::Copied => bytes,
            Objects::Kept { factor } => bytes.saturating_add(bytes.saturating_mul(factor.into())),
            Objects::Weighed(weight) => bytes.saturating_add(weight(value.encoded())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Objects;
    use crate::{HostCodec, HostValue, PrivateFormat, SignedView, Signer};

    #[test]
    fn kept_object_weighs_a_multiple_of_its_bytes_or_what_the_host_says() {
        let value: HostValue<()> = HostCodec::message_pack().message_pack_value(b"key", vec![0xc0; 100]);
        assert_eq!(Objects::Copied.weight(&value), 100);
        assert_eq!(Objects::kept().weight(&value), 500);
        assert_eq!(Objects::Weighed(|encoded| 1_000 + encoded.len() as u64).weight(&value), 1_200);

        let signer = Signer::new([[7; 32]]).expect("it is long enough");
        let view = SignedView { namespace: "shop", view: "session", schema: "" };
        let value: HostValue<()> =
            HostCodec::private(PrivateFormat::Etf, &signer, view).private_value(b"key", b"etf");
        let own = Objects::Weighed(|encoded| u64::from(encoded == b"\x01etf"));
        assert_eq!(own.weight(&value), Objects::Copied.weight(&value) + 1);
    }
}
