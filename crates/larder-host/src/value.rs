//! The value of a view whose callers are another language: the bytes that every tier keeps, and an object of the host beside
//! them.

use crate::signature::key_and_payload;
use bytes::Bytes;
use std::sync::OnceLock;

/// Encoded bytes, the number of their codec, and an object of the host that was made of them, kept at most once.
///
/// The host encodes a value on a thread of its own before larder sees it, and decodes the bytes when a hit wants an object. So
/// no code of the host runs on a thread of larder, but for the drop of an object `O`: it may happen on any thread, also on one
/// that the host does not know.
///
/// # Examples
/// ```
/// use larder_host::HostCodec;
///
/// // Here an object of the host is a text.
/// let value = HostCodec::message_pack().value::<String>(b"key", b"\xa5apple".to_vec());
/// assert_eq!(value.object(), None);
/// assert_eq!(value.keep("apple".to_owned()), "apple");
/// assert_eq!(value.keep("another".to_owned()), "apple", "the first one is kept");
/// ```
#[derive(Debug)]
pub struct HostValue<O> {
    codec: u8,
    /// As memory has them, and Redis too, unless that has JSON.
    stored: Bytes,
    /// Whether they begin with a signature, which was verified.
    is_signed: bool,
    object: OnceLock<O>,
}

impl<O> HostValue<O> {
    pub(crate) fn new(codec: u8, stored: Bytes, is_signed: bool) -> Self {
        HostValue { codec, stored, is_signed, object: OnceLock::new() }
    }

    /// The same bytes without the object. Cost: none.
    pub(crate) fn copy(&self) -> Self {
        HostValue::new(self.codec, self.stored.clone(), self.is_signed)
    }

    /// The number of the codec that wrote the bytes.
    pub fn codec(&self) -> u8 {
        self.codec
    }

    /// The bytes that the host encoded. `key` is the key under which the value was found: `None` if the value is signed and
    /// was signed for another key. An attacker has then moved it: load the value anew
    /// ([`Fetch::refresh`](larder::Fetch::refresh)).
    pub fn payload(&self, key: &[u8]) -> Option<&[u8]> {
        if !self.is_signed {
            return Some(&self.stored);
        }
        let (signed_key, payload) = key_and_payload(&self.stored)?;
        (signed_key == key).then_some(payload)
    }

    /// The bytes as memory has them.
    pub(crate) fn stored(&self) -> &[u8] {
        &self.stored
    }

    /// What the host encoded, for whichever key.
    pub(crate) fn encoded(&self) -> &[u8] {
        if !self.is_signed {
            return &self.stored;
        }
        key_and_payload(&self.stored).map_or(&[], |(_, payload)| payload)
    }

    /// The object, if one is kept. Cost: one load.
    pub fn object(&self) -> Option<&O> {
        self.object.get()
    }

    /// Keeps an object, unless one is kept already. Returns the one that is kept.
    ///
    /// There is no call that makes the object under a lock: another thread might then wait for that lock while it has the
    /// lock of the interpreter, which the decoder may need. So two threads may both decode the bytes, and one of the objects
    /// is dropped, here.
    pub fn keep(&self, object: O) -> &O {
        let mut object = Some(object);
        self.object.get_or_init(|| object.take().expect("this runs once"))
    }
}
