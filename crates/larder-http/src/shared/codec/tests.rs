//! The codec: what is decoded is what was encoded, and anything else is a miss.

use super::*;
use crate::fuzz::ITERATIONS;
use crate::policy::plan::Plan;
use crate::stored::chunks::Chunks;
use crate::stored::entry::StoredBody;
use crate::stored::purge::PurgeStamp;
use bytes::Bytes;
use std::time::Duration;

fn plan() -> Plan {
    let mut labels = Labels::default();
    labels.set("route", "/a/{id}");
    Plan {
        labels,
        ttl: Duration::from_secs(60),
        age: Duration::from_millis(1500),
        scope: Some(Scope::Gated),
        ..Plan::default()
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

/// Changes of an encoded entry: a position and a byte each, and how many bytes are cut off or added.
type Changes = (Vec<(u16, u8)>, i8);

/// A response that decodes has a meaning: encoded and decoded again it is the same.
#[test]
fn random_bytes_are_a_miss_or_have_one_meaning() {
    let key = Key::new(b"key");
    let encoded =
        [encode_response(&key, &response(&["ab", "c"])), encode_record(&key, &record())].map(Option::unwrap);
    bolero::check!().with_type::<(bool, Changes)>().with_iterations(ITERATIONS).for_each(
        |(is_record, (changes, length))| {
            let mut bytes = encoded[usize::from(*is_record)].clone();
            bytes.resize(bytes.len().saturating_add_signed(isize::from(*length) / 16), 0xa5);
            // The head and the key are compared, so changes of them are a miss.
            let first = 8 + key.as_bytes().len();
            for (at, byte) in changes {
                let at = first + usize::from(*at) % (bytes.len() - first).max(1);
                bytes.get_mut(at).into_iter().for_each(|changed| *changed = *byte);
            }
            match decode(&key, &bytes) {
                None => {}
                Some(SharedEntry::Response(decoded)) => assert_eq!(again(&key, &decoded), meaning(&decoded)),
                Some(SharedEntry::Record { id, scope, fields }) => {
                    let record = VaryRecord::with_id(id, scope, fields, PurgeStamp::default());
                    assert_eq!(
                        encode_record(&key, &record).unwrap().to_ascii_lowercase(),
                        bytes.to_ascii_lowercase()
                    );
                }
            }
        },
    );
}

type Meaning = (StatusCode, Option<Scope>, u64, Labels, HeaderMap, Vec<u8>);

/// What a replica would replay.
fn meaning(decoded: &SharedResponse<'_>) -> Meaning {
    let stored = stored(decoded);
    let SharedResponse { status, scope, age_ms, ref labels, body, .. } = *decoded;
    (status, scope, age_ms, labels.clone(), stored.headers().clone(), body.to_vec())
}

/// The same after the replica has shared it.
fn again(key: &Key, decoded: &SharedResponse<'_>) -> Meaning {
    let bytes = encode_response(key, &stored(decoded)).unwrap();
    let Some(SharedEntry::Response(again)) = decode(key, &bytes) else { panic!("no response") };
    meaning(&again)
}

/// The response as a replica stores it.
fn stored(decoded: &SharedResponse<'_>) -> StoredResponse {
    let plan = Plan {
        labels: decoded.labels.clone(),
        age: Duration::from_millis(decoded.age_ms),
        scope: decoded.scope,
        ..plan()
    };
    let body = StoredBody::Complete(Chunks::new(vec![Bytes::copy_from_slice(decoded.body)]));
    StoredResponse::new(
        decoded.status,
        &decoded.headers,
        body,
        &plan,
        Box::default(),
        PurgeStamp::default(),
        0,
    )
}
