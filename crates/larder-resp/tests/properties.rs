//! Requests parse equally however they are split, frames round-trip, and no bytes cause a panic.

use bytes::Bytes;
use larder_resp::{Frame, Limits, Progress, Protocol, ReplyParser, RequestParser};
use proptest::collection::vec;
use proptest::prelude::*;

type Command = Vec<Vec<u8>>;

fn encode(command: &Command) -> Vec<u8> {
    let frame = Frame::Array(command.iter().map(|arg| Frame::Bulk(Bytes::copy_from_slice(arg))).collect());
    let mut bytes = Vec::new();
    frame.encode(&mut bytes, Protocol::Resp2);
    bytes
}

/// Feeds `input` in two pieces, first `split` bytes, then the rest.
fn parse_split(input: &[u8], split: usize) -> Vec<Command> {
    let (mut parser, mut start, mut parsed) = (RequestParser::new(), 0, Vec::new());
    for end in [split, input.len()] {
        while let Progress::Complete { consumed, .. } =
            parser.parse(&input[start..end], &Limits::default()).unwrap()
        {
            parsed.push(parser.args(&input[start..end]).iter().map(<[u8]>::to_vec).collect());
            start += consumed;
        }
    }
    assert_eq!(start, input.len());
    parsed
}

fn frames() -> impl Strategy<Value = Frame> {
    let bytes = || vec(any::<u8>(), 0..12).prop_map(Bytes::from);
    let leaf = prop_oneof![
        "[ -~]{0,8}".prop_map(Frame::Simple),
        "[A-Z]{1,4} [ -~]{0,8}".prop_map(Frame::Error),
        any::<i64>().prop_map(Frame::Integer),
        bytes().prop_map(Frame::Bulk),
        Just(Frame::Null),
        any::<f64>().prop_filter("NaN is not equal to itself", |n| !n.is_nan()).prop_map(Frame::Double),
        any::<bool>().prop_map(Frame::Boolean),
        "-?[0-9]{1,30}".prop_map(Frame::BigNumber),
        bytes().prop_map(|text| Frame::Verbatim(*b"txt", text)),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Frame::Array),
            vec(inner.clone(), 0..4).prop_map(Frame::Set),
            vec(inner.clone(), 0..4).prop_map(Frame::Push),
            vec((inner.clone(), inner), 0..3).prop_map(Frame::Map),
        ]
    })
}

proptest! {
    #[test]
    fn requests_split_at_any_byte_parse_equally(commands in vec(vec(vec(any::<u8>(), 0..20), 1..5), 1..4)) {
        let input: Vec<u8> = commands.iter().flat_map(encode).collect();
        for split in 0..=input.len() {
            prop_assert_eq!(&parse_split(&input, split), &commands);
        }
    }

    #[test]
    fn resp3_frame_in_two_pieces_round_trips(frame in frames(), at in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes, Protocol::Resp3);
        let mut parser = ReplyParser::new();
        let first = parser.parse(&bytes[..at.index(bytes.len())], &Limits::default()).unwrap();
        let incomplete = matches!(first, Progress::Incomplete { .. });
        prop_assert!(incomplete);
        let second = parser.parse(&bytes, &Limits::default()).unwrap();
        prop_assert_eq!(second, Progress::Complete { consumed: bytes.len(), frame });
    }

    #[test]
    fn random_bytes_never_panic(noise in vec(any::<u8>(), 0..200)) {
        let _ = RequestParser::new().parse(&noise, &Limits::default());
        let _ = ReplyParser::new().parse(&noise, &Limits::default());
    }

    #[test]
    fn resp_like_bytes_never_panic(noise in "[*$+:%~>|=_,#(\\-0-9\r\na]{0,60}") {
        let _ = RequestParser::new().parse(noise.as_bytes(), &Limits::unauthenticated());
        let _ = ReplyParser::new().parse(noise.as_bytes(), &Limits::default());
    }
}
