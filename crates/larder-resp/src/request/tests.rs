//! Tests of the request parser: limits, framing errors with the texts of Redis, pipelines, inline commands.

use super::*;

/// Parses all of `input`, fed in pieces of `step` bytes, into owned commands.
fn commands(input: &[u8], step: usize, limits: &Limits) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
    let mut parser = RequestParser::new();
    let (mut start, mut parsed) = (0, Vec::new());
    let mut end = 0;
    while end < input.len() {
        end = (end + step).min(input.len());
        while let Progress::Complete { consumed, .. } = parser.parse(&input[start..end], limits)? {
            parsed.push(parser.args(&input[start..end]).iter().map(<[u8]>::to_vec).collect());
            start += consumed;
        }
    }
    Ok(parsed)
}

fn error(input: &[u8]) -> String {
    commands(input, input.len(), &Limits::default()).unwrap_err().to_string()
}

#[test]
fn pipeline_in_pieces_of_any_size_yields_same_commands() {
    let input =
        b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*0\r\nPING\r\n\r\n*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\n\r\n*1\r\n";
    let whole = commands(input, input.len(), &Limits::default()).unwrap();
    assert_eq!(whole.len(), 5);
    assert_eq!(whole[4], [&b"SET"[..], b"", b"\r\n*1"]);
    for step in 1..input.len() {
        assert_eq!(commands(input, step, &Limits::default()).unwrap(), whole, "step {step}");
    }
}

#[test]
fn binary_keys_and_crlf_in_values_are_preserved() {
    let input = b"*3\r\n$3\r\nSET\r\n$4\r\n\x00\xff\r\n\r\n$7\r\na\r\nb\r\nc\r\n";
    let parsed = commands(input, input.len(), &Limits::default()).unwrap();
    assert_eq!(parsed, [[&b"SET"[..], b"\x00\xff\r\n", b"a\r\nb\r\nc"]]);
}

