//! Signatures of private values: an attacker who can write to Redis must not choose what `pickle` or `Marshal` executes.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

type HmacSha256 = Hmac<Sha256>;

/// The shortest key in bytes. A random key of 32 is better.
pub const MIN_KEY_BYTES: usize = 16;

const TAG_BYTES: usize = 32;
/// The length of the key of the entry, little-endian.
const LENGTH_BYTES: usize = 4;

/// The reason why there is no signer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Bytes that are executed when they are decoded must be signed.
    #[error("private values must be signed, and there is no key")]
    NoKey,
    /// A key could be guessed.
    #[error("a key has {0} bytes; it must have at least {MIN_KEY_BYTES}")]
    ShortKey(usize),
}

/// What a view is, as signatures have it: the values of another one are not valid in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedView<'a> {
    /// The namespace of the cache.
    pub namespace: &'a str,
    /// The name of the view, with those of its spaces.
    pub view: &'a str,
    /// The schema of the values, in the words of the host.
    pub schema: &'a str,
}

/// Signs values with HMAC-SHA-256 and verifies them, in constant time. Cheap to clone.
///
/// The signature covers namespace, view, schema, codec, key and bytes, each with its length. Envelopes have a checksum, which is
/// no signature. Nothing prevents that a valid older value of the same key is put back.
///
/// # Examples
/// ```
/// use larder_host::{HostCodec, KeyError, PrivateFormat, SignedView, Signer};
///
/// let new_key = [7; 32];
/// let old_key = [8; 32];
/// // The first key signs. All verify, so that a key can be replaced without losing what it has signed.
/// let signer = Signer::new([&new_key, &old_key])?;
/// let view = SignedView { namespace: "shop", view: "session", schema: "" };
/// let codec = HostCodec::private(PrivateFormat::Pickle, &signer, view);
/// let value = codec.value::<()>(b"alice", b"the bytes of pickle".to_vec());
/// assert_eq!(value.payload(b"alice"), Some(&b"the bytes of pickle"[..]));
/// assert_eq!(value.payload(b"bob"), None, "it was signed for another key");
///
/// assert_eq!(Signer::new([[0; 0]; 0]).unwrap_err(), KeyError::NoKey);
/// # Ok::<(), KeyError>(())
/// ```
#[derive(Clone)]
pub struct Signer {
    keys: Vec<HmacSha256>,
}

impl Signer {
    /// A signer whose first key signs, and whose keys all verify.
    ///
    /// # Errors
    /// If there is no key, or one is shorter than [`MIN_KEY_BYTES`].
    pub fn new<K: AsRef<[u8]>>(keys: impl IntoIterator<Item = K>) -> Result<Self, KeyError> {
        let keyed = |key: K| {
            let key = key.as_ref();
            let length = key.len();
            if length < MIN_KEY_BYTES {
                return Err(KeyError::ShortKey(length));
            }
            Ok(HmacSha256::new_from_slice(key).expect("a key of any length is valid"))
        };
        let keys = keys.into_iter().map(keyed).collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() { Err(KeyError::NoKey) } else { Ok(Signer { keys }) }
    }

    /// The same keys for the values of one view and codec.
    pub(crate) fn of_view(&self, view: SignedView<'_>, codec: u8) -> Self {
        let mut signer = self.clone();
        for mac in &mut signer.keys {
            add(mac, view.namespace.as_bytes());
            add(mac, view.view.as_bytes());
            add(mac, view.schema.as_bytes());
            add(mac, &[codec]);
        }
        signer
    }

    /// Signed bytes: the signature, the key with its length, and the payload.
    ///
    /// The key is in them because a codec does not know the key of what it decodes.
    pub(crate) fn sign(&self, key: &[u8], payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(key.len()).expect("a key is shorter than 4 GiB");
        let mut signed = Vec::with_capacity(TAG_BYTES + LENGTH_BYTES + key.len() + payload.len());
        signed.extend_from_slice(&with(&self.keys[0], key, payload).finalize().into_bytes());
        signed.extend_from_slice(&length.to_le_bytes());
        signed.extend_from_slice(key);
        signed.extend_from_slice(payload);
        signed
    }

    /// Verifies signed bytes. `None` if no key has signed them.
    pub(crate) fn verify(&self, signed: &[u8]) -> Option<()> {
        let (tag, rest) = signed.split_first_chunk::<TAG_BYTES>()?;
        let (key, payload) = split(rest)?;
        let is_signed = |mac| with(mac, key, payload).verify_slice(tag).is_ok();
        self.keys.iter().any(is_signed).then_some(())
    }
}

