//! The header fields of a stored response: which of a handler's fields are replayed, and those that every response must have.

use std::fmt::{self, Write as _};
use std::time::{Duration, SystemTime};

use bytes::BytesMut;
use http::header::{ACCEPT_RANGES, AGE, CONTENT_LENGTH, DATE, ETAG};
use http::{HeaderMap, HeaderName, HeaderValue};
use httpdate::HttpDate;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::StoredBody;
use crate::headers::hop_by_hop::HopByHop;
use crate::status::CACHE_STATUS;
use crate::stored::chunks::Chunks;

pub(super) fn headers_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 96).sum()
}

/// The fields to replay. Adds those that every stored response must have: date, and those of a complete body: its
/// length, a validator, and that ranges are supported. `unstored` fields are left out.
pub(super) fn stored_headers(from: &HeaderMap, unstored: &[HeaderName], body: &StoredBody) -> HeaderMap {
    let of_connection = HopByHop::of(from);
    let mut headers = HeaderMap::with_capacity(from.len() + 6);
    headers.insert(AGE, HeaderValue::from_static("0"));
    // The members of caches nearer to the origin stay, before this one (RFC 9211, section 2).
    if from.get(CACHE_STATUS).is_none_or(HeaderValue::is_empty) {
        headers.insert(CACHE_STATUS, HeaderValue::from_static(""));
    }
    for (name, value) in from {
        let is_placeholder = name == AGE || (name == CACHE_STATUS && value.is_empty());
        let is_stored = !of_connection.has(name) && !unstored.contains(name);
        if is_stored && !is_placeholder {
            headers.append(name, value.clone());
        }
    }
    let mut values = GeneratedValues::new();
    if !headers.contains_key(DATE) {
        headers.insert(DATE, values.add(format_args!("{}", HttpDate::from(SystemTime::now()))));
    }
    if let StoredBody::Complete(chunks) = body {
        headers.insert(CONTENT_LENGTH, values.add(format_args!("{}", chunks.len())));
        if !headers.contains_key(ETAG) {
            headers.insert(ETAG, values.add_etag(chunks.hash()));
        }
        if !headers.contains_key(ACCEPT_RANGES) {
            headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        }
    }
    headers
}

/// Field values in one allocation: each copy of the header map shares it.
pub(super) struct GeneratedValues(BytesMut);

impl GeneratedValues {
    /// With room for a date, an `ETag` and a length.
    pub(super) fn new() -> GeneratedValues {
        GeneratedValues(BytesMut::with_capacity(96))
    }

    pub(super) fn add(&mut self, value: fmt::Arguments<'_>) -> HeaderValue {
        self.0.write_fmt(value).expect("a buffer in memory grows");
        HeaderValue::from_maybe_shared(self.0.split().freeze())
            .expect("dates, hashes and numbers are visible ASCII")
    }

    fn add_etag(&mut self, hash: u128) -> HeaderValue {
        let (high, low) = ((hash >> 64) as u64, hash as u64);
        self.add(format_args!("\"{high:016x}{low:016x}\""))
    }
}

/// How long a hash may wait for a thread and take there.
const MAX_HASH_WAIT: Duration = Duration::from_millis(250);

/// The generated `ETag` of a long body: to hash it takes milliseconds, in which others need this thread. If there is no
/// other thread soon, it is made here.
pub(crate) async fn etag_made_elsewhere(body: &Chunks) -> HeaderValue {
    let elsewhere = body.clone();
    let mut hashing = spawn_blocking(move || elsewhere.hash());
    let hash = match timeout(MAX_HASH_WAIT, &mut hashing).await {
        Ok(Ok(hash)) => hash,
        // All threads are busy, or the runtime is shutting down.
        Ok(Err(_)) | Err(_) => {
            hashing.abort();
            body.hash()
        }
    };
    GeneratedValues::new().add_etag(hash)
}
