//! Replies as clients read them: an incremental parser into [`Frame`]s, without recursion.

use bytes::Bytes;
use memchr::memchr;

use crate::request::length_line;
use crate::{Frame, Limits, Progress, ProtocolError, parse_integer};

/// An incremental parser of replies, RESP2 and RESP3.
///
/// The caller keeps the bytes: while a reply is incomplete it calls again with a buffer that starts at the same byte
/// and has grown. Finished parts are kept, so a large reply that arrives in pieces is read once. Attributes (`|`) are
/// read and left out; streamed aggregates are refused.
#[derive(Debug, Default)]
pub struct ReplyParser {
    /// Aggregates that still lack elements, outermost first.
    open: Vec<Open>,
    position: usize,
}

#[derive(Debug)]
struct Open {
    kind: Aggregate,
    missing: usize,
    items: Vec<Frame>,
}

#[derive(Debug, Clone, Copy)]
enum Aggregate {
    Array,
    Set,
    Push,
    Map,
    Attribute,
}

/// What stands at a position: a whole value, or the header of an aggregate.
enum Element {
    Value(Frame),
    Header(Aggregate, usize),
}

/// Elements for which room is made before they have arrived.
const EAGER_ELEMENTS: usize = 64;

impl ReplyParser {
    /// A parser between two replies.
    #[must_use]
    pub fn new() -> Self {
        ReplyParser::default()
    }

    /// Reads the reply at the start of `buffer`.
    ///
    /// # Errors
    ///
    /// [`ProtocolError`] as soon as the bytes cannot become a reply within `limits`. The parser is then of no further
    /// use.
    pub fn parse(&mut self, buffer: &[u8], limits: &Limits) -> Result<Progress<Frame>, ProtocolError> {
        loop {
            let element = match element(buffer, &mut self.position, limits)? {
                Ok(element) => element,
                Err(missing) => return Ok(Progress::Incomplete { missing }),
            };
            let done = match element {
                Element::Value(frame) => self.close(frame),
                Element::Header(kind, 0) => self.finish(kind, Vec::new()),
                Element::Header(kind, missing) => {
                    if self.open.len() >= limits.max_depth {
                        return Err(ProtocolError::TooDeep(limits.max_depth));
                    }
                    let items = Vec::with_capacity(missing.min(EAGER_ELEMENTS));
                    self.open.push(Open { kind, missing, items });
                    None
                }
            };
            if let Some(frame) = done {
                return Ok(Progress::Complete { consumed: std::mem::take(&mut self.position), frame });
            }
        }
    }

    /// Puts a finished frame into the aggregate that waits for it, and closes those that it completes. Returns the
    /// reply when nothing is left open.
    fn close(&mut self, mut frame: Frame) -> Option<Frame> {
        while let Some(top) = self.open.last_mut() {
            top.items.push(frame);
            top.missing -= 1;
            if top.missing > 0 {
                return None;
            }
            let Open { kind, items, .. } = self.open.pop()?;
            frame = build(kind, items)?;
        }
        Some(frame)
    }

    fn finish(&mut self, kind: Aggregate, items: Vec<Frame>) -> Option<Frame> {
        build(kind, items).and_then(|frame| self.close(frame))
    }
}

/// The frame of a complete aggregate; none for an attribute, which only annotates the reply behind it.
fn build(kind: Aggregate, items: Vec<Frame>) -> Option<Frame> {
    match kind {
        Aggregate::Array => Some(Frame::Array(items)),
        Aggregate::Set => Some(Frame::Set(items)),
        Aggregate::Push => Some(Frame::Push(items)),
        Aggregate::Map => {
            let mut items = items.into_iter();
            let pairs = std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect();
            Some(Frame::Map(pairs))
        }
        Aggregate::Attribute => None,
    }
}

/// Reads what stands at `position` and moves it behind that; the inner error is the number of missing bytes.
fn element(
    buffer: &[u8],
    position: &mut usize,
    limits: &Limits,
) -> Result<Result<Element, usize>, ProtocolError> {
    let Some(kind) = buffer.get(*position).copied() else { return Ok(Err(1)) };
    match kind {
        b'$' | b'=' => bulk(buffer, position, limits),
        b'*' | b'%' | b'~' | b'>' | b'|' => aggregate(buffer, position, limits),
        b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => scalar(buffer, position, limits),
        other => Err(ProtocolError::UnknownReplyType(other)),
    }
}

fn bulk(
    buffer: &[u8],
    position: &mut usize,
    limits: &Limits,
) -> Result<Result<Element, usize>, ProtocolError> {
    let verbatim = buffer[*position] == b'=';
    let Some((length, start)) = length_line(buffer, *position, ProtocolError::InvalidBulkLength)? else {
        return Ok(Err(1));
    };
    if length == -1 && !verbatim {
        *position = start;
        return Ok(Ok(Element::Value(Frame::Null)));
    }
    let end = start + limits.check_bulk(length)?;
    let Some(terminator) = buffer.get(end..end + 2) else { return Ok(Err(end + 2 - buffer.len())) };
    if terminator != b"\r\n" {
        return Err(ProtocolError::ExpectedCrlf);
    }
    let content = &buffer[start..end];
    let frame = match (verbatim, content) {
        (false, _) => Frame::Bulk(Bytes::copy_from_slice(content)),
        (true, [a, b, c, b':', text @ ..]) => Frame::Verbatim([*a, *b, *c], Bytes::copy_from_slice(text)),
        (true, _) => return Err(ProtocolError::InvalidReply("verbatim")),
    };
    *position = end + 2;
    Ok(Ok(Element::Value(frame)))
}

