//! Each codec gives back what it got, and nothing for what it does not read to the end.

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
fn what_goes_in_comes_out() {
    for format in ALL {
        let mut bytes = b"before".to_vec();
        format.encode(&row(), &mut bytes).expect("encodes");
        let rest = bytes.strip_prefix(b"before").expect("appended");
        let number = <Format as Codec<Row>>::id(&format);
        let read: Row = Format::Postcard.decode(number, rest).expect("each reads what the others wrote");
        assert_eq!(read, row(), "{format:?}");
    }
}

#[test]
fn none_false_and_empty_are_values() {
    for format in ALL {
        let mut bytes = Vec::new();
        format.encode(&(None::<u8>, false, String::new()), &mut bytes).expect("encodes");
        let number = <Format as Codec<u8>>::id(&format);
        let read: (Option<u8>, bool, String) = format.decode(number, &bytes).expect("decodes");
        assert_eq!(read, (None, false, String::new()), "{format:?}");
    }
}

#[test]
fn bytes_after_the_value_are_an_error() {
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
fn other_languages_find_names_in_message_pack() {
    let mut bytes = Vec::new();
    Format::MessagePack.encode(&row(), &mut bytes).expect("encodes");
    assert!(bytes.windows(4).any(|window| window == b"seen"));
}

#[test]
fn raw_is_as_it_is() {
    let mut bytes = Vec::new();
    Raw.encode(&vec![0, 255, 13, 10], &mut bytes).expect("encodes");
    assert_eq!(bytes, [0, 255, 13, 10]);
    assert!(Codec::<String>::decode(&Raw, RAW, &bytes).is_err(), "not UTF-8");
}

/// A codec that refuses leaves nothing in any tier.
#[test]
fn a_refusal_says_why() {
    struct Refuses;
    impl Codec<u8> for Refuses {
        fn id(&self) -> u8 {
            200
        }
        fn encode(&self, _: &u8, _: &mut Vec<u8>) -> Result<(), CodecError> {
            Err("not today".into())
        }
        fn decode(&self, _: u8, _: &[u8]) -> Result<u8, CodecError> {
            Err("never".into())
        }
    }
    let meta = Meta {
        id: envelope::Id([0; 16]),
        codec: 0,
        negative: false,
        schema: 0,
        clock: 0,
        ttl: std::time::Duration::ZERO,
        grace: std::time::Duration::ZERO,
        cost: std::time::Duration::ZERO,
        tags: Vec::new(),
    };
    let refused = seal(&1, &Refuses, meta, &Packing::default()).expect_err("refused");
    assert_eq!(refused.to_string(), "the value cannot be encoded: not today");
}
