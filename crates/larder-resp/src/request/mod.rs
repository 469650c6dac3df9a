//! Parses the requests of clients incrementally. The results are ranges of the caller's buffer.

use std::ops::Index;
use std::sync::Arc;

use memchr::memchr;

use crate::{Limits, ProtocolError, inline, parse_integer};

/// The result of a call to a parser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress<T = ()> {
    /// A frame ended after `consumed` bytes of the buffer.
    Complete {
        /// The length of the frame in bytes. The next frame starts there.
        consumed: usize,
        /// The parsed frame; `()` for requests, see [`RequestParser::args`].
        frame: T,
    },
    /// More bytes are needed.
    Incomplete {
        /// The number of missing bytes, at least; 1 if it is unknown.
        missing: usize,
    },
}

/// An incremental parser of requests: arrays of bulk strings, or inline commands.
///
/// The caller owns the buffer. While a request is incomplete, the caller must call again with a longer buffer that
/// starts at the same byte. The parser does not examine complete arguments again, however slowly the bytes arrive.
///
/// Cost: eight bytes per argument. The memory is reused, so later requests of the same size allocate nothing.
#[derive(Debug, Default)]
pub struct RequestParser {
    spans: Vec<Span>,
    /// Argument count that the request in progress announced; 0 between requests.
    expected: usize,
    /// Offset of the next argument of it, or where to resume the search for the end of an inline command.
    position: usize,
    inline: bool,
    inline_text: Vec<u8>,
    /// The arguments that are not in the buffer: see [`RequestParser::supply`].
    long: Vec<Arc<[u8]>>,
    /// Their bytes.
    long_bytes: usize,
    /// Whether the end of line after such an argument comes next.
    ends_long: bool,
}

/// A range of a buffer, in half the size of a `Range<usize>`: requests are shorter than 4 GiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        debug_assert!(end <= u32::MAX as usize, "requests are limited to u32::MAX bytes");
        Span { start: start as u32, end: end as u32 }
    }

    /// The argument that is not in the buffer, by its index among those.
    pub(crate) fn long(index: usize) -> Self {
        Span { start: LONG, end: index as u32 }
    }

    fn long_index(self) -> Option<usize> {
        (self.start == LONG).then_some(self.end as usize)
    }

    #[inline]
    pub(crate) fn slice<'a>(self, text: &'a [u8], long: &'a [Arc<[u8]>]) -> &'a [u8] {
        // That of a long argument begins after its end, so it is no range of the text.
        match text.get(self.start as usize..self.end as usize) {
            Some(bytes) => bytes,
            None => self.slice_of_long(long),
        }
    }

    #[cold]
    fn slice_of_long(self, long: &[Arc<[u8]>]) -> &[u8] {
        &long[self.end as usize]
    }
}

/// The start of the span of an argument that is not in the buffer. No other span starts there.
const LONG: u32 = u32::MAX;

/// Spans that are retained by [`RequestParser::release`]: more than most requests have.
const MAX_IDLE_SPANS: usize = 32;

/// Spans that are retained for the next request; a larger allocation is freed.
const MAX_RETAINED_SPANS: usize = 1024;

impl RequestParser {
    /// A new parser; allocates nothing.
    #[must_use]
    pub fn new() -> Self {
        RequestParser::default()
    }

    /// Discards an incomplete request: the next call starts at a new request. Memory is retained for reuse.
    pub fn restart(&mut self) {
        self.expected = 0;
        self.position = 0;
        self.ends_long = false;
    }

    /// The argument that is incomplete, if its announced length is `least` or more: where it begins in the buffer, and
    /// its length. Ask after [`parse`](Self::parse) has found the request in `buffer` incomplete.
    #[must_use]
    pub fn long_argument(&self, buffer: &[u8], least: usize) -> Option<(usize, usize)> {
        if self.expected == 0 || self.ends_long {
            return None;
        }
        let length_line = parse_length_line(buffer, self.position, ProtocolError::InvalidBulkLength);
        let (length, start) = length_line.ok().flatten()?;
        let length = usize::try_from(length).ok().filter(|length| *length >= least)?;
        Some((start, length))
    }

    /// Supplies the [long argument](Self::long_argument), so that it need not be in the buffer: what follows it continues
    /// where it would begin. `position` is that offset.
    pub fn supply(&mut self, position: usize, value: Arc<[u8]>) {
        self.long_bytes += value.len();
        self.spans.push(Span::long(self.long.len()));
        self.long.push(value);
        self.position = position;
        self.ends_long = true;
    }

    /// Whether the last request has arguments that were supplied.
    #[must_use]
    #[inline]
    pub fn has_long_arguments(&self) -> bool {
        !self.long.is_empty()
    }