fn aggregate(
    buffer: &[u8],
    position: &mut usize,
    limits: &Limits,
) -> Result<Result<Element, usize>, ProtocolError> {
    let (kind, per_item) = match buffer[*position] {
        b'%' => (Aggregate::Map, 2),
        b'|' => (Aggregate::Attribute, 2),
        b'~' => (Aggregate::Set, 1),
        b'>' => (Aggregate::Push, 1),
        _ => (Aggregate::Array, 1),
    };
    let Some((length, next)) = length_line(buffer, *position, ProtocolError::InvalidMultibulkLength)? else {
        return Ok(Err(1));
    };
    let element = match length {
        -1 if matches!(kind, Aggregate::Array) => Element::Value(Frame::Null),
        ..0 => return Err(ProtocolError::InvalidMultibulkLength),
        _ => Element::Header(kind, limits.check_args(length)? * per_item),
    };
    *position = next;
    Ok(Ok(element))
}

fn scalar(
    buffer: &[u8],
    position: &mut usize,
    limits: &Limits,
) -> Result<Result<Element, usize>, ProtocolError> {
    let line = &buffer[*position + 1..];
    let Some(length) = memchr(b'\r', line) else {
        return if line.len() > limits.max_inline_bytes {
            Err(ProtocolError::InvalidReply("line"))
        } else {
            Ok(Err(1))
        };
    };
    match line.get(length + 1) {
        None => return Ok(Err(1)),
        Some(b'\n') => {}
        Some(_) => return Err(ProtocolError::ExpectedCrlf),
    }
    let content = &line[..length];
    let text = || String::from_utf8_lossy(content).into_owned();
    let frame = match buffer[*position] {
        b'+' => Some(Frame::Simple(text())),
        b'-' => Some(Frame::Error(text())),
        b':' => parse_integer(content.strip_prefix(b"+").unwrap_or(content)).map(Frame::Integer),
        b'_' => content.is_empty().then_some(Frame::Null),
        b',' => std::str::from_utf8(content).ok().and_then(|text| text.parse().ok()).map(Frame::Double),
        b'#' => match content {
            b"t" => Some(Frame::Boolean(true)),
            b"f" => Some(Frame::Boolean(false)),
            _ => None,
        },
        _ => big_number(content).then(|| Frame::BigNumber(text())),
    };
    let frame = frame.ok_or(ProtocolError::InvalidReply("scalar"))?;
    *position += length + 3;
    Ok(Ok(Element::Value(frame)))
}

fn big_number(digits: &[u8]) -> bool {
    let digits = digits.strip_prefix(b"-").unwrap_or(digits);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(input: &[u8]) -> Result<Progress<Frame>, ProtocolError> {
        ReplyParser::new().parse(input, &Limits::default())
    }

    fn frame(input: &[u8]) -> Frame {
        match parse(input).unwrap() {
            Progress::Complete { consumed, frame } => {
                assert_eq!(consumed, input.len());
                frame
            }
            Progress::Incomplete { missing } => panic!("{missing} bytes missing"),
        }
    }

    #[test]
    fn every_type() {
        let bulk = |text: &'static str| Frame::Bulk(Bytes::from_static(text.as_bytes()));
        assert_eq!(frame(b"*-1\r\n"), Frame::Null);
        assert_eq!(frame(b"$-1\r\n"), Frame::Null);
        assert_eq!(frame(b"_\r\n"), Frame::Null);
        assert_eq!(frame(b",inf\r\n"), Frame::Double(f64::INFINITY));
        assert_eq!(frame(b"(-12345678901234567890\r\n"), Frame::BigNumber("-12345678901234567890".into()));
        assert_eq!(frame(b"=5\r\ntxt:a\r\n"), Frame::Verbatim(*b"txt", Bytes::from_static(b"a")));
        assert_eq!(frame(b"*2\r\n*0\r\n*1\r\n:1\r\n"), {
            Frame::Array(vec![Frame::Array(vec![]), Frame::Array(vec![Frame::Integer(1)])])
        });
        assert_eq!(frame(b"%1\r\n$1\r\na\r\n#t\r\n"), Frame::Map(vec![(bulk("a"), Frame::Boolean(true))]));
        assert_eq!(frame(b"|1\r\n+ttl\r\n:9\r\n+OK\r\n"), Frame::Simple("OK".into()));
        assert_eq!(frame(b">2\r\n+a\r\n|0\r\n+b\r\n"), {
            Frame::Push(vec![Frame::Simple("a".into()), Frame::Simple("b".into())])
        });
    }

    #[test]
    fn nesting_and_lengths_are_limited_before_allocation() {
        assert_eq!(parse(&b"*1\r\n".repeat(200_000)), Err(ProtocolError::TooDeep(32)));
        assert_eq!(parse(b"$18446744073709551616\r\n"), Err(ProtocolError::InvalidBulkLength));
        assert_eq!(parse(b"*18446744073709551616\r\n"), Err(ProtocolError::InvalidMultibulkLength));
        assert_eq!(parse(b"%-1\r\n"), Err(ProtocolError::InvalidMultibulkLength));
        assert_eq!(parse(b"*1000000\r\n"), Ok(Progress::Incomplete { missing: 1 }));
    }

    #[test]
    fn garbage_is_named() {
        assert_eq!(parse(b"hello"), Err(ProtocolError::UnknownReplyType(b'h')));
        assert_eq!(parse(b":1x\r\n"), Err(ProtocolError::InvalidReply("scalar")));
        assert_eq!(parse(b"=2\r\nab\r\n"), Err(ProtocolError::InvalidReply("verbatim")));
        assert_eq!(parse(b"$1\r\nabc"), Err(ProtocolError::ExpectedCrlf));
    }
}
