//! Parses the replies of servers incrementally into [`Frame`]s, without recursion.

use bytes::Bytes;
use memchr::memchr;

use crate::request::parse_length_line;
use crate::{Frame, Limits, Progress, ProtocolError, parse_integer};

/// An incremental parser of replies, RESP2 and RESP3.
///
/// The caller owns the buffer. While a reply is incomplete, the caller must call again with a longer buffer that starts
/// at the same byte. The parser keeps complete elements, so it parses each element once. It skips attributes (`|`) and
/// rejects streamed aggregates.
#[derive(Debug, Default)]
pub struct ReplyParser {
    /// Incomplete aggregates, outermost first.
    open: Vec<OpenAggregate>,
    position: usize,
}

#[derive(Debug)]
struct OpenAggregate {
    kind: Aggregate,
    remaining: usize,
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

/// A parsed element: a complete value, or the header of an aggregate.
enum Element {
    Value(Frame),
    Header(Aggregate, usize),
}

/// Elements for which memory is allocated before they have arrived.
const MAX_PREALLOCATED_ELEMENTS: usize = 64;

impl ReplyParser {
    /// A new parser.
    #[must_use]
    pub fn new() -> Self {
        ReplyParser::default()
    }

    /// Parses the reply at the start of `buffer`.
    ///
    /// # Errors
    ///
    /// [`ProtocolError`] as soon as the bytes cannot become a reply within `limits`. The parser must not be used
    /// afterwards.
    pub fn parse(&mut self, buffer: &[u8], limits: &Limits) -> Result<Progress<Frame>, ProtocolError> {
        loop {
            let element = match parse_element(buffer, &mut self.position, limits)? {
                Ok(element) => element,
                Err(missing) => return Ok(Progress::Incomplete { missing }),
            };
            let reply = match element {
                Element::Value(frame) => self.add(frame),
                Element::Header(kind, 0) => self.add_aggregate(kind, Vec::new()),
                Element::Header(kind, remaining) => {
                    if self.open.len() >= limits.max_depth {
                        return Err(ProtocolError::TooDeep(limits.max_depth));
                    }
                    let items = Vec::with_capacity(remaining.min(MAX_PREALLOCATED_ELEMENTS));
                    self.open.push(OpenAggregate { kind, remaining, items });
                    None
                }
            };
            if let Some(frame) = reply {
                return Ok(Progress::Complete { consumed: std::mem::take(&mut self.position), frame });
            }
        }
    }

    /// Adds a complete frame to the innermost open aggregate, and pops the aggregates that it completes. Returns the
    /// reply once no aggregate is open.
    fn add(&mut self, mut frame: Frame) -> Option<Frame> {
        while let Some(top) = self.open.last_mut() {
            top.items.push(frame);
            top.remaining -= 1;
            if top.remaining > 0 {
                return None;
            }
            let OpenAggregate { kind, items, .. } = self.open.pop()?;
            frame = build(kind, items)?;
        }
        Some(frame)
    }

    fn add_aggregate(&mut self, kind: Aggregate, items: Vec<Frame>) -> Option<Frame> {
        build(kind, items).and_then(|frame| self.add(frame))
    }
}

/// The frame of a complete aggregate; `None` for an attribute, which only annotates the next reply.
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

/// Parses the element at `position` and advances `position` past it. The inner error is the number of missing bytes.
fn parse_element(
    buffer: &[u8],
    position: &mut usize,
    limits: &Limits,
) -> Result<Result<Element, usize>, ProtocolError> {
    let Some(kind) = buffer.get(*position).copied() else { return Ok(Err(1)) };
    match kind {
        b'$' | b'=' => parse_bulk(buffer, position, limits),
        b'*' | b'%' | b'~' | b'>' | b'|' => parse_aggregate(buffer, position, limits),
        b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => parse_scalar(buffer, position, limits),
        other => Err(ProtocolError::UnknownReplyType(other)),
    }
}

fn parse_bulk(
    buffer: &[u8],
    position: &mut usize,
    limits: &Limits,
) -> Result<Result<Element, usize>, ProtocolError> {
    let verbatim = buffer[*position] == b'=';
    let Some((length, start)) = parse_length_line(buffer, *position, ProtocolError::InvalidBulkLength)?
    else {
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

fn parse_aggregate(
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
    let Some((length, next)) = parse_length_line(buffer, *position, ProtocolError::InvalidMultibulkLength)?
    else {
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

fn parse_scalar(
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
        _ => is_big_number(content).then(|| Frame::BigNumber(text())),
    };
    let frame = frame.ok_or(ProtocolError::InvalidReply("scalar"))?;
    *position += length + 3;
    Ok(Ok(Element::Value(frame)))
}

fn is_big_number(digits: &[u8]) -> bool {
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
    fn every_type_parses() {
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
    fn nesting_and_lengths_above_limits_are_errors() {
        assert_eq!(parse(&b"*1\r\n".repeat(200_000)), Err(ProtocolError::TooDeep(32)));
        assert_eq!(parse(b"$18446744073709551616\r\n"), Err(ProtocolError::InvalidBulkLength));
        assert_eq!(parse(b"*18446744073709551616\r\n"), Err(ProtocolError::InvalidMultibulkLength));
        assert_eq!(parse(b"%-1\r\n"), Err(ProtocolError::InvalidMultibulkLength));
        assert_eq!(parse(b"*1000000\r\n"), Ok(Progress::Incomplete { missing: 1 }));
    }

    #[test]
    fn invalid_replies_name_their_error() {
        assert_eq!(parse(b"hello"), Err(ProtocolError::UnknownReplyType(b'h')));
        assert_eq!(parse(b":1x\r\n"), Err(ProtocolError::InvalidReply("scalar")));
        assert_eq!(parse(b"=2\r\nab\r\n"), Err(ProtocolError::InvalidReply("verbatim")));
        assert_eq!(parse(b"$1\r\nabc"), Err(ProtocolError::ExpectedCrlf));
    }
}
