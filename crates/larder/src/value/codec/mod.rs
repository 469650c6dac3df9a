//! Encoding values as bytes and decoding them: postcard by default, JSON, MessagePack, raw bytes, or a codec of the
//! user.

use crate::unwind::caught;
use crate::value::compression::Packing;
use crate::value::envelope::{self, Meta};
use crate::value::format::{CodecError, EncodeError, Unreadable};
use crate::value::schema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;

/// Turns values of one type into bytes and back. A panic counts as an error.
///
/// # Examples
/// A codec for a type without serde:
/// ```
/// use larder::{Codec, CodecError};
///
/// struct Celsius(f32);
///
/// struct AsBits;
///
/// impl Codec<Celsius> for AsBits {
///     fn id(&self) -> u8 {
///         128
///     }
///     fn encode(&self, value: &Celsius, out: &mut Vec<u8>) -> Result<(), CodecError> {
///         out.extend_from_slice(&value.0.to_le_bytes());
///         Ok(())
///     }
///     fn decode(&self, _codec: u8, bytes: &[u8]) -> Result<Celsius, CodecError> {
///         Ok(Celsius(f32::from_le_bytes(bytes.try_into()?)))
///     }
/// }
/// ```
pub trait Codec<V>: Send + Sync + 'static {
    /// The number that is stored with each value: 128 to 255 for codecs of the user, below that for those of this crate. It
    /// is not checked: a codec with the number of another codec receives the bytes of that codec.
    fn id(&self) -> u8;

    /// Whether this codec reads the bytes of the codec with this number. Default: only its own.
    fn reads(&self, codec: u8) -> bool {
        codec == self.id()
    }

    /// Appends the bytes of a value.
    ///
    /// # Errors
    /// If the codec cannot encode the value. The value is not stored.
    fn encode(&self, value: &V, out: &mut Vec<u8>) -> Result<(), CodecError>;

    /// The encoded length in bytes, by which a cache without Redis weighs a value. Default: encodes it.
    ///
    /// # Errors
    /// If the codec cannot encode the value. The value is not stored.
    fn encoded_bytes(&self, value: &V) -> Result<usize, CodecError> {
        let mut bytes = Vec::new();
        self.encode(value, &mut bytes)?;
        Ok(bytes.len())
    }

    /// Reads the bytes of a value that the codec number `codec` wrote.
    ///
    /// # Errors
    /// If the bytes are not a value. The lookup is a miss.
    fn decode(&self, codec: u8, bytes: &[u8]) -> Result<V, CodecError>;

    /// Reads the bytes of a value from `bytes[start..]`. A codec whose values are such bytes may keep the allocation.
    /// Default: [`Codec::decode`].
    ///
    /// # Errors
    /// As [`Codec::decode`].
    fn decode_owned(&self, codec: u8, bytes: Vec<u8>, start: usize) -> Result<V, CodecError> {
        self.decode(codec, &bytes[start..])
    }
}

const POSTCARD: u8 = 1;
#[cfg(feature = "json")]
const JSON: u8 = 2;
#[cfg(feature = "messagepack")]
const MESSAGE_PACK: u8 = 3;
const RAW: u8 = 4;
/// Never stored.
const UNENCODED: u8 = 0;

/// The codecs for types with serde. Each reads the bytes of the others, so changing the codec loses no value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// postcard: the smallest and fastest; not self-describing. A value that writes other fields than its type reads, as with
    /// serde's `skip_serializing_if`, `untagged` or `flatten`, is refused.
    #[default]
    Postcard,
    /// JSON: readable by people and other languages. Feature `json`.
    #[cfg(feature = "json")]
    Json,
    /// MessagePack, with the names of fields: readable by other languages, and smaller than JSON. Feature
    /// `messagepack`.
    #[cfg(feature = "messagepack")]
    MessagePack,
}

