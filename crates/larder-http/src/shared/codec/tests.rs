//! The codec: what is decoded is what was encoded, and anything else is a miss.

use super::*;
use crate::chunks::Chunks;
use crate::entry::StoredBody;
use crate::policy::Plan;
use crate::purge::PurgeStamp;
use bytes::Bytes;
use std::time::Duration;

fn plan() -> Plan {
    let mut labels = Labels::default();
    labels.set("route", "/a/{id}".into());
    Plan {
        labels,
        ttl: Duration::from_secs(60),
        grace: Duration::ZERO,
        age: Duration::from_millis(1500),
        tags: Vec::new(),
        scope: Some(Scope::Gated),
        vary: Box::default(),
    }
}

fn response(body: &[&'static str]) -> StoredResponse {
    let mut headers = HeaderMap::new();
    headers.append("content-type", HeaderValue::from_static("text/plain"));
    headers.append("x-many", HeaderValue::from_static("1"));
    headers.append("x-many", HeaderValue::from_bytes(b"\xfc").unwrap());
    let chunks = body.iter().map(|chunk| Bytes::from_static(chunk.as_bytes())).collect();
    let body = StoredBody::Complete(Chunks::new(chunks));
    StoredResponse::new(
        StatusCode::NOT_FOUND,
        &headers,
        body,
        &plan(),
        Box::default(),
        PurgeStamp::default(),
        0,
    )
}

fn record() -> VaryRecord {
    let fields = ["accept", "x-other"].map(HeaderName::from_static);
    VaryRecord::with_id(7, Some(Scope::Private), fields.into(), PurgeStamp::default())
}

#[test]
fn response_is_decoded_as_it_was() {
    let (key, stored) = (Key::new(b"key"), response(&["ab", "c"]));
    let bytes = encode_response(&key, &stored).unwrap();
    let Some(SharedEntry::Response(decoded)) = decode(&key, &bytes) else { panic!("no response") };
    assert_eq!((decoded.status, decoded.scope), (StatusCode::NOT_FOUND, Some(Scope::Gated)));
    assert_eq!((decoded.age_ms, decoded.body), (1500, &b"abc"[..]));
    assert_eq!((&decoded.labels, decoded.labels.get("route")), (stored.labels(), Some("/a/{id}")));
    assert_eq!(decoded.headers, *stored.headers());
}

#[test]
fn record_is_decoded_as_it_was() {
    let key = Key::new(b"key");
    let bytes = encode_record(&key, &record()).unwrap();
    let Some(SharedEntry::Record { id, scope, fields }) = decode(&key, &bytes) else { panic!("no record") };
    assert_eq!((id, scope, &*fields), (7, Some(Scope::Private), record().fields()));
}

#[test]
fn bytes_of_another_key_are_a_miss() {
    let bytes = encode_response(&Key::new(b"key"), &response(&["abc"])).unwrap();
    assert!(decode(&Key::new(b"other"), &bytes).is_none());
    assert!(decode(&Key::new(b"ke"), &bytes).is_none());
}

#[test]
fn malformed_bytes_are_a_miss() {
    let key = Key::new(b"key");
    let whole = encode_response(&key, &response(&[])).unwrap();
    for length in 0..whole.len() {
        assert!(decode(&key, &whole[..length]).is_none(), "{length} bytes");
    }
    let whole = encode_record(&key, &record()).unwrap();
    for length in 0..whole.len() {
        assert!(decode(&key, &whole[..length]).is_none(), "{length} bytes of a record");
    }
    assert!(decode(&key, &[&whole[..], b"x"].concat()).is_none(), "bytes after a record");
    for at in [0, 2, 3] {
        let mut other = whole.clone();
        other[at] ^= 0x40;
        assert!(decode(&key, &other).is_none(), "byte {at}");
    }
}

/// Whatever the bytes are, nothing panics, and no length makes it allocate more than there are bytes.
#[test]
fn changed_bytes_do_no_harm() {
    let key = Key::new(b"key");
    for whole in [encode_response(&key, &response(&["body"])), encode_record(&key, &record())] {
        let whole = whole.unwrap();
        for at in 0..whole.len() {
            for byte in [0, 1, 0x0a, 0x7f, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                _ = decode(&key, &changed);
            }
        }
    }
}