/// The key and the payload of bytes that were verified, or were just signed.
pub(crate) fn key_and_payload(signed: &[u8]) -> Option<(&[u8], &[u8])> {
    split(signed.get(TAG_BYTES..)?)
}

fn split(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = rest.split_first_chunk::<LENGTH_BYTES>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

fn with(mac: &HmacSha256, key: &[u8], payload: &[u8]) -> HmacSha256 {
    let mut mac = mac.clone();
    add(&mut mac, key);
    add(&mut mac, payload);
    mac
}

/// With its length, so that no two different texts have the same bytes together.
fn add(mac: &mut HmacSha256, part: &[u8]) {
    mac.update(&(part.len() as u64).to_le_bytes());
    mac.update(part);
}

/// Without the keys.
impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("keys", &self.keys.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEW: SignedView<'_> = SignedView { namespace: "n", view: "v", schema: "s" };

    fn signer(keys: &[u8]) -> Signer {
        Signer::new(keys.iter().map(|key| [*key; 32])).expect("long enough")
    }

    fn is_valid(keys: &[u8], view: SignedView<'_>, codec: u8, signed: &[u8]) -> bool {
        signer(keys).of_view(view, codec).verify(signed).is_some()
    }

    #[test]
    fn signed_bytes_are_valid_where_they_belong_and_nowhere_else() {
        let signed = signer(&[1]).of_view(VIEW, 16).sign(b"key", b"payload");
        assert!(is_valid(&[1], VIEW, 16, &signed));
        assert_eq!(key_and_payload(&signed), Some((&b"key"[..], &b"payload"[..])));
        assert!(!is_valid(&[2], VIEW, 16, &signed));
        assert!(!is_valid(&[1], VIEW, 17, &signed));
        for other in [
            SignedView { namespace: "m", ..VIEW },
            SignedView { view: "w", ..VIEW },
            SignedView { schema: "t", ..VIEW },
            // The same bytes, with other ends.
            SignedView { namespace: "nv", view: "", ..VIEW },
        ] {
            assert!(!is_valid(&[1], other, 16, &signed), "{other:?}");
        }
    }

    #[test]
    fn every_changed_or_missing_byte_is_noticed() {
        let signed = signer(&[1]).of_view(VIEW, 16).sign(b"key", b"payload");
        for at in 0..signed.len() {
            let mut changed = signed.clone();
            changed[at] ^= 1;
            assert!(!is_valid(&[1], VIEW, 16, &changed), "byte {at}");
            assert!(!is_valid(&[1], VIEW, 16, &signed[..at]), "{at} bytes");
        }
        assert!(!is_valid(&[1], VIEW, 16, &[signed, vec![0]].concat()));
        // The end of the key is not the begin of the payload.
        let moved = signer(&[1]).of_view(VIEW, 16).sign(b"keyp", b"ayload");
        assert_ne!(moved[..TAG_BYTES], signer(&[1]).of_view(VIEW, 16).sign(b"key", b"payload")[..TAG_BYTES]);
    }

    #[test]
    fn first_key_signs_and_all_verify() {
        let by_old = signer(&[1]).of_view(VIEW, 16).sign(b"k", b"p");
        let by_both = signer(&[2, 1]).of_view(VIEW, 16).sign(b"k", b"p");
        assert!(is_valid(&[2, 1], VIEW, 16, &by_old));
        assert!(is_valid(&[2], VIEW, 16, &by_both) && !is_valid(&[1], VIEW, 16, &by_both));
    }

    #[test]
    fn signature_is_that_of_the_standard() {
        // Computed with Python's hmac: hmac.new(b"\1" * 32, parts, "sha256"), each part with its length in eight bytes.
        let signed = signer(&[1]).of_view(VIEW, 16).sign(b"key", b"payload");
        let hex: String = signed[..TAG_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "1f48df2f1d6111030705e221ae21a0b3ab22677e93584ef4bdea5ded8370bcb4");
    }

    #[test]
    fn short_key_is_refused_and_no_key_is_shown() {
        assert_eq!(
            Signer::new([b"secret"]).unwrap_err().to_string(),
            "a key has 6 bytes; it must have at least 16"
        );
        assert_eq!(format!("{:?}", signer(&[1])), "Signer { keys: 1 }");
    }
}