    /// Takes out the arguments that were supplied for the last request, whose arguments are gone then.
    pub fn take_long_arguments(&mut self) -> Vec<Arc<[u8]>> {
        self.spans.clear();
        self.long_bytes = 0;
        std::mem::take(&mut self.long)
    }

    /// Makes the next call return the complete request, which has `length` bytes, once more: for one whose supplied
    /// arguments cannot be parsed again.
    pub fn repeat(&mut self, length: usize) {
        self.expected = self.spans.len();
        self.position = length;
    }

    /// Frees what the last request needed, up to a few spans: for a connection that waits. The arguments of that request
    /// are gone. Does nothing while a request is incomplete.
    pub fn release(&mut self) {
        if self.expected == 0 {
            self.spans.clear();
            if self.spans.capacity() > MAX_IDLE_SPANS {
                self.spans.shrink_to(MAX_IDLE_SPANS);
            }
            if self.inline_text.capacity() > 0 {
                self.inline_text = Vec::new();
            }
        }
    }

    /// The memory that it holds, in bytes.
    #[must_use]
    pub fn bytes_allocated(&self) -> usize {
        self.spans.capacity() * size_of::<Span>() + self.inline_text.capacity() + self.long_bytes
    }

    /// Parses the request at the start of `buffer`. An empty request (`*0`, an empty line) is complete and has no
    /// arguments; callers skip it.
    ///
    /// # Errors
    ///
    /// [`ProtocolError`] as soon as the bytes cannot become a request within `limits`. The parser must not be used
    /// afterwards.
    pub fn parse(&mut self, buffer: &[u8], limits: &Limits) -> Result<Progress, ProtocolError> {
        if self.expected == 0 {
            match buffer.first() {
                None => return Ok(Progress::Incomplete { missing: 1 }),
                Some(b'*') => {}
                Some(_) => return self.parse_inline(buffer, limits),
            }
            self.reset();
            let Some((count, next)) = parse_length_line(buffer, 0, ProtocolError::InvalidMultibulkLength)?
            else {
                return Ok(Progress::Incomplete { missing: 1 });
            };
            self.expected = limits.check_args(count)?;
            self.position = next;
        } else if self.ends_long {
            match buffer.get(self.position..self.position + 2) {
                None => return Ok(Progress::Incomplete { missing: self.position + 2 - buffer.len() }),
                Some(b"\r\n") => self.position += 2,
                Some(_) => return Err(ProtocolError::ExpectedCrlf),
            }
            self.ends_long = false;
        }
        let (mut position, long_bytes) = (self.position, self.long_bytes);
        for _ in self.spans.len()..self.expected {
            match argument_at(buffer, position, limits, long_bytes)? {
                Argument::Complete(start, end) => {
                    self.spans.push(Span::new(start, end));
                    position = end + 2;
                }
                Argument::Incomplete { missing } => {
                    self.position = position;
                    return Ok(Progress::Incomplete { missing });
                }
            }
        }
        (self.expected, self.position) = (0, 0);
        Ok(Progress::Complete { consumed: position, frame: () })
    }

    /// The arguments of the request that [`parse`](Self::parse) has just completed in `buffer`, starting with the
    /// command name.
    #[must_use]
    pub fn args<'a>(&'a self, buffer: &'a [u8]) -> Args<'a> {
        Args {
            text: if self.inline { &self.inline_text } else { buffer },
            spans: &self.spans,
            long: &self.long,
        }
    }

    /// Whether the last complete request was an inline command.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        self.inline
    }

    fn reset(&mut self) {
        self.spans.clear();
        if self.spans.capacity() > MAX_RETAINED_SPANS {
            self.spans.shrink_to(MAX_RETAINED_SPANS);
        }
        self.inline = false;
    }

    fn parse_inline(&mut self, buffer: &[u8], limits: &Limits) -> Result<Progress, ProtocolError> {
        let searched = std::mem::take(&mut self.position);
        let Some(end) = memchr(b'\n', &buffer[searched..]).map(|offset| searched + offset) else {
            if buffer.len() > limits.max_inline_bytes {
                return Err(ProtocolError::InlineTooBig);
            }
            self.position = buffer.len();
            return Ok(Progress::Incomplete { missing: 1 });
        };
        if end > limits.max_inline_bytes {
            return Err(ProtocolError::InlineTooBig);
        }
        self.reset();
        self.inline = true;
        let line = buffer[..end].strip_suffix(b"\r").unwrap_or(&buffer[..end]);
        inline::split(line, &mut self.inline_text, &mut self.spans)?;
        Ok(Progress::Complete { consumed: end + 1, frame: () })
    }
}

/// What stands at the start of an argument.
enum Argument {
    /// All of it; its bytes are in this range.
    Complete(usize, usize),
    /// So many bytes are missing, at least.
    Incomplete { missing: usize },
}

