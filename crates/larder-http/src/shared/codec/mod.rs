//! A shared entry as bytes: what a replica needs to answer as the one that ran the handler. The envelope of crate
//! `larder` around it has the times, the tags and the checksum.
//!
//! ```text
//! offset  bytes
//!      0      2  magic, "LH"
//!      2      1  version, 1
//!      3      1  kind: 1 a response, 2 the record of a resource that varies
//!      4      4  length of the key, and the key
//!   response  2  status
//!             1  scope: 0 none, 1 public, 2 gated, 3 private
//!             8  age that the response had when its handler replied, in milliseconds
//!             1  number of labels; for each the lengths of name (2) and value (2), and both as UTF-8
//!             2  number of header lines; for each the lengths of name (2) and value (4), and both
//!             …  body, to the end
//!   record   16  id, which is a part of the keys of its variants
//!             1  scope
//!             1  number of fields; for each the length of its name (2), and the name
//! ```
//!
//! Integers are little-endian. A new field needs a new version, which is a part of the keys in Redis. Nothing is allocated
//! by a length that the bytes do not have. Whatever is malformed is a miss.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::key::Key;
use crate::policy::labels::Labels;
use crate::policy::scope::Scope;
use crate::stored::entry::StoredResponse;
use crate::stored::record::VaryRecord;

const MAGIC: &[u8; 2] = b"LH";
pub(crate) const VERSION: u8 = 1;
const RESPONSE: u8 = 1;
const RECORD: u8 = 2;
/// The scopes by their numbers.
const SCOPES: [Option<Scope>; 4] = [None, Some(Scope::Public), Some(Scope::Gated), Some(Scope::Private)];

/// A decoded entry.
#[derive(Debug)]
pub(crate) enum SharedEntry<'a> {
    Response(SharedResponse<'a>),
    Record { id: u128, scope: Option<Scope>, fields: Box<[HeaderName]> },
}

/// A response from Redis.
#[derive(Debug)]
pub(crate) struct SharedResponse<'a> {
    pub(crate) status: StatusCode,
    pub(crate) scope: Option<Scope>,
    pub(crate) age_ms: u64,
    pub(crate) labels: Labels,
    pub(crate) headers: HeaderMap,
    pub(crate) body: &'a [u8],
}

/// The bytes of a complete response; `None` if one of its parts is too long for the format.
#[cfg(feature = "shared")]
pub(crate) fn encode_response(key: &Key, stored: &StoredResponse) -> Option<Vec<u8>> {
    let body = stored.complete_body()?;
    let mut out = Vec::with_capacity(key.as_bytes().len() + body.len() + 1024);
    write_response_head(&mut out, key, stored, stored.headers())?;
    body.reader(0..body.len()).for_each(|chunk| out.extend_from_slice(&chunk));
    Some(out)
}

/// Appends all of a response but its body, which comes next. `headers` are those that are replayed.
pub(crate) fn write_response_head(
    out: &mut Vec<u8>,
    key: &Key,
    stored: &StoredResponse,
    headers: &HeaderMap,
) -> Option<()> {
    write_head(out, RESPONSE, key)?;
    out.extend_from_slice(&stored.status().as_u16().to_le_bytes());
    out.push(number(stored.scope)?);
    out.extend_from_slice(&stored.initial_age_ms().to_le_bytes());
    out.push(u8::try_from(stored.labels().iter().count()).ok()?);
    for (name, value) in stored.labels().iter() {
        out.extend_from_slice(&u16::try_from(name.len()).ok()?.to_le_bytes());
        out.extend_from_slice(&u16::try_from(value.len()).ok()?.to_le_bytes());
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(value.as_bytes());
    }
    out.extend_from_slice(&u16::try_from(headers.len()).ok()?.to_le_bytes());
    for (name, value) in headers {
        out.extend_from_slice(&u16::try_from(name.as_str().len()).ok()?.to_le_bytes());
        out.extend_from_slice(&u32::try_from(value.len()).ok()?.to_le_bytes());
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(value.as_bytes());
    }
    Some(())
}

