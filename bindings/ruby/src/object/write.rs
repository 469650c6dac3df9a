//! Writing objects of Ruby as MessagePack.

use crate::raised::Raised;
use crate::ruby::string::Encoding;
use crate::ruby::value::{Integer, Kind};
use crate::ruby::{Ruby, Value};
use larder_host::profile::{Encoder, Refused};

/// The reason why an object was not written.
pub(super) enum WriteError {
    Refused(Refused),
    /// By Ruby.
    Raised(Raised),
}

impl From<Refused> for WriteError {
    fn from(refused: Refused) -> Self {
        WriteError::Refused(refused)
    }
}

impl From<Raised> for WriteError {
    fn from(raised: Raised) -> Self {
        WriteError::Raised(raised)
    }
}

type Written = Result<(), WriteError>;

/// The MessagePack of an object.
pub(super) fn message_pack<'r>(
    ruby: Ruby<'r>,
    object: Value<'r>,
    mut encoder: Encoder,
) -> Result<Vec<u8>, WriteError> {
    write(ruby, object, &mut encoder)?;
    Ok(encoder.finish()?)
}

/// Only of these classes: an object of a subclass would be read as something else. The encoder bounds the depth.
fn write<'r>(ruby: Ruby<'r>, object: Value<'r>, out: &mut Encoder) -> Written {
    match object.kind() {
        Kind::Nil => Ok(out.nil()?),
        Kind::Boolean(truth) => Ok(out.boolean(truth)?),
        Kind::Integer => write_integer(object, out),
        Kind::Float => Ok(out.float(object.to_float())?),
        Kind::String => write_string(object, out),
        Kind::Symbol => {
            let name = object.name(ruby)?;
            write_string(name, out)
        }
        Kind::Array => write_array(ruby, object, out),
        Kind::Hash => write_hash(ruby, object, out),
        Kind::Time => {
            let (seconds, nanoseconds) = object.timestamp(ruby)?;
            Ok(out.timestamp(seconds, nanoseconds)?)
        }
        Kind::Other => write_other(ruby, object, out),
    }
}

#[cold]
fn write_other<'r>(ruby: Ruby<'r>, object: Value<'r>, out: &mut Encoder) -> Written {
    let class = object.class_name(ruby)?;
    let refusal = format!(
        "a value of class {class}, which other languages do not read: convert it, or use codec: :marshal"
    );
    Err(out.unsupported(refusal).into())
}

fn write_integer(number: Value<'_>, out: &mut Encoder) -> Written {
    match number.to_integer() {
        Integer::Signed(number) => Ok(out.integer(number)?),
        Integer::Unsigned(number) => Ok(out.unsigned(number)?),
        Integer::Large => Err(out.unsupported("an integer outside of -2^63 to 2^64 - 1").into()),
    }
}

fn write_string(string: Value<'_>, out: &mut Encoder) -> Written {
    match string.encoding() {
        Encoding::Binary => {
            // SAFETY: it is a string, and the encoder calls nothing of Ruby.
            let bytes = unsafe { string.borrow_bytes() };
            Ok(out.bytes(bytes)?)
        }
        Encoding::Utf8 => match text_of(string) {
            Some(text) => Ok(out.text(text)?),
            None => Err(out.unsupported("a string that is no valid UTF-8: bytes are ASCII-8BIT").into()),
        },
        Encoding::Other => Err(out.unsupported("a string that is not UTF-8: encode it").into()),
    }
}

/// The text of a string, until anything of Ruby is called.
fn text_of<'a>(string: Value<'_>) -> Option<&'a str> {
    // SAFETY: it is a string, and the callers give the text to the encoder, which calls nothing of Ruby.
    std::str::from_utf8(unsafe { string.borrow_bytes() }).ok()
}

fn write_array<'r>(ruby: Ruby<'r>, array: Value<'r>, out: &mut Encoder) -> Written {
    let length = array.length(ruby)?;
    out.begin_list(length)?;
    for index in 0..length {
        write(ruby, array.element(index), out)?;
    }
    Ok(out.end()?)
}

fn write_hash<'r>(ruby: Ruby<'r>, hash: Value<'r>, out: &mut Encoder) -> Written {
    out.begin_map(hash.entries())?;
    hash.each_entry(|key, value| {
        write_key(ruby, key, out)?;
        write(ruby, value, out)
    })?;
    Ok(out.end()?)
}

fn write_key<'r>(ruby: Ruby<'r>, key: Value<'r>, out: &mut Encoder) -> Written {
    let name = match key.kind() {
        Kind::String => key,
        Kind::Symbol => key.name(ruby)?,
        _ => {
            let class = key.class_name(ruby)?;
            let refusal = format!("a key of class {class}; the keys of a map are text or symbols");
            return Err(out.unsupported(refusal).into());
        }
    };
    match text_of(name) {
        // Binary ASCII is equal to the same text.
        Some(text) if name.encoding() == Encoding::Utf8 || text.is_ascii() => Ok(out.key(text)?),
        _ => Err(out.unsupported("a key that is not UTF-8").into()),
    }
}