/// Parses the `$` argument at `position` of a request that has `long_bytes` elsewhere.
#[inline]
fn argument_at(
    buffer: &[u8],
    position: usize,
    limits: &Limits,
    long_bytes: usize,
) -> Result<Argument, ProtocolError> {
    match buffer.get(position) {
        None => return Ok(Argument::Incomplete { missing: 1 }),
        Some(b'$') => {}
        Some(other) => return Err(ProtocolError::ExpectedBulk(*other)),
    }
    let Some((length, start)) = parse_length_line(buffer, position, ProtocolError::InvalidBulkLength)? else {
        return Ok(Argument::Incomplete { missing: 1 });
    };
    let end = start + limits.check_bulk(length)?;
    limits.check_request(end + long_bytes)?;
    match buffer.get(end..).and_then(|rest| rest.first_chunk()) {
        None => Ok(Argument::Incomplete { missing: end + 2 - buffer.len() }),
        // One comparison instead of two.
        Some(line_end) if u16::from_ne_bytes(*line_end) == u16::from_ne_bytes(*b"\r\n") => {
            Ok(Argument::Complete(start, end))
        }
        Some(_) => Err(ProtocolError::ExpectedCrlf),
    }
}

/// The longest number is `-9223372036854775808`.
const MAX_NUMBER_BYTES: usize = 20;

/// Parses the number between the type byte at `position` and CR LF. Returns it with the offset of the next line.
#[inline]
pub(crate) fn parse_length_line(
    buffer: &[u8],
    position: usize,
    invalid: ProtocolError,
) -> Result<Option<(i64, usize)>, ProtocolError> {
    // Nearly all lengths have one or two digits, and are looked at together with the type byte and the end of the line.
    let line = &buffer[position..];
    if let Some(bytes) = line.first_chunk::<8>() {
        let word = u64::from_le_bytes(*bytes);
        let digit = |at: u32| ((word >> (8 * at)) as u8).wrapping_sub(b'0');
        if word >> 16 & 0xffff == CR_LF && digit(1) < 10 {
            return Ok(Some((i64::from(digit(1)), position + 4)));
        }
        if word >> 24 & 0xffff == CR_LF && digit(1).wrapping_sub(1) < 9 && digit(2) < 10 {
            return Ok(Some((i64::from(digit(1)) * 10 + i64::from(digit(2)), position + 5)));
        }
    }
    parse_any_length_line(&line[1..], position, invalid)
}

/// An end of line, as the lower half of a number that was read from it.
const CR_LF: u64 = u16::from_le_bytes(*b"\r\n") as u64;

fn parse_any_length_line(
    line: &[u8],
    position: usize,
    invalid: ProtocolError,
) -> Result<Option<(i64, usize)>, ProtocolError> {
    let window = &line[..line.len().min(MAX_NUMBER_BYTES + 1)];
    let Some(length) = window.iter().position(|byte| *byte == b'\r') else {
        return if window.len() > MAX_NUMBER_BYTES { Err(invalid) } else { Ok(None) };
    };
    let Some(newline) = line.get(length + 1) else { return Ok(None) };
    if *newline != b'\n' {
        return Err(ProtocolError::ExpectedCrlf);
    }
    match parse_integer(&line[..length]) {
        Some(number) => Ok(Some((number, position + length + 3))),
        None => Err(invalid),
    }
}

/// The arguments of one request, borrowed from the caller's buffer.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    text: &'a [u8],
    spans: &'a [Span],
    /// A thin pointer: commands pass this type around.
    long: &'a Vec<Arc<[u8]>>,
}

impl<'a> Args<'a> {
    /// `long` are those arguments that are not in the text.
    pub(crate) fn new(text: &'a [u8], spans: &'a [Span], long: &'a Vec<Arc<[u8]>>) -> Self {
        Args { text, spans, long }
    }

    /// The number of arguments, including the command name; 0 for an empty request.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether the request was empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The argument at `index`, or `None` if there is none.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| span.slice(self.text, self.long))
    }

    /// The argument at `index`, if it was [supplied](RequestParser::supply): to keep it without a copy.
    #[must_use]
    #[inline]
    pub fn shared(&self, index: usize) -> Option<&'a Arc<[u8]>> {
        self.spans.get(index).and_then(|span| span.long_index()).map(|index| &self.long[index])
    }

    /// The arguments from `index` on; empty if `index` is past the end.
    #[must_use]
    pub fn skip(&self, index: usize) -> Args<'a> {
        Args { spans: self.spans.get(index..).unwrap_or_default(), ..*self }
    }

    /// Iterates over the arguments in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let Args { text, spans, long } = *self;
        spans.iter().map(move |span| span.slice(text, long))
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    /// # Panics
    ///
    /// If `index` is past the last argument.
    fn index(&self, index: usize) -> &[u8] {
        self.spans[index].slice(self.text, self.long)
    }
}

#[cfg(test)]
mod tests;