#[test]
fn framing_errors_use_texts_of_redis() {
    for (input, text) in [
        (&b"*x\r\n"[..], "Protocol error: invalid multibulk length"),
        (b"*18446744073709551616\r\n", "Protocol error: invalid multibulk length"),
        (b"*1048577\r\n", "Protocol error: invalid multibulk length"),
        (b"*1111111111111111111111111111", "Protocol error: invalid multibulk length"),
        (b"*1\r\n$x\r\n", "Protocol error: invalid bulk length"),
        (b"*1\r\n$-1\r\n", "Protocol error: invalid bulk length"),
        (b"*1\r\n$01\r\na\r\n", "Protocol error: invalid bulk length"),
        (b"*1\r\n$1a\r\na\r\n", "Protocol error: invalid bulk length"),
        (b"*1\r\n$1\rxa\r\n", "Protocol error: expected CRLF"),
        (b"*01\r\n$1\r\na\r\n", "Protocol error: invalid multibulk length"),
        (b"*1\r\n$18446744073709551616\r\n", "Protocol error: invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "Protocol error: invalid bulk length"),
        (b"*1\r\n:1\r\n", "Protocol error: expected '$', got ':'"),
        (b"*1\r\n$1\r\nabc\r\n", "Protocol error: expected CRLF"),
        (b"GET \"k\r\n", "Protocol error: unbalanced quotes in request"),
    ] {
        assert_eq!(error(input), text, "{}", input.escape_ascii());
    }
    assert_eq!(error(&vec![b'a'; 70_000]), "Protocol error: too big inline request");
}

#[test]
fn nested_request_fails_at_second_header() {
    assert_eq!(error(&b"*1\r\n".repeat(200_000)), "Protocol error: expected '$', got '*'");
}

#[test]
fn unauthenticated_limits_reject_large_requests() {
    let limits = Limits::unauthenticated();
    let text = |input: &[u8]| commands(input, input.len(), &limits).unwrap_err().to_string();
    assert_eq!(text(b"*11\r\n"), "Protocol error: unauthenticated multibulk length");
    assert_eq!(text(b"*1\r\n$16385\r\n"), "Protocol error: unauthenticated bulk length");
    assert_eq!(text(b"*18446744073709551616\r\n"), "Protocol error: invalid multibulk length");
}

#[test]
fn request_above_byte_limit_fails_at_length_line() {
    let limits = Limits { max_request_bytes: 100, ..Limits::default() };
    let input = b"*2\r\n$50\r\n01234567890123456789012345678901234567890123456789\r\n$50\r\n";
    assert_eq!(commands(input, input.len(), &limits), Err(ProtocolError::RequestTooBig));
}

#[test]
fn announced_length_does_not_allocate() {
    let mut parser = RequestParser::new();
    let progress = parser.parse(b"*1000000\r\n$500000000\r\n", &Limits::default()).unwrap();
    assert_eq!(progress, Progress::Incomplete { missing: 500_000_002 });
    assert!(parser.spans.capacity() <= MAX_RETAINED_SPANS);
}

#[test]
fn spans_of_large_request_are_freed_by_next() {
    let mut parser = RequestParser::new();
    let mut input = b"*100000\r\n".to_vec();
    input.extend(b"$0\r\n\r\n".repeat(100_000));
    assert!(matches!(parser.parse(&input, &Limits::default()).unwrap(), Progress::Complete { .. }));
    assert_eq!(parser.args(&input).len(), 100_000);
    parser.parse(b"*1\r\n$4\r\nPING\r\n", &Limits::default()).unwrap();
    assert!(parser.spans.capacity() <= MAX_RETAINED_SPANS);
}

#[test]
fn release_frees_the_spans_of_a_large_request_and_keeps_one_in_progress() {
    let mut parser = RequestParser::new();
    let mut input = b"*100000\r\n".to_vec();
    input.extend(b"$0\r\n\r\n".repeat(100_000));
    let (begin, rest) = input.split_at(input.len() - 1);
    assert!(matches!(parser.parse(begin, &Limits::default()).unwrap(), Progress::Incomplete { .. }));
    parser.release();
    assert!(parser.bytes_allocated() >= 8 * 99_999);
    assert_eq!(rest, b"\n");
    assert!(matches!(parser.parse(&input, &Limits::default()).unwrap(), Progress::Complete { .. }));
    parser.release();
    assert!(parser.bytes_allocated() <= 256, "{} bytes", parser.bytes_allocated());
}

#[test]
fn restart_discards_incomplete_request() {
    let limits = Limits::default();
    let mut parser = RequestParser::new();
    for incomplete in [&b"*3\r\n$3\r\nSET\r\n$1\r\nk"[..], b"PING without an end", b"*1\r\n!"] {
        assert!(!matches!(parser.parse(incomplete, &limits), Ok(Progress::Complete { .. })));
        parser.restart();
        let whole = b"*1\r\n$4\r\nPING\r\n";
        assert_eq!(parser.parse(whole, &limits), Ok(Progress::Complete { consumed: whole.len(), frame: () }));
        assert_eq!(&parser.args(whole)[0], b"PING");
    }
}

/// A request whose second argument is supplied, as it arrives: the buffer holds the rest.
#[test]
fn supplied_argument_is_one_of_the_arguments() {
    let limits = Limits::default();
    let mut parser = RequestParser::new();
    let mut buffer = b"*3\r\n$4\r\nECHO\r\n$9\r\nlong".to_vec();
    assert_eq!(parser.parse(&buffer, &limits), Ok(Progress::Incomplete { missing: 7 }));
    assert_eq!(parser.long_argument(&buffer, 10), None);
    let (start, length) = parser.long_argument(&buffer, 9).unwrap();
    assert_eq!((start, length), (buffer.len() - 4, 9));
    buffer.truncate(start);
    parser.supply(start, Arc::from(&b"long text"[..]));
    for (more, missing) in [(&b""[..], 2), (b"\r", 1), (b"\n$1\r\n", 3)] {
        buffer.extend_from_slice(more);
        assert_eq!(parser.parse(&buffer, &limits), Ok(Progress::Incomplete { missing }));
    }
    buffer.extend_from_slice(b"x\r\nPING\r\n");
    let complete = Ok(Progress::Complete { consumed: buffer.len() - 6, frame: () });
    assert_eq!(parser.parse(&buffer, &limits), complete);
    for _ in 0..2 {
        let args = parser.args(&buffer);
        assert_eq!(args.iter().collect::<Vec<_>>(), [&b"ECHO"[..], b"long text", b"x"]);
        assert_eq!((&args[1], args.get(2), args.get(3)), (&b"long text"[..], Some(&b"x"[..]), None));
        assert_eq!(args.skip(1).shared(0).map(|value| &value[..]), Some(&b"long text"[..]));
        assert_eq!((args.shared(0), args.shared(3)), (None, None));
        let mut kept = crate::ArgsBuffer::new();
        assert!(kept.push(args));
        assert!(kept.get(0).iter().eq(args.iter()));
        let shared = kept.get(0).shared(1).zip(args.shared(1));
        assert!(shared.is_some_and(|(kept, parsed)| Arc::ptr_eq(kept, parsed)));
        assert_eq!((kept.take_long_arguments().len(), kept.len()), (1, 0));
        // A request that has to wait is parsed again.
        parser.repeat(buffer.len() - 6);
        assert_eq!(parser.parse(&buffer, &limits), complete);
    }
    assert!(parser.has_long_arguments() && parser.bytes_allocated() > 9);
    assert_eq!(parser.take_long_arguments().len(), 1);
    assert_eq!(parser.parse(b"PING\r\n", &limits), Ok(Progress::Complete { consumed: 6, frame: () }));
    assert_eq!(&parser.args(b"PING\r\n")[0], b"PING");
}

#[test]
fn supplied_argument_counts_and_must_end() {
    let limits = Limits { max_request_bytes: 40, ..Limits::default() };
    for (rest, expected) in
        [(&b"xx"[..], ProtocolError::ExpectedCrlf), (b"\r\n$9\r\n", ProtocolError::RequestTooBig)]
    {
        let mut parser = RequestParser::new();
        let buffer = b"*2\r\n$9\r\n";
        assert!(matches!(parser.parse(buffer, &limits), Ok(Progress::Incomplete { .. })));
        parser.supply(buffer.len(), Arc::from(&[b'x'; 25][..]));
        assert_eq!(parser.parse(&[buffer, rest].concat(), &limits), Err(expected));
    }
}