/// The bytes of a record, without its variants.
pub(crate) fn encode_record(key: &Key, record: &VaryRecord) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    write_head(&mut out, RECORD, key)?;
    out.extend_from_slice(&record.id().to_le_bytes());
    out.push(number(record.scope())?);
    out.push(u8::try_from(record.fields().len()).ok()?);
    for field in record.fields() {
        out.extend_from_slice(&u16::try_from(field.as_str().len()).ok()?.to_le_bytes());
        out.extend_from_slice(field.as_str().as_bytes());
    }
    Some(out)
}

fn write_head(out: &mut Vec<u8>, kind: u8, key: &Key) -> Option<()> {
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[VERSION, kind]);
    out.extend_from_slice(&u32::try_from(key.as_bytes().len()).ok()?.to_le_bytes());
    out.extend_from_slice(key.as_bytes());
    Some(())
}

pub(crate) fn number(scope: Option<Scope>) -> Option<u8> {
    SCOPES.iter().position(|other| *other == scope).map(|number| number as u8)
}

/// The entry of this key. `None` if the bytes are malformed, or of another key.
pub(crate) fn decode<'a>(key: &Key, bytes: &'a [u8]) -> Option<SharedEntry<'a>> {
    let mut parts = Parts(bytes);
    let [magic @ .., version, kind] = parts.take::<4>()?;
    if magic != *MAGIC || version != VERSION {
        return None;
    }
    let key_length = u32::from_le_bytes(parts.take()?);
    if parts.slice(key_length as usize)? != key.as_bytes() {
        return None;
    }
    match kind {
        RESPONSE => decode_response(parts).map(SharedEntry::Response),
        RECORD => decode_record(parts),
        _ => None,
    }
}

fn decode_response(mut parts: Parts<'_>) -> Option<SharedResponse<'_>> {
    let status = StatusCode::from_u16(u16::from_le_bytes(parts.take()?)).ok()?;
    let scope = parts.scope()?;
    let age_ms = u64::from_le_bytes(parts.take()?);
    let mut labels = Labels::default();
    let [count] = parts.take()?;
    for _ in 0..count {
        let name_length = u16::from_le_bytes(parts.take()?);
        let value_length = u16::from_le_bytes(parts.take()?);
        let name = parts.text(name_length)?;
        labels.set(name, &parts.text(value_length)?);
    }
    let lines = u16::from_le_bytes(parts.take()?);
    let mut headers = HeaderMap::new();
    for _ in 0..lines {
        let name_length = u16::from_le_bytes(parts.take()?);
        let value_length = u32::from_le_bytes(parts.take()?);
        let name = HeaderName::from_bytes(parts.slice(name_length.into())?).ok()?;
        let value = HeaderValue::from_bytes(parts.slice(value_length as usize)?).ok()?;
        // A map has at most 32,768 lines.
        headers.try_append(name, value).ok()?;
    }
    Some(SharedResponse { status, scope, age_ms, labels, headers, body: parts.0 })
}

fn decode_record(mut parts: Parts<'_>) -> Option<SharedEntry<'_>> {
    let id = u128::from_le_bytes(parts.take()?);
    let scope = parts.scope()?;
    let [count] = parts.take()?;
    let mut fields = Vec::new();
    for _ in 0..count {
        let length = u16::from_le_bytes(parts.take()?);
        fields.push(HeaderName::from_bytes(parts.slice(length.into())?).ok()?);
    }
    parts.0.is_empty().then(|| SharedEntry::Record { id, scope, fields: fields.into() })
}

/// The bytes that are not decoded yet.
struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (part, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*part)
    }

    fn scope(&mut self) -> Option<Option<Scope>> {
        let [number] = self.take()?;
        SCOPES.get(usize::from(number)).copied()
    }

    fn text(&mut self, length: u16) -> Option<String> {
        String::from_utf8(self.slice(length.into())?.to_vec()).ok()
    }

    fn slice(&mut self, length: usize) -> Option<&'a [u8]> {
        let (part, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(part)
    }
}

#[cfg(test)]
mod tests;
