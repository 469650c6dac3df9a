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
fn floating_point_numbers_come_back_to_the_last_bit() {
    for format in ALL {
        let number = <Format as Codec<f64>>::id(&format);
        for value in
            [907.3038322028689, 31.245270191439438, 0.1 + 0.2, f64::MIN_POSITIVE, f64::MAX, 5e-324, -0.0]
        {
            let mut bytes = Vec::new();
            format.encode(&value, &mut bytes).expect("encodes");
            let read: f64 = format.decode(number, &bytes).expect("decodes");
            assert_eq!(read.to_bits(), value.to_bits(), "{format:?} {value}");
        }
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
        id: crate::value::format::Id([0; 16]),
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
    let compression = crate::value::compression::Compression::Lz4;
    for compression in [Default::default(), compression] {
        let row = Row { name: "x".repeat(9_000), ..row() };
        let bytes = stored::seal(&row, &Format::Postcard, compression).expect("encodes");
        let (_, decoded) = open::<Row>(bytes, &Format::Postcard, 0, &Packing::default()).expect("opens");
        assert_eq!(decoded, row);
    }
}

/// Encodes with postcard, and checks that what it accepts is read back. Returns the error.
fn refused<V: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug + 'static>(
    value: &V,
) -> Option<String> {
    let mut bytes = Vec::new();
    match Format::Postcard.encode(value, &mut bytes) {
        Ok(()) => {
            let read: V = Format::Postcard.decode(POSTCARD, &bytes).expect("what was accepted is read");
            assert_eq!(read, *value);
            None
        }
        Err(error) => {
            let mut named = Vec::new();
            Format::Json.encode(value, &mut named).expect("JSON has names");
            let read: V = Format::Json.decode(JSON, &named).expect("JSON has names");
            assert_eq!(read, *value);
            Some(error.to_string())
        }
    }
}

macro_rules! value {
    ($body:item $value:expr) => {{
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        $body
        refused(&$value)
    }};
}

#[test]
fn postcard_refuses_what_it_would_read_as_another_value() {
    let partly = |a: Vec<u8>| {
        value! {
            struct Partly {
                #[serde(default, skip_serializing_if = "Vec::is_empty")]
                a: Vec<u8>,
                b: f32,
                c: Vec<u8>,
            }
            Partly { a, b: 0.0, c: vec![0] }
        }
    };
    assert_eq!(partly(vec![1]), None);
    let error = partly(vec![]).expect("refused");
    assert!(error.starts_with("Partly writes 2 fields and reads 3, as with skip_serializing"), "{error}");
    let never_written = value! {
        struct Half {
            #[serde(default, skip_serializing)]
            a: u8,
            b: u16,
        }
        vec![Half { a: 0, b: 1 }]
    };
    assert!(never_written.is_some());
    let never_read = value! {
        struct Half {
            #[serde(skip_deserializing)]
            a: u8,
            b: u16,
        }
        Some(Half { a: 0, b: 1 })
    };
    assert!(never_read.is_some());
    let in_variant = value! {
        enum State {
            Open { #[serde(default, skip_serializing_if = "Option::is_none")] by: Option<u8>, at: u8 },
        }
        (1, State::Open { by: None, at: 1 })
    };
    assert!(in_variant.expect("refused").starts_with("State::Open writes 1 fields and reads 2"));
    let after_others = value! {
        struct Part {
            #[serde(default, skip_serializing_if = "Option::is_none")]
            a: Option<u8>,
            b: u8,
        }
        [Some(1), Some(2), None].map(|a| Part { a, b: 0 })
    };
    assert!(after_others.expect("refused").starts_with("Part writes 1 fields and reads 2"));
}

#[test]
fn postcard_refuses_types_that_read_names() {
    let untagged = value! {
        #[serde(untagged)]
        enum Id { Number(u64), Text(String) }
        vec![Id::Number(1), Id::Text("a".into())]
    };
    let tagged = value! {
        #[serde(tag = "kind")]
        enum Kind { Page { at: u8 }, None }
        [Kind::Page { at: 1 }, Kind::None]
    };
    let adjacent = value! {
        #[serde(tag = "kind", content = "of")]
        enum Kind { Page { at: u8 }, None }
        [Kind::Page { at: 1 }, Kind::None]
    };
    let flattened = value! {
        struct All {
            a: u8,
            #[serde(flatten)]
            rest: BTreeMap<String, u8>,
        }
        All { a: 1, rest: BTreeMap::from([("b".into(), 2)]) }
    };
    let any = refused(&serde_json::json!({"a": [1, null]}));
    for (what, error) in [untagged, tagged, adjacent, flattened, any].into_iter().enumerate() {
        assert!(error.as_ref().is_some_and(|error| error.contains("Format::Json")), "{what}: {error:?}");
    }
}

/// A type that is read and written as another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "(u8, u8)", into = "(u8, u8)")]
struct Ordered {
    low: u8,
    high: u8,
}

impl TryFrom<(u8, u8)> for Ordered {
    type Error = &'static str;

    fn try_from((low, high): (u8, u8)) -> Result<Self, Self::Error> {
        if low <= high { Ok(Ordered { low, high }) } else { Err("not in order") }
    }
}

impl From<Ordered> for (u8, u8) {
    fn from(Ordered { low, high }: Ordered) -> Self {
        (low, high)
    }
}

#[test]
fn postcard_accepts_other_attributes() {
    let attributes = value! {
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        struct All {
            #[serde(skip)]
            skipped: u8,
            #[serde(default, alias = "old")]
            with_default: Option<Option<u8>>,
            #[serde(rename = "x")]
            renamed: (u8, [u16; 3]),
            unit: (),
            map: BTreeMap<u8, Vec<String>>,
        }
        All {
            skipped: 0,
            with_default: Some(None),
            renamed: (1, [2, 3, 4]),
            unit: (),
            map: BTreeMap::from([(1, vec!["a".into()])]),
        }
    };
    let variants = value! {
        enum Many {
            Unit,
            Newtype(u8),
            Tuple(u8, u16),
            Struct { a: u8, b: Option<Box<Many>> },
            #[serde(skip)]
            #[expect(dead_code, reason = "it has no form")]
            Never,
        }
        [
            Many::Unit,
            Many::Newtype(1),
            Many::Tuple(1, 2),
            Many::Struct { a: 1, b: Some(Box::new(Many::Struct { a: 2, b: None })) },
        ]
    };
    let converted = refused(&Ordered { low: 1, high: 2 });
    let tuple = value! {
        struct Pair(u8, #[serde(skip)] u8, u16);
        Pair(1, 0, 2)
    };
    let standard = refused(&(
        std::net::IpAddr::from([127, 0, 0, 1]),
        std::time::Duration::from_millis(1500),
        Result::<u8, String>::Err("no".into()),
        std::num::NonZeroU8::MIN,
        1..3u8,
    ));
    assert_eq!([attributes, variants, converted, tuple, standard], [const { None }; 5]);
}
