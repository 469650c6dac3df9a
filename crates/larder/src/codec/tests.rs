//! Each codec decodes what it encoded, and refuses bytes that it does not read to the end.

use super::*;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Row {
    name: String,
    seen: Option<u64>,
    scores: Vec<f64>,
    labels: BTreeMap<String, i8>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum State {
    Open,
    Closed { by: u32 },
}

fn row() -> Row {
    let labels = BTreeMap::from([("low".into(), -1), ("high".into(), 1)]);
    Row {
        name: "café".into(),
        seen: Some(0),
        scores: vec![0.1, -2.5e300],
        labels,
        state: State::Closed { by: 7 },
    }
}

const ALL: [Format; 3] = [Format::Postcard, Format::Json, Format::MessagePack];

#[test]
fn decoded_value_equals_encoded_value() {
    for format in ALL {
        let mut bytes = b"before".to_vec();
        format.encode(&row(), &mut bytes).expect("encodes");
        let rest = bytes.strip_prefix(b"before").expect("appended");
        let number = <Format as Codec<Row>>::id(&format);
        let read: Row =
            Format::Postcard.decode(number, rest).expect("each codec reads the bytes of the others");
        assert_eq!(read, row(), "{format:?}");
    }
}

#[test]
fn none_false_and_empty_are_encoded() {
    for format in ALL {
        let mut bytes = Vec::new();
        format.encode(&(None::<u8>, false, String::new()), &mut bytes).expect("encodes");
        let number = <Format as Codec<u8>>::id(&format);
        let read: (Option<u8>, bool, String) = format.decode(number, &bytes).expect("decodes");
        assert_eq!(read, (None, false, String::new()), "{format:?}");
    }
}

#[test]
fn bytes_after_value_are_an_error() {
    for format in ALL {
        let mut bytes = Vec::new();
        format.encode(&5_u8, &mut bytes).expect("encodes");
        bytes.push(0);
        assert!(
            Codec::<u8>::decode(&format, <Format as Codec<u8>>::id(&format), &bytes).is_err(),
            "{format:?}"
        );
    }
}

#[test]
fn message_pack_contains_field_names() {
    let mut bytes = Vec::new();
    Format::MessagePack.encode(&row(), &mut bytes).expect("encodes");
    assert!(bytes.windows(4).any(|window| window == b"seen"));
}

#[test]
fn raw_codec_stores_bytes_unchanged() {
    let mut bytes = Vec::new();
    Raw.encode(&vec![0, 255, 13, 10], &mut bytes).expect("encodes");
    assert_eq!(bytes, [0, 255, 13, 10]);
    assert!(Codec::<String>::decode(&Raw, RAW, &bytes).is_err(), "not UTF-8");
}

#[test]
fn encode_error_contains_reason_of_codec() {
    struct Refusing;
    impl Codec<u8> for Refusing {
        fn id(&self) -> u8 {
            200
        }
        fn encode(&self, _: &u8, _: &mut Vec<u8>) -> Result<(), CodecError> {
            Err("no form for this value".into())
        }
        fn decode(&self, _: u8, _: &[u8]) -> Result<u8, CodecError> {
            Err("nothing to decode".into())
        }
    }
    let meta = Meta {
        id: envelope::Id([0; 16]),
        deadline_ms: 0,
        codec: 0,
        negative: false,
        schema: 0,
        clock: 0,
        ttl: std::time::Duration::ZERO,
        grace: std::time::Duration::ZERO,
        cost: std::time::Duration::ZERO,
        tags: Vec::new(),
    };
    let refused = seal(&1, &Refusing, meta, &Packing::default()).expect_err("refused");
    assert_eq!(refused.to_string(), "the value cannot be encoded: no form for this value");
}

#[test]
fn raw_value_keeps_allocation_of_its_envelope() {
    let bytes = stored::seal(&b"value".to_vec(), &Raw, Default::default()).expect("encodes");
    let allocation = bytes.as_ptr();
    let (_, value) = open::<Vec<u8>>(bytes, &Raw, 0, &Packing::default()).expect("opens");
    assert_eq!((&value[..], value.as_ptr()), (&b"value"[..], allocation));
    let bytes = stored::seal(&"text".to_owned(), &Raw, Default::default()).expect("encodes");
    assert_eq!(open::<String>(bytes, &Raw, 0, &Packing::default()).expect("opens").1, "text");
}

#[test]
fn codec_without_decode_owned_decodes_owned_bytes() {
    let compression = crate::compression::Compression::Lz4;
    for compression in [Default::default(), compression] {
        let row = Row { name: "x".repeat(9_000), ..row() };
        let bytes = stored::seal(&row, &Format::Postcard, compression).expect("encodes");
        let (_, decoded) = open::<Row>(bytes, &Format::Postcard, 0, &Packing::default()).expect("opens");
        assert_eq!(decoded, row);
    }
}