impl<V: Serialize + DeserializeOwned + 'static> Codec<V> for Format {
    fn id(&self) -> u8 {
        match self {
            Format::Postcard => POSTCARD,
            #[cfg(feature = "json")]
            Format::Json => JSON,
            #[cfg(feature = "messagepack")]
            Format::MessagePack => MESSAGE_PACK,
        }
    }

    fn reads(&self, codec: u8) -> bool {
        match codec {
            POSTCARD => true,
            #[cfg(feature = "json")]
            JSON => true,
            #[cfg(feature = "messagepack")]
            MESSAGE_PACK => true,
            _ => false,
        }
    }

    fn encode(&self, value: &V, out: &mut Vec<u8>) -> Result<(), CodecError> {
        match self {
            Format::Postcard => {
                schema::check_written(value, &schema::requested::<V>())?;
                let appended = postcard::to_extend(value, std::mem::take(out))?;
                *out = appended;
                Ok(())
            }
            #[cfg(feature = "json")]
            Format::Json => Ok(serde_json::to_writer(out, value)?),
            #[cfg(feature = "messagepack")]
            Format::MessagePack => Ok(rmp_serde::encode::write_named(out, value)?),
        }
    }

    /// Encodes into nothing: no bytes are stored.
    fn encoded_bytes(&self, value: &V) -> Result<usize, CodecError> {
        match self {
            Format::Postcard => {
                Ok(postcard::serialize_with_flavor(value, postcard::ser_flavors::Size::default())?)
            }
            #[cfg(feature = "json")]
            Format::Json => {
                let mut length = Length(0);
                serde_json::to_writer(&mut length, value)?;
                Ok(length.0)
            }
            #[cfg(feature = "messagepack")]
            Format::MessagePack => {
                let mut length = Length(0);
                rmp_serde::encode::write_named(&mut length, value)?;
                Ok(length.0)
            }
        }
    }

    fn decode(&self, codec: u8, bytes: &[u8]) -> Result<V, CodecError> {
        match codec {
            POSTCARD => match postcard::take_from_bytes(bytes)? {
                (value, []) => Ok(value),
                (_, rest) => Err(format!("{} bytes after the value", rest.len()).into()),
            },
            #[cfg(feature = "json")]
            JSON => Ok(serde_json::from_slice(bytes)?),
            #[cfg(feature = "messagepack")]
            MESSAGE_PACK => {
                let mut rest = bytes;
                let value = rmp_serde::decode::from_read(&mut rest)?;
                if rest.is_empty() {
                    Ok(value)
                } else {
                    Err(format!("{} bytes after the value", rest.len()).into())
                }
            }
            other => Err(format!("codec {other} is not built in").into()),
        }
    }
}

/// Counts the bytes that are written to it.
#[cfg(any(feature = "json", feature = "messagepack"))]
struct Length(usize);

#[cfg(any(feature = "json", feature = "messagepack"))]
impl std::io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The codec of values that stay in memory: a value weighs its own size, without what it points to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unencoded;

impl<V> Codec<V> for Unencoded {
    fn id(&self) -> u8 {
        UNENCODED
    }

    fn encode(&self, _: &V, _: &mut Vec<u8>) -> Result<(), CodecError> {
        Err("values of this view are not encoded".into())
    }

    fn encoded_bytes(&self, _: &V) -> Result<usize, CodecError> {
        Ok(size_of::<V>())
    }

    fn decode(&self, _: u8, _: &[u8]) -> Result<V, CodecError> {
        Err("values of this view are not encoded".into())
    }
}

/// Bytes and text without encoding, for values that are encoded already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Raw;

impl Codec<Vec<u8>> for Raw {
    fn id(&self) -> u8 {
        RAW
    }

    fn encode(&self, value: &Vec<u8>, out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.extend_from_slice(value);
        Ok(())
    }

    fn encoded_bytes(&self, value: &Vec<u8>) -> Result<usize, CodecError> {
        Ok(value.len())
    }

    fn decode(&self, _codec: u8, bytes: &[u8]) -> Result<Vec<u8>, CodecError> {
        Ok(bytes.to_vec())
    }

    /// Moves the bytes to the front: cheaper than an allocation, and the entry is weighed by what was stored.
    fn decode_owned(&self, _codec: u8, mut bytes: Vec<u8>, start: usize) -> Result<Vec<u8>, CodecError> {
        bytes.drain(..start);
        Ok(bytes)
    }
}

