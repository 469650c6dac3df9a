//! The codec of the views of a host: it moves bytes, after it has checked them, and runs no code of the host. Views are made
//! with it.

mod payload;
mod weight;

pub use payload::{NIL, Payload};
pub use weight::Objects;

use crate::names::NameError;
use crate::profile::{self, Encoder};
use crate::signature::{SignedView, Signer};
use crate::value::HostValue;
use bytes::Bytes;
use larder::{Cache, Codec, CodecError, View};

/// The numbers of MessagePack and JSON in an envelope, which are those of `larder::Format`.
const MESSAGE_PACK: u8 = 3;
const JSON: u8 = 2;

/// The codec of a view of a host. Cheap to clone.
///
/// The envelope of a value in Redis has the number of the codec of its bytes. MessagePack and JSON read each other; the bytes of
/// another codec are a miss, and an [event](larder::Event) says so.
///
/// # Examples
/// ```
/// use larder::{Cache, View};
/// use larder_host::{HostCodec, HostValue, Objects, wait};
/// use std::convert::Infallible;
/// use std::time::Duration;
///
/// let runtime = tokio::runtime::Runtime::new()?;
/// let cache = Cache::builder("shop").ttl(Duration::from_secs(60)).runtime(runtime.handle().clone()).build()?;
/// let codec = HostCodec::message_pack();
/// let view: View<[u8], HostValue<String>, Infallible> = codec.view(&cache, "product", ("product", 3), Objects::Copied);
///
/// let value = codec.value(b"apple", b"\x03".to_vec());
/// wait(view.write(b"apple", value), None, || Ok::<_, Infallible>(()))??;
/// let found = view.hit(b"apple").expect("it is in memory");
/// assert_eq!(found.payload(b"apple"), Some(&b"\x03"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct HostCodec {
    number: u8,
    /// Of private values.
    signer: Option<Signer>,
}

/// An encoding that one language alone reads. Other nodes miss such values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PrivateFormat {
    /// Python's `pickle`.
    Pickle,
    /// Ruby's `Marshal`.
    Marshal,
    /// The external term format of Erlang and Elixir.
    Etf,
    /// The structured clone of V8.
    V8,
    /// PHP's `serialize`.
    Php,
}

impl PrivateFormat {
    /// The number in envelopes.
    fn number(self) -> u8 {
        match self {
            PrivateFormat::Pickle => 16,
            PrivateFormat::Marshal => 17,
            PrivateFormat::Etf => 18,
            PrivateFormat::V8 => 19,
            PrivateFormat::Php => 20,
        }
    }
}

impl HostCodec {
    /// MessagePack, within the [interchange profile](crate::profile), which other languages read. Bytes from Redis that are
    /// outside of it are a miss.
    pub fn message_pack() -> Self {
        HostCodec { number: MESSAGE_PACK, signer: None }
    }

    /// JSON in Redis, so that other programs can read and write the values as text; memory has MessagePack. Values that JSON has no
    /// form for are refused by the [encoder](HostCodec::encoder). A view of `larder::Format::Json` with the same name and schema
    /// reads them. Cost: a value is written anew for Redis, and parsed twice from there.
    pub fn json() -> Self {
        HostCodec { number: JSON, signer: None }
    }

    /// The codec of this name, `messagepack` or `json`.
    ///
    /// # Errors
    /// If there is none.
    pub fn of_name(name: &str) -> Result<HostCodec, NameError> {
        match name {
            "messagepack" => Ok(HostCodec::message_pack()),
            "json" => Ok(HostCodec::json()),
            _ => Err(NameError(format!("codec is {name:?}; it must be messagepack or json"))),
        }
    }

    /// The encoder for a value of at most so many bytes of MessagePack.
    pub fn encoder(&self, max_bytes: usize) -> Encoder {
        if self.number == JSON { Encoder::for_json(max_bytes) } else { Encoder::new(max_bytes) }
    }

    /// An encoding of one language, whose bytes are signed: to decode some of them is to execute them. Bytes from Redis that
    /// none of the keys has signed for this view are a miss, before the host sees them.
    pub fn private(format: PrivateFormat, signer: &Signer, view: SignedView<'_>) -> Self {
        let number = format.number();
        HostCodec { number, signer: Some(signer.of_view(view, number)) }
    }

    /// The number that this codec has in envelopes.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// The value of `payload`, which the host has encoded, for the entry of `key`. Cost: none; a private value is copied and
    /// signed.
    pub fn value<O>(&self, key: &[u8], payload: impl Into<Bytes>) -> HostValue<O> {
        let payload = payload.into();
        match &self.signer {
            None => HostValue::new(self.number, payload, false),
            Some(signer) => HostValue::new(self.number, signer.sign(key, &payload).into(), true),
        }
    }

    /// A view whose values this codec made. Programs that have a view of the same name and schema, in whatever language, read
    /// each other's values if they have the same codec; all others miss them. Other options are set as with every view.
    ///
    /// # Panics
    /// If the name is empty or contains a `:` or a `/`, or if the schema is not one of
    /// [`View::with_shared_schema`](larder::View::with_shared_schema).
    pub fn view<O, X>(
        &self,
        cache: &Cache,
        name: &str,
        (schema, number): (&str, u32),
        objects: Objects,
    ) -> View<[u8], HostValue<O>, X>
    where
        O: Send + Sync + 'static,
    {
        let view = cache.view_with_codec(name, self.clone()).with_shared_schema(schema, number);
        view.with_weigher(move |value: &HostValue<O>| objects.weight(value))
    }
}

impl<O: Send + Sync + 'static> Codec<HostValue<O>> for HostCodec {
    fn id(&self) -> u8 {
        self.number
    }

    fn reads(&self, codec: u8) -> bool {
        codec == self.number || (!self.is_private() && [MESSAGE_PACK, JSON].contains(&codec))
    }

    fn encode(&self, value: &HostValue<O>, out: &mut Vec<u8>) -> Result<(), CodecError> {
        if value.codec() != self.number {
            // The envelope would have the number of this view.
            return Err(
                format!("a value of codec {} in a view of codec {}", value.codec(), self.number).into()
            );
        }
        if self.number == JSON {
            return Ok(profile::to_json(value.stored(), out)?);
        }
        out.extend_from_slice(value.stored());
        Ok(())
    }

    fn encoded_bytes(&self, value: &HostValue<O>) -> Result<usize, CodecError> {
        if self.number != JSON {
            return Ok(value.stored().len());
        }
        let mut text = Vec::new();
        profile::to_json(value.stored(), &mut text)?;
        Ok(text.len())
    }

    fn decode(&self, codec: u8, bytes: &[u8]) -> Result<HostValue<O>, CodecError> {
        self.decode_owned(codec, bytes.to_vec(), 0)
    }

    /// Keeps the allocation, but of JSON.
    fn decode_owned(&self, codec: u8, bytes: Vec<u8>, start: usize) -> Result<HostValue<O>, CodecError> {
        let stored = match &self.signer {
            None if codec == JSON => profile::from_json(&bytes[start..])?.into(),
            None => {
                profile::check(&bytes[start..])?;
                Bytes::from(bytes).slice(start..)
            }
            Some(signer) => {
                signer.verify(&bytes[start..]).ok_or("no key has signed the value")?;
                Bytes::from(bytes).slice(start..)
            }
        };
        Ok(HostValue::new(self.number, stored, self.signer.is_some()))
    }
}

#[cfg(test)]
mod tests;
