//! Values: objects of Ruby and the bytes of them.

mod alike;
mod read;
mod write;

use crate::log;
use crate::raised::{Raised, Result};
use crate::ruby::kept::Kept;
use crate::ruby::value::Kind;
use crate::ruby::{Ruby, Value};
use larder_host::{ErrorClass, HostCodec, HostValue, Objects, Payload};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A value in the tiers, with an object of Ruby beside it.
pub(crate) type Stored = HostValue<Kept>;

/// How a view reads and writes its values.
#[derive(Clone)]
pub(crate) struct Encoding {
    pub(crate) codec: HostCodec,
    /// Whether all hits share one object, which is frozen.
    is_shared: bool,
    max_bytes: usize,
    /// Where the bytes are that could not be read last: the log says so once, and not at each hit.
    unreadable: Arc<AtomicUsize>,
}

impl Encoding {
    pub(crate) fn new(codec: HostCodec, is_shared: bool, max_bytes: usize) -> Self {
        Encoding { codec, is_shared, max_bytes, unreadable: Arc::default() }
    }

    /// What hits do with the bytes.
    pub(crate) fn objects(&self) -> Objects {
        if self.is_shared { Objects::kept() } else { Objects::Copied }
    }

    /// The stored form of an object, for the entry of a key.
    pub(crate) fn stored<'r>(&self, ruby: Ruby<'r>, key: &[u8], object: Value<'r>) -> Result<Stored> {
        if self.codec.is_private() && !alike::is_read_alike(ruby, object)? {
            return self.marshalled(ruby, key, object);
        }
        match write::message_pack(ruby, object, self.codec.encoder(self.max_bytes)) {
            Ok(bytes) => Ok(self.codec.message_pack_value(key, bytes)),
            Err(write::WriteError::Raised(raised)) => Err(raised),
            Err(write::WriteError::Refused(refused)) => Err(unwritten(key, &refused.to_string())),
        }
    }

    fn marshalled<'r>(&self, ruby: Ruby<'r>, key: &[u8], object: Value<'r>) -> Result<Stored> {
        match object.marshal(ruby)? {
            Ok(bytes) => {
                let bytes = bytes.bytes();
                if bytes.len() > self.max_bytes {
                    let limit = self.max_bytes;
                    return Err(unwritten(key, &format!("the value would have more than {limit} bytes")));
                }
                Ok(self.codec.private_value(key, &bytes))
            }
            Err(raised) => Err(unwritten(key, &message_of(ruby, raised)?)),
        }
    }

    /// The object of a value that was found under a key. `None`, as if it were not there: it was signed for another key, or a
    /// class of it does not exist any more.
    #[inline]
    pub(crate) fn object<'r>(
        &self,
        ruby: Ruby<'r>,
        stored: &Stored,
        key: &[u8],
    ) -> Result<Option<Value<'r>>> {
        if let Some(object) = stored.object().and_then(|kept| kept.object(ruby)) {
            return Ok(Some(object));
        }
        let Some(payload) = self.codec.payload(stored, key) else { return Ok(None) };
        let object = match payload {
            Payload::MessagePack(bytes) => read::message_pack(ruby, bytes, self.is_shared)?,
            Payload::Private(bytes) => match self.unmarshalled(ruby, bytes, key)? {
                Some(object) => object,
                None => return Ok(None),
            },
        };
        if self.is_shared && !is_immediate(object) {
            return self.shared(ruby, stored, object).map(Some);
        }
        Ok(Some(object))
    }

    fn unmarshalled<'r>(&self, ruby: Ruby<'r>, bytes: &[u8], key: &[u8]) -> Result<Option<Value<'r>>> {
        let object = match ruby.bytes(bytes)?.unmarshal(ruby)? {
            Ok(object) => object,
            Err(raised) => {
                let place = bytes.as_ptr() as usize;
                if self.unreadable.swap(place, Ordering::Relaxed) != place {
                    let (key, message) = (String::from_utf8_lossy(key), message_of(ruby, raised)?);
                    let line = format!("the value of key {key:?} cannot be read: {message}");
                    log::line(ruby, "warn", &line)?;
                }
                return Ok(None);
            }
        };
        if self.is_shared {
            ruby.constant("Frozen")?.call(ruby, "of", &[object]).map(Some)
        } else {
            Ok(Some(object))
        }
    }

    /// The object that all hits share: this one, or that of another caller who was faster.
    fn shared<'r>(&self, ruby: Ruby<'r>, stored: &Stored, object: Value<'r>) -> Result<Value<'r>> {
        let kept = stored.keep(Kept::new(ruby, object)?);
        Ok(kept.object(ruby).unwrap_or(object))
    }
}

/// Whether an object costs nothing to make, and cannot be changed.
fn is_immediate(object: Value<'_>) -> bool {
    matches!(object.kind(), Kind::Nil | Kind::Boolean(_) | Kind::Integer | Kind::Float)
}

fn unwritten(key: &[u8], reason: &str) -> Raised {
    let key = String::from_utf8_lossy(key);
    Raised::new(ErrorClass::Encode, format!("the value of key {key:?} cannot be written: {reason}"))
}

/// The class and the message of an exception.
pub(crate) fn message_of<'r>(ruby: Ruby<'r>, exception: Value<'r>) -> Result<String> {
    let class = exception.class_name(ruby)?;
    let message = exception.try_call(ruby, "message", &[])?;
    Ok(match message {
        Ok(message) => format!("{} ({class})", message.lossy_text()),
        Err(_) => class,
    })
}