impl Codec<String> for Raw {
    fn id(&self) -> u8 {
        RAW
    }

    fn encode(&self, value: &String, out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.extend_from_slice(value.as_bytes());
        Ok(())
    }

    fn encoded_bytes(&self, value: &String) -> Result<usize, CodecError> {
        Ok(value.len())
    }

    fn decode(&self, _codec: u8, bytes: &[u8]) -> Result<String, CodecError> {
        Ok(std::str::from_utf8(bytes)?.to_owned())
    }

    fn decode_owned(&self, _codec: u8, mut bytes: Vec<u8>, start: usize) -> Result<String, CodecError> {
        bytes.drain(..start);
        Ok(String::from_utf8(bytes)?)
    }
}

/// Encodes a value into an envelope. The codec's number in `meta` is set by the codec.
pub(crate) fn seal<V: 'static>(
    value: &V,
    codec: &dyn Codec<V>,
    mut meta: Meta,
    packing: &Packing,
) -> Result<Vec<u8>, EncodeError> {
    meta.codec = codec.id();
    envelope::seal(&meta, packing, |out| caught_error("Codec::encode", || codec.encode(value, out)))
}

/// The encoded length of a value.
pub(crate) fn encoded_bytes<V: 'static>(value: &V, codec: &dyn Codec<V>) -> Result<usize, EncodeError> {
    caught_error("Codec::encoded_bytes", || codec.encoded_bytes(value)).map_err(EncodeError::Codec)
}

/// Runs a function of a codec. A panic is an error.
fn caught_error<R>(
    function: &'static str,
    run: impl FnOnce() -> Result<R, CodecError>,
) -> Result<R, CodecError> {
    caught(function, run).unwrap_or_else(|| Err("the codec panicked".into()))
}

/// Reads a value from an envelope, whose allocation the value may keep if it is owned.
pub(crate) fn open<'b, V: 'static>(
    bytes: impl Into<Cow<'b, [u8]>>,
    codec: &dyn Codec<V>,
    schema: u64,
    packing: &Packing,
) -> Result<(Meta, V), Unreadable> {
    let bytes = bytes.into();
    let (meta, packed) = envelope::parse(&bytes)?;
    if meta.schema != schema {
        return Err(Unreadable::Schema);
    }
    if !codec.reads(meta.codec) {
        return Err(Unreadable::Codec(meta.codec));
    }
    let payload_at = bytes.len() - packed.payload.len();
    let unpacked = match packed.unpack(packing.max_bytes)? {
        Cow::Owned(payload) => Some(payload),
        Cow::Borrowed(_) => None,
    };
    let decoded = caught_error("Codec::decode", || match (unpacked, bytes) {
        (Some(payload), _) => codec.decode_owned(meta.codec, payload, 0),
        (None, Cow::Owned(bytes)) => codec.decode_owned(meta.codec, bytes, payload_at),
        (None, Cow::Borrowed(bytes)) => codec.decode(meta.codec, &bytes[payload_at..]),
    });
    let value = decoded.map_err(|_| Unreadable::Decode)?;
    Ok((meta, value))
}

/// The bytes in Redis, for benchmarks.
#[doc(hidden)]
pub mod stored {
    use super::*;
    use crate::value::compression::Compression;
    use crate::value::random::Random;
    use std::time::Duration;

    pub fn seal<V: 'static>(
        value: &V,
        codec: &dyn Codec<V>,
        compression: Compression,
    ) -> Result<Vec<u8>, EncodeError> {
        let none = Duration::ZERO;
        let meta = Meta {
            id: Random::Os.id(),
            deadline_ms: 0,
            codec: codec.id(),
            negative: false,
            schema: 0,
            clock: 0,
            ttl: Duration::from_secs(60),
            grace: none,
            cost: none,
            tags: Vec::new(),
        };
        super::seal(value, codec, meta, &Packing { compression, ..Packing::default() })
    }

    pub fn open<V: 'static>(bytes: &[u8], codec: &dyn Codec<V>) -> Result<V, Unreadable> {
        super::open(bytes, codec, 0, &Packing::default()).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests;
